package proxy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/devserver/devservertest"
	"github.com/tollgate-dev/tollgate/internal/historytest"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/memory"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
	"github.com/tollgate-dev/tollgate/workflows/register"
)

// site is a real engine with a worker over the memory backend.
type site struct {
	t       *testing.T
	client  client.Client
	backend *memory.Backend
	healthy atomic.Bool

	mu      sync.Mutex
	reports map[string]api.FleetReport
}

func newSite(t *testing.T) *site {
	t.Helper()
	engine := devservertest.Start(t, devservertest.WithSearchAttributes(workflows.SearchAttributes()...))
	s := &site{t: t, client: engine.Client(), backend: memory.NewBackend(memory.Options{BootTime: 100 * time.Millisecond, DeleteTime: 50 * time.Millisecond}), reports: map[string]api.FleetReport{}}
	s.healthy.Store(true)
	driver, err := memory.New(t.Context(), s.backend, provider.Config{Name: "mem", Installation: "test"})
	if err != nil {
		t.Fatal(err)
	}
	acts := &activities.Proxies{
		Installation: "test",
		Lookup: func(string) (provider.Provider, provider.Profile, bool, error) {
			return driver, memory.Profile(), true, nil
		},
		Secret: func(_ context.Context, name string) (provider.Sensitive, error) {
			return provider.NewSensitive([]byte("u:" + name)), nil
		},
		ProbeProxy: func(context.Context, string, *provider.BasicAuth) activities.ProbeResult {
			if s.healthy.Load() {
				return activities.ProbeResult{OK: true}
			}
			return activities.ProbeResult{Class: "refused", Message: "nobody listens"}
		},
	}
	for _, queue := range []string{workflows.TaskQueue, workflows.ProviderTaskQueue("mem")} {
		w := worker.New(s.client, queue, devservertest.WorkerOptions())
		if queue == workflows.TaskQueue {
			register.All(w)
			w.RegisterActivityWithOptions(s.report, activity("ReportFleet"))
		}
		w.RegisterActivity(acts)
		if err := w.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Stop)
	}
	return s
}

func (s *site) report(_ context.Context, in activities.ReportFleetInput) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.reports[in.Report.Row.Name]; in.Report.Row.Seq <= old.Row.Seq {
		return fmt.Errorf("report %d of %s after %d", in.Report.Row.Seq, in.Report.Row.Name, old.Row.Seq)
	}
	s.reports[in.Report.Row.Name] = in.Report
	return nil
}

func (s *site) start(name string, in api.ProxyInput) client.WorkflowRun {
	s.t.Helper()
	run, err := s.client.ExecuteWorkflow(s.t.Context(), client.StartWorkflowOptions{ID: workflows.ProxyID("default", name), TaskQueue: workflows.TaskQueue}, workflows.TypeProxy, in)
	if err != nil {
		s.t.Fatal(err)
	}
	return run
}

func (s *site) view(name string) api.Proxy {
	s.t.Helper()
	return devservertest.Query[api.Proxy](s.t, s.client, workflows.ProxyID("default", name), workflows.QueryStatus)
}

