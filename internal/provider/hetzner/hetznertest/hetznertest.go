// Package hetznertest lends the simulator to tests as a backend of the
// conformance kit, with all of the kit's hooks.
package hetznertest

import (
	"context"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim/vendordoc"
	"github.com/tollgate-dev/tollgate/internal/provider/providertest"
)

// Backend is a simulator served over HTTP on loopback.
type Backend struct {
	*hetznersim.Sim
	// URL is the API's base URL, with its path.
	URL string
}

// Project is by what the simulator's methods know the one project.
const Project = "the-project"

// NewBackend starts a simulator with small pages, short actions and no rate
// limit, in which every token opens the project Project. Requests that succeed
// are checked against the vendor's document.
func NewBackend(tb testing.TB, change ...func(*hetznersim.Options)) *Backend {
	tb.Helper()
	opts := hetznersim.Options{OneProject: Project, RateLimit: -1, MaxPerPage: 4, Timing: hetznersim.Uniform(2 * time.Millisecond)}
	for _, f := range change {
		f(&opts)
	}
	sim := hetznersim.New(opts)
	doc, err := vendordoc.Load()
	if err != nil {
		tb.Fatal(err)
	}
	srv := httptest.NewServer(doc.Watch(sim, hetznersim.BasePath, false, func(err error) { tb.Error(err) }))
	tb.Cleanup(func() {
		sim.ClearFaults()
		_ = sim.Close(context.WithoutCancel(tb.Context()))
		srv.Close()
	})
	return &Backend{Sim: sim, URL: srv.URL + hetznersim.BasePath}
}

// Config is the block of a provider's configuration for the backend; change may
// be nil.
func (b *Backend) Config(change func(*hetzner.Options)) hetzner.Options {
	o := hetzner.Options{
		Token: "hcloud-token", Endpoint: b.URL, Image: "debian-13",
		Candidates: []hetzner.Candidate{{Location: "nbg1", ServerType: "cx23"}, {Location: "fsn1", ServerType: "cx23"}},
		Firewall:   hetzner.Firewall{AllowFrom: []string{"192.0.2.0/24", "2001:db8::/32"}},
		Poll:       2 * time.Millisecond,
	}
	if change != nil {
		change(&o)
	}
	return o
}

