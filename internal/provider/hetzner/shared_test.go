package hetzner_test

import (
	"strings"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner"
)

func TestNetworks(t *testing.T) {
	t.Parallel()
	private := func(o *hetzner.Options) {
		o.IPv4, o.IPv6, o.Firewall = "none", "none", hetzner.Firewall{}
		o.Networks = []hetzner.Network{{Name: "inside", Gateway: "10.1.0.2"}}
	}
	b := newBench(t, setup{config: private})
	_, err := b.p.Create(t.Context(), b.request())
	b.wantClass("no such network", err, provider.Permanent)
	if err == nil || !strings.Contains(err.Error(), `networks[0]: there is no network "inside"`) {
		t.Errorf("%v", err)
	}
	b.post("/networks", `{"name":"inside","ip_range":"10.1.0.0/16","subnets":[{"type":"cloud","ip_range":"10.1.0.0/24","network_zone":"us-east"}]}`)
	_, err = b.p.Create(t.Context(), b.request())
	b.wantClass("a network elsewhere", err, provider.Permanent)
	if err == nil || !strings.Contains(err.Error(), "no subnet in the network zone eu-central") {
		t.Errorf("%v", err)
	}
	if n := b.Count("POST /networks/{id}/actions/add_route"); n != 1 {
		t.Errorf("%d default routes were added, want 1", n)
	}
	again := b.open("acme", private)
	_, _ = again.Create(t.Context(), b.request())
	if n := b.Count("POST /networks/{id}/actions/add_route"); n != 1 {
		t.Errorf("%d default routes were added, want 1", n)
	}
	other := b.open("acme", func(o *hetzner.Options) { private(o); o.Networks[0].Gateway = "10.1.0.3" })
	_, err = other.Create(t.Context(), b.request())
	b.wantClass("another gateway", err, provider.Permanent)
	if err == nil || !strings.Contains(err.Error(), "has a default route through 10.1.0.2, not through 10.1.0.3") {
		t.Errorf("%v", err)
	}
}

func TestFirewallFollowsTheConfiguration(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{})
	b.create(b.request())
	b.open("acme", nil).List(t.Context(), provider.Selector{}) //nolint:errcheck // a second worker changes nothing
	changed := b.open("acme", func(o *hetzner.Options) {
		o.Firewall = hetzner.Firewall{AllowFrom: []string{"203.0.113.0/24"}, SSHFrom: []string{"203.0.113.9"}}
	})
	if _, err := changed.Create(t.Context(), b.request()); err != nil {
		t.Fatal(err)
	}
	if n := b.Count("POST /firewalls"); n != 1 {
		t.Errorf("%d firewalls were made, want 1", n)
	}
	if n := b.Count("POST /firewalls/{id}/actions/set_rules"); n != 1 {
		t.Errorf("rules were set %d times, want once", n)
	}
	again := b.open("acme", func(o *hetzner.Options) {
		o.Firewall = hetzner.Firewall{AllowFrom: []string{"203.0.113.0/24"}, SSHFrom: []string{"203.0.113.9"}}
	})
	if _, err := again.Create(t.Context(), b.request()); err != nil {
		t.Fatal(err)
	}
	if n := b.Count("POST /firewalls/{id}/actions/set_rules"); n != 1 {
		t.Errorf("rules that are right were set again")
	}
	// A port of its own has a firewall of its own; a foreign one is not taken.
	req := b.request()
	req.Port = 8080
	b.create(req)
	if n := b.kinds()["firewall"]; n != 2 {
		t.Errorf("%d firewalls, want 2", n)
	}
	b.post("/firewalls", `{"name":"tollgate-acme-cloud-9090"}`)
	req = b.request()
	req.Port = 9090
	_, err := b.p.Create(t.Context(), req)
	b.wantClass("a foreign firewall", err, provider.Conflict)
}

func TestNamedFirewalls(t *testing.T) {
	t.Parallel()
	config := func(o *hetzner.Options) { o.Firewalls, o.Firewall = []string{"base"}, hetzner.Firewall{} }
	b := newBench(t, setup{config: config})
	_, err := b.p.Create(t.Context(), b.request())
	b.wantClass("no such firewall", err, provider.Permanent)
	b.post("/firewalls", `{"name":"base"}`)
	in := b.running(b.request())
	if !strings.HasSuffix(string(in.ID), "/none") {
		t.Errorf("id %s", in.ID)
	}
	if err := b.p.Delete(t.Context(), in.ID); err != nil || b.kinds()["firewall"] != 1 {
		t.Errorf("%v; what is not ours is %v", err, b.kinds())
	}
}

const (
	keyA = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB ops"
	keyB = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIC ops"
)

func TestSSHKeysAreFoundByFingerprint(t *testing.T) {
	t.Parallel()
	with := func(key string) func(*hetzner.Options) {
		return func(o *hetzner.Options) { o.SSHKeys = []hetzner.SSHKey{{Name: "ops", PublicKey: key}} }
	}
	b := newBench(t, setup{config: with(keyA)})
	b.post("/ssh_keys", `{"name":"under another name","public_key":"`+keyA+`"}`)
	b.create(b.request())
	b.create(b.request())
	if n := b.kinds()["ssh_key"]; n != 1 || b.Count("GET /ssh_keys") != 1 {
		t.Errorf("%d keys after %d look-ups, want the one that was there, looked for once", n, b.Count("GET /ssh_keys"))
	}
	// A name that another key has is no obstacle.
	b.post("/ssh_keys", `{"name":"ops","public_key":"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMD x"}`)
	if _, err := b.open("acme", with(keyB)).Create(t.Context(), b.request()); err != nil {
		t.Fatal(err)
	}
	if n := b.kinds()["ssh_key"]; n != 3 {
		t.Errorf("%d keys, want 3", n)
	}
}
