package providertest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/memory"
	"github.com/tollgate-dev/tollgate/internal/provider/providertest"
)

// TestMemory is the reference driver's contract test: a driver that does
// everything right passes everything.
func TestMemory(t *testing.T) {
	t.Setenv(providertest.RequireEnv, "all")
	providertest.Run(t, memoryHarness())
}

func memoryHarness() providertest.Harness {
	return providertest.Harness{
		Profile: memory.Profile(),
		NewBackend: func(testing.TB) providertest.Backend {
			return &memBackend{memory.NewBackend(memory.Options{PageSize: 3, BootTime: time.Millisecond, DeleteTime: time.Millisecond})}
		},
		Open: func(tb testing.TB, b providertest.Backend, o providertest.OpenOptions) provider.Provider {
			p, err := memory.New(context.Background(), b.(*memBackend).Backend, o.Config())
			if err != nil {
				tb.Fatal(err)
			}
			return p
		},
		Hooks: []providertest.Hook{
			providertest.HookPlace, providertest.HookStop, providertest.HookLoseReply, providertest.HookHang,
			providertest.HookFaults, providertest.HookSellOut, providertest.HookLag, providertest.HookPages,
			providertest.HookHoldBoot, providertest.HookHideAddress, providertest.HookRawState,
			providertest.HookHoldDeletes, providertest.HookUserData,
		},
		Checker: true, Pricer: true, Companions: true,
		Placement:    provider.Placement{Region: "north", MachineType: "small"},
		BadPlacement: provider.Placement{Region: "atlantis"},
		Unpriced:     provider.Placement{Region: "atlantis"},
		Settle:       40 * time.Millisecond, Poll: time.Millisecond, Patience: 5 * time.Second, Prompt: 500 * time.Millisecond,
	}
}

// memBackend lends the in-memory backend to the kit.
type memBackend struct{ *memory.Backend }

func (b *memBackend) Things(testing.TB) (out []providertest.Thing) {
	thing := func(kind, id, name string, labels map[string]string) {
		m, managed := provider.MarksFromLabels(labels)
		out = append(out, providertest.Thing{Kind: kind, ID: id, Name: name, Marks: m, Managed: managed})
	}
	for _, s := range b.Servers() {
		thing(providertest.KindInstance, string(memory.ID(s)), s.Name, s.Labels)
	}
	for _, a := range b.Addresses() {
		thing(memory.KindAddress, a.Name, a.Name, a.Labels)
	}
	return out
}

func (b *memBackend) Place(_ testing.TB, name string, marks provider.Marks, managed bool) {
	labels := marks.Labels()
	if !managed {
		labels = nil
	}
	b.Backend.Place(memory.NewServer{Name: name, Labels: labels})
}

func (b *memBackend) Vanish(_ testing.TB, name string) { b.Kill(name) }
func (b *memBackend) Stop(_ testing.TB, name string)   { b.Backend.Stop(name) }
func (b *memBackend) Hang(testing.TB) func()           { return b.Backend.Hang() }
func (b *memBackend) PageSize(testing.TB) int          { return b.Backend.PageSize() }
func (b *memBackend) HoldBoot(testing.TB) func()       { return b.Backend.HoldBoot() }
func (b *memBackend) HoldDeletes(testing.TB) func()    { return b.Backend.HoldDeletes() }

func (b *memBackend) LagList(_ testing.TB, d time.Duration)      { b.SetListLag(d) }
func (b *memBackend) SetRawState(_ testing.TB, name, raw string) { b.SetRaw(name, raw) }
func (b *memBackend) LoseCreateReply(testing.TB) {
	b.Backend.Inject(memory.Fault{
		Calls: []memory.Call{memory.CallCreateServer}, Err: memory.ErrReplyLost, AfterCommit: true, Times: 1,
	})
}

func (b *memBackend) BreakPage(_ testing.TB, n int) func() {
	b.Backend.BreakPage(n)
	return func() { b.Backend.BreakPage(0) }
}

func (b *memBackend) HideAddress(_ testing.TB, name string) func() {
	b.Hide(name, true)
	return func() { b.Hide(name, false) }
}

func (b *memBackend) UserData(tb testing.TB, name string) []byte {
	for _, s := range b.Servers() {
		if s.Name == name {
			return s.UserData
		}
	}
	tb.Fatalf("no server is named %s", name)
	return nil
}

func (b *memBackend) SellOut(testing.TB) func() {
	return b.Backend.Inject(memory.Fault{
		Calls: []memory.Call{memory.CallCreateServer},
		Err:   &memory.APIError{Status: 412, Code: "sold_out", Message: "no capacity in this region"},
	})
}

func (b *memBackend) Inject(tb testing.TB, f providertest.Fault) func() {
	api := func(status int, code string) *memory.APIError {
		return &memory.APIError{Status: status, Code: code, Message: "injected: " + f.Echo, RetryAfter: f.RetryAfter}
	}
	create := []memory.Call{memory.CallCreateServer}
	switch f.Kind {
	case providertest.FaultUnauthorized:
		return b.Backend.Inject(memory.Fault{Err: api(401, "unauthorized")})
	case providertest.FaultForbidden:
		return b.Backend.Inject(memory.Fault{Err: api(403, "forbidden")})
	case providertest.FaultNotFound:
		return b.Backend.Inject(memory.Fault{Calls: create, Err: api(404, "not_found")})
	case providertest.FaultConflict:
		return b.Backend.Inject(memory.Fault{Calls: create, Err: api(409, "busy")})
	case providertest.FaultInvalid:
		return b.Backend.Inject(memory.Fault{Calls: create, Err: api(422, "invalid_input")})
	case providertest.FaultThrottled:
		return b.Backend.Inject(memory.Fault{Err: api(429, "rate_limit")})
	case providertest.FaultInternal:
		return b.Backend.Inject(memory.Fault{Err: api(500, "internal")})
	case providertest.FaultUnavailable:
		return b.Backend.Inject(memory.Fault{Err: api(503, "unavailable")})
	case providertest.FaultTruncated:
		return b.Backend.Inject(memory.Fault{Err: errors.Join(errors.New("in "+f.Echo), memory.ErrReplyLost), AfterCommit: true})
	case providertest.FaultQuota:
		return b.Backend.Inject(memory.Fault{Calls: create, Err: api(403, "quota")})
	}
	tb.Fatalf("fault %q: the backend does not know it", f.Kind)
	return nil
}
