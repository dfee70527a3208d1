package hetznersim_test

import (
	"encoding/base64"
	"encoding/binary"
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
)

func cidr(t *testing.T, text string) *net.IPNet {
	t.Helper()
	_, n, err := net.ParseCIDR(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// anywhere are the networks of all addresses.
func anywhere(t *testing.T) []net.IPNet {
	t.Helper()
	return []net.IPNet{*cidr(t, "0.0.0.0/0"), *cidr(t, "::/0")}
}

func TestNetworkLife(t *testing.T) {
	t.Parallel()
	b := newBench(t, hetznersim.Options{})
	n := ok[*hcloud.Network](b)(b.client.Network.Create(t.Context(), hcloud.NetworkCreateOpts{Name: "net", IPRange: cidr(t, "10.0.0.0/16"),
		Subnets: []hcloud.NetworkSubnet{{Type: hcloud.NetworkSubnetTypeCloud, IPRange: cidr(t, "10.0.1.0/24"), NetworkZone: hcloud.NetworkZoneEUCentral}}}))
	s := b.create("web", func(o *hcloud.ServerCreateOpts) {
		o.Networks = []*hcloud.Network{n}
		o.PublicNet = &hcloud.ServerCreatePublicNet{}
	}).Server
	b.settle()
	got := b.server(s.ID)
	if len(got.PrivateNet) != 1 || got.PrivateNet[0].IP.String() != "10.0.1.1" || got.PublicNet.IPv4.IP != nil {
		t.Errorf("server: private %+v, public %v", got.PrivateNet, got.PublicNet.IPv4.IP)
	}
	_, _, err := b.client.Server.AttachToNetwork(t.Context(), s, hcloud.ServerAttachToNetworkOpts{Network: n})
	wantCode(t, err, hcloud.ErrorCodeServerAlreadyAttached)

	route := hcloud.NetworkRoute{Destination: cidr(t, "0.0.0.0/0"), Gateway: net.ParseIP("10.0.1.1")}
	ok[*hcloud.Action](b)(b.client.Network.AddRoute(t.Context(), n, hcloud.NetworkAddRouteOpts{Route: route}))
	_, _, err = b.client.Network.AddRoute(t.Context(), n, hcloud.NetworkAddRouteOpts{Route: route})
	wantCode(t, err, hcloud.ErrorCodeConflict) // a change is under way
	b.settle()
	_, _, err = b.client.Network.AddRoute(t.Context(), n, hcloud.NetworkAddRouteOpts{Route: route})
	wantCode(t, err, hcloud.ErrorCodeInvalidInput) // there is one
	_, _, err = b.client.Network.AddRoute(t.Context(), n, hcloud.NetworkAddRouteOpts{Route: hcloud.NetworkRoute{Destination: cidr(t, "10.0.0.0/8"), Gateway: net.ParseIP("10.0.1.1")}})
	wantCode(t, err, hcloud.ErrorCodeInvalidInput)
	ok[*hcloud.Action](b)(b.client.Network.AddSubnet(t.Context(), n, hcloud.NetworkAddSubnetOpts{Subnet: hcloud.NetworkSubnet{Type: hcloud.NetworkSubnetTypeCloud, NetworkZone: hcloud.NetworkZoneUSEast}}))
	b.settle()
	ok[*hcloud.Action](b)(b.client.Network.ChangeIPRange(t.Context(), n, hcloud.NetworkChangeIPRangeOpts{IPRange: cidr(t, "10.0.0.0/15")}))
	b.settle()
	n = ok[*hcloud.Network](b)(b.client.Network.GetByID(t.Context(), n.ID))
	ranges := []string{n.IPRange.String()}
	for _, sub := range n.Subnets {
		ranges = append(ranges, sub.IPRange.String())
	}
	if diff := cmp.Diff([]string{"10.0.0.0/15", "10.0.1.0/24", "10.0.0.0/24"}, ranges); diff != "" || len(n.Routes) != 1 || len(n.Servers) != 1 {
		t.Errorf("network: routes %v, servers %v, ranges (-want +got)\n%s", n.Routes, n.Servers, diff)
	}
	_, _, err = b.client.Network.DeleteSubnet(t.Context(), n, hcloud.NetworkDeleteSubnetOpts{Subnet: n.Subnets[0]})
	wantCode(t, err, hcloud.ErrorCodeResourceInUse)
	ok[*hcloud.Action](b)(b.client.Network.DeleteSubnet(t.Context(), n, hcloud.NetworkDeleteSubnetOpts{Subnet: n.Subnets[1]}))
	b.settle()
	ok[*hcloud.Action](b)(b.client.Network.DeleteRoute(t.Context(), n, hcloud.NetworkDeleteRouteOpts{Route: route}))
	b.settle()
	ok[*hcloud.Action](b)(b.client.Server.DetachFromNetwork(t.Context(), s, hcloud.ServerDetachFromNetworkOpts{Network: n}))
	b.settle()
	ok[*hcloud.Action](b)(b.client.Server.AttachToNetwork(t.Context(), s, hcloud.ServerAttachToNetworkOpts{Network: n, IP: net.ParseIP("10.0.1.77")}))
	b.settle()
	ok[*hcloud.Action](b)(b.client.Server.ChangeAliasIPs(t.Context(), s, hcloud.ServerChangeAliasIPsOpts{Network: n, AliasIPs: []net.IP{net.ParseIP("10.0.1.78")}}))
	b.settle()
	if got := b.server(s.ID); got.PrivateNet[0].IP.String() != "10.0.1.77" || len(got.PrivateNet[0].Aliases) != 1 {
		t.Errorf("attached again: %+v", got.PrivateNet)
	}
	ok[*hcloud.Network](b)(b.client.Network.Update(t.Context(), n, hcloud.NetworkUpdateOpts{Name: "other", ExposeRoutesToVSwitch: hcloud.Ptr(true)}))
	ok[*hcloud.Action](b)(b.client.Network.ChangeProtection(t.Context(), n, hcloud.NetworkChangeProtectionOpts{Delete: hcloud.Ptr(true)}))
	_, err = b.client.Network.Delete(t.Context(), n)
	wantCode(t, err, hcloud.ErrorCodeProtected)
	ok[*hcloud.Action](b)(b.client.Network.ChangeProtection(t.Context(), n, hcloud.NetworkChangeProtectionOpts{Delete: hcloud.Ptr(false)}))
	if _, err = b.client.Network.Delete(t.Context(), n); err != nil {
		t.Error(err)
	}
	if got := b.server(s.ID); len(got.PrivateNet) != 0 {
		t.Errorf("network is deleted, server has %+v", got.PrivateNet)
	}
}

func TestFirewallLife(t *testing.T) {
	t.Parallel()
	b := newBench(t, hetznersim.Options{})
	rules := []hcloud.FirewallRule{{Direction: hcloud.FirewallRuleDirectionIn, Protocol: hcloud.FirewallRuleProtocolTCP, Port: hcloud.Ptr("3128"),
		SourceIPs: []net.IPNet{*cidr(t, "192.0.2.0/24"), *cidr(t, "2001:db8::/32")}, Description: hcloud.Ptr("proxy")}}
	made := ok[hcloud.FirewallCreateResult](b)(b.client.Firewall.Create(t.Context(), hcloud.FirewallCreateOpts{Name: "fw", Rules: rules, Labels: map[string]string{"a": "b"}}))
	fw := made.Firewall
	s := b.create("web", func(o *hcloud.ServerCreateOpts) {
		o.Firewalls = []*hcloud.ServerCreateFirewall{{Firewall: hcloud.Firewall{ID: fw.ID}}}
		o.Labels = map[string]string{"tier": "web"}
	}).Server
	if got := b.server(s.ID).PublicNet.Firewalls; len(got) != 1 || got[0].Status != hcloud.FirewallStatusPending {
		t.Errorf("at first: %+v", got)
	}
	b.settle()
	if got := b.server(s.ID).PublicNet.Firewalls; len(got) != 1 || got[0].Status != hcloud.FirewallStatusApplied {
		t.Errorf("later: %+v", got)
	}
	_, err := b.client.Firewall.Delete(t.Context(), fw)
	wantCode(t, err, hcloud.ErrorCodeResourceInUse)
	on := []hcloud.FirewallResource{{Type: hcloud.FirewallResourceTypeServer, Server: &hcloud.FirewallResourceServer{ID: s.ID}}}
	_, _, err = b.client.Firewall.ApplyResources(t.Context(), fw, on)
	wantCode(t, err, hcloud.ErrorCodeFirewallAlreadyApplied)
	ok[[]*hcloud.Action](b)(b.client.Firewall.SetRules(t.Context(), fw, hcloud.FirewallSetRulesOpts{Rules: append(rules, hcloud.FirewallRule{
		Direction: hcloud.FirewallRuleDirectionOut, Protocol: hcloud.FirewallRuleProtocolICMP, DestinationIPs: []net.IPNet{*cidr(t, "0.0.0.0/0")}})}))
	ok[[]*hcloud.Action](b)(b.client.Firewall.RemoveResources(t.Context(), fw, on))
	b.settle()
	got := ok[*hcloud.Firewall](b)(b.client.Firewall.GetByName(t.Context(), "fw"))
	if len(got.Rules) != 2 || len(got.AppliedTo) != 0 {
		t.Errorf("firewall: %+v", got)
	}
	web := []hcloud.FirewallResource{{Type: hcloud.FirewallResourceTypeLabelSelector, LabelSelector: &hcloud.FirewallResourceLabelSelector{Selector: "tier=web"}}}
	ok[[]*hcloud.Action](b)(b.client.Firewall.ApplyResources(t.Context(), fw, web))
	b.settle()
	got = ok[*hcloud.Firewall](b)(b.client.Firewall.GetByID(t.Context(), fw.ID))
	if len(got.AppliedTo) != 1 || len(got.AppliedTo[0].AppliedToResources) != 1 || len(b.server(s.ID).PublicNet.Firewalls) != 1 {
		t.Errorf("by selector: %+v", got.AppliedTo)
	}
	_, _, err = b.client.Firewall.RemoveResources(t.Context(), fw, on)
	wantCode(t, err, hcloud.ErrorCodeFirewallManagedByLabelSelector)
	ok[[]*hcloud.Action](b)(b.client.Firewall.RemoveResources(t.Context(), fw, web))
	ok[*hcloud.Firewall](b)(b.client.Firewall.Update(t.Context(), fw, hcloud.FirewallUpdateOpts{Name: "other"}))
	if _, err := b.client.Firewall.Delete(t.Context(), fw); err != nil {
		t.Error(err)
	}
	for name, body := range map[string]string{
		"host bits":     `{"name":"x","rules":[{"direction":"in","protocol":"tcp","port":"1","source_ips":["192.0.2.1/24"]}]}`,
		"no source":     `{"name":"x","rules":[{"direction":"in","protocol":"tcp","port":"1"}]}`,
		"no port":       `{"name":"x","rules":[{"direction":"in","protocol":"tcp","source_ips":["0.0.0.0/0"]}]}`,
		"port for icmp": `{"name":"x","rules":[{"direction":"in","protocol":"icmp","port":"1","source_ips":["0.0.0.0/0"]}]}`,
		"bad range":     `{"name":"x","rules":[{"direction":"in","protocol":"udp","port":"9-1","source_ips":["0.0.0.0/0"]}]}`,
		"direction":     `{"name":"x","rules":[{"direction":"up","protocol":"tcp","port":"1","source_ips":["0.0.0.0/0"]}]}`,
	} {
		if a := b.call("POST", "/firewalls", body); a.code != "invalid_input" {
			t.Errorf("%s: %d %s", name, a.status, a.code)
		}
	}
	if a := b.call("POST", "/firewalls", `{"name":"x","apply_to":[{"type":"server","server":{"id":9}}]}`); a.status != 422 || a.code != "firewall_resource_not_found" {
		t.Errorf("applied to nothing: %d %s", a.status, a.code)
	}
}

// publicKey is a key of no use that has the form of one.
func publicKey(seed byte) string {
	blob := binary.BigEndian.AppendUint32(nil, 11)
	blob = append(blob, "ssh-ed25519"...)
	blob = binary.BigEndian.AppendUint32(blob, 32)
	for range 32 {
		blob = append(blob, seed)
	}
	return "ssh-ed25519 " + base64.StdEncoding.EncodeToString(blob) + " someone@example.org"
}

func TestSSHKeys(t *testing.T) {
	t.Parallel()
	b := newBench(t, hetznersim.Options{})
	k := ok[*hcloud.SSHKey](b)(b.client.SSHKey.Create(t.Context(), hcloud.SSHKeyCreateOpts{Name: "k", PublicKey: publicKey(1), Labels: map[string]string{"a": "b"}}))
	if len(k.Fingerprint) != 47 {
		t.Errorf("fingerprint: %q", k.Fingerprint)
	}
	for name, tc := range map[string]struct {
		name, key string
		fields    []string
	}{"same name": {"k", publicKey(2), []string{"name"}}, "same key": {"l", publicKey(1), []string{"public_key"}}} {
		a := b.call("POST", "/ssh_keys", `{"name":"`+tc.name+`","public_key":"`+tc.key+`"}`)
		if a.status != 409 || cmp.Diff(tc.fields, a.fields) != "" {
			t.Errorf("%s: %d %s %v", name, a.status, a.code, a.fields)
		}
	}
	for _, bad := range []string{"", "x", "ssh-ed25519", "ssh-ed25519 !!!", "ssh-rsa " + publicKey(1)[12:], "ssh-dss AAAA"} {
		if a := b.call("POST", "/ssh_keys", `{"name":"l","public_key":"`+bad+`"}`); a.code != "invalid_input" {
			t.Errorf("key %q: %d %s", bad, a.status, a.code)
		}
	}
	if got := ok[*hcloud.SSHKey](b)(b.client.SSHKey.GetByFingerprint(t.Context(), k.Fingerprint)); got == nil || got.ID != k.ID {
		t.Errorf("by fingerprint: %v", got)
	}
	res := b.create("web", func(o *hcloud.ServerCreateOpts) { o.SSHKeys = []*hcloud.SSHKey{k} })
	if res.RootPassword != "" {
		t.Error("a server with a key has a root password")
	}
	if res := b.create("nokey"); res.RootPassword == "" {
		t.Error("a server without a key has no root password")
	}
	ok[*hcloud.SSHKey](b)(b.client.SSHKey.Update(t.Context(), k, hcloud.SSHKeyUpdateOpts{Name: "l"}))
	if _, err := b.client.SSHKey.Delete(t.Context(), k); err != nil {
		t.Error(err)
	}
}
