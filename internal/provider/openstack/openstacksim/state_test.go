package openstacksim_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
)

// hosts is a backend that notes what runs where.
type hosts struct {
	next  netip.Addr
	taken []netip.Addr
	runs  map[string]netip.Addr
}

func newHosts() *hosts {
	return &hosts{next: netip.MustParseAddr("192.0.2.1"), runs: map[string]netip.Addr{}}
}

func (h *hosts) Address(context.Context) (netip.Addr, error) {
	for slices.Contains(h.taken, h.next) {
		h.next = h.next.Next()
	}
	h.taken = append(h.taken, h.next)
	return h.next, nil
}

func (h *hosts) Start(_ context.Context, id, _ string, a netip.Addr) error {
	h.runs[id] = a
	return nil
}
func (h *hosts) Stop(_ context.Context, id string, _ netip.Addr) error {
	delete(h.runs, id)
	return nil
}
func (h *hosts) Keep(a netip.Addr) { h.taken = append(h.taken, a) }
func (h *hosts) Release(a netip.Addr) {
	h.taken = slices.DeleteFunc(h.taken, func(o netip.Addr) bool { return o == a })
}

// Whatever a cloud was at goes on after a restart, and everything is told of as it
// was before.
func TestStateIsKept(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "state.json")
	k := start()
	var back *hosts
	open := func() *cloud {
		t.Helper()
		back = newHosts()
		sim, err := openstacksim.Open(openstacksim.Options{StateFile: file, Now: k.now, TokenLife: 1000 * time.Hour, BuildTime: 10 * time.Second,
			DeleteTime: 10 * time.Second, ActionTime: 10 * time.Second, VolumeTime: 10 * time.Second, Backend: back, Projects: []string{"other"}})
		if err != nil {
			t.Fatal(err)
		}
		return cloudOf(t, sim)
	}
	c := open()
	small := c.id(base+"/compute/v2.1/flavors/detail", "flavors", "m1.small")
	running, gone, resizing, building := c.server(k, `,"metadata":{"a":"b"},"tags":["x"]`), c.server(k, ""), c.server(k, ""), ""
	c.do("DELETE", base+"/compute/v2.1/servers/"+gone, "")
	c.volume(k, "v")
	c.address("f")
	c.act(resizing, `{"resize":{"flavorRef":"`+small+`"}}`)
	_, made := c.do("POST", base+"/compute/v2.1/servers", c.order(""))
	building = text(made, "server", "id")
	look := func() string {
		var all []any
		for _, path := range []string{detail + "?changes-since=2026-01-01T00:00:00Z", volumes + "/detail", floating, base + "/network/v2.0/ports",
			base + "/compute/v2.1/servers/" + gone + "/os-instance-actions", base + "/compute/v2.1/servers/" + resizing + "/os-instance-actions",
			base + "/compute/v2.1/flavors/detail", base + "/network/v2.0/networks"} {
			_, doc := c.do("GET", path, "")
			all = append(all, doc)
		}
		return fmt.Sprint(all...)
	}
	before, ran := look(), fmt.Sprint(back.runs)
	if len(back.runs) != 2 {
		t.Fatalf("running: %s", ran)
	}
	c = open()
	if fmt.Sprint(back.runs) != ran {
		t.Errorf("running: %v, before %s", back.runs, ran)
	}
	if after := look(); after != before {
		t.Errorf("after a restart: %s\nbefore: %s", after, before)
	}
	k.pass(10 * time.Second)
	if x := c.get(resizing); x["status"] != "VERIFY_RESIZE" || text(x, "flavor", "original_name") != "m1.small" {
		t.Errorf("resizing: %v", x)
	}
	if x := c.get(building); x["status"] != "ACTIVE" || back.runs[building] == back.runs[running] {
		t.Errorf("building: %v, at %v", x, back.runs)
	}
	c.act(resizing, `{"revertResize":null}`)
	k.pass(10 * time.Second)
	c = open()
	if x := c.get(resizing); text(x, "flavor", "original_name") != "m1.tiny" {
		t.Errorf("reverted: %v", x)
	}
}

func TestBrokenStateFile(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ content, want string }{
		"no JSON":        {"{", "unexpected end"},
		"another region": {`{"regions":[{"name":"Mars"}]}`, "region Mars"},
	} {
		file := filepath.Join(t.TempDir(), "state.json")
		if err := os.WriteFile(file, []byte(tc.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := openstacksim.Open(openstacksim.Options{StateFile: file}); err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
