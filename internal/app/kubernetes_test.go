package app_test

import (
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/tollgate-dev/tollgate/internal/devserver/devservertest"
	"github.com/tollgate-dev/tollgate/internal/devserver/simcloud"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// The whole of Tollgate on a simulated cluster: a proxy is a Pod, one that is
// evicted is replaced because its probes fail, and one more than the quota waits
// and says for what.
func TestPodsWithTheRealDriver(t *testing.T) {
	t.Parallel()
	engine := devservertest.Start(t)
	k, err := simcloud.StartKubernetes(filepath.Join(t.TempDir(), "cluster"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := k.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	tell := func(path, body string) {
		t.Helper()
		resp, err := http.Post(k.AdminURL()+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: status %d", path, resp.StatusCode)
		}
	}
	dir := t.TempDir()
	writeToken(t, dir)
	r := run(t, engine, dir, "installation: test\n"+string(k.Config())+"  token: {file: token}\ndiscovery: {token: token}\nhealth: {interval: 5s}\n"+
		"probe: {interval: 1s, timeout: 2s, unhealthyAfter: 2, target: '"+strings.TrimPrefix(k.Endpoint(), "http://")+"'}\n")
	create := func(name string) {
		t.Helper()
		if _, err := r.app.Connection().Client.ExecuteWorkflow(t.Context(),
			client.StartWorkflowOptions{ID: workflows.ProxyID("default", name), TaskQueue: workflows.TaskQueue},
			workflows.TypeProxy, api.ProxyInput{Spec: api.ProxySpec{Provider: simcloud.KubernetesProvider}}); err != nil {
			t.Fatal(err)
		}
	}
	create("one")
	eventually(t, "one runs", func() bool { return r.proxy("one").Status.Phase == api.PhaseRunning })
	first := r.proxy("one").Status
	if !strings.HasPrefix(string(first.InstanceID), "kubernetes/") || !strings.HasPrefix(first.IP, "127.80.") {
		t.Errorf("status %+v", first)
	}
	tell("/evict", `{"pod": "`+first.InstanceName+`"}`)
	eventually(t, "one is replaced", func() bool {
		st := r.proxy("one").Status
		return st.Phase == api.PhaseRunning && st.InstanceName != first.InstanceName
	})
	tell("/quota", `{"resource": "pods", "limit": 1}`)
	create("two")
	eventually(t, "two waits", func() bool { why, _ := reason(r.proxy("two")); return why == string(provider.QuotaExceeded) })
	if _, message := reason(r.proxy("two")); !strings.Contains(message, "exceeded quota: tollgate, requested: pods=1, used: pods=1") {
		t.Errorf("the message is %q", message)
	}
	// It is the fleet that waits: the account is well, and says why.
	eventually(t, "the provider is ready", func() bool {
		v, err := r.app.Connection().Client.QueryWorkflow(t.Context(), workflows.ProviderHealthID(simcloud.KubernetesProvider), "", workflows.QueryStatus)
		var h api.ProviderHealth
		return err == nil && v.Get(&h) == nil && h.Status.Ready
	})
}
