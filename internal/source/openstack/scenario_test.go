package openstack_test

import (
	"context"
	"fmt"
	"slices"
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

// act tells a server to do something, and waits until it is in a state.
func (p *platform) act(tb testing.TB, id, name string, args any, state string) {
	tb.Helper()
	p.Do(tb, "POST", p.path(id)+"/action", obj{name: args}, nil)
	p.settled(tb, id, state)
}

// pass lets time pass, for the cloud and for us.
func (p *platform) pass(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.later += d
}

// drain reads until there is nothing more.
func drain(t *testing.T, s *openstack.Source, c source.Cursor) (items []source.Item, next source.Cursor, last source.Page) {
	t.Helper()
	for range 100 {
		p, err := s.Next(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range p.Items {
			if err := openstack.Type().Check(i); err != nil {
				t.Error(err)
			}
		}
		items, c = append(items, p.Items...), p.Next
		if p.CaughtUp {
			return items, c, p
		}
	}
	t.Fatal("it is never caught up")
	return nil, "", source.Page{}
}

// said is what the items say, in the order of their times.
func said(items []source.Item) (out []string) {
	items = slices.Clone(items)
	slices.SortStableFunc(items, func(a, b source.Item) int { return a.Event.Time.Compare(b.Event.Time) })
	for _, i := range items {
		d := i.Event.Data
		text := string(i.Event.Type)
		for _, f := range []string{event.Flavor, event.SizeGB, event.IPVersion} {
			if v, ok := d.Size[f]; ok {
				text += " " + v.String()
			}
			if v, ok := d.PreviousSize[f]; ok {
				text += " was " + v.String()
			}
		}
		if len(d.UnknownSize) > 0 {
			text += " unknown " + strings.Join(d.UnknownSize, ",")
		}
		out = append(out, text)
	}
	return out
}

// What happens to a server while nobody looks is told completely, with the times
// at which it happened, although it is gone by then.
func TestLifeWhileNobodyLooks(t *testing.T) {
	t.Parallel()
	p := simulated(t, event.Server, nil)
	s := p.open(t, sourcetest.OpenOptions{}, nil)
	_, c, _ := drain(t, s, "")
	var times []time.Time
	step := func(f func()) {
		p.pass(time.Hour)
		f()
		times = append(times, p.clock())
	}
	var id string
	step(func() { id = p.create(t, nil); p.settled(t, id, "ACTIVE") })
	step(func() { p.act(t, id, "os-stop", nil, "SHUTOFF") })
	step(func() { p.act(t, id, "os-start", nil, "ACTIVE") })
	step(func() { p.act(t, id, "resize", obj{"flavorRef": p.flavor["m1.small"]}, "VERIFY_RESIZE") })
	p.act(t, id, "confirmResize", nil, "ACTIVE")
	step(func() { p.remove(t, id) })

	items, c, _ := drain(t, s, c)
	want := []string{
		"server.create.end unknown vcpus,ram_gb,disk_gb,flavor", "server.power_off.end", "server.power_on.end",
		"server.resize.end m1.small", "server.delete.end m1.small",
	}
	if diff := cmp.Diff(said(items), want); diff != "" {
		t.Fatalf("(-got +want):\n%s", diff)
	}
	for i, it := range items {
		if d := it.Event.Time.Sub(times[i]).Abs(); d > 2*time.Second {
			t.Errorf("%s is off by %v", it.Event.Type, d)
		}
		again, err := s.Derive(t.Context(), it.Ref)
		if err != nil || len(again) != 1 || !cmp.Equal(said(again), want[i:i+1]) || again[0].Event.ID != it.Event.ID {
			t.Errorf("derived from %s: %v, %v", it.Ref, said(again), err)
		}
	}
	if more, _, _ := drain(t, s, c); len(more) > 0 {
		t.Errorf("said again: %v", said(more))
	}
	p.sim.Purge()
	if _, err := s.Derive(t.Context(), items[0].Ref); provider.ClassOf(err) != provider.NotFound {
		t.Errorf("derived from what the cloud has forgotten: %v", err)
	}
}

// Looked at all the time, each change is told when it is there, with the size
// before it.
func TestLifeWhileSomebodyLooks(t *testing.T) {
	t.Parallel()
	p := simulated(t, event.Server, nil)
	s := p.open(t, sourcetest.OpenOptions{}, nil)
	var c source.Cursor
	id := ""
	for _, step := range []struct {
		do   func()
		want []string
	}{
		{func() { id = p.create(t, nil); p.settled(t, id, "ACTIVE") }, []string{"server.create.end m1.tiny"}},
		{func() { p.act(t, id, "resize", obj{"flavorRef": p.flavor["m1.large"]}, "VERIFY_RESIZE") }, []string{"server.resize.end m1.large was m1.tiny"}},
		{func() { p.act(t, id, "revertResize", nil, "ACTIVE") }, []string{"server.resize.end m1.tiny was m1.large"}},
		{func() { p.act(t, id, "shelve", nil, "SHELVED_OFFLOADED") }, []string{"server.power_off.end"}},
		{func() { p.act(t, id, "unshelve", nil, "ACTIVE") }, []string{"server.power_on.end"}},
		{func() { p.act(t, id, "reboot", obj{"type": "HARD"}, "ACTIVE") }, nil},
		{func() { p.act(t, id, "lock", nil, "ACTIVE"); p.act(t, id, "unlock", nil, "ACTIVE") }, nil},
		{func() { p.remove(t, id) }, []string{"server.delete.end m1.tiny"}},
	} {
		p.pass(time.Minute)
		step.do()
		var items []source.Item
		items, c, _ = drain(t, s, c)
		if diff := cmp.Diff(said(items), step.want); diff != "" {
			t.Errorf("(-got +want):\n%s", diff)
		}
	}
}

// What never ran has no events, and is not reported as being there.
func TestWhatNeverWas(t *testing.T) {
	t.Parallel()
	p := simulated(t, event.Server, nil)
	s := p.open(t, sourcetest.OpenOptions{}, nil)
	p.sim.FailBuilds("No valid host was found.")
	id := p.create(t, nil)
	p.settled(t, id, "ERROR")
	snap, err := s.List(t.Context())
	if err != nil || len(snap.Resources) != 1 || !snap.Resources[0].Coming {
		t.Errorf("listed %+v, %v: want it to be coming", snap.Resources, err)
	}
	items, c, page := drain(t, s, "")
	if len(items) > 0 || page.Ignored != 1 || page.Pending != 0 {
		t.Errorf("%v, %d ignored, %d pending", said(items), page.Ignored, page.Pending)
	}
	p.remove(t, id)
	if items, _, _ = drain(t, s, c); len(items) > 0 {
		t.Errorf("%v", said(items))
	}
}

// What the cloud forgets was read before, unless it forgets it in a pause.
func TestForgetting(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		purge func(p *platform, away func())
		gap   bool
	}{
		"while somebody looks": {func(p *platform, away func()) { p.sim.Purge(); p.pass(10 * time.Minute); away() }, false},
		"in a pause":           {func(p *platform, away func()) { p.pass(10 * time.Minute); away(); p.sim.Purge() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := simulated(t, event.Server, nil)
			s := p.open(t, sourcetest.OpenOptions{}, nil)
			id := p.create(t, nil)
			p.settled(t, id, "ACTIVE")
			p.remove(t, id)
			_, c, _ := drain(t, s, "")
			look := func(n int) (gaps int) {
				for range n {
					p.pass(20 * time.Minute)
					var page source.Page
					if _, c, page = drain(t, s, c); page.Gap != nil {
						gaps++
					}
				}
				return gaps
			}
			if n := look(9); n != 0 {
				t.Errorf("%d gaps, and nothing was forgotten", n)
			}
			tt.purge(p, func() {
				if !tt.gap {
					if n := look(9); n != 0 {
						t.Errorf("%d gaps, and nobody was away", n)
					}
				}
				p.pass(5 * time.Hour)
			})
			if n := look(3); (n == 1) != tt.gap {
				t.Errorf("%d gaps", n)
			}
		})
	}
}

// Servers of a cell that cannot be reached are left out of lists. The look does not
// count, and nothing is taken for gone.
func TestDownCell(t *testing.T) {
	t.Parallel()
	p := simulated(t, event.Server, nil)
	s := p.open(t, sourcetest.OpenOptions{}, nil)
	id := p.create(t, nil)
	p.settled(t, id, "ACTIVE")
	_, c, _ := drain(t, s, "")
	p.pass(time.Minute)
	p.act(t, id, "os-stop", nil, "SHUTOFF")
	up := p.sim.DownCell(id)
	var page source.Page
	for range 3 { // for longer than the overlap
		p.pass(20 * time.Minute)
		var items []source.Item
		if items, c, page = drain(t, s, c); len(items) > 0 || p.ours().Sub(page.UpTo) < 20*time.Minute {
			t.Fatalf("%v, up to %v", said(items), page.UpTo)
		}
	}
	if snap, err := s.List(t.Context()); provider.ClassOf(err) != provider.Transient || len(snap.Resources) > 0 {
		t.Errorf("listed %+v, %v", snap.Resources, err)
	}
	up()
	items, _, page := drain(t, s, c)
	if diff := cmp.Diff(said(items), []string{"server.power_off.end"}); diff != "" || p.ours().Sub(page.UpTo) > time.Minute {
		t.Errorf("up to %v (-got +want):\n%s", page.UpTo, diff)
	}
}

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

// A page that was lost is read again, and has what it had.
func TestLostPage(t *testing.T) {
	t.Parallel()
	p := simulated(t, event.Volume, nil)
	s := p.open(t, sourcetest.OpenOptions{}, nil)
	id := p.create(t, nil)
	p.settled(t, id, "available")
	_, c, _ := drain(t, s, "")
	_, c, _ = drain(t, s, c)
	p.pass(time.Hour)
	p.Do(t, "POST", p.path(id)+"/action", obj{"os-extend": obj{"new_size": 3}}, nil)
	p.settled(t, id, "available")
	for range 3 {
		page, err := s.Next(t.Context(), c)
		if diff := cmp.Diff(said(page.Items), []string{"volume.resize.end 3 was 1"}); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
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
