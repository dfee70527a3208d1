package hetznersim_test

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
)

// names lists the servers of a query, in order.
func (b *bench) names(query string) []string {
	b.Helper()
	a := b.call("GET", "/servers?"+query, "")
	if a.status != 200 {
		b.Fatalf("GET /servers?%s: %d %s", query, a.status, a.code)
	}
	out := []string{}
	for _, s := range a.body["servers"].([]any) {
		out = append(out, s.(map[string]any)["name"].(string))
	}
	return out
}

func TestListPages(t *testing.T) {
	t.Parallel()
	b := newBench(t, hetznersim.Options{})
	for i := range 60 {
		b.create(fmt.Sprintf("s%02d", i))
	}
	a := b.call("GET", "/servers?page=2", "")
	meta := a.body["meta"].(map[string]any)["pagination"]
	want := map[string]any{"page": 2.0, "per_page": 25.0, "previous_page": 1.0, "next_page": 3.0, "last_page": 3.0, "total_entries": 60.0}
	if diff := cmp.Diff(want, meta); diff != "" {
		t.Errorf("pagination (-want +got)\n%s", diff)
	}
	u, _ := url.Parse(b.url)
	link := fmt.Sprintf(`<http://%[1]s/v1/servers?page=1>; rel="prev", <http://%[1]s/v1/servers?page=3>; rel="next", <http://%[1]s/v1/servers?page=3>; rel="last"`, u.Host)
	if got := a.header.Get("Link"); got != link {
		t.Errorf("Link: %s\nwant: %s", got, link)
	}
	if got := b.names("page=3"); len(got) != 10 || got[0] != "s50" {
		t.Errorf("page 3: %v", got)
	}
	if got := b.names("page=9&per_page=50"); len(got) != 0 {
		t.Errorf("page after the last: %v", got)
	}
	b.sim.ForgetRequests()
	all, err := b.client.Server.All(t.Context())
	if err != nil || len(all) != 60 {
		t.Errorf("All: %d servers, %v", len(all), err)
	}
	if n := b.sim.Count("GET /servers"); n != 2 {
		t.Errorf("All took %d requests, want 2", n)
	}
}

func TestListSortsAndFilters(t *testing.T) {
	t.Parallel()
	b := newBench(t, hetznersim.Options{})
	for _, s := range []struct{ name, env, tier string }{{"c", "prod", "web"}, {"a", "test", "web"}, {"b", "prod", ""}} {
		labels := map[string]string{"env": s.env}
		if s.tier != "" {
			labels["tier"] = s.tier
		}
		b.create(s.name, func(o *hcloud.ServerCreateOpts) { o.Labels = labels })
		b.settle()
	}
	stop := b.server(b.sim.Servers(token)[0].ID)
	ok[*hcloud.Action](b)(b.client.Server.Poweroff(t.Context(), stop))
	b.settle()
	for query, want := range map[string][]string{
		"":                                       {"c", "a", "b"},
		"sort=name":                              {"a", "b", "c"},
		"sort=name:desc":                         {"c", "b", "a"},
		"sort=created:desc":                      {"b", "a", "c"},
		"sort=id:asc":                            {"c", "a", "b"},
		"name=a":                                 {"a"},
		"status=off":                             {"c"},
		"status=off&status=running":              {"c", "a", "b"},
		"label_selector=env%3Dprod":              {"c", "b"},
		"label_selector=env%3D%3Dprod,tier":      {"c"},
		"label_selector=env%3Dprod,!tier":        {"b"},
		"label_selector=env!%3Dprod":             {"a"},
		"label_selector=tier!%3Dweb":             {"b"},
		"label_selector=env%20in%20(test,stage)": {"a"},
		"label_selector=env%20notin%20(test),tier%20in%20(web)": {"c"},
		"label_selector=nothing":                                {},
		"label_selector=env%3Dprod&sort=name&name=c":            {"c"},
	} {
		if diff := cmp.Diff(want, b.names(query)); diff != "" {
			t.Errorf("%q (-want +got)\n%s", query, diff)
		}
	}
	for _, bad := range []string{"env=prod,", "a b", "env in", "env in (a", "=v", "!", "-a=b", "env=-x", "hetzner.cloud/x=y", "a/b/c"} {
		if a := b.call("GET", "/servers?label_selector="+url.QueryEscape(bad), ""); a.status != 422 || cmp.Diff([]string{"label_selector"}, a.fields) != "" {
			t.Errorf("selector %q: %d %s %v", bad, a.status, a.code, a.fields)
		}
	}
}

