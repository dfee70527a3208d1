// Package openstacktest connects the OpenStack driver with its simulator for
// tests: the driver's own, and those of what is built on it.
package openstacktest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloud"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
	"github.com/tollgate-dev/tollgate/internal/provider/providertest"
)

// Region is the region of a simulated cloud that nothing else was said of.
const Region = "RegionOne"

// Backend is a simulated cloud with faults in front of it.
type Backend struct {
	*openstacksim.Sim
	*openstacksim.Faults
	URL string // of its identity service
}

// NewBackend runs a simulated cloud until the test ends.
func NewBackend(tb testing.TB, o openstacksim.Options) *Backend {
	tb.Helper()
	b := &Backend{Sim: openstacksim.New(o), Faults: &openstacksim.Faults{}}
	srv := httptest.NewServer(b.Faults.Wrap(b.Sim))
	tb.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	b.URL = srv.URL + "/identity/v3"
	return b
}

// Options are a configuration for the cloud, changed by change.
func (b *Backend) Options(change func(*openstack.Options)) openstack.Options {
	o := openstack.Options{
		Access: cloud.Access{Auth: cloud.Auth{URL: b.URL, Username: "demo", Project: "demo", Password: "cloud-password"}},
		Flavor: "m1.tiny", Image: "debian-13", Network: "private", SecurityGroups: []string{"default"}, Poll: 2 * time.Millisecond, PageSize: 4,
	}
	if change != nil {
		change(&o)
	}
	return o
}

