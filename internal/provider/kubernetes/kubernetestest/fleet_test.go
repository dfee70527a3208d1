//go:build kubernetes

package kubernetestest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/tollgate-dev/tollgate/internal/app"
	"github.com/tollgate-dev/tollgate/internal/devserver/devservertest"
	"github.com/tollgate-dev/tollgate/internal/devserver/simcloud"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/kubernetes/kubernetestest"
	"github.com/tollgate-dev/tollgate/internal/temporalclient"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// logs keeps what the app logs.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) { l.mu.Lock(); defer l.mu.Unlock(); return l.b.Write(p) }
func (l *logs) String() string              { l.mu.Lock(); defer l.mu.Unlock(); return l.b.String() }

// startApp runs the whole of Tollgate with a configuration.
func startApp(t *testing.T, dir, config string) client.Client {
	t.Helper()
	engine := devservertest.Start(t)
	file := filepath.Join(dir, "tollgate.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	log := &logs{}
	a, err := app.New(ctx, app.Options{
		ConfigFile: file, StateDir: filepath.Join(dir, "state"), HTTPAddr: "127.0.0.1:0", MetricsAddr: "127.0.0.1:0",
		Temporal: temporalclient.Options{Isolated: true, Address: engine.HostPort()}, Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
		if t.Failed() {
			t.Logf("log of the app:\n%s", log)
		}
	})
	select {
	case <-a.Ready():
	case <-time.After(time.Minute):
		t.Fatal("the app is not ready")
	}
	return a.Connection().Client
}

// A fleet on a real API server, whose Pods are real proxies: what is evicted or
// removed behind Tollgate's back is replaced, and at the end nothing is left.
func TestRealFleet(t *testing.T) {
	c := cluster(t)
	machines := simcloud.NewMachines(netip.MustParsePrefix("127.81.0.0/16"), slog.New(slog.DiscardHandler))
	t.Cleanup(machines.Close)
	c.Runtime = simcloud.PodRuntime(machines)
	b := c.Backend(t)
	dir := t.TempDir()
	for name, text := range map[string]string{"token": "any-token", "conf": "acl all\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	temporal := startApp(t, dir, fmt.Sprintf(`installation: fleet
providers:
  - name: cluster
    type: kubernetes
    drift: {interval: 5s}
    kubernetes: {server: %q, token: token, namespace: %s, image: example.org/proxy, userData: {path: /etc/proxy/conf}, terminationGrace: 1s}
secrets: {token: {file: token}, conf: {file: conf}}
discovery: {token: token}
probe: {interval: 1s, timeout: 2s, unhealthyAfter: 2, target: %q, brake: {fraction: 0.9}}
`, b.URL, b.Namespace, strings.TrimPrefix(b.URL, "http://")))
	const n = 10
	id := func(i int) string { return workflows.ProxyID("default", fmt.Sprintf("p%d", i)) }
	status := func(i int) (st api.ProxyStatus) {
		v, err := temporal.QueryWorkflow(t.Context(), id(i), "", workflows.QueryStatus)
		var p api.Proxy
		if err == nil {
			err = v.Get(&p)
		}
		var gone *serviceerror.NotFound
		if err != nil && !errors.As(err, &gone) {
			t.Fatal(err)
		}
		return p.Status
	}
	for i := range n {
		if _, err := temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id(i), TaskQueue: workflows.TaskQueue}, workflows.TypeProxy,
			api.ProxyInput{Spec: api.ProxySpec{Provider: "cluster", CloudInit: &api.SecretSource{SecretRef: "conf"}}}); err != nil {
			t.Fatal(err)
		}
	}
	names := make([]string, n)
	await := func(i int) {
		kubernetestest.Eventually(t, id(i)+" runs", func() bool {
			st := status(i)
			runs := st.Phase == api.PhaseRunning && st.InstanceName != names[i]
			if runs {
				names[i] = st.InstanceName
			}
			return runs
		})
	}
	for i := range n {
		await(i)
	}
	if things := b.Things(t); len(things) != 2*n {
		t.Errorf("%d things, want %d Pods and as many Secrets", len(things), n)
	}
	b.Stop(t, names[0])
	b.Vanish(t, names[1])
	b.Stop(t, names[2])
	for i := range 3 {
		await(i)
	}
	for i := range n {
		if err := temporal.SignalWorkflow(t.Context(), id(i), "", workflows.SignalDelete, nil); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		if err := temporal.GetWorkflow(t.Context(), id(i), "").Get(t.Context(), nil); err != nil {
			t.Errorf("%s ended with %v", id(i), err)
		}
	}
	var left []string
	kubernetestest.Eventually(t, "nothing is left but what a sweep collects", func() bool {
		left = nil
		for _, th := range b.Things(t) {
			left = append(left, th.ID)
		}
		// The Secret of a Pod that vanished is nobody's until a sweep, or the
		// cluster's garbage collector, which does not run here.
		return len(left) == 0 || len(left) == 1 && strings.HasPrefix(left[0], "secrets/")
	})
	p := b.Provider(t, nil)
	companions, err := p.ListCompanions(t.Context(), provider.Selector{Installation: "fleet"})
	if err != nil || len(companions) != len(left) {
		t.Errorf("companions %+v, %v; left are %q", companions, err, left)
	}
	for _, comp := range companions {
		if err := p.DeleteCompanion(t.Context(), comp); err != nil || comp.AttachedTo != "" {
			t.Errorf("companion %+v: %v", comp, err)
		}
	}
	if things := b.Things(t); len(things) != 0 {
		t.Errorf("left are %+v", things)
	}
}
