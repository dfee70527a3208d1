package hetznersim_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
)

func TestServerLife(t *testing.T) {
	t.Parallel()
	b := newBench(t, hetznersim.Options{Timing: hetznersim.Timing{Init: 4 * time.Second, Gap: time.Second, Start: 4 * time.Second, Delete: 3 * time.Second}})
	res := b.create("web", func(o *hcloud.ServerCreateOpts) { o.Labels = map[string]string{"k": "v"} })
	if res.Action.Command != "create_server" || len(res.NextActions) != 1 || res.NextActions[0].Command != "start_server" {
		t.Errorf("actions: %+v, next %+v", res.Action, res.NextActions)
	}
	id := res.Server.ID
	type look struct {
		Status hcloud.ServerStatus
		Locked bool
	}
	for _, step := range []struct {
		wait time.Duration
		want look
	}{
		{0, look{hcloud.ServerStatusInitializing, true}},
		{4 * time.Second, look{hcloud.ServerStatusOff, true}},
		{time.Second, look{hcloud.ServerStatusStarting, true}},
		{4 * time.Second, look{hcloud.ServerStatusRunning, false}},
	} {
		b.clock.Advance(step.wait)
		s := b.server(id)
		if diff := cmp.Diff(step.want, look{s.Status, s.Locked}); diff != "" {
			t.Errorf("after %v more: (-want +got)\n%s", step.wait, diff)
		}
	}
	s := b.server(id)
	if s.PublicNet.IPv4.IP == nil || s.PublicNet.IPv6.Network == nil || !s.Created.Equal(epoch) || s.Labels["k"] != "v" || s.Location.Name != "fsn1" {
		t.Errorf("running server: %+v", s)
	}

	del, _, err := b.client.Server.DeleteWithResult(t.Context(), s)
	if err != nil || del.Action.Command != "delete_server" {
		t.Fatalf("delete: %+v, %v", del, err)
	}
	if s := b.server(id); s == nil || s.Status != hcloud.ServerStatusDeleting || s.PublicNet.IPv4.IP == nil {
		t.Errorf("while it is deleted: %+v", s)
	}
	_, _, err = b.client.Server.DeleteWithResult(t.Context(), s)
	wantCode(t, err, hcloud.ErrorCodeNotFound)
	if a := b.call("POST", "/servers", `{"name":"web","server_type":"cx23","image":"debian-12"}`); a.code != "uniqueness_error" {
		t.Errorf("name of a server that is being deleted: %d %s", a.status, a.code)
	}
	b.clock.Advance(3 * time.Second)
	if s := b.server(id); s != nil {
		t.Errorf("after the delete: %+v", s)
	}
	if left := b.sim.Leftovers(token); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
	// The actions of a server outlive it.
	got := map[string]hcloud.ActionStatus{}
	actions, err := b.client.Server.Action.All(t.Context(), hcloud.ActionListOpts{})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range actions {
		got[a.Command] = a.Status
	}
	want := map[string]hcloud.ActionStatus{"create_server": "success", "start_server": "success", "delete_server": "success"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("actions (-want +got)\n%s", diff)
	}
}

func TestLockedWhileAnActionRuns(t *testing.T) {
	t.Parallel()
	b := newBench(t, hetznersim.Options{})
	s := b.create("web").Server
	_, _, err := b.client.Server.DeleteWithResult(t.Context(), s)
	wantCode(t, err, hcloud.ErrorCodeLocked)
	_, _, err = b.client.Server.Poweroff(t.Context(), s)
	wantCode(t, err, hcloud.ErrorCodeLocked)
	b.settle()
	if _, _, err := b.client.Server.Poweroff(t.Context(), s); err != nil {
		t.Error(err)
	}
}

