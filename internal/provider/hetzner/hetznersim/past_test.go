package hetznersim_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
)

// A past of a million actions has pages of any size in both directions, ends where
// the project's own actions begin, and is found by number.
func TestPast(t *testing.T) {
	t.Parallel()
	const actions, token = 1_000_003, "t"
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	sim := hetznersim.New(hetznersim.Options{OneProject: token, RateLimit: -1, Timing: hetznersim.Uniform(0),
		Past: hetznersim.Past{Actions: actions, Began: began, Every: 10 * time.Second}})
	srv := httptest.NewServer(sim)
	t.Cleanup(srv.Close)
	c := hcloud.NewClient(hcloud.WithToken(token), hcloud.WithEndpoint(srv.URL+hetznersim.BasePath), hcloud.WithHTTPClient(http.DefaultClient))
	list := func(o hcloud.ActionListOpts) ([]*hcloud.Action, *hcloud.Response) {
		t.Helper()
		l, resp, err := c.Server.Action.List(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return l, resp
	}
	ids := func(l []*hcloud.Action) (out []int64) {
		for _, a := range l {
			out = append(out, a.ID)
		}
		return out
	}
	l, resp := list(hcloud.ActionListOpts{ListOpts: hcloud.ListOpts{Page: 3, PerPage: 4}, Sort: []string{"id:asc"}})
	if diff := cmp.Diff(ids(l), []int64{9, 10, 11, 12}); diff != "" || resp.Meta.Pagination.LastPage != 250_001 || resp.Meta.Pagination.NextPage != 4 {
		t.Errorf("page 3: %s %+v", diff, resp.Meta.Pagination)
	}
	first := l[2]
	if first.Command != "create_server" || first.Resources[0].ID != 3 || !first.Started.Equal(began.Add(100*time.Second)) ||
		!first.Finished.Equal(began.Add(105*time.Second)) || first.Status != hcloud.ActionStatusSuccess {
		t.Errorf("action 11: %+v", first)
	}
	made, _, err := c.Server.Create(t.Context(), hcloud.ServerCreateOpts{Name: "now", ServerType: &hcloud.ServerType{Name: "cx23"}, Image: &hcloud.Image{Name: "ubuntu-24.04"}})
	if err != nil {
		t.Fatal(err)
	}
	l, _ = list(hcloud.ActionListOpts{ListOpts: hcloud.ListOpts{PerPage: 3}, Sort: []string{"id:desc"}})
	if n := len(l); n != 3 || l[0].ID < made.Action.ID || l[2].ID > l[1].ID || l[2].Command == "" {
		t.Errorf("from the newest: %v", ids(l))
	}
	own := 0
	l, resp = list(hcloud.ActionListOpts{ListOpts: hcloud.ListOpts{PerPage: 50, Page: 20_001}, Sort: []string{"id:asc"}})
	for _, a := range l {
		if a.ID > actions {
			own++
		}
	}
	if len(l) != 3+own || own == 0 || resp.Meta.Pagination.NextPage != 0 {
		t.Errorf("the last page: %v", ids(l))
	}
	if l, _ := list(hcloud.ActionListOpts{Status: []hcloud.ActionStatus{hcloud.ActionStatusRunning}}); len(l) != 0 {
		t.Errorf("running: %v", ids(l))
	}
	found, _, err := c.Action.List(t.Context(), hcloud.ActionListOpts{ID: []int64{7, actions, actions + 1}})
	if diff := cmp.Diff(ids(found), []int64{7, actions}); err != nil || diff != "" {
		t.Errorf("by number: %v %s", err, diff)
	}
}
