package openstack_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
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

// reads are the requests of the feed, of listings and of questions about one thing.
const reads = "(/servers(/[^/]+)?|/os-instance-actions|/volumes/[^/]+|/floatingips(/[^/]+)?)"

// fail lets reads fail whose path matches.
func (p *platform) fail(path string, kind sourcetest.FaultKind, read int, echo string) (heal func()) {
	f := openstacksim.Fault{Kind: openstacksim.FaultAnswer, Method: "GET", Path: path, Skip: read - 1, Message: "no: " + echo}
	switch kind {
	case sourcetest.FaultUnauthorized:
		f.Status = http.StatusUnauthorized
	case sourcetest.FaultThrottled:
		f.Status = http.StatusTooManyRequests
	case sourcetest.FaultInternal:
		f.Status = http.StatusInternalServerError
	case sourcetest.FaultTruncated:
		f.Kind = openstacksim.FaultTruncate
	case sourcetest.FaultGateway:
		f.Status, f.Body = http.StatusNotFound, `{"message":"no Route matched with those values: `+echo+`"}`
	case sourcetest.FaultBlank:
		f.Status, f.Body = http.StatusOK, `{}`
	}
	return p.Add(f)
}

// Fail implements sourcetest.Faulter.
func (p *platform) Fail(_ testing.TB, kind sourcetest.FaultKind, read int, echo string) func() {
	return p.fail(reads, kind, read, echo)
}

// Hang implements sourcetest.Hanger.
func (p *platform) Hang(testing.TB) func() {
	return p.Add(openstacksim.Fault{Kind: openstacksim.FaultHang, Method: "GET", Path: reads})
}

// Hide implements sourcetest.Hider.
func (p *platform) Hide(tb testing.TB) func() {
	id := p.Exists(tb)[0]
	p.List(func(_ string, entries []any) []any {
		return slices.DeleteFunc(entries, func(x any) bool { one, ok := x.(obj); return ok && one["id"] == id })
	})
	return func() { p.List(nil) }
}

func of(b sourcetest.Backend) *platform {
	switch p := b.(type) {
	case simServers:
		return p.platform
	case *platform:
		return p
	case dividedServers:
		return p.first
	case *twoRegionsOf:
		return p.first
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
			sourcetest.HookList, sourcetest.HookSpoil, sourcetest.HookHide},
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
