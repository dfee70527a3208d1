//go:build e2e && openstack

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloudtest"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
)

// day is a project of the real control plane, and what happens in it.
type day struct {
	*cloudtest.Project
	t      *testing.T
	flavor map[string]string
	image  string
	public string
}

type fields = map[string]any

func newDay(t *testing.T) *day {
	t.Helper()
	d := &day{Project: cloudtest.New(t), t: t, flavor: map[string]string{}}
	var doc struct{ Flavors []struct{ ID, Name string } }
	d.Do(t, "GET", d.URLs["compute"]+"/flavors", nil, &doc)
	for _, f := range doc.Flavors {
		d.flavor[f.Name] = f.ID
	}
	d.image = d.IDOf(t, "images", d.URLs["image"]+"/v2/images?name=cirros")
	d.public = d.IDOf(t, "networks", d.URLs["network"]+"/v2.0/networks?name=public")
	return d
}

func (d *day) path(kind event.ResourceType, id string) string {
	switch kind {
	case event.Server:
		return d.URLs["compute"] + "/servers/" + id
	case event.Volume:
		return d.URLs["volumev3"] + "/volumes/" + id
	}
	return d.URLs["network"] + "/v2.0/floatingips/" + id
}

// settled waits until a thing is in a state, and busy with nothing.
func (d *day) settled(kind event.ResourceType, id, state string) {
	d.t.Helper()
	type thing struct {
		Status string
		Task   *string `json:"OS-EXT-STS:task_state"`
	}
	cloudtest.Until(d.t, id+" is "+state, func() bool {
		var doc struct{ Server, Volume thing }
		d.Do(d.t, "GET", d.path(kind, id), nil, &doc)
		return doc.Server.Task == nil && (doc.Server.Status == state || doc.Volume.Status == state)
	})
}

func (d *day) server(name, state string, metadata fields) string {
	d.t.Helper()
	var doc struct{ Server struct{ ID string } }
	s := fields{"name": name, "flavorRef": d.flavor["m1.tiny"], "imageRef": d.image, "networks": "none"}
	if metadata != nil {
		s["metadata"] = metadata
	}
	d.Do(d.t, "POST", d.URLs["compute"]+"/servers", fields{"server": s}, &doc)
	d.settled(event.Server, doc.Server.ID, state)
	return doc.Server.ID
}

func (d *day) volume(size int) string {
	d.t.Helper()
	var doc struct{ Volume struct{ ID string } }
	d.Do(d.t, "POST", d.URLs["volumev3"]+"/volumes", fields{"volume": fields{"size": size}}, &doc)
	d.settled(event.Volume, doc.Volume.ID, "available")
	return doc.Volume.ID
}

func (d *day) floatingIP() string {
	d.t.Helper()
	var doc struct{ FloatingIP struct{ ID string } }
	d.Do(d.t, "POST", d.URLs["network"]+"/v2.0/floatingips", fields{"floatingip": fields{"floating_network_id": d.public, "project_id": d.ID}}, &doc)
	return doc.FloatingIP.ID
}

func (d *day) act(kind event.ResourceType, id, verb string, args any, state string) {
	d.t.Helper()
	d.Do(d.t, "POST", d.path(kind, id)+"/action", fields{verb: args}, nil)
	d.settled(kind, id, state)
}

func (d *day) remove(kind event.ResourceType, id string) {
	d.t.Helper()
	d.Do(d.t, "DELETE", d.path(kind, id), nil, nil)
	cloudtest.Until(d.t, id+" is gone", func() bool { return !d.Do(d.t, "GET", d.path(kind, id), nil, nil) })
}

// told is an event of the day, without its id's request and its time.
type told struct {
	Resource, Type, Size, Was string
	Derived                   event.Derivation
	// Down: it happened while the collector was down.
	Down bool
}

