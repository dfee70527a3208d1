package openstack_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloudtest"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/usage"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/sourcetest"
)

// A server that is deleted softly has ended, and one that is restored has begun
// again: its usage leaves out the time in between, whether somebody looked at each
// step or at the end only, and whichever way it ends at last.
func TestSoftDeleteAndRestore(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		looks bool
		end   func(p *platform, id string)
		last  time.Duration // of the second life
	}{
		"looked at":            {true, func(p *platform, id string) { p.forceDelete(t, id) }, time.Hour},
		"not looked at":        {false, func(p *platform, id string) { p.forceDelete(t, id) }, time.Hour},
		"deleted softly again": {true, func(p *platform, id string) { p.Do(t, "DELETE", p.path(id), nil, nil) }, time.Hour},
		"and reclaimed, unlooked": {false, func(p *platform, id string) {
			p.Do(t, "DELETE", p.path(id), nil, nil)
			p.pass(5 * time.Hour)
			p.sim.RemoveServer(id)
		}, time.Hour},
		"and reclaimed, looked at": {true, func(p *platform, id string) {
			p.Do(t, "DELETE", p.path(id), nil, nil)
		}, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := simulated(t, event.Server, func(o *openstacksim.Options) { o.SoftDelete = true })
			s := p.open(t, sourcetest.OpenOptions{}, nil)
			_, c, _ := drain(t, s, "")
			var events []event.Event
			look := func() {
				var items []source.Item
				items, c, _ = drain(t, s, c)
				for _, i := range items {
					events = append(events, i.Event)
				}
			}
			id := p.create(t, nil)
			p.settled(t, id, "ACTIVE")
			for _, step := range []func(){
				func() { p.Do(t, "DELETE", p.path(id), nil, nil); p.settled(t, id, "SOFT_DELETED") },
				func() { p.act(t, id, "restore", nil, "ACTIVE") },
				func() { tt.end(p, id) },
			} {
				if tt.looks {
					look()
				}
				p.pass(time.Hour)
				step()
			}
			look()
			if name == "and reclaimed, looked at" {
				p.pass(5 * time.Hour)
				p.sim.RemoveServer(id)
			}
			look()
			line := usage.Build(events)
			var lives []time.Duration
			for _, l := range line.Lives {
				lives = append(lives, l.To.Sub(l.From).Round(time.Minute))
			}
			if diff := cmp.Diff(lives, []time.Duration{time.Hour, tt.last}); diff != "" || len(line.Findings) > 0 {
				t.Errorf("findings %v, lives (-got +want):\n%s", line.Findings, diff)
			}
			for _, e := range events {
				if len(e.Data.UnknownSize) > 0 {
					t.Errorf("%s of unknown size", e.Type)
				}
			}
		})
	}
}

func (p *platform) forceDelete(t *testing.T, id string) {
	t.Helper()
	p.Do(t, "POST", p.path(id)+"/action", obj{"forceDelete": nil}, nil)
	cloudtest.Until(t, id+" is gone", func() bool { _, there := p.get(t, id); return !there })
}
