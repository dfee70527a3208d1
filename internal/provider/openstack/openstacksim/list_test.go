package openstacksim_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
)

const detail = base + "/compute/v2.1/servers/detail"

// names lists by path and follows the links of the pages.
func (c *cloud) names(kind, path string) (out []string, pages int) {
	c.t.Helper()
	for path != "" {
		resp, doc := c.do("GET", path, "")
		if resp.StatusCode != http.StatusOK {
			c.t.Fatalf("%s: %d %v", path, resp.StatusCode, doc)
		}
		pages++
		path = ""
		for _, x := range objects(doc, kind) {
			name := text(x, "name")
			if kind == "floatingips" {
				name = text(x, "description")
			}
			out = append(out, name)
		}
		for _, l := range objects(doc, kind+"_links") {
			if l["rel"] == "next" {
				path = strings.TrimPrefix(l["href"].(string), c.url)
			}
		}
	}
	return out, pages
}

// fleet makes servers a, b and c, a minute apart.
func (c *cloud) fleet(k *clock) map[string]string {
	c.t.Helper()
	ids := map[string]string{}
	for _, name := range []string{"a", "b", "c"} {
		ids[name] = c.server(k, "")
		c.Rename(ids[name], name)
		k.pass(time.Minute)
	}
	return ids
}

func TestOrderOfServers(t *testing.T) {
	t.Parallel()
	c, k := timed(t, openstacksim.Options{PageSize: 2})
	ids := c.fleet(k)
	c.act(ids["b"], `{"lock":null}`) // the last change
	byID := slices.SortedFunc(maps.Keys(ids), func(a, b string) int { return strings.Compare(ids[a], ids[b]) })
	for query, want := range map[string][]string{
		"":                                           {"c", "b", "a"},
		"sort_key=created_at&sort_dir=asc":           {"a", "b", "c"},
		"sort_key=updated_at&sort_dir=asc":           {"a", "c", "b"},
		"sort_key=display_name&sort_dir=desc":        {"c", "b", "a"},
		"sort_key=uuid&sort_dir=asc":                 byID,
		"sort_key=vm_state&sort_dir=desc":            byID, // ties are by id, upwards
		"limit=1&sort_key=display_name&sort_dir=asc": {"a", "b", "c"},
	} {
		got, pages := c.names("servers", detail+"?"+query)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
		if want := map[bool]int{true: 4, false: 2}[strings.Contains(query, "limit=1")]; pages != want {
			t.Errorf("%s: %d pages, want %d: a full one has a link", query, pages, want)
		}
	}
	_, doc := c.do("GET", base+"/compute/v2.1/servers?limit=1", "")
	if brief := objects(doc, "servers"); len(brief) != 1 || brief[0]["id"] != ids["c"] || brief[0]["name"] != "c" || brief[0]["status"] != nil {
		t.Errorf("without details: %v", doc)
	}
	if got, _ := c.names("servers", detail+"?limit=0"); len(got) != 0 {
		t.Errorf("no page: %v", got)
	}
}

