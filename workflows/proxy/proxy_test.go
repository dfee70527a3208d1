package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/memory"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
	"github.com/tollgate-dev/tollgate/workflows/proxy"
)

// world is a proxy in the test environment, over the memory backend.
type world struct {
	t       *testing.T
	env     *testsuite.TestWorkflowEnvironment
	backend *memory.Backend

	mu      sync.Mutex
	probe   activities.ProbeResult
	secrets map[string]string
	absent  bool // the provider is not configured
	reports []api.FleetReport
}

func newWorld(t *testing.T) *world {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	w := &world{t: t, env: suite.NewTestWorkflowEnvironment(), backend: memory.NewBackend(memory.Options{}),
		probe: activities.ProbeResult{OK: true}, secrets: map[string]string{"init": "#cloud-config", "login": "u:p"}}
	driver, err := memory.New(t.Context(), w.backend, provider.Config{Name: "mem", Installation: "test"})
	if err != nil {
		t.Fatal(err)
	}
	w.env.RegisterActivity(&activities.Proxies{
		Installation: "test",
		Lookup: func(string) (provider.Provider, provider.Profile, bool, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			// The environment ends a retried activity at ten attempts, so that a
			// poll has to be slow for a wait to be long.
			profile := memory.Profile()
			profile.ReadyPoll, profile.GonePoll = time.Minute, time.Minute
			return driver, profile, !w.absent, nil
		},
		Secret: func(_ context.Context, name string) (provider.Sensitive, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			v, ok := w.secrets[name]
			if !ok {
				return provider.Sensitive{}, fmt.Errorf("no secret %q", name)
			}
			return provider.NewSensitive([]byte(v)), nil
		},
		ProbeProxy: func(context.Context, string, *provider.BasicAuth) activities.ProbeResult {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.probe
		},
	})
	w.env.RegisterActivityWithOptions(w.report, activity("ReportFleet"))
	w.env.RegisterWorkflowWithOptions(proxy.Workflow, workflow.RegisterOptions{Name: workflows.TypeProxy})
	w.env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: workflows.ProxyID("default", "demo"), TaskQueue: workflows.TaskQueue})
	w.env.SetTestTimeout(30 * time.Second)
	w.env.OnUpsertTypedSearchAttributes(mock.Anything).Return(nil).Maybe()
	return w
}

func (w *world) report(_ context.Context, in activities.ReportFleetInput) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reports = append(w.reports, in.Report)
	return nil
}

func (w *world) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func spec(mod ...func(*api.ProxySpec)) api.ProxySpec {
	s := api.ProxySpec{Provider: "mem", Placement: provider.Placement{Region: "north"}}
	for _, m := range mod {
		m(&s)
	}
	return s
}

// run runs the proxy; the steps happen at their times on the workflow's clock.
func (w *world) run(s api.ProxySpec, steps ...func()) {
	w.t.Helper()
	for i, step := range steps {
		w.env.RegisterDelayedCallback(step, time.Duration(i+1)*time.Hour)
	}
	w.env.ExecuteWorkflow(workflows.TypeProxy, api.ProxyInput{Spec: s})
}

func (w *world) view() api.Proxy {
	w.t.Helper()
	v, err := w.env.QueryWorkflow(workflows.QueryStatus)
	if err != nil {
		w.t.Fatal(err)
	}
	var p api.Proxy
	if err := v.Get(&p); err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *world) want(phase api.Phase, cond, reason string) api.Proxy {
	w.t.Helper()
	p := w.view()
	got := condition(p, cond)
	if p.Status.Phase != phase || got.Reason != reason {
		w.t.Errorf("phase %s, %s=%s reason %q (%s); want phase %s, reason %q", p.Status.Phase, cond, got.Status, got.Reason, got.Message, phase, reason)
	}
	return p
}

func condition(p api.Proxy, kind string) api.Condition {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return api.Condition{}
}

// answer collects what an update returned.
type answer struct {
	rejected, err error
	result        any
	done          bool
}

func (w *world) update(name string, in any) *answer {
	a := &answer{}
	w.env.UpdateWorkflow(name, "", &testsuite.TestUpdateCallback{
		OnAccept:   func() {},
		OnReject:   func(err error) { a.rejected = err },
		OnComplete: func(r any, err error) { a.result, a.err, a.done = r, err, true },
	}, in)
	return a
}

