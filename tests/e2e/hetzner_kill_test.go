//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/tollgate-dev/tollgate/internal/devserver/simcloud"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznertest"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// TestHetznerKillMatrix kills the worker at every 100 ms of a create whose
// answer is lost: the vendor makes the server at once and would answer later
// than anybody lives to hear. Each proxy ends with exactly one server, adopted.
func TestHetznerKillMatrix(t *testing.T) {
	const proxies, step = 22, 100 * time.Millisecond
	machines := simcloud.NewMachines(netip.MustParsePrefix("127.79.0.0/16"), slog.New(slog.DiscardHandler))
	t.Cleanup(machines.Close)
	cloud := hetznertest.NewBackend(t, func(o *hetznersim.Options) { o.Backend = machines })
	w := newWorld(t, settings{
		extra: "  hcloud: {env: E2E_HCLOUD_TOKEN}",
		env:   []string{"E2E_HCLOUD_TOKEN=a-token"},
		providers: fmt.Sprintf(`
  - name: cloud
    type: hetzner
    drift: {interval: 5s}
    hetzner:
      token: hcloud
      endpoint: %s
      image: debian-13
      candidates: [{location: nbg1, serverType: cx23}]
      firewall: {allowFrom: [192.0.2.0/24]}
      poll: 50ms`, cloud.URL),
	})
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cloud.AddFault(hetznersim.Fault{Kind: hetznersim.FaultDelayAnswer, Method: "POST", Path: "/servers", Times: -1, Delay: proxies * step * 2})

	var names []string
	for i := range proxies {
		name := fmt.Sprintf("lost-%d", i)
		names = append(names, name)
		spec := api.ProxySpec{Provider: "cloud", Placement: provider.Placement{}}
		if _, err := w.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: workflows.ProxyID("default", name), TaskQueue: workflows.TaskQueue},
			workflows.TypeProxy, api.ProxyInput{Spec: spec}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(step) // the distance between the points of the matrix
	}
	w.killWorker()
	made := len(cloud.Servers(hetznertest.Project))
	if made == 0 {
		t.Fatal("no server was made before the worker died: nothing is tested")
	}
	cloud.ClearFaults()
	w.startWorker()
	for _, n := range names {
		w.waitFor(n, 2*time.Minute, "running", running)
	}
	byName := map[string]int{}
	for _, s := range cloud.Servers(hetznertest.Project) {
		byName[s.Name]++
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
	if len(byName) != proxies {
		t.Errorf("%d servers for %d proxies", len(byName), proxies)
	}
	t.Logf("%d of %d creates were under way, with their servers made, when the worker died", made, proxies)

	var deleted callers
	for _, n := range names {
		deleted.call(n, func() error { return w.delete(ctx, n) })
	}
	deleted.wantOneEach(t, names)
	w.eventually(30*time.Second, func() string {
		if left := cloud.Leftovers(hetznertest.Project); len(left) > 0 {
			return fmt.Sprintf("left: %v", left)
		}
		return ""
	})
}
