package kubernetes_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/kubernetes"
	"github.com/tollgate-dev/tollgate/internal/provider/kubernetes/kubernetestest"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
	"github.com/tollgate-dev/tollgate/workflows/proxy"
)

// patient gives the simulated node its time: the workflow's clock does not wait
// for it.
type patient struct{ provider.Provider }

func (p patient) Get(ctx context.Context, id provider.InstanceID) (provider.Instance, error) {
	for deadline := time.Now().Add(10 * time.Second); ; {
		in, err := p.Provider.Get(ctx, id)
		moves := err == nil && (in.State == provider.StateProvisioning || in.State == provider.StateTerminated)
		if !moves || time.Now().After(deadline) {
			return in, err
		}
		select {
		case <-ctx.Done():
			return in, err
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// proxyOver prepares a proxy whose provider is over the backend.
func proxyOver(t *testing.T, b *kubernetestest.Backend) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	driver := patient{b.Provider(t, nil)}
	env.RegisterActivity(&activities.Proxies{
		Installation: "acme",
		Lookup: func(string) (provider.Provider, provider.Profile, bool, error) {
			profile := kubernetes.Type().Profile
			profile.ReadyPoll, profile.GonePoll = time.Minute, time.Minute
			return driver, profile, true, nil
		},
		Secret: func(context.Context, string) (provider.Sensitive, error) {
			return provider.NewSensitive([]byte("acl all\n")), nil
		},
		ProbeProxy: func(context.Context, string, *provider.BasicAuth) activities.ProbeResult {
			return activities.ProbeResult{OK: true}
		},
	})
	env.RegisterActivityWithOptions(func(context.Context, activities.ReportFleetInput) error { return nil }, activity.RegisterOptions{Name: "ReportFleet"})
	env.RegisterWorkflowWithOptions(proxy.Workflow, workflow.RegisterOptions{Name: workflows.TypeProxy})
	env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: workflows.ProxyID("default", "demo"), TaskQueue: workflows.TaskQueue})
	env.SetTestTimeout(time.Minute)
	env.OnUpsertTypedSearchAttributes(mock.Anything).Return(nil).Maybe()
	return env
}

func statusOf(t *testing.T, env *testsuite.TestWorkflowEnvironment) api.ProxyStatus {
	t.Helper()
	v, err := env.QueryWorkflow(workflows.QueryStatus)
	var p api.Proxy
	if err == nil {
		err = v.Get(&p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p.Status
}

// A proxy that waits for a quota becomes healthy once somebody has raised it:
// nobody has to tell it so.
func TestQuotaRaisedByHand(t *testing.T) {
	t.Parallel()
	b := kubernetestest.NewSimulated(t)
	kubernetestest.Create(t, b.Provider(t, nil), kubernetestest.Request("other"))
	b.Sim.SetQuota(b.Namespace, "pods", 1)
	env := proxyOver(t, b)
	creates := func() int { return b.Sim.Requests()["create pods"] }
	var before int
	env.RegisterDelayedCallback(func() {
		st := statusOf(t, env)
		var why, message string
		for _, c := range st.Conditions {
			if c.Type == api.CondProvisioned {
				why, message = c.Reason, c.Message
			}
		}
		if why != string(provider.QuotaExceeded) || !strings.Contains(message, "exceeded quota") || st.Latched || st.NextRetry.IsZero() {
			t.Errorf("while it waits: %q, %q, %+v", why, message, st)
		}
		if n := creates(); n < 5 || n > 20 {
			t.Errorf("%d creates in an hour, want one every five minutes", n)
		}
		b.Sim.SetQuota(b.Namespace, "pods", 2)
		before = creates()
	}, time.Hour)
	env.RegisterDelayedCallback(func() {
		if st := statusOf(t, env); st.Phase != api.PhaseRunning || st.IP == "" {
			t.Errorf("after the quota was raised: %+v", st)
		}
		if n := creates(); n != before+1 {
			t.Errorf("%d creates after the quota was raised, want one", n-before)
		}
		env.SignalWorkflow(workflows.SignalDelete, nil)
	}, 90*time.Minute)
	env.ExecuteWorkflow(workflows.TypeProxy, api.ProxyInput{Spec: api.ProxySpec{Provider: "cluster", CloudInit: &api.SecretSource{SecretRef: "conf"}}})
	if err := env.GetWorkflowError(); err != nil {
		t.Error(err)
	}
	if left := b.Things(t); len(left) != 2 {
		t.Errorf("left are %+v, want the other proxy's", left)
	}
}

// A Pod that is evicted is replaced, under another name.
func TestEvictedPodIsReplaced(t *testing.T) {
	t.Parallel()
	b := kubernetestest.NewSimulated(t)
	env := proxyOver(t, b)
	var first api.ProxyStatus
	env.RegisterDelayedCallback(func() {
		first = statusOf(t, env)
		if first.Phase != api.PhaseRunning {
			t.Fatalf("status %+v", first)
		}
		b.Stop(t, first.InstanceName)
		env.SignalWorkflow(workflows.SignalObserved, api.Observation{Kind: api.ObservedStopped, InstanceID: first.InstanceID, InstanceName: first.InstanceName})
	}, time.Hour)
	env.RegisterDelayedCallback(func() {
		if st := statusOf(t, env); st.Phase != api.PhaseRunning || st.InstanceName == first.InstanceName {
			t.Errorf("after the eviction of %s: %+v", first.InstanceName, st)
		}
		if left := b.Things(t); len(left) != 2 {
			t.Errorf("there are %+v, want one Pod and its Secret", left)
		}
		env.SignalWorkflow(workflows.SignalDelete, nil)
	}, 2*time.Hour)
	env.ExecuteWorkflow(workflows.TypeProxy, api.ProxyInput{Spec: api.ProxySpec{Provider: "cluster", CloudInit: &api.SecretSource{SecretRef: "conf"}}})
	if err := env.GetWorkflowError(); err != nil {
		t.Error(err)
	}
	if left := b.Things(t); len(left) != 0 {
		t.Errorf("left are %+v", left)
	}
}