func (w *world) observe(kind api.ObservationKind) {
	p := w.view()
	w.env.SignalWorkflow(workflows.SignalObserved, api.Observation{Kind: kind, InstanceID: p.Status.InstanceID, InstanceName: p.Status.InstanceName})
}

func (w *world) delete() { w.env.SignalWorkflow(workflows.SignalDelete, nil) }

// wantNothingLeft checks that the run ended well and the backend is empty.
func (w *world) wantNothingLeft() api.ProxyResult {
	w.t.Helper()
	var r api.ProxyResult
	if err := w.env.GetWorkflowResult(&r); err != nil {
		w.t.Fatalf("the run ended with %v", err)
	}
	w.wantEmpty()
	return r
}

func (w *world) wantEmpty() {
	w.t.Helper()
	if left := w.backend.Servers(); len(left) > 0 {
		w.t.Errorf("%d servers are left: %+v", len(left), left)
	}
	if left := w.backend.Addresses(); len(left) > 0 {
		w.t.Errorf("%d addresses are left", len(left))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.reports); n == 0 || !w.reports[n-1].Gone {
		w.t.Errorf("the fleet was not told of the end: %d reports", n)
	}
}

func TestLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run(spec(), func() {
		p := w.want(api.PhaseRunning, api.CondHealthy, api.ReasonProven)
		if p.Status.IP == "" || p.Status.Port != api.DefaultPort || p.Status.InstanceID == "" {
			t.Errorf("status %+v", p.Status)
		}
		if n := len(w.backend.Servers()); n != 1 {
			t.Errorf("%d servers", n)
		}
	}, w.delete)
	if r := w.wantNothingLeft(); r.Reason != api.ReasonRequested || len(r.Deleted) != 1 {
		t.Errorf("result %+v", r)
	}
}

func TestCreateFailures(t *testing.T) {
	t.Parallel()
	refuse := func(status int, code string) error {
		return &memory.APIError{Status: status, Code: code, Message: "no"}
	}
	tests := []struct {
		name   string
		err    error
		reason string
		// heals: the proxy goes on by itself once the fault is gone.
		heals bool
	}{
		{"quota waits", refuse(403, "quota"), string(provider.QuotaExceeded), true},
		{"sold out waits", refuse(412, "sold_out"), string(provider.CapacityUnavailable), true},
		{"outage is tried again", refuse(503, "unavailable"), string(provider.Transient), true},
		{"bad request latches", refuse(422, "invalid"), provider.ReasonInvalidSpec, false},
		{"bad credentials latch", refuse(401, "unauthorized"), provider.ReasonUnauthorized, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			heal := w.backend.Inject(memory.Fault{Calls: []memory.Call{memory.CallCreateServer}, Err: tt.err})
			var calls int
			w.run(spec(), func() {
				p := w.view()
				if c := condition(p, api.CondProvisioned); c.Status != api.False || c.Reason != tt.reason {
					t.Errorf("Provisioned %+v, want False %s", c, tt.reason)
				}
				calls = w.backend.Calls(memory.CallCreateServer)
				heal()
			}, func() {
				if tt.heals {
					w.want(api.PhaseRunning, api.CondHealthy, api.ReasonProven)
					return
				}
				if n := w.backend.Calls(memory.CallCreateServer); n != calls || n != 1 {
					t.Errorf("a latched proxy made %d creates, then %d", calls, n)
				}
				w.env.SignalWorkflow(workflows.SignalRetry, nil)
			}, func() {
				w.want(api.PhaseRunning, api.CondHealthy, api.ReasonProven)
			}, w.delete)
			w.wantNothingLeft()
		})
	}
}

func TestQuotaPacesItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.backend.Inject(memory.Fault{Calls: []memory.Call{memory.CallCreateServer}, Err: &memory.APIError{Status: 403, Code: "quota"}})
	w.run(spec(), func() {
		if n := w.backend.Calls(memory.CallCreateServer); n < 10 || n > 13 {
			t.Errorf("%d creates in an hour of exhausted quota, want one every 5 minutes", n)
		}
	}, w.delete)
	w.wantNothingLeft()
}

func TestLostReplyIsAdopted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.backend.Inject(memory.Fault{Calls: []memory.Call{memory.CallCreateServer}, Err: memory.ErrReplyLost, AfterCommit: true, Times: 1})
	w.run(spec(), func() {
		w.want(api.PhaseRunning, api.CondHealthy, api.ReasonProven)
		if n := len(w.backend.Servers()); n != 1 {
			t.Errorf("%d servers after a lost reply", n)
		}
	}, w.delete)
	w.wantNothingLeft()
}