func TestActions(t *testing.T) {
	t.Parallel()
	b := newBench(t, hetznersim.Options{})
	first, second := b.create("one"), b.create("two")
	if a := b.call("GET", "/actions", ""); a.status != 410 || a.code != "deprecated_api_endpoint" {
		t.Errorf("all actions of the project: %d %s", a.status, a.code)
	}
	byID, err := b.client.Action.AllWithOpts(t.Context(), hcloud.ActionListOpts{ID: []int64{first.Action.ID, second.Action.ID}})
	if err != nil || len(byID) != 2 || byID[0].Status != hcloud.ActionStatusRunning {
		t.Errorf("actions by id: %v, %v", byID, err)
	}
	b.settle()
	kind, err := b.client.Server.Action.All(t.Context(), hcloud.ActionListOpts{Sort: []string{"id:desc"}, Status: []hcloud.ActionStatus{hcloud.ActionStatusSuccess}})
	if err != nil || len(kind) != 4 || kind[0].ID < kind[3].ID {
		t.Errorf("actions of servers: %v, %v", kind, err)
	}
	one, err := b.client.Server.Action.AllFor(t.Context(), first.Server, hcloud.ActionListOpts{})
	if err != nil || len(one) != 2 || one[0].Command != "create_server" || one[0].Progress != 100 || one[0].Finished.IsZero() {
		t.Errorf("actions of one server: %+v, %v", one, err)
	}
	if got, _, err := b.client.Server.Action.GetByID(t.Context(), first.Action.ID); err != nil || got.Resources[0].ID != first.Server.ID {
		t.Errorf("one action: %+v, %v", got, err)
	}
	for _, kind := range []string{"volumes", "floating_ips", "primary_ips", "networks", "firewalls", "load_balancers", "images"} {
		if a := b.call("GET", "/"+kind+"/actions", ""); a.status != 200 {
			t.Errorf("actions of %s: %d", kind, a.status)
		}
	}
	for _, kind := range []string{"ssh_keys", "placement_groups"} {
		if a := b.call("GET", "/"+kind+"/actions", ""); a.status != 404 {
			t.Errorf("actions of %s: %d, want 404", kind, a.status)
		}
	}
}

func TestCatalogue(t *testing.T) {
	t.Parallel()
	b := newBench(t, hetznersim.Options{})
	b.sim.SellOut("fsn1", "cx23", false)
	b.sim.SellOut("nbg1", "cx23", true)
	st := ok[*hcloud.ServerType](b)(b.client.ServerType.GetByName(t.Context(), "cx23"))
	got := map[string]bool{}
	for _, l := range st.Locations {
		got[l.Location.Name] = l.Available
	}
	if diff := cmp.Diff(map[string]bool{"fsn1": false, "nbg1": true, "hel1": true}, got); diff != "" {
		t.Errorf("where cx23 is available (-want +got)\n%s", diff)
	}
	b.sim.SellIn("fsn1", "cx23")
	old := ok[*hcloud.ServerType](b)(b.client.ServerType.GetByName(t.Context(), "cx22"))
	if !old.Locations[0].IsDeprecated() || old.Locations[0].Available {
		t.Errorf("cx22: %+v", old.Locations[0])
	}
	prices, _, err := b.client.Pricing.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if p := prices.PrimaryIPs[0]; p.Type != "ipv4" || p.Pricings[0].Hourly.Net != "0.0008" || p.Pricings[0].Hourly.Gross != "0.0009520000000000" {
		t.Errorf("price of an address: %+v", p)
	}
	b.sim.Unprice("hel1")
	again, _, err := b.client.Pricing.Get(t.Context())
	if err != nil || len(again.ServerTypes[1].Pricings) != 2 {
		t.Errorf("without a price in hel1: %+v, %v", again.ServerTypes[1].Pricings, err)
	}
	images := ok[[]*hcloud.Image](b)(b.client.Image.List(t.Context(), hcloud.ImageListOpts{Architecture: []hcloud.Architecture{hcloud.ArchitectureARM}, Name: "debian-12"}))
	if len(images) != 1 || images[0].Architecture != hcloud.ArchitectureARM {
		t.Errorf("debian-12 for arm: %v", images)
	}
	if a := b.call("GET", "/images?name=ubuntu-20.04", ""); len(a.body["images"].([]any)) != 0 {
		t.Error("a deprecated image is listed")
	}
	if a := b.call("GET", "/images?name=ubuntu-20.04&include_deprecated=true", ""); len(a.body["images"].([]any)) != 1 {
		t.Error("a deprecated image is not listed on demand")
	}
	for _, path := range []string{"/locations", "/locations/1", "/server_types/114", "/load_balancer_types", "/load_balancer_types/1", "/images/114690387"} {
		if a := b.call("GET", path, ""); a.status != 200 {
			t.Errorf("GET %s: %d", path, a.status)
		}
	}
}