// Open builds a provider over the backend from cfg, whose Decode it replaces.
func (b *Backend) Open(tb testing.TB, cfg provider.Config, change func(*hetzner.Options)) *hetzner.Provider {
	tb.Helper()
	cfg.Decode = func(into any) error {
		*into.(*hetzner.Options) = b.Config(change)
		return nil
	}
	p, err := hetzner.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// Harness connects the conformance kit with the driver over the simulator.
func Harness(sim func(*hetznersim.Options), config func(*hetzner.Options)) providertest.Harness {
	return providertest.Harness{
		Profile: hetzner.Type().Profile,
		NewBackend: func(tb testing.TB) providertest.Backend {
			if sim == nil {
				return NewBackend(tb)
			}
			return NewBackend(tb, sim)
		},
		Open: func(tb testing.TB, b providertest.Backend, o providertest.OpenOptions) provider.Provider {
			return b.(*Backend).Open(tb, o.Config(), config)
		},
		Hooks: []providertest.Hook{
			providertest.HookPlace, providertest.HookStop, providertest.HookLoseReply, providertest.HookHang,
			providertest.HookFaults, providertest.HookSellOut, providertest.HookLag, providertest.HookPages,
			providertest.HookHoldBoot, providertest.HookHideAddress, providertest.HookRawState, providertest.HookUserData,
		},
		Checker: true, Pricer: true, Companions: true,
		Placement:    provider.Placement{Region: "nbg1", MachineType: "cx23", Image: "debian-13"},
		BadPlacement: provider.Placement{Region: "atlantis1", MachineType: "cx23", Image: "debian-13"},
		Unpriced:     provider.Placement{Region: "atlantis1"},
		Settle:       100 * time.Millisecond, Poll: 2 * time.Millisecond, Patience: 30 * time.Second, Prompt: 2 * time.Second,
	}
}

// Things implements providertest.Backend. Primary IPs that came with a server
// are part of it for as long as it exists.
func (b *Backend) Things(testing.TB) []providertest.Thing {
	var out []providertest.Thing
	for _, o := range b.Objects() {
		kind := o.Kind
		if kind == "server" {
			kind = providertest.KindInstance
		}
		m, managed := provider.MarksFromLabels(o.Labels)
		out = append(out, providertest.Thing{Kind: kind, ID: o.Name, Name: o.Name, Marks: m, Managed: managed})
	}
	return out
}

func (b *Backend) serverID(tb testing.TB, name string) int64 {
	tb.Helper()
	servers := b.Servers(Project)
	i := slices.IndexFunc(servers, func(s hetznersim.Server) bool { return s.Name == name })
	if i < 0 {
		tb.Fatalf("no server is named %s", name)
	}
	return servers[i].ID
}

// Place implements the kit's hook.
func (b *Backend) Place(_ testing.TB, name string, marks provider.Marks, managed bool) {
	labels := marks.Labels()
	if !managed {
		labels = nil
	}
	b.PlaceServer(Project, name, labels)
}

// Vanish implements the kit's hook.
func (b *Backend) Vanish(_ testing.TB, name string) {
	for _, s := range b.Servers(Project) {
		if s.Name == name {
			b.RemoveServer(s.ID)
		}
	}
}

// Stop implements the kit's hook.
func (b *Backend) Stop(tb testing.TB, name string) {
	b.SetServerStatus(b.serverID(tb, name), "off")
}

// SetRawState implements the kit's hook.
func (b *Backend) SetRawState(tb testing.TB, name, raw string) {
	b.ShowStatus(b.serverID(tb, name), raw)
}

// UserData implements the kit's hook.
func (b *Backend) UserData(tb testing.TB, name string) []byte {
	data, _ := b.Sim.UserData(b.serverID(tb, name))
	return []byte(data)
}

// HoldBoot implements the kit's hook.
func (b *Backend) HoldBoot(testing.TB) func() { return b.Hold("start_server") }

// fault switches a fault on until the returned func is called.
func (b *Backend) fault(f hetznersim.Fault) func() {
	f.Times = -1
	id := b.AddFault(f)
	return func() { b.RemoveFault(id) }
}

// LoseCreateReply implements the kit's hook.
func (b *Backend) LoseCreateReply(testing.TB) {
	b.AddFault(hetznersim.Fault{Kind: hetznersim.FaultLoseAnswer, Method: "POST", Path: "/servers"})
}

// Hang implements the kit's hook.
func (b *Backend) Hang(testing.TB) func() {
	return b.fault(hetznersim.Fault{Kind: hetznersim.FaultHang})
}

// LagList implements the kit's hook.
func (b *Backend) LagList(_ testing.TB, d time.Duration) {
	b.fault(hetznersim.Fault{Kind: hetznersim.FaultLag, Delay: d, Path: "/servers"})
}

// PageSize implements the kit's hook.
func (b *Backend) PageSize(testing.TB) int { return 4 }

// BreakPage implements the kit's hook.
func (b *Backend) BreakPage(_ testing.TB, n int) func() {
	return b.fault(hetznersim.Fault{Kind: hetznersim.FaultError, Code: "server_error", Method: "GET", Path: "/servers",
		Query: map[string]string{"page": string(rune('0' + n))}})
}

// HideAddress implements the kit's hook.
func (b *Backend) HideAddress(_ testing.TB, name string) func() {
	return b.fault(hetznersim.Fault{Kind: hetznersim.FaultOmit, Object: name, Fields: []string{"public_net.ipv4", "public_net.ipv6", "private_net"}})
}

// SellOut implements the kit's hook.
func (b *Backend) SellOut(testing.TB) func() {
	return b.fault(hetznersim.Fault{Kind: hetznersim.FaultError, Code: "resource_unavailable", Method: "POST", Path: "/servers"})
}

// Inject implements the kit's hook.
func (b *Backend) Inject(tb testing.TB, f providertest.Fault) func() {
	answer := func(code string) hetznersim.Fault {
		return hetznersim.Fault{Kind: hetznersim.FaultError, Code: code, Message: strings.TrimSpace("injected " + f.Echo), Reset: f.RetryAfter}
	}
	onCreate := func(fault hetznersim.Fault) hetznersim.Fault {
		fault.Method, fault.Path = "POST", "/servers"
		return fault
	}
	faults := map[providertest.FaultKind]hetznersim.Fault{
		providertest.FaultUnauthorized: answer("unauthorized"),
		providertest.FaultForbidden:    answer("forbidden"),
		providertest.FaultNotFound:     onCreate(answer("not_found")),
		providertest.FaultConflict:     onCreate(answer("conflict")),
		providertest.FaultInvalid:      onCreate(answer("invalid_input")),
		providertest.FaultThrottled:    answer("rate_limit_exceeded"),
		providertest.FaultInternal:     answer("server_error"),
		providertest.FaultUnavailable:  answer("unavailable"),
		providertest.FaultTruncated:    {Kind: hetznersim.FaultTruncate},
		providertest.FaultQuota:        onCreate(answer("resource_limit_exceeded")),
	}
	fault, ok := faults[f.Kind]
	if !ok {
		tb.Fatalf("fault %q: the backend does not know it", f.Kind)
	}
	return b.fault(fault)
}
