// Package memorytest lends the in-memory driver to tests of the conformance kit
// and of what is wrapped around drivers.
package memorytest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/memory"
	"github.com/tollgate-dev/tollgate/internal/provider/providertest"
)

// Options are the constants of the harness' backends: small pages and short
// times.
func Options() memory.Options {
	return memory.Options{PageSize: 3, BootTime: time.Millisecond, DeleteTime: time.Millisecond}
}

// NewBackend makes a backend whose requests take a moment, so that a create can
// be cut off between any two of them and while it waits for a reply.
func NewBackend(o memory.Options) *Backend {
	b := memory.NewBackend(o)
	for _, c := range []memory.Call{memory.CallFindServer, memory.CallListAddresses, memory.CallCreateAddress, memory.CallCreateServer} {
		b.SetLatency(c, 200*time.Microsecond)
	}
	return &Backend{b}
}

// Harness connects the conformance kit with the in-memory driver. It passes
// every clause, and nothing about it is random: what fails on a changed copy of
// it fails because of the change.
func Harness() providertest.Harness {
	return providertest.Harness{
		Profile: memory.Profile(),
		NewBackend: func(testing.TB) providertest.Backend {
			return NewBackend(Options())
		},
		Open: func(tb testing.TB, b providertest.Backend, o providertest.OpenOptions) provider.Provider {
			p, err := memory.New(context.Background(), b.(*Backend).Backend, o.Config())
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
		Settle:       400 * time.Millisecond, Poll: time.Millisecond, Patience: 30 * time.Second, Prompt: 10 * time.Second,
	}
}

// Backend gives the in-memory backend all the hooks of the kit.
type Backend struct{ *memory.Backend }

// Things implements providertest.Backend.
func (b *Backend) Things(testing.TB) (out []providertest.Thing) {
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

// Place implements the kit's hook.
func (b *Backend) Place(_ testing.TB, name string, marks provider.Marks, managed bool) {
	labels := marks.Labels()
	if !managed {
		labels = nil
	}
	b.Backend.Place(memory.NewServer{Name: name, Labels: labels})
}

// Vanish implements the kit's hook.
func (b *Backend) Vanish(_ testing.TB, name string) { b.Kill(name) }

// Stop implements the kit's hook.
func (b *Backend) Stop(_ testing.TB, name string) { b.Backend.Stop(name) }

// Hang implements the kit's hook.
func (b *Backend) Hang(testing.TB) func() { return b.Backend.Hang() }

// PageSize implements the kit's hook.
func (b *Backend) PageSize(testing.TB) int { return b.Backend.PageSize() }

// HoldBoot implements the kit's hook.
func (b *Backend) HoldBoot(testing.TB) func() { return b.Backend.HoldBoot() }

// HoldDeletes implements the kit's hook.
func (b *Backend) HoldDeletes(testing.TB) func() { return b.Backend.HoldDeletes() }

// LagList implements the kit's hook.
func (b *Backend) LagList(_ testing.TB, d time.Duration) { b.SetListLag(d) }

// SetRawState implements the kit's hook.
func (b *Backend) SetRawState(_ testing.TB, name, raw string) { b.SetRaw(name, raw) }

// LoseCreateReply implements the kit's hook.
func (b *Backend) LoseCreateReply(testing.TB) {
	b.Backend.Inject(memory.Fault{
		Calls: []memory.Call{memory.CallCreateServer}, Err: memory.ErrReplyLost, AfterCommit: true, Times: 1,
	})
}

// BreakPage implements the kit's hook.
func (b *Backend) BreakPage(_ testing.TB, n int) func() {
	b.Backend.BreakPage(n)
	return func() { b.Backend.BreakPage(0) }
}

// HideAddress implements the kit's hook.
func (b *Backend) HideAddress(_ testing.TB, name string) func() {
	b.Hide(name, true)
	return func() { b.Hide(name, false) }
}

// UserData implements the kit's hook.
func (b *Backend) UserData(tb testing.TB, name string) []byte {
	for _, s := range b.Servers() {
		if s.Name == name {
			return s.UserData
		}
	}
	tb.Fatalf("no server is named %s", name)
	return nil
}

// SellOut implements the kit's hook.
func (b *Backend) SellOut(testing.TB) func() {
	return b.Backend.Inject(memory.Fault{
		Calls: []memory.Call{memory.CallCreateServer},
		Err:   &memory.APIError{Status: 412, Code: "sold_out", Message: "no capacity in this region"},
	})
}

// Inject implements the kit's hook.
func (b *Backend) Inject(tb testing.TB, f providertest.Fault) func() {
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
