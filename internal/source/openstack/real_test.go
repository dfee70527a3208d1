//go:build openstack

package openstack_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloudtest"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/openstack"
	"github.com/tollgate-dev/tollgate/internal/source/sourcetest"
)

// actual is a project of its own in the real cloud, where many things are made, and
// removed, at once.
type actual struct{ *platform }

func newActual(tb testing.TB, kind event.ResourceType) *actual {
	tb.Helper()
	p := &platform{Project: cloudtest.New(tb), Faults: &openstacksim.Faults{}, kind: kind, edit: map[string]func(obj){}}
	p.learn(tb)
	tb.Cleanup(func() {
		for _, id := range p.Exists(tb) {
			p.Do(tb, "DELETE", p.path(id), nil, nil)
		}
		for _, id := range p.Exists(tb) {
			cloudtest.Until(tb, id+" is gone", func() bool { _, there := p.get(tb, id); return !there })
		}
	})
	return &actual{p}
}

// Changes implements sourcetest.Bulk.
func (p *actual) Changes(tb testing.TB, n int) (events []string) {
	tb.Helper()
	var ids []string
	for range n {
		ids = append(ids, p.create(tb, nil))
	}
	for _, id := range ids {
		p.settled(tb, id, "ACTIVE", "available")
		events = append(events, p.born(id)...)
	}
	return events
}

type actualServers struct{ *actual }

// Begin implements sourcetest.Starter: the fake hypervisor waits for a file to go.
func (p *actualServers) Begin(tb testing.TB) func() []string {
	name := p.Name + "-" + p.name()
	file := filepath.Join(p.State, "hold", name)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.Remove(file) })
	id := p.create(tb, obj{"fake_spawn_hold": name})
	cloudtest.Until(tb, "the server is being built", func() bool {
		x, _ := p.get(tb, id)
		return x.Task != nil && *x.Task == "spawning"
	})
	return func() []string {
		_ = os.Remove(file)
		p.settled(tb, id, "ACTIVE")
		return p.born(id)
	}
}

// Servers take the real services seconds each, so they pass those clauses that show
// what the simulator has to be believed in: that a life is read from its actions, when
// it begins and ends, how what is under way looks, what a listing leaves out, and what
// is gone. The
// others are about pages, which floating IPs and volumes show.
var serverClauses = []string{"SC-01", "SC-06", "SC-10", "SC-15", "SC-24", "SC-25", "SC-31"}

// Each kind passes the clauses that a real cloud can be made to show. What it cannot:
// it forgets nothing on demand, and its clock is right. The simulator shows those.
func TestContractOnTheRealServices(t *testing.T) {
	t.Parallel()
	for _, kind := range []event.ResourceType{event.FloatingIP, event.Volume, event.Server} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			h := sourcetest.Harness{
				Type: openstack.Type(),
				NewBackend: func(tb testing.TB) sourcetest.Backend {
					if p := newActual(tb, kind); kind != event.Server {
						return p
					} else {
						return &actualServers{p}
					}
				},
				Open: func(tb testing.TB, b sourcetest.Backend, o sourcetest.OpenOptions) source.Source {
					p, ok := b.(*actual)
					if !ok {
						p = b.(*actualServers).actual
					}
					p.Member(tb, string(o.Credential.Reveal()))
					return p.open(tb, o, nil)
				},
				Hooks: []sourcetest.Hook{sourcetest.HookDuring, sourcetest.HookFail, sourcetest.HookHang, sourcetest.HookRepeat, sourcetest.HookPoison,
					sourcetest.HookList, sourcetest.HookSpoil, sourcetest.HookHide},
				Patience: time.Minute, Poll: 100 * time.Millisecond, Prompt: 5 * time.Second,
			}
			if kind == event.Server {
				h.Hooks = append(h.Hooks, sourcetest.HookBegin)
			}
			for _, c := range sourcetest.Clauses() {
				if sourcetest.Runnable(h, c) && (kind != event.Server || slices.Contains(serverClauses, c.ID)) {
					t.Run(c.ID+"-"+c.Slug, func(t *testing.T) {
						t.Parallel()
						sourcetest.RunClause(t, h, c)
					})
				}
			}
		})
	}
}
