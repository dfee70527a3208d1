package openstacksim_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
)

const floating = base + "/network/v2.0/floatingips"

// address makes a floating IP.
func (c *cloud) address(text string) map[string]any {
	c.t.Helper()
	resp, doc := c.do("POST", floating, fmt.Sprintf(`{"floatingip":{"floating_network_id":%q,"description":%q}}`,
		c.id(base+"/network/v2.0/networks", "networks", "public"), text))
	if resp.StatusCode != http.StatusCreated {
		c.t.Fatalf("%d %v", resp.StatusCode, doc)
	}
	return doc["floatingip"].(map[string]any)
}

func TestFloatingIPsAreListed(t *testing.T) {
	t.Parallel()
	c, k := timed(t, openstacksim.Options{})
	ids := map[string]string{}
	for _, name := range []string{"a", "b", "c"} {
		ids[name] = text(c.address(name), "id")
		k.pass(time.Minute)
	}
	byID := []string{"a", "b", "c"}
	slices.SortFunc(byID, func(a, b string) int { return strings.Compare(ids[a], ids[b]) })
	for query, want := range map[string][]string{
		"":                                    {"a", "b", "c"},
		"?limit=2":                            byID,
		"?limit=1&sort_key=id&sort_dir=asc":   byID,
		"?sort_key=description&sort_dir=desc": {"c", "b", "a"},
		"?limit=0":                            {"a", "b", "c"},
		"?description=b":                      {"b"},
		"?status=DOWN&description=b&description=c": {"b", "c"},
		"?project_id=nobody":                       nil,
		"?limit=3&marker=" + ids[byID[0]]:          byID[1:],
		"?limit=3&marker=nothing":                  byID, // begins anew
	} {
		if got, _ := c.names("floatingips", floating+query); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	if _, doc := c.do("GET", floating+"?fields=id&fields=status", ""); len(objects(doc, "floatingips")) != 3 || len(objects(doc, "floatingips")[0]) != 2 {
		t.Errorf("two fields: %v", doc)
	}
	for _, query := range []string{"limit=-1", "limit=x", "sort_key=id", "sort_key=created_at&sort_dir=asc", "sort_key=id&sort_dir=up", "colour=blue",
		"changed_since=2026-11-30T10:00:00Z"} {
		if resp, doc := c.do("GET", floating+"?"+query, ""); resp.StatusCode != http.StatusBadRequest || doc["NeutronError"] == nil {
			t.Errorf("%s: %d %v", query, resp.StatusCode, doc)
		}
	}
}

// A service that does not check filters ignores those that it does not know, and
// has one by time.
func TestLooseFilters(t *testing.T) {
	t.Parallel()
	c, k := timed(t, openstacksim.Options{LooseFilters: true})
	c.address("a")
	k.pass(time.Minute)
	c.address("b")
	for query, want := range map[string][]string{"?colour=blue": {"a", "b"}, "?changed_since=" + k.stamp(): {"b"}} {
		if got, _ := c.names("floatingips", floating+query); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	if resp, _ := c.do("GET", floating+"?changed_since=now", ""); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("%d", resp.StatusCode)
	}
}

// What is done to a floating IP moves its time of change, and nothing else does.
func TestFloatingIPChanges(t *testing.T) {
	t.Parallel()
	c, k := timed(t, openstacksim.Options{})
	ip := c.address("a")
	path := floating + "/" + text(ip, "id")
	made := k.stamp()
	if ip["created_at"] != made || ip["updated_at"] != made || ip["status"] != "DOWN" || ip["project_id"] != ip["tenant_id"] {
		t.Errorf("new: %v", ip)
	}
	id := c.server(k, "")
	_, ports := c.do("GET", base+"/network/v2.0/ports?device_id="+id, "")
	port := text(objects(ports, "ports")[0], "id")
	check := func(what, body, description, status string) {
		t.Helper()
		k.pass(time.Minute)
		resp, doc := c.do("PUT", path, `{"floatingip":`+body+`}`)
		x, _ := doc["floatingip"].(map[string]any)
		if resp.StatusCode != http.StatusOK || x["description"] != description || x["status"] != status || x["updated_at"] != k.stamp() || x["created_at"] != made {
			t.Errorf("%s: %d %v", what, resp.StatusCode, doc)
		}
	}
	check("associated", `{"port_id":"`+port+`"}`, "a", "ACTIVE")
	check("named", `{"description":"b"}`, "b", "ACTIVE")
	check("freed", `{"port_id":null}`, "b", "DOWN")
	check("associated again", `{"port_id":"`+port+`"}`, "b", "ACTIVE")
	c.do("DELETE", base+"/compute/v2.1/servers/"+id, "")
	k.pass(10 * time.Second)
	c.do("GET", detail, "")
	if _, doc := c.do("GET", path, ""); text(doc, "floatingip", "status") != "DOWN" || text(doc, "floatingip", "updated_at") != k.stamp() {
		t.Errorf("its server has gone: %v", doc)
	}
}