func (s *site) until(name, what string, ok func(api.Proxy) bool) api.Proxy {
	s.t.Helper()
	deadline := time.Now().Add(devservertest.Patience)
	for {
		p := s.view(name)
		if ok(p) {
			return p
		}
		if time.Now().After(deadline) {
			b, _ := json.Marshal(p.Status)
			s.t.Fatalf("%s is not %s: %s", name, what, b)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func isRunning(p api.Proxy) bool {
	return p.Status.Phase == api.PhaseRunning && condition(p, api.CondHealthy).Status == api.True && p.Metadata.Generation == p.Status.ObservedGeneration
}

func (s *site) running(name string) api.Proxy {
	s.t.Helper()
	return s.until(name, "running", isRunning)
}

func (s *site) signal(name, signal string, arg any) {
	s.t.Helper()
	if err := s.client.SignalWorkflow(s.t.Context(), workflows.ProxyID("default", name), "", signal, arg); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) update(name, update string, in, out any) error {
	h, err := s.client.UpdateWorkflow(s.t.Context(), client.UpdateWorkflowOptions{WorkflowID: workflows.ProxyID("default", name), UpdateName: update, Args: []any{in}, WaitForStage: client.WorkflowUpdateStageCompleted})
	if err != nil {
		return err
	}
	return h.Get(s.t.Context(), out)
}

func (s *site) end(name string, run client.WorkflowRun) {
	s.t.Helper()
	var r api.DeleteResult
	if err := s.update(name, workflows.UpdateDelete, api.DeleteInput{Reason: "test over"}, &r); err != nil {
		s.t.Errorf("delete of %s: %v", name, err)
	}
	if err := run.Get(s.t.Context(), nil); err != nil {
		s.t.Errorf("%s ended with %v", name, err)
	}
}

func (s *site) currentRun(name string) string {
	s.t.Helper()
	d, err := s.client.DescribeWorkflow(s.t.Context(), workflows.ProxyID("default", name), "")
	if err != nil {
		s.t.Fatal(err)
	}
	return d.WorkflowExecution.RunID
}

// runs lists the runs of a workflow id, first to last.
func (s *site) runs(name string) []string {
	s.t.Helper()
	var ids []string
	id := ""
	for {
		it := s.client.GetWorkflowHistory(s.t.Context(), workflows.ProxyID("default", name), id, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		e, err := it.Next()
		if err != nil {
			s.t.Fatal(err)
		}
		a := e.GetWorkflowExecutionStartedEventAttributes()
		ids = append(ids, a.GetOriginalExecutionRunId())
		if id = a.GetContinuedExecutionRunId(); id == "" {
			slices.Reverse(ids)
			return ids
		}
	}
}

// TestEngineLives plays the main lives on a real engine and replays what the
// engine recorded. With -record (make histories) the histories are kept.
func TestEngineLives(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	spec := func(mod ...func(*api.ProxySpec)) api.ProxyInput {
		in := api.ProxyInput{Spec: api.ProxySpec{Provider: "mem", Placement: provider.Placement{Region: "north"}}, Labels: map[string]string{"team": "blue"}}
		for _, m := range mod {
			m(&in.Spec)
		}
		return in
	}
	lives := []struct {
		name string
		in   api.ProxyInput
		play func(name string, run client.WorkflowRun)
	}{
		{"create-delete", spec(), func(n string, run client.WorkflowRun) { s.running(n); s.end(n, run) }},
		{"update-and-replace", spec(func(p *api.ProxySpec) { p.Auth = &api.SecretSource{SecretRef: "login"} }), func(n string, run client.WorkflowRun) {
			s.running(n)
			changed := spec().Spec
			changed.Port = 8888
			var set api.SetSpecResult
			if err := s.update(n, workflows.UpdateSetSpec, api.SetSpecInput{Spec: changed}, &set); err != nil || set.Generation != 2 {
				t.Errorf("SetSpec: %+v, %v", set, err)
			}
			var r api.ReplaceResult
			if err := s.update(n, workflows.UpdateReplace, api.ReplaceInput{Reason: "why not"}, &r); err != nil || r.Port != 8888 {
				t.Errorf("Replace: %+v, %v", r, err)
			}
			s.signal(n, workflows.SignalReplace, "by signal")
			s.until(n, "replaced again", func(p api.Proxy) bool { return p.Status.Replacements >= 2 && isRunning(p) })
			s.end(n, run)
		}},
		{"create-before-delete", spec(func(p *api.ProxySpec) { p.Replacement = api.CreateBeforeDelete }), func(n string, run client.WorkflowRun) {
			before := s.running(n)
			var r api.ReplaceResult
			if err := s.update(n, workflows.UpdateReplace, api.ReplaceInput{}, &r); err != nil || r.InstanceID == before.Status.InstanceID {
				t.Errorf("Replace: %+v, %v", r, err)
			}
			s.end(n, run)
		}},
		{"dies-and-recovers", spec(), func(n string, run client.WorkflowRun) {
			p := s.running(n)
			s.signal(n, workflows.SignalObserved, api.Observation{Kind: api.ObservedUnhealthy, InstanceID: p.Status.InstanceID, Reason: "timeout"})
			s.backend.Kill(p.Status.InstanceName)
			s.signal(n, workflows.SignalObserved, api.Observation{Kind: api.ObservedMissing, InstanceID: p.Status.InstanceID})
			s.until(n, "recovered", func(p api.Proxy) bool { return p.Status.Replacements == 1 && isRunning(p) })
			s.end(n, run)
		}},
		{"bad-placement-latches", spec(func(p *api.ProxySpec) { p.Placement.Region = "nowhere" }), func(n string, run client.WorkflowRun) {
			s.until(n, "latched", func(p api.Proxy) bool {
				return condition(p, api.CondProvisioned).Reason == provider.ReasonInvalidSpec
			})
			s.signal(n, workflows.SignalRetry, nil)
			if err := s.update(n, workflows.UpdateSetSpec, api.SetSpecInput{Spec: spec().Spec}, nil); err != nil {
				t.Error(err)
			}
			s.running(n)
			s.end(n, run)
		}},
		{"cancelled", spec(), func(n string, run client.WorkflowRun) {
			s.running(n)
			if err := s.client.CancelWorkflow(t.Context(), run.GetID(), ""); err != nil {
				t.Fatal(err)
			}
			if err := run.Get(t.Context(), nil); err == nil {
				t.Errorf("%s: a cancelled run ended well", n)
			}
		}},
		{"continued", func() api.ProxyInput { in := spec(); in.ContinueAfter = 60; return in }(), func(n string, run client.WorkflowRun) {
			for range 3 {
				s.running(n)
				if err := s.update(n, workflows.UpdateReplace, api.ReplaceInput{}, nil); err != nil {
					t.Error(err)
				}
			}
			s.end(n, run)
			if r := s.runs(n); len(r) < 2 {
				t.Errorf("%s: %d runs, want a continue-as-new", n, len(r))
			}
		}},
	}
	for _, l := range lives {
		run := s.start(l.name, l.in)
		l.play(l.name, run)
		for i, id := range s.runs(l.name) {
			if historytest.Recording() {
				historytest.Record(t, s.client, run.GetID(), id, fmt.Sprintf("%s-%d", l.name, i+1))
			}
			if err := historytest.ReplayHistory(historytest.Fetch(t, s.client, run.GetID(), id), register.All); err != nil {
				t.Errorf("%s: replay of run %d: %v", l.name, i+1, err)
			}
		}
	}
	if left := s.backend.Servers(); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
}

// TestContinueAsNewLosesNothing puts a proxy under 1,000 signals and 50 updates
// while it continues as new again and again. The engine refuses to end a run for
// which something new has come, so that one that is signaled without a pause
// continues only when the senders pause: they do so after every wave, whose
// signals alone make the run long enough.
func TestContinueAsNewLosesNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const name, waves, signals, updates = "busy", 10, 100, 5
	in := api.ProxyInput{Spec: api.ProxySpec{Provider: "mem", Placement: provider.Placement{Region: "north"}, CloudInit: &api.SecretSource{Inline: "#!/bin/sh"}}, Labels: map[string]string{"a": "b"}, ContinueAfter: signals}
	run := s.start(name, in)
	before := s.running(name)

	for wave := range waves {
		began := s.currentRun(name)
		var wg sync.WaitGroup
		gate := make(chan struct{}, 16) // so many callers at once
		for i := range signals {
			n := wave*signals + i
			gate <- struct{}{}
			wg.Go(func() {
				defer func() { <-gate }()
				// Nothing is wrong with the instance, so that every observation that
				// is not lost has to be looked at and found false.
				s.signal(name, workflows.SignalObserved, api.Observation{Kind: api.ObservedStopped, InstanceID: before.Status.InstanceID, Message: fmt.Sprint(n)})
			})
			if i%(signals/updates) == 0 {
				wg.Go(func() {
					spec := before.Spec
					spec.NeverHealthyAfter = api.Duration(time.Hour + time.Duration(n)*time.Second)
					var r api.SetSpecResult
					if err := s.update(name, workflows.UpdateSetSpec, api.SetSpecInput{Spec: spec}, &r); err != nil {
						t.Errorf("update %d: %v", n, err)
					}
				})
			}
		}
		wg.Wait()
		s.until(name, fmt.Sprintf("in a new run after wave %d", wave+1), func(api.Proxy) bool { return s.currentRun(name) != began })
	}
	after := s.running(name)
	if got, want := after.Metadata.Generation, int64(1+waves*updates); got != want {
		t.Errorf("generation %d after %d updates, want %d", got, waves*updates, want)
	}
	// Beside what the updates changed, everything is as it was.
	after.Metadata.Generation, after.Status.ObservedGeneration, after.Spec.NeverHealthyAfter = 1, 1, before.Spec.NeverHealthyAfter
	for i := range after.Status.Conditions {
		after.Status.Conditions[i].ObservedGeneration = before.Status.Conditions[i].ObservedGeneration
	}
	if d := cmp.Diff(before, after); d != "" {
		t.Errorf("state differs after continue-as-new (-before +after):\n%s", d)
	}
	runs := s.runs(name)
	if len(runs) < 1+waves {
		t.Errorf("%d runs, want at least %d", len(runs), 1+waves)
	}
	s.wantEqualBoundaries(name, runs, waves*signals)
	s.end(name, run)
	t.Logf("%d runs", len(runs))
}

// wantEqualBoundaries checks of each continue-as-new that what one run handed
// over is what the next began with, and that all signals were received.
func (s *site) wantEqualBoundaries(name string, runs []string, signals int) {
	s.t.Helper()
	signaled := 0
	for _, id := range runs {
		for _, e := range historytest.Fetch(s.t, s.client, workflows.ProxyID("default", name), id).GetEvents() {
			if e.GetWorkflowExecutionSignaledEventAttributes() != nil {
				signaled++
			}
		}
		if err := historytest.ReplayHistory(historytest.Fetch(s.t, s.client, workflows.ProxyID("default", name), id), register.All); err != nil {
			s.t.Errorf("run %s: %v", id, err)
		}
	}
	if signaled < signals {
		s.t.Errorf("%d signals in %d histories, want %d", signaled, len(runs), signals)
	}
}
