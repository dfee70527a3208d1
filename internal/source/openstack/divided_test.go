package openstack_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloudtest"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/openstack"
	"github.com/tollgate-dev/tollgate/internal/source/sourcetest"
)

// twoRegionsOf are the two regions of a simulated cloud, which a source reads as one
// through the window of the first.
type twoRegionsOf struct {
	*simThings
	first, second *platform

	turn sync.Mutex
	n    int
}

// simThings is deeper by one than what twoRegionsOf has of its own.
type simThings struct{ *platform }

func newTwoRegions(tb testing.TB, kind event.ResourceType) *twoRegionsOf {
	tb.Helper()
	first := simulated(tb, kind, func(o *openstacksim.Options) { o.Regions = twoRegions })
	second := &platform{
		Project: cloudtest.LogIn(tb, first.Identity, "demo", "any", "demo"), Faults: first.Faults,
		kind: kind, sim: first.sim, seq: 1000, // names that the first does not use
	}
	second.Compute = first.Compute
	first.move(tb, twoRegions[0])
	second.move(tb, twoRegions[1])
	return &twoRegionsOf{simThings: &simThings{first}, first: first, second: second}
}

// Change implements sourcetest.Backend: in one region and then in the other.
func (p *twoRegionsOf) Change(tb testing.TB) []string {
	p.turn.Lock()
	p.n++
	n := p.n
	p.turn.Unlock()
	return p.ChangeIn(tb, twoRegions[n%len(twoRegions)])
}

// Parts implements sourcetest.Divided.
func (p *twoRegionsOf) Parts(testing.TB) []string { return twoRegions }

// ChangeIn implements sourcetest.Divided.
func (p *twoRegionsOf) ChangeIn(tb testing.TB, part string) []string {
	if part == twoRegions[1] {
		return p.second.Change(tb)
	}
	return p.first.Change(tb)
}

// FailPart implements sourcetest.Divided.
func (p *twoRegionsOf) FailPart(_ testing.TB, part string, kind sourcetest.FaultKind, read int, echo string) func() {
	return p.fail("/"+part+"/.*"+reads, kind, read, echo)
}

// HangPart implements sourcetest.Divided.
func (p *twoRegionsOf) HangPart(_ testing.TB, part string) func() {
	return p.Add(openstacksim.Fault{Kind: openstacksim.FaultHang, Method: "GET", Path: "/" + part + "/.*" + reads})
}

// Exists implements sourcetest.Keeper.
func (p *twoRegionsOf) Exists(tb testing.TB) []string {
	return slices.Concat(p.first.Exists(tb), p.second.Exists(tb))
}

// Remove implements sourcetest.Keeper.
func (p *twoRegionsOf) Remove(tb testing.TB) {
	if len(p.first.Exists(tb)) > 0 {
		p.first.Remove(tb)
	} else {
		p.second.Remove(tb)
	}
}

// dividedServers are servers in two regions. What takes its time is in the first.
type dividedServers struct {
	*twoRegionsOf
	servers simServers
}

// Begin implements sourcetest.Starter.
func (p dividedServers) Begin(tb testing.TB) func() []string { return p.servers.Begin(tb) }

// Lose implements sourcetest.Loser.
func (p dividedServers) Lose(tb testing.TB) { p.servers.Lose(tb) }

// Forget implements sourcetest.Forgetter.
func (p dividedServers) Forget(tb testing.TB) {
	for _, id := range p.second.Exists(tb) {
		p.second.remove(tb, id)
	}
	p.servers.Forget(tb)
}

// Skew implements sourcetest.Skewer.
func (p dividedServers) Skew(tb testing.TB, by time.Duration) { p.servers.Skew(tb, by) }

// divide is a harness over two regions.
func divide(h sourcetest.Harness, kind event.ResourceType) sourcetest.Harness {
	h.NewBackend = func(tb testing.TB) sourcetest.Backend {
		if p := newTwoRegions(tb, kind); kind != event.Server {
			return p
		} else {
			return dividedServers{p, simServers{p.first}}
		}
	}
	h.Open = func(tb testing.TB, b sourcetest.Backend, o sourcetest.OpenOptions) source.Source {
		return of(b).open(tb, o, func(o *openstack.Options, _ *source.Config) { o.Regions = twoRegions })
	}
	h.Hooks = append(h.Hooks, sourcetest.HookParts)
	return h
}

// Several regions that are read as one keep the whole contract.
func TestContractOfRegions(t *testing.T) {
	t.Parallel()
	for _, kind := range []event.ResourceType{event.Server, event.Volume, event.FloatingIP} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			h := divide(harness(kind), kind)
			for _, c := range sourcetest.Clauses() {
				if kind == event.Server || sourcetest.Runnable(h, c) {
					t.Run(c.ID+"-"+c.Slug, func(t *testing.T) {
						t.Parallel()
						sourcetest.RunClause(t, h, c)
					})
				}
			}
		})
	}
}