func TestDeleteWhileCreateIsUnknown(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"delete", "cancel"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			// Every create is committed and none is answered.
			w.backend.Inject(memory.Fault{Calls: []memory.Call{memory.CallCreateServer}, Err: memory.ErrReplyLost, AfterCommit: true})
			w.backend.Inject(memory.Fault{Calls: []memory.Call{memory.CallFindServer}, Err: &memory.APIError{Status: 503}, Times: 3})
			w.env.RegisterDelayedCallback(func() {
				if how == "cancel" {
					w.env.CancelWorkflow()
				} else {
					w.delete()
				}
			}, 1500*time.Millisecond)
			w.run(spec())
			if !w.env.IsWorkflowCompleted() {
				t.Fatal("the run did not end")
			}
			err := w.env.GetWorkflowError()
			if how == "cancel" && !temporal.IsCanceledError(err) || how == "delete" && err != nil {
				t.Errorf("the run ended with %v", err)
			}
			w.wantEmpty()
		})
	}
}

func TestReplacement(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		do     func(w *world)
		reason string
	}{
		{"port changed", func(w *world) {
			w.update(workflows.UpdateSetSpec, api.SetSpecInput{Spec: spec(func(s *api.ProxySpec) { s.Port = 8888 })})
		}, api.ReasonSpecChanged},
		{"asked for", func(w *world) { w.env.SignalWorkflow(workflows.SignalReplace, map[string]string{"reason": "because"}) }, api.ReasonRequested},
		{"gone", func(w *world) {
			w.backend.Kill(w.view().Status.InstanceName)
			w.observe(api.ObservedMissing)
		}, api.ReasonInstanceGone},
		{"stopped", func(w *world) {
			w.backend.Stop(w.view().Status.InstanceName)
			w.observe(api.ObservedStopped)
		}, api.ReasonInstanceStopped},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var before api.Proxy
			w.run(spec(), func() {
				before = w.want(api.PhaseRunning, api.CondHealthy, api.ReasonProven)
				tt.do(w)
			}, func() {
				after := w.want(api.PhaseRunning, api.CondHealthy, api.ReasonProven)
				if after.Status.InstanceID == before.Status.InstanceID || after.Status.Replacements != 1 {
					t.Errorf("instance %s, then %s after %d replacements", before.Status.InstanceID, after.Status.InstanceID, after.Status.Replacements)
				}
				if !strings.HasPrefix(after.Status.LastReplacement, tt.reason) {
					t.Errorf("last replacement %q, want %s", after.Status.LastReplacement, tt.reason)
				}
				if n := len(w.backend.Servers()); n != 1 {
					t.Errorf("%d servers", n)
				}
			}, w.delete)
			w.wantNothingLeft()
			w.wantLeftBeforeDelete()
		})
	}
}

// wantLeftBeforeDelete checks that no report calls an instance healthy after it
// was given up.
func (w *world) wantLeftBeforeDelete() {
	w.t.Helper()
	ended := map[string]bool{}
	last := ""
	for _, r := range w.reports {
		if last != "" && r.Row.InstanceName != last {
			ended[last] = true
		}
		last = r.Row.InstanceName
		if r.Row.Healthy && ended[r.Row.InstanceName] {
			w.t.Errorf("instance %s is reported healthy after its end", r.Row.InstanceName)
		}
	}
}

func TestFalseAlarmsChangeNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var before api.Proxy
	w.run(spec(), func() {
		before = w.view()
		for _, k := range []api.ObservationKind{api.ObservedMissing, api.ObservedStopped, api.ObservedMoved, api.ObservedUnhealthy} {
			w.observe(k)
		}
		w.env.SignalWorkflow(workflows.SignalObserved, api.Observation{Kind: api.ObservedMissing, InstanceID: "another"})
	}, func() {
		after := w.want(api.PhaseRunning, api.CondHealthy, api.ReasonProven)
		if d := cmp.Diff(before, after); d != "" {
			t.Errorf("the proxy changed (-before +after):\n%s", d)
		}
	}, w.delete)
	w.wantNothingLeft()
}

