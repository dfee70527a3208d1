package reportingserver

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/reporting/api"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/usage"
)

func TestUsageOfADay(t *testing.T) {
	t.Parallel()
	g := newRig(t, nil)
	g.deliver(
		on(event.ServerDelete, at("20:00"), "42", "delete", nil),
		on(event.ServerUpgrade, at("10:00"), "42", "action:1", server(4)),
		on(event.ServerCreate, at("06:00"), "42", "create", server(2)),
		on(event.VolumeDelete, at("12:00"), "9", "delete", nil),
		on(event.VolumeCreate, at("12:00"), "7", "create", gb(10)),
	)
	p := g.project("hetzner", "acme")
	var u api.Usage
	if code := g.get("/api/v1/projects/"+p.ID+"/usage?from=2026-11-02T00:00:00Z&to=2026-11-03T00:00:00Z", &u); code != http.StatusOK {
		t.Fatalf("status %d", code)
	}
	want := []api.UsageTotal{
		{ResourceType: "server", State: event.Active, Words: event.Size{event.ServerType: event.Text("cx22")}, Seconds: "50400", UnknownSeconds: api.Amounts{},
			Amounts: api.Amounts{"vcpus": "172800", "ram_gb": "201600", "disk_gb": "2016000"}}, // 2 x 14400 + 4 x 36000
		{ResourceType: "volume", State: event.Active, Words: event.Size{}, Seconds: "43200", UnknownSeconds: api.Amounts{}, Amounts: api.Amounts{"size_gb": "432000"}},
	}
	if diff := cmp.Diff(u.Totals, want); diff != "" {
		t.Errorf("totals: got, want:\n%s", diff)
	}
	if diff := cmp.Diff(u.FindingCounts, map[string]int{string(usage.EndWithoutStart): 1}); diff != "" {
		t.Errorf("findings: got, want:\n%s", diff)
	}
	if u.ResourceCount != 2 || len(u.Resources) != 2 || len(u.Resources[0].Intervals) != 2 || u.Resources[0].Resource.Name != "name-42" {
		t.Errorf("resources %+v", u.Resources)
	}
	if code := g.get("/api/v1/projects/none/usage?from=2026-11-02T00:00:00Z&to=2026-11-03T00:00:00Z", nil); code != http.StatusNotFound {
		t.Errorf("unknown project: status %d", code)
	}
	// As of noon, the volume has just begun.
	g.get("/api/v1/projects/"+p.ID+"/usage?from=2026-11-02T00:00:00Z&to=2026-11-03T00:00:00Z&as_of=2026-11-02T12:00:00Z", &u)
	if u.ResourceCount != 1 {
		t.Errorf("as of noon: %d resources", u.ResourceCount)
	}
}

func TestResourcesAtATime(t *testing.T) {
	t.Parallel()
	g := newRig(t, nil)
	foreign := on(event.ServerCreate, at("06:00"), "42", "create", server(8))
	foreign.Data.Account = "else"
	foreign = event.New(foreign.Type, foreign.Time, foreign.Data)
	g.deliver(
		on(event.ServerCreate, at("06:00"), "42", "create", server(2)),
		on(event.ServerUpgrade, at("10:00"), "42", "action:1", server(4)),
		on(event.ServerDelete, at("20:00"), "42", "delete", nil),
		on(event.VolumeCreate, at("07:00"), "7", "create", gb(10)),
		foreign,
	)
	list := func(query string) string {
		t.Helper()
		var l api.ResourceList
		if code := g.get("/api/v1/resources?"+query, &l); code != http.StatusOK {
			t.Errorf("%s: status %d", query, code)
		}
		var got []string
		for _, r := range l.Items {
			line := string(r.Resource.Type) + " " + r.Resource.ID + " " + r.Size[event.VCPUs].String() + r.Size[event.SizeGB].String()
			if !r.Alive {
				line += " ended"
			}
			got = append(got, line)
		}
		return strings.Join(got, ", ")
	}
	const acme = "platform=hetzner&external_id=acme&"
	for query, want := range map[string]string{
		acme + "at=2026-11-02T05:59:59Z":            "",
		acme + "at=2026-11-02T05:59:59Z&ended=true": "",
		acme + "at=2026-11-02T06:00:00Z":            "server 42 2",
		acme + "at=2026-11-02T10:00:00Z":            "server 42 4, volume 7 10",
		acme + "at=2026-11-02T20:00:00Z":            "volume 7 10",
		acme + "at=2026-11-02T20:00:00Z&ended=true": "server 42 4 ended, volume 7 10",
		acme: "volume 7 10", // now
		acme + "resource_type=server&resource_id=42&ended=true":         "server 42 4 ended",
		acme + "resource_type=server&resource_id=43&resource_id=44":     "",
		acme + "resource_id=7&resource_id=42&at=2026-11-02T08:00:00Z":   "server 42 2, volume 7 10",
		"resource_type=server&ended=true":                               "server 42 4 ended, server 42 8",
		"platform=hetzner&resource_type=volume":                         "volume 7 10",
		"project_id=" + g.project("hetzner", "else").ID:                 "server 42 8",
		"project_id=" + g.project("hetzner", "acme").ID + "&ended=true": "server 42 4 ended, volume 7 10",
		"platform=openstack":                                            "",
		"external_id=else&at=2026-11-02T06:00:00%2B01:00":               "",
		acme + "resource_type=server&at=2026-11-02T20:00:00%2B09:00":    "server 42 4",
		acme + "resource_type=server&at=2026-11-02T21:00:00%2B01:00":    "",
		"project_id=none": "",
	} {
		if got := list(query); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", query, got, want)
		}
	}
}