func TestPowerActions(t *testing.T) {
	t.Parallel()
	b := newBench(t, hetznersim.Options{})
	s := b.create("web").Server
	b.settle()
	for _, step := range []struct {
		name    string
		do      func() (*hcloud.Action, *hcloud.Response, error)
		command string
		during  hcloud.ServerStatus
		after   hcloud.ServerStatus
	}{
		{"reboot", func() (*hcloud.Action, *hcloud.Response, error) { return b.client.Server.Reboot(t.Context(), s) },
			"reboot_server", hcloud.ServerStatusStarting, hcloud.ServerStatusRunning},
		{"shutdown", func() (*hcloud.Action, *hcloud.Response, error) { return b.client.Server.Shutdown(t.Context(), s) },
			"shutdown_server", hcloud.ServerStatusRunning, hcloud.ServerStatusOff},
		{"poweron", func() (*hcloud.Action, *hcloud.Response, error) { return b.client.Server.Poweron(t.Context(), s) },
			"start_server", hcloud.ServerStatusStarting, hcloud.ServerStatusRunning},
		{"poweroff", func() (*hcloud.Action, *hcloud.Response, error) { return b.client.Server.Poweroff(t.Context(), s) },
			"stop_server", hcloud.ServerStatusStopping, hcloud.ServerStatusOff},
		{"change_type", func() (*hcloud.Action, *hcloud.Response, error) {
			return b.client.Server.ChangeType(t.Context(), s, hcloud.ServerChangeTypeOpts{ServerType: &hcloud.ServerType{Name: "cx33"}, UpgradeDisk: true})
		}, "change_server_type", hcloud.ServerStatusMigrating, hcloud.ServerStatusOff},
		{"rebuild", func() (*hcloud.Action, *hcloud.Response, error) {
			r, resp, err := b.client.Server.RebuildWithResult(t.Context(), s, hcloud.ServerRebuildOpts{Image: &hcloud.Image{Name: "debian-13"}})
			return r.Action, resp, err
		}, "rebuild_server", hcloud.ServerStatusRebuilding, hcloud.ServerStatusRunning},
	} {
		a, _, err := step.do()
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if a.Command != step.command {
			t.Errorf("%s: command %s, want %s", step.name, a.Command, step.command)
		}
		if got := b.server(s.ID).Status; got != step.during {
			t.Errorf("%s: status %s meanwhile, want %s", step.name, got, step.during)
		}
		b.settle()
		b.settle()
		if got := b.server(s.ID).Status; got != step.after {
			t.Errorf("%s: status %s after, want %s", step.name, got, step.after)
		}
	}
	got := b.server(s.ID)
	if got.ServerType.Name != "cx33" || got.PrimaryDiskSize != 80 || got.Image.Name != "debian-13" {
		t.Errorf("after all: type %s, disk %d, image %s", got.ServerType.Name, got.PrimaryDiskSize, got.Image.Name)
	}
}

func TestUserDataIsKeptByteForByte(t *testing.T) {
	t.Parallel()
	b := newBench(t, hetznersim.Options{})
	for name, data := range map[string]string{
		"plain":  "#cloud-config\nruncmd: [true]\n",
		"base64": "abcd",
		"odd":    "\u2028 <>&\" \t \U0001F680 \r\n end",
		"most":   strings.Repeat("x", hetznersim.MaxUserData),
	} {
		s := b.create(name, func(o *hcloud.ServerCreateOpts) { o.UserData = data }).Server
		if got, found := b.sim.UserData(s.ID); !found || got != data {
			t.Errorf("%s: stored %d bytes, want %d", name, len(got), len(data))
		}
	}
	_, _, err := b.client.Server.Create(t.Context(), hcloud.ServerCreateOpts{Name: "more", ServerType: &hcloud.ServerType{Name: "cx23"},
		Image: &hcloud.Image{Name: "debian-12"}, UserData: strings.Repeat("x", hetznersim.MaxUserData+1)})
	wantCode(t, err, hcloud.ErrorCodeInvalidInput)
}