func TestProbeClasses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		class    string
		replaced bool
		reason   string
	}{
		{"refused", true, api.ReasonProven},
		{"timeout", true, api.ReasonProven},
		{"intercepted", true, api.ReasonProven},
		{"auth", false, "auth"},
		{"target_down", false, api.ReasonProven},
	}
	for _, tt := range tests {
		t.Run(tt.class, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.run(spec(), func() {
				w.set(func() { w.probe = activities.ProbeResult{Class: tt.class, Message: "m"} })
				w.observe(api.ObservedUnhealthy)
				w.env.RegisterDelayedCallback(func() { w.set(func() { w.probe = activities.ProbeResult{OK: true} }) }, 2*time.Minute)
			}, func() {
				p := w.want(api.PhaseRunning, api.CondHealthy, tt.reason)
				if (p.Status.Replacements > 0) != tt.replaced {
					t.Errorf("%d replacements, want replaced=%v", p.Status.Replacements, tt.replaced)
				}
			}, w.delete)
			w.wantNothingLeft()
		})
	}
}

func TestNeverHealthy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.probe = activities.ProbeResult{Class: "refused", Message: "nobody listens"}
	short := func(s *api.ProxySpec) {
		s.NeverHealthyAfter = api.Duration(time.Minute)
		s.Placement.Region = "north"
	}
	w.run(spec(short), func() {
		p := w.view()
		if condition(p, api.CondHealthy).Status == api.True {
			t.Error("healthy without a proof")
		}
		// Three in the first minutes, then the pauses double up to ten minutes.
		if n := w.backend.Calls(memory.CallCreateServer); n < 6 || n > 14 {
			t.Errorf("%d instances in an hour of failures", n)
		}
		if n := len(w.backend.Servers()); n > 1 {
			t.Errorf("%d servers at once", n)
		}
		w.set(func() { w.probe = activities.ProbeResult{OK: true} })
	}, func() {
		w.want(api.PhaseRunning, api.CondHealthy, api.ReasonProven)
	}, w.delete)
	w.wantNothingLeft()
}

func TestReplaceTwiceAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var first, second *answer
	w.run(spec(), func() {
		first, second = w.update(workflows.UpdateReplace, api.ReplaceInput{}), w.update(workflows.UpdateReplace, api.ReplaceInput{})
	}, func() {
		p := w.want(api.PhaseRunning, api.CondHealthy, api.ReasonProven)
		if p.Status.Replacements != 1 {
			t.Errorf("%d replacements for two calls at once", p.Status.Replacements)
		}
		for i, a := range []*answer{first, second} {
			r, ok := a.result.(api.ReplaceResult)
			if !a.done || a.err != nil || !ok || r.InstanceID != p.Status.InstanceID || r.Joined != (i == 1) {
				t.Errorf("caller %d got %+v", i, a)
			}
		}
	}, w.delete)
	w.wantNothingLeft()
}

func TestUpdatesAreValidated(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		spec api.ProxySpec
		want string
	}{
		"provider": {api.ProxySpec{Provider: "other"}, `spec.provider: cannot be changed from "mem" to "other"`},
		"port":     {api.ProxySpec{Provider: "mem", Port: 70000}, "spec.port: 70000"},
		"redacted": {api.ProxySpec{Provider: "mem", CloudInit: &api.SecretSource{Inline: api.RedactedInline}}, "stands for a value that this proxy does not have"},
		"auth":     {api.ProxySpec{Provider: "mem", Auth: &api.SecretSource{Inline: "a:b"}}, "spec.auth.inline: is not allowed"},
		"strategy": {api.ProxySpec{Provider: "mem", Replacement: "Rolling"}, `spec.replacement: "Rolling" is unknown`},
	}
	w := newWorld(t)
	answers := map[string]*answer{}
	w.run(spec(), func() {
		for name, tt := range tests {
			answers[name] = w.update(workflows.UpdateSetSpec, api.SetSpecInput{Spec: tt.spec})
		}
	}, func() {
		for name, tt := range tests {
			a := answers[name]
			if a.rejected == nil || !strings.Contains(a.rejected.Error(), tt.want) {
				t.Errorf("%s: rejected with %v, want %q", name, a.rejected, tt.want)
			}
		}
		if p := w.view(); p.Metadata.Generation != 1 {
			t.Errorf("generation %d after rejected updates", p.Metadata.Generation)
		}
	}, w.delete)
	w.wantNothingLeft()
}

