package hetznersim_test

import (
	"testing"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
)

func TestLoadBalancerLife(t *testing.T) {
	t.Parallel()
	b := newBench(t, hetznersim.Options{})
	s := b.create("web", func(o *hcloud.ServerCreateOpts) { o.Labels = map[string]string{"tier": "web"} }).Server
	b.settle()
	lb := ok[hcloud.LoadBalancerCreateResult](b)(b.client.LoadBalancer.Create(t.Context(), hcloud.LoadBalancerCreateOpts{Name: "lb",
		LoadBalancerType: &hcloud.LoadBalancerType{Name: "lb11"}, Location: &hcloud.Location{Name: "fsn1"}, Labels: map[string]string{"a": "b"}})).LoadBalancer
	_, _, err := b.client.LoadBalancer.AddServerTarget(t.Context(), lb, hcloud.LoadBalancerAddServerTargetOpts{Server: s})
	wantCode(t, err, hcloud.ErrorCodeLocked)
	b.settle()
	step := func(a *hcloud.Action, _ *hcloud.Response, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		b.settle()
	}
	c := &b.client.LoadBalancer
	step(c.AddServerTarget(t.Context(), lb, hcloud.LoadBalancerAddServerTargetOpts{Server: s}))
	_, _, err = c.AddServerTarget(t.Context(), lb, hcloud.LoadBalancerAddServerTargetOpts{Server: s})
	wantCode(t, err, hcloud.ErrorCodeTargetAlreadyDefined)
	step(c.AddLabelSelectorTarget(t.Context(), lb, hcloud.LoadBalancerAddLabelSelectorTargetOpts{Selector: "tier=web"}))
	step(c.AddService(t.Context(), lb, hcloud.LoadBalancerAddServiceOpts{Protocol: hcloud.LoadBalancerServiceProtocolTCP,
		ListenPort: hcloud.Ptr(8080), DestinationPort: hcloud.Ptr(80)}))
	_, _, err = c.AddService(t.Context(), lb, hcloud.LoadBalancerAddServiceOpts{Protocol: hcloud.LoadBalancerServiceProtocolTCP,
		ListenPort: hcloud.Ptr(8080), DestinationPort: hcloud.Ptr(80)})
	wantCode(t, err, hcloud.ErrorCodeSourcePortAlreadyUsed)
	step(c.AddService(t.Context(), lb, hcloud.LoadBalancerAddServiceOpts{Protocol: hcloud.LoadBalancerServiceProtocolHTTP}))
	step(c.UpdateService(t.Context(), lb, 8080, hcloud.LoadBalancerUpdateServiceOpts{DestinationPort: hcloud.Ptr(81)}))
	step(c.ChangeAlgorithm(t.Context(), lb, hcloud.LoadBalancerChangeAlgorithmOpts{Type: hcloud.LoadBalancerAlgorithmTypeLeastConnections}))
	step(c.ChangeType(t.Context(), lb, hcloud.LoadBalancerChangeTypeOpts{LoadBalancerType: &hcloud.LoadBalancerType{Name: "lb21"}}))
	_, _, err = c.DisablePublicInterface(t.Context(), lb)
	wantCode(t, err, hcloud.ErrorCodeLoadBalancerNotAttachedToNetwork)

	n := ok[*hcloud.Network](b)(b.client.Network.Create(t.Context(), hcloud.NetworkCreateOpts{Name: "net", IPRange: cidr(t, "10.0.0.0/16"),
		Subnets: []hcloud.NetworkSubnet{{Type: hcloud.NetworkSubnetTypeCloud, IPRange: cidr(t, "10.0.1.0/24"), NetworkZone: hcloud.NetworkZoneEUCentral}}}))
	step(c.AttachToNetwork(t.Context(), lb, hcloud.LoadBalancerAttachToNetworkOpts{Network: n}))
	_, _, err = c.AttachToNetwork(t.Context(), lb, hcloud.LoadBalancerAttachToNetworkOpts{Network: n})
	wantCode(t, err, hcloud.ErrorCodeLoadBalancerAlreadyAttached)
	_, _, err = c.DisablePublicInterface(t.Context(), lb)
	wantCode(t, err, hcloud.ErrorCodeTargetsWithoutUsePrivateIP)

	got := ok[*hcloud.LoadBalancer](b)(c.GetByID(t.Context(), lb.ID))
	if got.LoadBalancerType.Name != "lb21" || len(got.Targets) != 2 || len(got.Targets[1].Targets) != 1 || len(got.Services) != 2 ||
		got.Services[0].DestinationPort != 81 || got.Services[1].ListenPort != 80 || got.Algorithm.Type != hcloud.LoadBalancerAlgorithmTypeLeastConnections ||
		len(got.PrivateNet) != 1 || got.PublicNet.IPv4.IP == nil {
		t.Errorf("load balancer: %+v", got)
	}
	if lbs := b.server(s.ID).LoadBalancers; len(lbs) != 1 {
		t.Errorf("server's load balancers: %v", lbs)
	}
	step(c.RemoveServerTarget(t.Context(), lb, s))
	step(c.RemoveLabelSelectorTarget(t.Context(), lb, "tier=web"))
	step(c.DeleteService(t.Context(), lb, 8080))
	step(c.DisablePublicInterface(t.Context(), lb))
	step(c.EnablePublicInterface(t.Context(), lb))
	step(c.DetachFromNetwork(t.Context(), lb, hcloud.LoadBalancerDetachFromNetworkOpts{Network: n}))
	step(c.ChangeDNSPtr(t.Context(), lb, got.PublicNet.IPv4.IP.String(), hcloud.Ptr("lb.example.org")))
	ok[*hcloud.LoadBalancer](b)(c.Update(t.Context(), lb, hcloud.LoadBalancerUpdateOpts{Name: "other"}))

	del, _, err := c.DeleteWithResult(t.Context(), lb)
	if err != nil || del.Action == nil || del.Action.Command != "delete_load_balancer" {
		t.Fatalf("delete: %+v, %v", del, err)
	}
	if got := ok[*hcloud.LoadBalancer](b)(c.GetByID(t.Context(), lb.ID)); got == nil {
		t.Error("gone before its action has ended")
	}
	b.clock.Advance(time.Minute)
	if got := ok[*hcloud.LoadBalancer](b)(c.GetByID(t.Context(), lb.ID)); got != nil {
		t.Errorf("after the delete: %+v", got)
	}
	if left := b.sim.Leftovers(token); left["load_balancers"] != 0 || left["primary_ips"] != 2 {
		t.Errorf("left over: %v", left)
	}
}

