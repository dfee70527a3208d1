package hetznersim_test

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
)

// fakeBackend remembers what it was told.
type fakeBackend struct {
	mu      sync.Mutex
	next    byte
	running map[string]netip.Addr
	ports   map[string][]string
	fail    error
}

func (f *fakeBackend) Address(context.Context, hetznersim.Machine) (netip.Addr, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == 3 {
		return netip.Addr{}, errors.New("no more addresses")
	}
	f.next++
	return netip.AddrFrom4([4]byte{127, 9, 0, f.next}), nil
}

func (f *fakeBackend) Start(_ context.Context, m hetznersim.Machine) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return f.fail
	}
	f.running[m.Name], f.ports[m.Name] = m.Address, m.OpenTCP
	return nil
}

func (f *fakeBackend) Stop(_ context.Context, m hetznersim.Machine) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.running, m.Name)
	return nil
}

func (f *fakeBackend) state() map[string]netip.Addr {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string]netip.Addr{}
	for k, v := range f.running {
		out[k] = v
	}
	return out
}

func TestBackend(t *testing.T) {
	t.Parallel()
	fake := &fakeBackend{running: map[string]netip.Addr{}, ports: map[string][]string{}}
	b := newBench(t, hetznersim.Options{Backend: fake})
	fw := ok[hcloud.FirewallCreateResult](b)(b.client.Firewall.Create(t.Context(), hcloud.FirewallCreateOpts{Name: "fw",
		Rules: []hcloud.FirewallRule{{Direction: hcloud.FirewallRuleDirectionIn, Protocol: hcloud.FirewallRuleProtocolTCP, Port: hcloud.Ptr("3128"), SourceIPs: anywhere(t)}}})).Firewall
	s := b.create("one", func(o *hcloud.ServerCreateOpts) {
		o.Firewalls = []*hcloud.ServerCreateFirewall{{Firewall: *fw}}
	}).Server
	if got := s.PublicNet.IPv4.IP.String(); got != "127.9.0.1" {
		t.Errorf("address %s, want the backend's", got)
	}
	if len(fake.state()) != 0 {
		t.Error("it runs before its start action has ended")
	}
	b.settle()
	b.sim.Advance()
	if diff := cmp.Diff(map[string]netip.Addr{"one": netip.MustParseAddr("127.9.0.1")}, fake.state(), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("running (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"3128"}, fake.ports["one"]); diff != "" {
		t.Errorf("open ports (-want +got)\n%s", diff)
	}
	ok[*hcloud.Action](b)(b.client.Server.Poweroff(t.Context(), s))
	b.settle()
	b.sim.Advance()
	if len(fake.state()) != 0 {
		t.Error("it runs although it is off")
	}
	ok[*hcloud.Action](b)(b.client.Server.Poweron(t.Context(), s))
	b.settle()
	ok[*hcloud.ServerDeleteResult](b)(b.client.Server.DeleteWithResult(t.Context(), s))
	if len(fake.state()) != 0 {
		t.Error("it runs although it is being deleted")
	}
	fake.fail = errors.New("no such program")
	two := b.create("two").Server
	b.settle()
	if got := b.server(two.ID).Status; got != hcloud.ServerStatusOff {
		t.Errorf("a server that does not start is %s", got)
	}
	b.create("three")
	_, _, err := b.client.Server.Create(t.Context(), hcloud.ServerCreateOpts{Name: "four", ServerType: &hcloud.ServerType{Name: "cx23"}, Image: &hcloud.Image{Name: "debian-12"}})
	wantCode(t, err, hcloud.ErrorCodeResourceUnavailable)
}

func TestBackendStartsWithoutARequest(t *testing.T) {
	t.Parallel()
	fake := &fakeBackend{running: map[string]netip.Addr{}, ports: map[string][]string{}}
	sim := hetznersim.New(hetznersim.Options{Backend: fake, AnyToken: true, Timing: hetznersim.Uniform(10 * time.Millisecond)})
	t.Cleanup(func() { _ = sim.Close(context.WithoutCancel(t.Context())) })
	c := hcloud.NewClient(hcloud.WithToken(token), hcloud.WithHTTPClient(&http.Client{Transport: sim.Transport()}), hcloud.WithEndpoint("http://sim/v1"))
	if _, _, err := c.Server.Create(t.Context(), hcloud.ServerCreateOpts{Name: "one", ServerType: &hcloud.ServerType{Name: "cx23"}, Image: &hcloud.Image{Name: "debian-12"}}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); len(fake.state()) == 0; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it never started")
		}
	}
	if err := sim.Close(t.Context()); err != nil || len(fake.state()) != 0 {
		t.Errorf("after Close: %v, running %v", err, fake.state())
	}
}