func TestBadInputEndsTheRun(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		id   string
		spec api.ProxySpec
		want string
	}{
		"workflow id": {"demo", spec(), `workflow id "demo": want proxy/<namespace>/<name>`},
		"name":        {"proxy/default/Demo_1", spec(), `name (in the workflow id): "Demo_1" is not a name`},
		"no provider": {"proxy/default/demo", api.ProxySpec{}, "spec.provider: is required"},
		"two sources": {"proxy/default/demo", spec(func(s *api.ProxySpec) { s.CloudInit = &api.SecretSource{Inline: "a", SecretRef: "b"} }), "spec.cloudInit: inline and secretRef are both set"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: tt.id, TaskQueue: workflows.TaskQueue})
			w.run(tt.spec)
			var ae *temporal.ApplicationError
			if err := w.env.GetWorkflowError(); !errors.As(err, &ae) || ae.Type() != proxy.ErrInvalidInput || !strings.Contains(ae.Message(), tt.want) {
				t.Errorf("the run ended with %v, want %q", err, tt.want)
			}
		})
	}
}

func TestCreateBeforeDelete(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cbd := func(s *api.ProxySpec) { s.Replacement = api.CreateBeforeDelete }
	var before api.Proxy
	w.run(spec(cbd), func() {
		before = w.view()
		release := w.backend.HoldBoot()
		w.env.RegisterDelayedCallback(func() {
			p := w.want(api.PhaseReplacing, api.CondHealthy, api.ReasonProven)
			if p.Status.InstanceID != before.Status.InstanceID || len(w.backend.Servers()) != 2 {
				t.Errorf("while the successor boots: serving %s of %d servers", p.Status.InstanceID, len(w.backend.Servers()))
			}
			release()
		}, 3*time.Minute)
		w.update(workflows.UpdateSetSpec, api.SetSpecInput{Spec: spec(cbd, func(s *api.ProxySpec) { s.Port = 9999 })})
	}, func() {
		after := w.want(api.PhaseRunning, api.CondHealthy, api.ReasonProven)
		if after.Status.InstanceID == before.Status.InstanceID || after.Status.Port != 9999 || len(w.backend.Servers()) != 1 {
			t.Errorf("after: %+v with %d servers", after.Status, len(w.backend.Servers()))
		}
		// A dead instance is not waited for: Recreate is what happens.
		w.backend.Kill(after.Status.InstanceName)
		w.observe(api.ObservedMissing)
	}, func() {
		w.want(api.PhaseRunning, api.CondHealthy, api.ReasonProven)
	}, w.delete)
	w.wantNothingLeft()
}

func TestExtraInstanceIsDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run(spec(), func() {
		p := w.view()
		own := w.backend.Servers()[0]
		extra := w.backend.Place(memory.NewServer{Name: "proxy-left-by-a-reset", Region: "north", Labels: own.Labels})
		w.env.SignalWorkflow(workflows.SignalObserved, api.Observation{Kind: api.ObservedExtra, InstanceID: memory.ID(extra), InstanceName: extra.Name})
		w.env.SignalWorkflow(workflows.SignalObserved, api.Observation{Kind: api.ObservedExtra, InstanceID: p.Status.InstanceID, InstanceName: p.Status.InstanceName})
	}, func() {
		left := w.backend.Servers()
		if len(left) != 1 || left[0].Name != w.view().Status.InstanceName {
			t.Errorf("left: %+v", left)
		}
	}, w.delete)
	w.wantNothingLeft()
}

func TestMissingProviderLatchesUntilTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.absent = true
	w.run(spec(), func() {
		w.want(api.PhasePending, api.CondProvisioned, api.ReasonProviderNotConfigured)
		if last := w.reports[len(w.reports)-1].Row; !last.Latched {
			t.Errorf("the fleet was not told that the proxy waits: %+v", last)
		}
		w.set(func() { w.absent = false })
		w.env.SignalWorkflow(workflows.SignalRetry, nil)
	}, func() {
		w.want(api.PhaseRunning, api.CondHealthy, api.ReasonProven)
	}, w.delete)
	w.wantNothingLeft()
}

func TestDeleteWithBadCredentialsWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var heal func()
	w.run(spec(), func() {
		heal = w.backend.Inject(memory.Fault{Err: &memory.APIError{Status: 401, Code: "unauthorized"}})
		w.delete()
	}, func() {
		w.want(api.PhaseDeleting, api.CondProvisioned, provider.ReasonUnauthorized)
		if n := w.backend.Calls(memory.CallDeleteServer) + w.backend.Calls(memory.CallGetServer); n > 30 {
			t.Errorf("%d calls in an hour of bad credentials", n)
		}
		heal()
	})
	w.wantNothingLeft()
}