// Open builds a provider over the cloud from cfg, whose Decode it replaces.
func (b *Backend) Open(tb testing.TB, cfg provider.Config, change func(*openstack.Options)) *openstack.Provider {
	tb.Helper()
	cfg.Decode = func(into any) error {
		*into.(*openstack.Options) = b.Options(change)
		return nil
	}
	p, err := openstack.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// Harness connects the conformance kit with the driver over the simulator.
func Harness(sim openstacksim.Options, change func(*openstack.Options)) providertest.Harness {
	return providertest.Harness{
		Profile:    openstack.Type().Profile,
		NewBackend: func(tb testing.TB) providertest.Backend { return NewBackend(tb, sim) },
		Open: func(tb testing.TB, b providertest.Backend, o providertest.OpenOptions) provider.Provider {
			return b.(*Backend).Open(tb, o.Config(), change)
		},
		Hooks:   append(Hooks(), providertest.HookSellOut),
		Checker: true, Companions: true,
		Placement:    provider.Placement{MachineType: "m1.small", Image: "cirros"},
		BadPlacement: provider.Placement{MachineType: "m1.gigantic", Image: "cirros"},
		Settle:       100 * time.Millisecond, Poll: 2 * time.Millisecond, Patience: 30 * time.Second, Prompt: 2 * time.Second,
	}
}

// Hooks are those that a simulated and a real cloud have.
func Hooks() []providertest.Hook {
	return []providertest.Hook{
		providertest.HookPlace, providertest.HookStop, providertest.HookLoseReply, providertest.HookHang, providertest.HookFaults,
		providertest.HookLag, providertest.HookPages, providertest.HookHoldBoot, providertest.HookHideAddress,
		providertest.HookRawState, providertest.HookUserData,
	}
}

// Label reads the description of a port or floating IP, as the driver writes it.
func Label(text string) (instance string, m provider.Marks, ok bool) {
	f := strings.Split(text, "/")
	if len(f) != 6 || f[0] != "tg1" {
		return "", provider.Marks{}, false
	}
	return f[1], provider.Marks{UID: f[2], Installation: f[3], Namespace: f[4], Proxy: f[5]}, true
}

// Things implements providertest.Backend.
func (b *Backend) Things(testing.TB) []providertest.Thing {
	var out []providertest.Thing
	for _, o := range b.Objects() {
		t := providertest.Thing{Kind: o.Kind, ID: o.ID, Name: o.Name}
		switch o.Kind {
		case "server":
			t.Kind = providertest.KindInstance
			t.Marks, t.Managed = provider.MarksFromLabels(o.Labels)
		case "volume":
			t.Marks, t.Managed = provider.MarksFromLabels(o.Labels)
		default:
			_, t.Marks, t.Managed = Label(o.Text)
		}
		if o.Kind == "port" && !t.Managed {
			continue // of a server that was placed, and a part of it
		}
		out = append(out, t)
	}
	return out
}

func (b *Backend) server(tb testing.TB, name string) openstacksim.Object {
	tb.Helper()
	for _, o := range b.Objects() {
		if o.Kind == "server" && o.Name == name {
			return o
		}
	}
	tb.Fatalf("no server is named %s", name)
	return openstacksim.Object{}
}

// Tags are what the driver's servers are tagged with.
func Tags(marks provider.Marks) []string { return openstack.Tags(marks) }

// Place implements the kit's hook.
func (b *Backend) Place(_ testing.TB, name string, marks provider.Marks, managed bool) {
	if !managed {
		b.PlaceServer(Region, name, nil, nil)
		return
	}
	b.PlaceServer(Region, name, marks.Labels(), Tags(marks))
}

// Vanish implements the kit's hook.
func (b *Backend) Vanish(_ testing.TB, name string) {
	for _, o := range b.Objects() {
		if o.Kind == "server" && o.Name == name {
			b.RemoveServer(o.ID)
		}
	}
}

// Stop implements the kit's hook.
func (b *Backend) Stop(tb testing.TB, name string) {
	if err := b.SetServer(b.server(tb, name).ID, "SHUTOFF", ""); err != nil {
		tb.Fatal(err)
	}
}

// UserData implements the kit's hook.
func (b *Backend) UserData(tb testing.TB, name string) []byte { return b.server(tb, name).UserData }

// HoldBoot implements the kit's hook.
func (b *Backend) HoldBoot(testing.TB) func() { return b.Hold() }

// SellOut implements the kit's hook.
func (b *Backend) SellOut(testing.TB) func() { return b.NoHost() }

// SetRawState implements the kit's hook.
func (b *Backend) SetRawState(_ testing.TB, name, raw string) { SetRawState(b.Faults, name, raw) }

// HideAddress implements the kit's hook.
func (b *Backend) HideAddress(_ testing.TB, name string) func() { return HideAddress(b.Faults, name) }

// LoseCreateReply implements the kit's hook.
func (b *Backend) LoseCreateReply(testing.TB) { LoseCreateReply(b.Faults) }

// Hang implements the kit's hook.
func (b *Backend) Hang(testing.TB) func() {
	return b.Add(openstacksim.Fault{Kind: openstacksim.FaultHang})
}

// LagList implements the kit's hook.
func (b *Backend) LagList(_ testing.TB, d time.Duration) { b.Lag(d) }

// PageSize implements the kit's hook.
func (b *Backend) PageSize(testing.TB) int { return 4 }

// BreakPage implements the kit's hook.
func (b *Backend) BreakPage(_ testing.TB, n int) func() { return BreakPage(b.Faults, n) }

// Inject implements the kit's hook.
func (b *Backend) Inject(tb testing.TB, f providertest.Fault) func() { return Inject(tb, b.Faults, f) }

// SetRawState makes answers call a server's state raw.
func SetRawState(f *openstacksim.Faults, name, raw string) {
	f.Edit(name, func(s map[string]any) { s["status"] = raw })
}

// HideAddress leaves a server's addresses out of answers.
func HideAddress(f *openstacksim.Faults, name string) func() {
	return f.Edit(name, func(s map[string]any) { s["addresses"] = map[string]any{} })
}

// LoseCreateReply loses the answer to the next create of a server.
func LoseCreateReply(f *openstacksim.Faults) {
	f.Add(openstacksim.Fault{Kind: openstacksim.FaultLoseAnswer, Method: http.MethodPost, Path: "/servers", Times: 1})
}

// BreakPage fails the n-th page of a listing of servers.
func BreakPage(f *openstacksim.Faults, n int) func() {
	return f.Add(openstacksim.Fault{Kind: openstacksim.FaultAnswer, Status: 500, Page: n,
		Message: "Unexpected API Error. Please report this at http://bugs.launchpad.net/nova/ and attach the Nova API log if possible."})
}

// Inject translates the kit's faults into the services' answers.
func Inject(tb testing.TB, f *openstacksim.Faults, k providertest.Fault) func() {
	tb.Helper()
	answer := func(status int, message string) openstacksim.Fault {
		return openstacksim.Fault{Kind: openstacksim.FaultAnswer, Status: status, Message: strings.TrimSpace(message + " " + k.Echo),
			RetryAfter: k.RetryAfter}
	}
	onCreate := func(status int, message string) openstacksim.Fault {
		x := answer(status, message)
		x.Method, x.Path = http.MethodPost, "/servers"
		return x
	}
	x, ok := map[providertest.FaultKind]openstacksim.Fault{
		providertest.FaultUnauthorized: answer(401, "The request you have made requires authentication."),
		providertest.FaultForbidden:    answer(403, "Policy doesn't allow it to be performed."),
		providertest.FaultNotFound:     onCreate(404, "The resource could not be found."),
		providertest.FaultConflict:     onCreate(409, "The request conflicts with something under way."),
		providertest.FaultInvalid:      onCreate(400, "Invalid input for field/attribute name."),
		providertest.FaultThrottled:    answer(429, "This request was rate-limited."),
		providertest.FaultInternal:     answer(500, "Unexpected API Error."),
		providertest.FaultUnavailable:  answer(503, "The server is currently unavailable. Please try again at a later time."),
		providertest.FaultTruncated:    {Kind: openstacksim.FaultTruncate},
		providertest.FaultQuota:        onCreate(403, "Quota exceeded for instances: Requested 1, but already used 10 of 10 instances"),
	}[k.Kind]
	if !ok {
		tb.Fatalf("fault %q: the backend does not know it", k.Kind)
	}
	return f.Add(x)
}
