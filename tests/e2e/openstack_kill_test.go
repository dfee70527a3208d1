//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/devserver/simcloud"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacktest"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// TestOpenStackKillMatrix kills the worker between any two steps of a create: the
// cloud has made the port, the volume or the server, and the answer never
// arrives. Names are not unique there, and still each proxy ends with one of each.
func TestOpenStackKillMatrix(t *testing.T) {
	const each = 4
	machines := simcloud.NewOpenStackMachines(netip.MustParsePrefix("127.82.0.0/16"), slog.New(slog.DiscardHandler))
	t.Cleanup(machines.Close)
	cloud := openstacktest.NewBackend(t, openstacksim.Options{Backend: machines})
	w := newWorld(t, settings{
		extra: "  cloud: {env: E2E_CLOUD_PASSWORD}",
		env:   []string{"E2E_CLOUD_PASSWORD=a-password"},
		providers: fmt.Sprintf(`
  - name: cloud
    type: openstack
    drift: {interval: 5s}
    openstack:
      auth: {url: %s, username: demo, project: demo, password: cloud}
      flavor: m1.tiny
      image: debian-13
      network: private
      volume: {sizeGB: 1}
      poll: 50ms`, cloud.URL),
	})
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()

	var names []string
	for _, step := range []string{"/ports", "/volumes", "/servers"} {
		hold := cloud.Add(openstacksim.Fault{Kind: openstacksim.FaultHoldAnswer, Method: "POST", Path: step})
		made := kinds(cloud)[step]
		for range each {
			name := fmt.Sprintf("lost-%d", len(names))
			names = append(names, name)
			w.start(ctx, name, func(s *api.ProxySpec) { s.Provider = "cloud" })
		}
		w.eventually(time.Minute, func() string {
			if now := kinds(cloud)[step]; now != made+each {
				return fmt.Sprintf("the cloud has %d of %s, want %d", now, step, made+each)
			}
			return ""
		})
		w.killWorker()
		hold() // nobody is there to hear it
		w.startWorker()
		for _, n := range names {
			w.waitFor(n, 2*time.Minute, "running", running)
		}
	}
	want := map[string]int{"/ports": len(names), "/volumes": len(names), "/servers": len(names)}
	if got := kinds(cloud); !maps.Equal(got, want) {
		t.Errorf("the cloud has %v, want %v", got, want)
	}
	byName := map[string]int{}
	for _, o := range cloud.Objects() {
		if o.Kind == "server" {
			byName[o.Name]++
		}
	}
	for _, n := range names {
		p, err := w.status(ctx, n)
		if err != nil {
			t.Fatal(err)
		}
		if byName[p.Status.InstanceName] != 1 || p.Status.Replacements != 0 {
			t.Errorf("%s: %d servers of its name, %d replacements", n, byName[p.Status.InstanceName], p.Status.Replacements)
		}
	}
	var deleted callers
	for _, n := range names {
		deleted.call(n, func() error { return w.delete(ctx, n) })
	}
	deleted.wantOneEach(t, names)
	w.eventually(30*time.Second, func() string {
		if left := cloud.Objects(); len(left) > 0 {
			return fmt.Sprintf("left: %v", left)
		}
		return ""
	})
}

// kinds counts what a cloud has, by the path that makes it.
func kinds(cloud *openstacktest.Backend) map[string]int {
	n := map[string]int{}
	for _, o := range cloud.Objects() {
		n[map[string]string{"port": "/ports", "volume": "/volumes", "server": "/servers"}[o.Kind]]++
	}
	return n
}