func TestLoadBalancerWithAnAddressOfItsOwn(t *testing.T) {
	t.Parallel()
	b := newBench(t, hetznersim.Options{})
	ip := ok[*hcloud.PrimaryIPCreateResult](b)(b.client.PrimaryIP.Create(t.Context(), hcloud.PrimaryIPCreateOpts{Name: "egress",
		Type: hcloud.PrimaryIPTypeIPv4, Location: "fsn1"})).PrimaryIP
	lb := ok[hcloud.LoadBalancerCreateResult](b)(b.client.LoadBalancer.Create(t.Context(), hcloud.LoadBalancerCreateOpts{Name: "lb",
		LoadBalancerType: &hcloud.LoadBalancerType{Name: "lb11"}, Location: &hcloud.Location{Name: "fsn1"},
		PublicNet: &hcloud.LoadBalancerCreateOptsPublicNet{IPv4: ip}})).LoadBalancer
	b.settle()
	if got := ok[*hcloud.PrimaryIP](b)(b.client.PrimaryIP.GetByID(t.Context(), ip.ID)); got.AssigneeID != lb.ID || got.AssigneeType != "load_balancer" {
		t.Errorf("address: %+v", got)
	}
	_, err := b.client.PrimaryIP.Delete(t.Context(), ip)
	wantCode(t, err, "must_be_unassigned")
	if _, _, err := b.client.LoadBalancer.DeleteWithResult(t.Context(), lb); err != nil {
		t.Fatal(err)
	}
	b.settle()
	if got := ok[*hcloud.PrimaryIP](b)(b.client.PrimaryIP.GetByID(t.Context(), ip.ID)); got == nil || got.AssigneeID != 0 {
		t.Errorf("address after its load balancer: %+v", got)
	}
}
