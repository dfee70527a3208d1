package openstack_test

import (
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/openstack"
	"github.com/tollgate-dev/tollgate/internal/source/sourcetest"
)

// simServers are servers of a simulated cloud, which forgets, and whose clock is
// wrong.
type simServers struct{ *platform }

// Begin implements sourcetest.Starter.
func (p simServers) Begin(tb testing.TB) func() []string {
	release := p.sim.HoldBuild(p.next())
	id := p.create(tb, nil)
	p.mu.Lock()
	p.held = append(p.held, id)
	p.mu.Unlock()
	return func() []string {
		release()
		p.settled(tb, id, "ACTIVE")
		return p.born(id)
	}
}

// Lose implements sourcetest.Loser.
func (p simServers) Lose(testing.TB) {
	for _, id := range p.held {
		p.sim.RemoveServer(id)
	}
	p.sim.Purge()
}

// Forget implements sourcetest.Forgetter: all servers are gone, and the operator
// has cleared the database.
func (p simServers) Forget(tb testing.TB) {
	for _, id := range p.Exists(tb) {
		p.remove(tb, id)
	}
	p.sim.Purge()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.later += 3 * time.Hour
}

// Skew implements sourcetest.Skewer.
func (p simServers) Skew(_ testing.TB, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.skew = d
}

func of(b sourcetest.Backend) *platform {
	switch p := b.(type) {
	case simServers:
		return p.platform
	case *platform:
		return p
	}
	return nil
}

func harness(kind event.ResourceType) sourcetest.Harness {
	h := sourcetest.Harness{
		Type: openstack.Type(),
		NewBackend: func(tb testing.TB) sourcetest.Backend {
			if p := simulated(tb, kind, nil); kind != event.Server {
				return p
			} else {
				return simServers{p}
			}
		},
		Open: func(tb testing.TB, b sourcetest.Backend, o sourcetest.OpenOptions) source.Source {
			return of(b).open(tb, o, nil)
		},
		Hooks: []sourcetest.Hook{sourcetest.HookDuring, sourcetest.HookFail, sourcetest.HookHang, sourcetest.HookRepeat, sourcetest.HookPoison,
			sourcetest.HookList, sourcetest.HookSpoil},
	}
	if kind == event.Server {
		h.Hooks = append(h.Hooks, sourcetest.HookBegin, sourcetest.HookLose, sourcetest.HookForget, sourcetest.HookSkew)
	}
	return h
}

func TestContract(t *testing.T) {
	t.Parallel()
	sourcetest.Run(t, harness(event.Server))
}

// Volumes and floating IPs are lists that show nothing but what exists: they pass
// whatever does not ask for more.
func TestContractOfLists(t *testing.T) {
	t.Parallel()
	for _, kind := range []event.ResourceType{event.Volume, event.FloatingIP} {
		h := harness(kind)
		for _, c := range sourcetest.Clauses() {
			if sourcetest.Runnable(h, c) {
				t.Run(string(kind)+"/"+c.ID+"-"+c.Slug, func(t *testing.T) {
					t.Parallel()
					sourcetest.RunClause(t, h, c)
				})
			}
		}
	}
}
