package openstack_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloudtest"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/openstack"
	"github.com/tollgate-dev/tollgate/internal/source/sourcetest"
)

// A volume that has grown is said to have when anybody knows what it was before.
func TestGrownVolume(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		known  bool
		anew   bool // another worker reads on
		grown  []string
		silent bool
	}{
		"a sink that is asked":                         {known: true, anew: true, grown: []string{"volume.resize.end 3 was 1"}},
		"one that cannot be asked":                     {grown: []string{"volume.resize.end 3 was 1"}},
		"one that cannot be asked, and another worker": {anew: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := simulated(t, event.Volume, nil)
			reported := map[event.Resource]source.Reported{}
			opened := func() *openstack.Source {
				return p.open(t, sourcetest.OpenOptions{}, func(_ *openstack.Options, c *source.Config) {
					if tt.known {
						c.Known = func(context.Context, event.Platform, string, []event.Resource) (map[event.Resource]source.Reported, error) {
							return reported, nil
						}
					}
				})
			}
			s := opened()
			id := p.create(t, nil)
			p.settled(t, id, "available")
			items, c, _ := drain(t, s, "")
			if diff := cmp.Diff(said(items), []string{"volume.create.end 1"}); diff != "" {
				t.Fatal(diff)
			}
			reported[event.Resource{Type: event.Volume, ID: id}] = source.Reported{Size: items[0].Event.Data.Size}
			p.pass(time.Hour)
			_, c, _ = drain(t, s, c)
			p.Do(t, "POST", p.path(id)+"/action", obj{"os-extend": obj{"new_size": 3}}, nil)
			p.settled(t, id, "available")
			if tt.anew {
				s = opened()
			}
			items, c, _ = drain(t, s, c)
			if diff := cmp.Diff(said(items), tt.grown); diff != "" {
				t.Errorf("(-got +want):\n%s", diff)
			}
			for _, i := range items {
				if again, err := s.Derive(t.Context(), i.Ref); err != nil || again[0].Event.ID != i.Event.ID || !strings.HasSuffix(i.Event.ID, "size:3") {
					t.Errorf("%s from %s: %v", i.Event.ID, i.Ref, err)
				}
			}
			if items, _, _ = drain(t, s, c); len(items) > 0 {
				t.Errorf("said again: %v", said(items))
			}
		})
	}
}

// What takes long to make, and what cannot be made.
func TestSlowVolume(t *testing.T) {
	t.Parallel()
	p := simulated(t, event.Volume, nil)
	s := p.open(t, sourcetest.OpenOptions{}, nil)
	id := p.create(t, nil)
	p.settled(t, id, "available")
	if err := p.sim.SetVolume(id, "downloading"); err != nil {
		t.Fatal(err)
	}
	items, c, page := drain(t, s, "")
	for range 4 {
		p.pass(time.Hour)
		var more []source.Item
		more, c, page = drain(t, s, c)
		items = append(items, more...)
	}
	if len(items) > 0 || page.Pending != 1 {
		t.Errorf("%v, %d pending", said(items), page.Pending)
	}
	if err := p.sim.SetVolume(id, "available"); err != nil {
		t.Fatal(err)
	}
	items, c, page = drain(t, s, c)
	if diff := cmp.Diff(said(items), []string{"volume.create.end 1"}); diff != "" || page.Pending != 0 {
		t.Errorf("%d pending (-got +want):\n%s", page.Pending, diff)
	}
	restore := p.sim.FailVolumes()
	bad := p.create(t, nil)
	p.settled(t, bad, "error")
	restore()
	if items, _, _ = drain(t, s, c); len(items) > 0 {
		t.Errorf("%v of a volume that could not be made", said(items))
	}
}

// All projects of a cloud are read by an administrator, each with an account of its
// own; without being asked to, an administrator reads one.
func TestAllProjects(t *testing.T) {
	t.Parallel()
	for _, kind := range []event.ResourceType{event.Server, event.Volume, event.FloatingIP} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			p := simulated(t, kind, func(o *openstacksim.Options) { o.Admins, o.Projects = []string{"root"}, []string{"other"} })
			mine := p.create(t, nil)
			p.settled(t, mine, "ACTIVE", "available")
			own := p.Project
			p.Project = cloudtest.LogIn(t, own.Identity, "demo", "any", "other")
			p.learn(t)
			theirs := p.create(t, nil)
			p.settled(t, theirs, "ACTIVE", "available")
			p.Project = own
			for _, all := range []bool{false, true} {
				s := p.open(t, sourcetest.OpenOptions{}, func(o *openstack.Options, _ *source.Config) { o.Auth.Username, o.AllProjects = "root", all })
				items, _, _ := drain(t, s, "")
				snap, err := s.List(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				fromFeed, fromList := map[string]string{}, map[string]string{}
				for _, i := range items {
					fromFeed[i.Event.Data.Resource.ID] = i.Event.Data.Account
				}
				for _, x := range snap.Resources {
					fromList[x.Resource.ID] = x.Account
				}
				if diff := cmp.Diff(fromFeed, fromList); diff != "" {
					t.Errorf("the feed and the listing differ:\n%s", diff)
				}
				_, foreign := fromFeed[theirs]
				if foreign != all || all && (fromFeed[mine] == fromFeed[theirs] || !strings.HasPrefix(fromFeed[mine], sourcetest.Account+"/")) || !all && fromFeed[mine] != sourcetest.Account {
					t.Errorf("all projects %v: %v", all, fromFeed)
				}
			}
		})
	}
}

// A cloud from before the list of actions had times is refused with the reason.
func TestOldCloud(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{"2.57": "needs microversion 2.58", "2.58": "", "2.96": ""} {
		p := simulated(t, event.Server, func(o *openstacksim.Options) { o.Microversion = version })
		_, err := p.open(t, sourcetest.OpenOptions{}, nil).Next(t.Context(), "")
		if want == "" && err != nil || want != "" && (provider.ClassOf(err) != provider.Permanent || !strings.Contains(fmt.Sprint(err), want)) {
			t.Errorf("%s: %v, want %q", version, err, want)
		}
	}
}

// The entry that the next page begins after may be gone by then.
func TestMarkerGone(t *testing.T) {
	t.Parallel()
	for _, kind := range []event.ResourceType{event.Server, event.Volume, event.FloatingIP} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			p := simulated(t, kind, nil)
			want := map[string]bool{}
			for range 3*pageSize + 1 {
				id := p.create(t, nil)
				p.settled(t, id, "ACTIVE", "available")
				want[id] = true
			}
			s := p.open(t, sourcetest.OpenOptions{}, nil)
			page, err := s.Next(t.Context(), "")
			if err != nil || page.CaughtUp {
				t.Fatal(page.CaughtUp, err)
			}
			for _, i := range page.Items { // whichever it begins after
				p.remove(t, i.Event.Data.Resource.ID)
				delete(want, i.Event.Data.Resource.ID)
			}
			if p.sim.Purge(); len(page.Items) == 0 {
				t.Fatal("the page is empty")
			}
			items, _, _ := drain(t, s, page.Next)
			for _, i := range items {
				delete(want, i.Event.Data.Resource.ID)
			}
			if len(want) > 0 {
				t.Errorf("%d are missing", len(want))
			}
		})
	}
}
