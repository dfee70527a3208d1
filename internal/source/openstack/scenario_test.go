package openstack_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/provider"
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