// TestOpenStackDay is a day in the real control plane with the collector down for
// half of it. Every change is delivered, once, with its size and the time at which
// it happened; the ends that no feed shows come from the inventory; and what was
// never there has no events.
func TestOpenStackDay(t *testing.T) {
	d := newDay(t)
	const password = "e2e-day-password"
	d.Member(t, password)
	s := &stock{}
	s.collect(t, fmt.Sprintf(`    type: openstack
    openstack: {auth: {url: %q, username: %s, project: %s, password: cloud}}`, d.Identity, d.Name, d.Name), password)
	made := func(kind event.ResourceType, id string) string {
		return event.ID(event.OpenStack, "acme", event.Resource{Type: kind, ID: id}, event.ChangeCreate)
	}

	web := d.server("web", "ACTIVE", nil)
	data, old := d.volume(1), d.volume(2)
	entry, spare := d.floatingIP(), d.floatingIP()
	s.await(made(event.Server, web), made(event.Volume, data), made(event.Volume, old), made(event.FloatingIP, entry), made(event.FloatingIP, spare))

	s.killWorker()
	noon := time.Now()
	d.act(event.Server, web, "os-stop", nil, "SHUTOFF")
	d.act(event.Server, web, "os-start", nil, "ACTIVE")
	d.act(event.Server, web, "resize", fields{"flavorRef": d.flavor["m1.small"]}, "VERIFY_RESIZE")
	d.act(event.Server, web, "confirmResize", nil, "ACTIVE")
	brief := d.server("brief", "ACTIVE", nil)
	d.remove(event.Server, brief)
	late := d.server("late", "ACTIVE", nil)
	d.remove(event.Server, d.server("never", "ERROR", fields{"fake_spawn_error": "no room"}))
	d.act(event.Volume, data, "os-extend", fields{"new_size": 3}, "available")
	d.remove(event.Volume, old)
	fresh := d.volume(1)
	d.remove(event.FloatingIP, spare)
	added := d.floatingIP()
	evening := time.Now()
	s.startWorker()

	d.remove(event.Server, web)
	s.await(made(event.Server, late), made(event.Volume, fresh), made(event.FloatingIP, added),
		event.ID(event.OpenStack, "acme", event.Resource{Type: event.Server, ID: web}, event.ChangeDelete),
		event.ID(event.OpenStack, "acme", event.Resource{Type: event.Volume, ID: data}, event.Change("size", "3")))
	s.inventory(0, "Repaired")

	names := map[string]string{web: "web", brief: "brief", late: "late", data: "data", old: "old", fresh: "fresh", entry: "entry", spare: "spare", added: "added"}
	var got []told
	for _, e := range s.events() {
		x := told{Resource: names[e.Data.Resource.ID], Type: string(e.Type), Derived: e.Data.Derived, Down: e.Time.After(noon) && e.Time.Before(evening)}
		for f, v := range e.Data.Size.All() {
			x.Size += f + "=" + v.String() + " "
		}
		for f, v := range e.Data.PreviousSize.All() {
			x.Was += f + "=" + v.String() + " "
		}
		if nb := e.Data.NotBefore; nb != nil && nb.Before(evening) {
			x.Down = true // it lies in between, as far as anybody can know
		}
		if len(e.Data.UnknownSize) > 0 {
			t.Errorf("%s of %s: unknown %v", e.Type, x.Resource, e.Data.UnknownSize)
		}
		got = append(got, x)
	}
	const tiny, small = "disk_gb=1 flavor=m1.tiny ram_gb=0.5 vcpus=1 ", "disk_gb=20 flavor=m1.small ram_gb=2 vcpus=1 "
	gb := func(n int) string { return fmt.Sprintf("size_gb=%d type=__DEFAULT__ ", n) }
	want := []told{
		{"web", "server.create.end", tiny, "", "", false},
		{"web", "server.power_off.end", "", "", "", true},
		{"web", "server.power_on.end", "", "", "", true},
		{"web", "server.resize.end", small, tiny, "", true},
		{"web", "server.delete.end", small, "", "", false},
		{"brief", "server.create.end", tiny, "", "", true},
		{"brief", "server.delete.end", tiny, "", "", true},
		{"late", "server.create.end", tiny, "", "", true},
		{"data", "volume.create.end", gb(1), "", "", false},
		{"data", "volume.resize.end", gb(3), gb(1), "", true},
		{"old", "volume.create.end", gb(2), "", "", false},
		{"old", "volume.delete.end", gb(2), "", event.FromInventory, true},
		{"fresh", "volume.create.end", gb(1), "", "", true},
		{"entry", "floating_ip.create.end", "ip_version=4 ", "", "", false},
		{"spare", "floating_ip.create.end", "ip_version=4 ", "", "", false},
		{"spare", "floating_ip.delete.end", "ip_version=4 ", "", event.FromInventory, true},
		{"added", "floating_ip.create.end", "ip_version=4 ", "", "", true},
	}
	order := func(a, b told) int { return strings.Compare(a.Resource+" "+a.Type, b.Resource+" "+b.Type) }
	slices.SortFunc(got, order)
	slices.SortFunc(want, order)
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("the day (-got +want):\n%s", diff)
	}
	s.inventory(0, "Clean")
	for kind, ids := range map[event.ResourceType][]string{event.Server: {late}, event.Volume: {data, fresh}, event.FloatingIP: {entry, added}} {
		for _, id := range ids {
			d.remove(kind, id)
		}
	}
}