func TestServerRequestsAreChecked(t *testing.T) {
	t.Parallel()
	b := newBench(t, hetznersim.Options{})
	b.sim.SellOut("nbg1", "cx23", false)
	b.sim.SellOut("hel1", "cx23", true)
	b.sim.SetLimit(token, "primary_ips", 2)
	for name, tc := range map[string]struct {
		body   string
		status int
		code   string
		fields []string
	}{
		"no JSON":           {`{`, 400, "json_error", nil},
		"trailing data":     {`{"name":"a","server_type":"cx23","image":"debian-12"} x`, 400, "json_error", nil},
		"empty":             {`{}`, 422, "invalid_input", []string{"name", "server_type", "image"}},
		"unknown field":     {`{"name":"a","server_type":"cx23","image":"debian-12","datacenter":"fsn1-dc14"}`, 422, "invalid_input", []string{"datacenter"}},
		"wrong type":        {`{"name":1,"server_type":"cx23","image":"debian-12"}`, 422, "invalid_input", []string{"name"}},
		"bad name":          {`{"name":"a_b","server_type":"cx23","image":"debian-12"}`, 422, "invalid_input", []string{"name"}},
		"bad label":         {`{"name":"a","server_type":"cx23","image":"debian-12","labels":{"hetzner.cloud/x":"y"}}`, 422, "invalid_input", []string{"labels"}},
		"no such type":      {`{"name":"a","server_type":"cx1","image":"debian-12"}`, 422, "invalid_input", []string{"server_type"}},
		"no such image":     {`{"name":"a","server_type":"cx23","image":"plan9"}`, 422, "invalid_input", []string{"image"}},
		"wrong arch by id":  {`{"name":"a","server_type":"cax11","image":"114690387"}`, 422, "invalid_input", []string{"image"}},
		"no such location":  {`{"name":"a","server_type":"cx23","image":"debian-12","location":"mars1"}`, 422, "invalid_input", []string{"location"}},
		"not sold there":    {`{"name":"a","server_type":"cx23","image":"debian-12","location":"ash"}`, 422, "invalid_input", []string{"server_type"}},
		"deprecated":        {`{"name":"a","server_type":"cx22","image":"debian-12","location":"fsn1"}`, 422, "invalid_input", []string{"server_type"}},
		"sold out":          {`{"name":"a","server_type":"cx23","image":"debian-12","location":"nbg1"}`, 412, "resource_unavailable", nil},
		"sold out, hidden":  {`{"name":"a","server_type":"cx23","image":"debian-12","location":"hel1"}`, 412, "resource_unavailable", nil},
		"no network at all": {`{"name":"a","server_type":"cx23","image":"debian-12","public_net":{"enable_ipv4":false,"enable_ipv6":false}}`, 422, "invalid_input", []string{"public_net"}},
		"no such key":       {`{"name":"a","server_type":"cx23","image":"debian-12","ssh_keys":["k"]}`, 422, "invalid_input", []string{"ssh_keys"}},
		"no such parts":     {`{"name":"a","server_type":"cx23","image":"debian-12","volumes":[1],"networks":[2],"firewalls":[{"firewall":3}],"placement_group":4}`, 422, "invalid_input", []string{"volumes", "networks", "firewalls", "placement_group"}},
		"no such address":   {`{"name":"a","server_type":"cx23","image":"debian-12","location":"fsn1","public_net":{"ipv4":7}}`, 422, "invalid_input", []string{"public_net.ipv4"}},
	} {
		if a := b.call("POST", "/servers", tc.body); a.status != tc.status || a.code != tc.code || cmp.Diff(tc.fields, a.fields) != "" {
			t.Errorf("%s: %d %s %v, want %d %s %v", name, a.status, a.code, a.fields, tc.status, tc.code, tc.fields)
		}
	}
	if n := len(b.sim.Servers(token)); n != 0 {
		t.Errorf("refused creates made %d servers", n)
	}
	b.create("one")
	if a := b.call("POST", "/servers", `{"name":"two","server_type":"cx23","image":"debian-12"}`); a.status != 403 || a.code != "resource_limit_exceeded" {
		t.Errorf("over the limit of addresses: %d %s", a.status, a.code)
	}
	for path, want := range map[string]string{"/servers/1": "not_found", "/nothing": "not_found", "/servers/x": "not_found", "/servers?per_page=51": "invalid_input",
		"/servers?page=0": "invalid_input", "/servers?status=asleep": "invalid_input", "/servers?sort=colour": "invalid_input",
		"/servers?colour=red": "invalid_input", "/servers?label_selector=a%20b": "invalid_input", "/datacenters": "deprecated_api_endpoint"} {
		if a := b.call("GET", path, ""); a.code != want {
			t.Errorf("GET %s: %d %s, want %s", path, a.status, a.code, want)
		}
	}
	if a := b.call("PATCH", "/servers/1", ""); a.status != 405 || a.code != "method_not_allowed" {
		t.Errorf("PATCH: %d %s", a.status, a.code)
	}
}

func TestNamesAreUniqueInAProject(t *testing.T) {
	t.Parallel()
	b := newBench(t, hetznersim.Options{})
	first := b.create("web").Server
	other := b.create("other").Server
	if a := b.call("POST", "/servers", `{"name":"web","server_type":"cx23","image":"debian-12"}`); a.status != 409 || cmp.Diff([]string{"name"}, a.fields) != "" {
		t.Errorf("second server of the name: %d %s %v", a.status, a.code, a.fields)
	}
	_, _, err := b.client.Server.Update(t.Context(), other, hcloud.ServerUpdateOpts{Name: "web"})
	wantCode(t, err, hcloud.ErrorCodeUniquenessError)
	if _, _, err := b.client.Server.Update(t.Context(), first, hcloud.ServerUpdateOpts{Name: "web", Labels: map[string]string{"a": "b"}}); err != nil {
		t.Errorf("its own name: %v", err)
	}
	// Another project neither sees nor hinders it.
	foreign := b.clientFor("token-b")
	if s, _, err := foreign.Server.GetByID(t.Context(), first.ID); err != nil || s != nil {
		t.Errorf("from another project: %v, %v", s, err)
	}
	if _, _, err := foreign.Server.Create(t.Context(), hcloud.ServerCreateOpts{Name: "web", ServerType: &hcloud.ServerType{Name: "cx23"}, Image: &hcloud.Image{Name: "debian-12"}}); err != nil {
		t.Errorf("the same name in another project: %v", err)
	}
}

