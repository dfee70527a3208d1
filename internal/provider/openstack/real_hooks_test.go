//go:build openstack

package openstack_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloudtest"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacktest"
	"github.com/tollgate-dev/tollgate/internal/provider/providertest"
)

// Place implements the kit's hook.
func (b *realBackend) Place(tb testing.TB, name string, marks provider.Marks, managed bool) {
	tb.Helper()
	var flavors struct{ Flavors []struct{ ID, Name string } }
	b.Do(tb, "GET", b.URLs["compute"]+"/flavors", nil, &flavors)
	s := map[string]any{"name": name, "imageRef": b.IDOf(tb, "images", b.URLs["image"]+"/v2/images?name=cirros"),
		"networks": []any{map[string]any{"uuid": b.IDOf(tb, "networks", b.URLs["network"]+"/v2.0/networks?name=shared")}}}
	for _, f := range flavors.Flavors {
		if f.Name == "m1.tiny" {
			s["flavorRef"] = f.ID
		}
	}
	if managed {
		s["metadata"], s["tags"] = marks.Labels(), openstacktest.Tags(marks)
	}
	b.Do(tb, "POST", b.URLs["compute"]+"/servers", map[string]any{"server": s}, nil)
	cloudtest.Until(tb, "the placed server runs", func() bool { return b.named(tb, name).Status == "ACTIVE" })
}

// Vanish implements the kit's hook.
func (b *realBackend) Vanish(tb testing.TB, name string) {
	tb.Helper()
	for _, s := range b.servers(tb) {
		if s.Name != name {
			continue
		}
		url := b.URLs["compute"] + "/servers/" + s.ID
		b.Do(tb, "DELETE", url, nil, nil)
		cloudtest.Until(tb, "the server is gone", func() bool { return !b.Do(tb, "GET", url, nil, nil) })
	}
}

// Stop implements the kit's hook.
func (b *realBackend) Stop(tb testing.TB, name string) {
	tb.Helper()
	b.Do(tb, "POST", b.URLs["compute"]+"/servers/"+b.named(tb, name).ID+"/action", map[string]any{"os-stop": nil}, nil)
	cloudtest.Until(tb, "the server is off", func() bool { return b.named(tb, name).Status == "SHUTOFF" })
}

// UserData implements the kit's hook.
func (b *realBackend) UserData(tb testing.TB, name string) []byte {
	tb.Helper()
	raw, err := base64.StdEncoding.DecodeString(b.named(tb, name).UserData)
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

// HoldBoot implements the kit's hook: the fake hypervisor waits for a file to go.
func (b *realBackend) HoldBoot(tb testing.TB) func() {
	tb.Helper()
	file := filepath.Join(b.State, "hold", b.Name)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		tb.Fatal(err)
	}
	b.Order(func(s map[string]any) { s["metadata"].(map[string]any)["fake_spawn_hold"] = b.Name })
	return func() {
		b.Order(nil)
		_ = os.Remove(file)
	}
}

// LoseCreateReply, SetRawState, HideAddress, Hang, LagList, PageSize, BreakPage
// and Inject implement the kit's hooks between the driver and the services.
func (b *realBackend) LoseCreateReply(testing.TB) { openstacktest.LoseCreateReply(b.Faults) }
func (b *realBackend) SetRawState(_ testing.TB, name, raw string) {
	openstacktest.SetRawState(b.Faults, name, raw)
}
func (b *realBackend) HideAddress(_ testing.TB, name string) func() {
	return openstacktest.HideAddress(b.Faults, name)
}
func (b *realBackend) Hang(testing.TB) func() {
	return b.Add(openstacksim.Fault{Kind: openstacksim.FaultHang})
}
func (b *realBackend) LagList(_ testing.TB, d time.Duration) { b.Lag(d) }
func (b *realBackend) PageSize(testing.TB) int               { return 4 }
func (b *realBackend) BreakPage(_ testing.TB, n int) func() {
	return openstacktest.BreakPage(b.Faults, n)
}
func (b *realBackend) Inject(tb testing.TB, f providertest.Fault) func() {
	return openstacktest.Inject(tb, b.Faults, f)
}