// A page begins after a server that is deleted, too, as long as the cloud knows
// it.
func TestMarkerOfADeletedServer(t *testing.T) {
	t.Parallel()
	c, k := timed(t, openstacksim.Options{})
	ids := c.fleet(k)
	c.do("DELETE", base+"/compute/v2.1/servers/"+ids["b"], "")
	k.pass(10 * time.Second)
	for query, want := range map[string][]string{
		"":                                  {"a"},
		"&sort_key=created_at&sort_dir=asc": {"c"},
	} {
		if got, _ := c.names("servers", detail+"?marker="+ids["b"]+query); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	c.Purge()
	resp, doc := c.do("GET", detail+"?marker="+ids["b"], "")
	if resp.StatusCode != http.StatusBadRequest || text(doc, "badRequest", "message") != "marker ["+ids["b"]+"] not found" {
		t.Errorf("a forgotten marker: %d %v", resp.StatusCode, doc)
	}
}

// What changed is told from both sides, with deleted servers, by the time of the
// last change and not of the first.
func TestChanges(t *testing.T) {
	t.Parallel()
	c, k := timed(t, openstacksim.Options{})
	ids := c.fleet(k)
	middle := k.stamp()
	k.pass(time.Second)
	c.do("DELETE", base+"/compute/v2.1/servers/"+ids["a"], "")
	k.pass(10 * time.Second)
	c.act(ids["b"], `{"os-stop":null}`)
	k.pass(10 * time.Second)
	c.get(ids["b"])
	end := k.stamp()
	for query, want := range map[string][]string{
		"":                                   {"c", "b"},
		"changes-since=" + middle:            {"b", "a"},
		"changes-since=" + end:               {"b"},
		"changes-since=2026-12-01T00:00:00Z": nil,
		"changes-before=" + middle:           {"c"},
		"changes-since=" + middle + "&changes-before=" + middle: nil,
	} {
		if got, _ := c.names("servers", detail+"?"+query); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	gone := objects(func() map[string]any { _, doc := c.do("GET", detail+"?changes-since="+middle, ""); return doc }(), "servers")[1]
	if gone["status"] != "DELETED" || gone["OS-EXT-STS:vm_state"] != "deleted" || gone["OS-EXT-STS:power_state"] != 0.0 ||
		text(gone, "flavor", "original_name") != "m1.tiny" || gone["OS-SRV-USG:terminated_at"] == nil || len(gone["addresses"].(map[string]any)) != 0 {
		t.Errorf("a deleted one: %v", gone)
	}
	if a := c.acts(ids["a"], ""); len(a) != 2 || a[0]["action"] != "delete" || a[1]["action"] != "create" {
		t.Errorf("actions of a deleted one: %v", a)
	}
	c.Purge()
	if got, _ := c.names("servers", detail+"?changes-since="+middle); !slices.Equal(got, []string{"b"}) {
		t.Errorf("after the purge: %v", got)
	}
	if resp, _ := c.do("GET", base+"/compute/v2.1/servers/"+ids["a"]+"/os-instance-actions", ""); resp.StatusCode != http.StatusNotFound {
		t.Errorf("actions of a forgotten one: %d", resp.StatusCode)
	}
}

// One that no host has taken comes first in every listing, has no actions and
// seems to change all the time.
func TestServerBeforeItHasAHost(t *testing.T) {
	t.Parallel()
	c, k := timed(t, openstacksim.Options{})
	c.server(k, "")
	_, made := c.do("POST", base+"/compute/v2.1/servers", c.order(""))
	id := text(made, "server", "id")
	k.pass(time.Second)
	if x := c.get(id); x["updated"] != k.stamp() || x["OS-EXT-STS:task_state"] != "scheduling" || x["OS-EXT-AZ:availability_zone"] != "" {
		t.Errorf("%v", x)
	}
	for _, query := range []string{"changes-since=2026-12-24T00:00:00Z", "sort_key=created_at&sort_dir=asc"} {
		_, doc := c.do("GET", detail+"?"+query, "")
		if all := objects(doc, "servers"); len(all) == 0 || all[0]["id"] != id {
			t.Errorf("%s: %v", query, all)
		}
	}
	if a := c.acts(id, ""); len(a) != 0 {
		t.Errorf("actions %v", a)
	}
	k.pass(5 * time.Second)
	if x := c.get(id); x["OS-EXT-STS:task_state"] != "spawning" || x["OS-EXT-AZ:availability_zone"] != "nova" || x["status"] != "BUILD" {
		t.Errorf("with a host: %v", x)
	}
	if a := c.acts(id, ""); len(a) != 1 || a[0]["request_id"] == nil {
		t.Errorf("actions %v", a)
	}
	if got, _ := c.names("servers", detail+"?changes-since=2026-12-24T00:00:00Z"); len(got) != 0 {
		t.Errorf("still changing: %v", got)
	}
}

func TestRefusedListings(t *testing.T) {
	t.Parallel()
	c, _ := timed(t, openstacksim.Options{})
	for query, want := range map[string]int{
		"changes-since=yesterday": 400, "limit=-1": 400, "limit=x": 400, "sort_key=colour": 400, "sort_key=uuid&sort_dir=up": 400, "colour=blue": 400,
		"status=ODD": 400, "status=DELETED": 403, "all_tenants=1": 403, "all_tenants=perhaps": 400, "all_tenants=0": 200, "marker=nothing": 400,
		"changes-since=2026-11-30T00:00:00Z&changes-before=2026-11-29T00:00:00Z": 400, "changes-since=2026-11-30T00:00:00.5Z": 200,
	} {
		if resp, doc := c.do("GET", detail+"?"+query, ""); resp.StatusCode != want {
			t.Errorf("%s: %d %v, want %d", query, resp.StatusCode, doc, want)
		}
	}
	for query, want := range map[string]int{"colour=blue": 400, "marker=nothing": 400, "limit=2&changes-since=2026-11-30T00:00:00Z": 200} {
		id := c.PlaceServer("RegionOne", "x", nil, nil)
		if resp, doc := c.do("GET", base+"/compute/v2.1/servers/"+id+"/os-instance-actions?"+query, ""); resp.StatusCode != want {
			t.Errorf("actions, %s: %d %v, want %d", query, resp.StatusCode, doc, want)
		}
	}
}

// Other projects have things of their own, and an admin sees all of them when
// asked to.
func TestProjects(t *testing.T) {
	t.Parallel()
	c, k := timed(t, openstacksim.Options{Projects: []string{"other"}, Admins: []string{"root"}})
	id := c.server(k, "")
	c.Rename(id, "mine")
	other := &cloud{Sim: c.Sim, t: t, url: c.url}
	other.logIn("alice", "other")
	if got, _ := other.names("servers", detail); len(got) != 0 {
		t.Errorf("seen by another project: %v", got)
	}
	for _, path := range []string{"", "/os-instance-actions"} {
		if resp, _ := other.do("GET", base+"/compute/v2.1/servers/"+id+path, ""); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
	his := other.server(k, "")
	other.Rename(his, "his")
	for project, as := range map[string]*cloud{"demo": c, "other": other} {
		as.do("POST", base+"/volume/v3/volumes", fmt.Sprintf(`{"volume":{"name":%q,"size":1}}`, project))
		as.do("POST", base+"/network/v2.0/floatingips", fmt.Sprintf(`{"floatingip":{"floating_network_id":%q,"description":%q}}`,
			c.id(base+"/network/v2.0/networks", "networks", "public"), project))
	}
	root := &cloud{Sim: c.Sim, t: t, url: c.url}
	root.logIn("root", "demo")
	for path, want := range map[string][3]int{
		"servers " + detail: {1, 1, 1}, "servers " + detail + "?all_tenants=1": {-1, -1, 2},
		"volumes " + base + "/volume/v3/volumes/detail": {1, 1, 1}, "volumes " + base + "/volume/v3/volumes/detail?all_tenants=1": {1, 1, 2},
		"volumes " + base + "/volume/v3/volumes/detail?all_tenants=0": {1, 1, 1},
		"floatingips " + base + "/network/v2.0/floatingips":           {1, 1, 2},
	} {
		kind, path, _ := strings.Cut(path, " ")
		for i, as := range []*cloud{c, other, root} {
			if want[i] < 0 {
				continue
			}
			if got, _ := as.names(kind, path); len(got) != want[i] {
				t.Errorf("%s: client %d sees %v, want %d", path, i, got, want[i])
			}
		}
	}
	if a := root.acts(his, ""); len(a) != 1 {
		t.Errorf("an admin sees the actions of another project: %v", a)
	}
	_, doc := root.do("GET", detail+"?all_tenants=1", "")
	owners := map[string]bool{}
	for _, x := range objects(doc, "servers") {
		owners[text(x, "tenant_id")] = true
	}
	if len(owners) != 2 {
		t.Errorf("owners %v", owners)
	}
}

// The clock is the cloud's own in every answer.
func TestDate(t *testing.T) {
	t.Parallel()
	c, k := timed(t, openstacksim.Options{})
	k.pass(time.Hour)
	for _, path := range []string{detail, base + "/volume/v3/volumes/detail", base + "/network/v2.0/floatingips", base + "/nothing"} {
		resp, _ := c.raw("GET", path)
		if got := resp.Header.Get("Date"); got != k.t.Format(http.TimeFormat) {
			t.Errorf("%s: %s", path, got)
		}
	}
}