func TestServerWithoutStart(t *testing.T) {
	t.Parallel()
	b := newBench(t, hetznersim.Options{})
	res := b.create("cold", func(o *hcloud.ServerCreateOpts) { o.StartAfterCreate = hcloud.Ptr(false) })
	b.settle()
	if got := b.server(res.Server.ID).Status; got != hcloud.ServerStatusOff || len(res.NextActions) != 0 {
		t.Errorf("status %s, next actions %d", got, len(res.NextActions))
	}
}

func TestProtectionAndOtherServerActions(t *testing.T) {
	t.Parallel()
	b := newBench(t, hetznersim.Options{})
	s := b.create("web").Server
	b.settle()
	ok[*hcloud.Action](b)(b.client.Server.ChangeProtection(t.Context(), s, hcloud.ServerChangeProtectionOpts{Delete: hcloud.Ptr(true), Rebuild: hcloud.Ptr(true)}))
	_, _, err := b.client.Server.DeleteWithResult(t.Context(), s)
	wantCode(t, err, hcloud.ErrorCodeProtected)
	ok[*hcloud.Action](b)(b.client.Server.ChangeProtection(t.Context(), s, hcloud.ServerChangeProtectionOpts{Delete: hcloud.Ptr(false), Rebuild: hcloud.Ptr(false)}))
	for name, path := range map[string]string{"console": "request_console", "password": "reset_password", "rescue": "enable_rescue",
		"no rescue": "disable_rescue", "backup": "enable_backup"} {
		b.settle()
		if a := b.call("POST", fmt.Sprintf("/servers/%d/actions/%s", s.ID, path), map[bool]string{true: `{"type":"linux64"}`}[path == "enable_rescue"]); a.status != 201 {
			t.Errorf("%s: %d %s", name, a.status, a.code)
		}
	}
	b.settle()
	img := ok[hcloud.ServerCreateImageResult](b)(b.client.Server.CreateImage(t.Context(), s, &hcloud.ServerCreateImageOpts{Type: hcloud.ImageTypeSnapshot, Description: hcloud.Ptr("mine")}))
	if img.Image.Status != hcloud.ImageStatusCreating {
		t.Errorf("new image is %s", img.Image.Status)
	}
	b.settle()
	got := ok[*hcloud.Image](b)(b.client.Image.GetByID(t.Context(), img.Image.ID))
	if got.Status != hcloud.ImageStatusAvailable || got.Description != "mine" || got.CreatedFrom.ID != s.ID {
		t.Errorf("image: %+v", got)
	}
	ok[*hcloud.Image](b)(b.client.Image.Update(t.Context(), got, hcloud.ImageUpdateOpts{Description: hcloud.Ptr("yours"), Labels: map[string]string{"x": "y"}}))
	if _, err := b.client.Image.Delete(t.Context(), got); err != nil {
		t.Error(err)
	}
	if a := b.call("DELETE", "/images/114690387", ""); a.status != 403 {
		t.Errorf("deleting a system image: %d", a.status)
	}
	g := ok[hcloud.PlacementGroupCreateResult](b)(b.client.PlacementGroup.Create(t.Context(), hcloud.PlacementGroupCreateOpts{Name: "g", Type: hcloud.PlacementGroupTypeSpread}))
	_, _, err = b.client.Server.AddToPlacementGroup(t.Context(), s, g.PlacementGroup)
	wantCode(t, err, hcloud.ErrorCodeServerNotStopped)
	ok[*hcloud.Action](b)(b.client.Server.Poweroff(t.Context(), s))
	b.settle()
	ok[*hcloud.Action](b)(b.client.Server.AddToPlacementGroup(t.Context(), s, g.PlacementGroup))
	b.settle()
	if got := b.server(s.ID); got.PlacementGroup == nil || got.PlacementGroup.ID != g.PlacementGroup.ID {
		t.Errorf("placement group: %+v", got.PlacementGroup)
	}
	ok[*hcloud.Action](b)(b.client.Server.RemoveFromPlacementGroup(t.Context(), s))
	if _, err := b.client.PlacementGroup.Delete(t.Context(), g.PlacementGroup); err != nil {
		t.Error(err)
	}
}
