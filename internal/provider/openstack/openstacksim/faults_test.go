package openstacksim_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
)

// Faults strike every listing, and the page that was said.
func TestFaultsOfListings(t *testing.T) {
	t.Parallel()
	plain, k := timed(t, openstacksim.Options{PageSize: 1})
	id := plain.server(k, "")
	plain.server(k, "")
	plain.act(id, `{"lock":null}`)
	for _, name := range []string{"a", "b"} {
		plain.volume(k, name)
		plain.address(name)
	}
	f := &openstacksim.Faults{}
	srv := httptest.NewServer(f.Wrap(plain.Sim))
	t.Cleanup(srv.Close)
	c := &cloud{Sim: plain.Sim, t: t, url: srv.URL, token: plain.token}
	for key, path := range map[string]string{
		"servers": detail + "?limit=1", "volumes": volumes + "/detail?limit=1", "floatingips": floating + "?limit=1",
		"instanceActions": base + "/compute/v2.1/servers/" + id + "/os-instance-actions?limit=1",
	} {
		remove := f.Add(openstacksim.Fault{Kind: openstacksim.FaultEmpty, Path: "/detail|/floatingips|/os-instance-actions"})
		if _, doc := c.do("GET", path, ""); doc[key] == nil || len(objects(doc, key)) != 0 {
			t.Errorf("%s, empty: %v", key, doc)
		}
		remove()
		remove = f.Add(openstacksim.Fault{Kind: openstacksim.FaultAnswer, Page: 2, Status: http.StatusServiceUnavailable})
		_, doc := c.do("GET", path, "")
		first := objects(doc, key)
		if len(first) != 1 {
			t.Fatalf("%s, first page: %v", key, doc)
		}
		marker := first[0]["id"]
		if key == "instanceActions" {
			marker = first[0]["request_id"]
		}
		if resp, doc := c.do("GET", path+"&marker="+marker.(string), ""); resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s, second page: %d %v", key, resp.StatusCode, doc)
		}
		remove()
		f.List(func(kind string, entries []any) []any {
			if kind != key {
				t.Errorf("%s is a listing of %s", path, kind)
			}
			return append(entries, entries...)
		})
		if _, doc := c.do("GET", path, ""); len(objects(doc, key)) != 2 {
			t.Errorf("%s, twice: %v", key, doc)
		}
		f.List(nil)
	}
}
