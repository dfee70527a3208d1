package hetznersim_test

import (
	"testing"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
)

func TestPrimaryIPOfAServerGoesWithIt(t *testing.T) {
	t.Parallel()
	for keep, want := range map[bool]int{false: 0, true: 2} {
		b := newBench(t, hetznersim.Options{KeepAutoIPs: keep})
		s := b.create("web").Server
		b.settle()
		ip := ok[*hcloud.PrimaryIP](b)(b.client.PrimaryIP.GetByID(t.Context(), s.PublicNet.IPv4.ID))
		if ip.AutoDelete == keep || ip.AssigneeID != s.ID || ip.AssigneeType != "server" {
			t.Errorf("address of a server: %+v", ip)
		}
		ok[*hcloud.ServerDeleteResult](b)(b.client.Server.DeleteWithResult(t.Context(), s))
		if got := b.sim.Leftovers(token)["primary_ips"]; got != 2 {
			t.Errorf("addresses while the server is deleted: %d, want 2", got)
		}
		b.settle()
		if got := b.sim.Leftovers(token)["primary_ips"]; got != want {
			t.Errorf("addresses after the delete: %d, want %d", got, want)
		}
	}
}

func TestPrimaryIPLife(t *testing.T) {
	t.Parallel()
	b := newBench(t, hetznersim.Options{})
	made := ok[*hcloud.PrimaryIPCreateResult](b)(b.client.PrimaryIP.Create(t.Context(), hcloud.PrimaryIPCreateOpts{Name: "egress",
		Type: hcloud.PrimaryIPTypeIPv4, Location: "fsn1", Labels: map[string]string{"a": "b"}, AutoDelete: hcloud.Ptr(false)}))
	ip := made.PrimaryIP
	if ip.AssigneeType != "unassigned" || ip.AssigneeID != 0 || ip.AutoDelete || made.Action != nil {
		t.Errorf("free address: %+v", ip)
	}
	for name, tc := range map[string]struct{ body, code string }{
		"taken name":       {`{"name":"egress","type":"ipv4","assignee_type":"server","location":"fsn1"}`, "uniqueness_error"},
		"no place":         {`{"name":"x","type":"ipv4","assignee_type":"server"}`, "invalid_input"},
		"wrong type":       {`{"name":"x","type":"ipv5","assignee_type":"server","location":"fsn1"}`, "invalid_input"},
		"no such assignee": {`{"name":"x","type":"ipv4","assignee_type":"server","assignee_id":5}`, "invalid_input"},
	} {
		if a := b.call("POST", "/primary_ips", tc.body); a.code != tc.code {
			t.Errorf("%s: %d %s, want %s", name, a.status, a.code, tc.code)
		}
	}
	with := func(v4, v6 *hcloud.PrimaryIP, loc string) error {
		_, _, err := b.client.Server.Create(t.Context(), hcloud.ServerCreateOpts{Name: "web", ServerType: &hcloud.ServerType{Name: "cx23"},
			Image: &hcloud.Image{Name: "debian-12"}, Location: &hcloud.Location{Name: loc},
			PublicNet: &hcloud.ServerCreatePublicNet{EnableIPv4: true, EnableIPv6: true, IPv4: v4, IPv6: v6}})
		return err
	}
	wantCode(t, with(nil, ip, "fsn1"), hcloud.ErrorCodePrimaryIPVersionMismatch)
	wantCode(t, with(ip, nil, "nbg1"), hcloud.ErrorCodePrimaryIPDatacenterMismatch)
	if err := with(ip, nil, "fsn1"); err != nil {
		t.Fatal(err)
	}
	b.settle()
	s := b.sim.Servers(token)[0]
	if s.IPv4 != ip.IP.String() {
		t.Errorf("server has address %s, want %s", s.IPv4, ip.IP)
	}
	wantCode(t, with(ip, nil, "fsn1"), hcloud.ErrorCodePrimaryIPAssigned)
	_, err := b.client.PrimaryIP.Delete(t.Context(), ip)
	wantCode(t, err, "must_be_unassigned")
	_, _, err = b.client.PrimaryIP.Unassign(t.Context(), ip.ID)
	wantCode(t, err, hcloud.ErrorCodeServerNotStopped)

	ok[*hcloud.Action](b)(b.client.Server.Poweroff(t.Context(), &hcloud.Server{ID: s.ID}))
	b.settle()
	a := ok[*hcloud.Action](b)(b.client.PrimaryIP.Unassign(t.Context(), ip.ID))
	if a.Command != "unassign_primary_ip" || len(a.Resources) != 2 {
		t.Errorf("unassign: %+v", a)
	}
	_, err = b.client.PrimaryIP.Delete(t.Context(), ip)
	wantCode(t, err, "must_be_unassigned") // the action has not ended
	b.settle()
	if got := b.server(s.ID); got.PublicNet.IPv4.IP != nil {
		t.Errorf("server still has %v", got.PublicNet.IPv4.IP)
	}
	ok[*hcloud.Action](b)(b.client.PrimaryIP.Assign(t.Context(), hcloud.PrimaryIPAssignOpts{ID: ip.ID, AssigneeID: s.ID, AssigneeType: "server"}))
	b.settle()
	_, _, err = b.client.PrimaryIP.Assign(t.Context(), hcloud.PrimaryIPAssignOpts{ID: ip.ID, AssigneeID: s.ID, AssigneeType: "server"})
	wantCode(t, err, hcloud.ErrorCodePrimaryIPAlreadyAssigned)
	ok[*hcloud.ServerDeleteResult](b)(b.client.Server.DeleteWithResult(t.Context(), &hcloud.Server{ID: s.ID}))
	b.settle()
	if got := ok[*hcloud.PrimaryIP](b)(b.client.PrimaryIP.GetByName(t.Context(), "egress")); got == nil || got.AssigneeID != 0 {
		t.Errorf("address that is kept: %+v", got)
	}
	ok[*hcloud.PrimaryIP](b)(b.client.PrimaryIP.Update(t.Context(), ip, hcloud.PrimaryIPUpdateOpts{AutoDelete: hcloud.Ptr(true), Labels: &map[string]string{"c": "d"}}))
	if _, err := b.client.PrimaryIP.Delete(t.Context(), ip); err != nil {
		t.Error(err)
	}
	if left := b.sim.Leftovers(token); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

func TestFloatingIPLife(t *testing.T) {
	t.Parallel()
	b := newBench(t, hetznersim.Options{})
	s := b.create("web").Server
	b.settle()
	made := ok[hcloud.FloatingIPCreateResult](b)(b.client.FloatingIP.Create(t.Context(), hcloud.FloatingIPCreateOpts{Type: hcloud.FloatingIPTypeIPv4,
		HomeLocation: &hcloud.Location{Name: "nbg1"}, Name: hcloud.Ptr("f"), Description: hcloud.Ptr("text"), Labels: map[string]string{"a": "b"}}))
	f := made.FloatingIP
	if f.HomeLocation.Name != "nbg1" || f.Description != "text" || f.Server != nil {
		t.Errorf("floating IP: %+v", f)
	}
	ok[*hcloud.Action](b)(b.client.FloatingIP.Assign(t.Context(), f, s))
	b.settle()
	if got := b.server(s.ID); len(got.PublicNet.FloatingIPs) != 1 || got.PublicNet.FloatingIPs[0].ID != f.ID {
		t.Errorf("server's floating IPs: %v", got.PublicNet.FloatingIPs)
	}
	_, _, err := b.client.FloatingIP.Assign(t.Context(), f, s)
	wantCode(t, err, "floating_ip_assigned")
	_, err = b.client.FloatingIP.Delete(t.Context(), f)
	wantCode(t, err, "must_be_unassigned")
	ok[*hcloud.Action](b)(b.client.FloatingIP.ChangeDNSPtr(t.Context(), f, f.IP.String(), hcloud.Ptr("x.example.org")))
	b.settle()
	if got := ok[*hcloud.FloatingIP](b)(b.client.FloatingIP.GetByID(t.Context(), f.ID)); got.DNSPtr[f.IP.String()] != "x.example.org" {
		t.Errorf("reverse name: %v", got.DNSPtr)
	}
	ok[*hcloud.FloatingIP](b)(b.client.FloatingIP.Update(t.Context(), f, hcloud.FloatingIPUpdateOpts{Name: "g", Description: "t"}))
	ok[*hcloud.Action](b)(b.client.FloatingIP.Unassign(t.Context(), f))
	b.settle()
	if _, err := b.client.FloatingIP.Delete(t.Context(), f); err != nil {
		t.Error(err)
	}
	six := ok[hcloud.FloatingIPCreateResult](b)(b.client.FloatingIP.Create(t.Context(), hcloud.FloatingIPCreateOpts{Type: hcloud.FloatingIPTypeIPv6, Server: s}))
	if six.Action == nil || six.FloatingIP.HomeLocation.Name != "fsn1" {
		t.Errorf("floating IP of a server: %+v", six)
	}
	b.settle()
	ok[*hcloud.ServerDeleteResult](b)(b.client.Server.DeleteWithResult(t.Context(), s))
	b.settle()
	if got := ok[*hcloud.FloatingIP](b)(b.client.FloatingIP.GetByID(t.Context(), six.FloatingIP.ID)); got.Server != nil {
		t.Errorf("floating IP after its server: %+v", got)
	}
}

func TestVolumeLife(t *testing.T) {
	t.Parallel()
	b := newBench(t, hetznersim.Options{})
	s := b.create("web").Server
	b.settle()
	made := ok[hcloud.VolumeCreateResult](b)(b.client.Volume.Create(t.Context(), hcloud.VolumeCreateOpts{Name: "data", Size: 10, Server: s,
		Format: hcloud.Ptr("ext4"), Labels: map[string]string{"a": "b"}}))
	v := made.Volume
	if v.Status != hcloud.VolumeStatusCreating || made.Action.Command != "create_volume" || len(made.NextActions) != 1 || made.NextActions[0].Command != "attach_volume" {
		t.Errorf("new volume: %+v", made)
	}
	b.settle()
	if got := b.server(s.ID); len(got.Volumes) != 1 {
		t.Errorf("server's volumes: %v", got.Volumes)
	}
	_, err := b.client.Volume.Delete(t.Context(), v)
	wantCode(t, err, hcloud.ErrorCodeResourceInUse)
	ok[*hcloud.Action](b)(b.client.Volume.Resize(t.Context(), v, 20))
	_, _, err = b.client.Volume.Detach(t.Context(), v)
	wantCode(t, err, hcloud.ErrorCodeLocked)
	b.settle()
	ok[*hcloud.Action](b)(b.client.Volume.Detach(t.Context(), v))
	b.settle()
	if got := ok[*hcloud.Volume](b)(b.client.Volume.GetByID(t.Context(), v.ID)); got.Size != 20 || got.Server != nil || *got.Format != "ext4" {
		t.Errorf("volume: %+v", got)
	}
	ok[*hcloud.Action](b)(b.client.Volume.Attach(t.Context(), v, s))
	b.settle()
	_, _, err = b.client.Volume.Attach(t.Context(), v, s)
	wantCode(t, err, hcloud.ErrorCodeVolumeAlreadyAttached)
	ok[*hcloud.ServerDeleteResult](b)(b.client.Server.DeleteWithResult(t.Context(), s))
	b.settle()
	if left := b.sim.Leftovers(token); left["volumes"] != 1 {
		t.Errorf("a volume outlives its server: %v", left)
	}
	ok[*hcloud.Volume](b)(b.client.Volume.Update(t.Context(), v, hcloud.VolumeUpdateOpts{Name: "other"}))
	if resp, err := b.client.Volume.Delete(t.Context(), v); err != nil || resp.StatusCode != 204 {
		t.Errorf("delete: %v", err)
	}
	b.sim.SellOut("fsn1", "volume", false)
	for name, tc := range map[string]struct{ body, code string }{
		"full":      {`{"name":"x","size":10,"location":"fsn1"}`, "no_space_left_in_location"},
		"too small": {`{"name":"x","size":9,"location":"fsn1"}`, "invalid_input"},
		"no place":  {`{"name":"x","size":10}`, "invalid_input"},
	} {
		if a := b.call("POST", "/volumes", tc.body); a.code != tc.code {
			t.Errorf("%s: %d %s, want %s", name, a.status, a.code, tc.code)
		}
	}
}
