package providerhealth_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/mock"
	sdkactivity "go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
	"github.com/tollgate-dev/tollgate/workflows/providerhealth"
)

type world struct {
	t     *testing.T
	env   *testsuite.TestWorkflowEnvironment
	start time.Time

	mu     sync.Mutex
	checks []string
	check  func() (activities.CheckProviderResult, error)
}

func up() (activities.CheckProviderResult, error) {
	return activities.CheckProviderResult{Type: "memory", Supported: true, Took: api.Duration(time.Millisecond), Targets: []provider.TargetStatus{
		{Target: "north", Ready: true, Reason: provider.ReasonReachable}, {Target: "south", Ready: true, Reason: provider.ReasonReachable},
	}}, nil
}

func down() (activities.CheckProviderResult, error) {
	r, _ := up()
	r.Targets = slices.Clone(r.Targets)
	r.Targets[1] = provider.TargetStatus{Target: "south", Reason: provider.ReasonTimeout, Message: "no answer"}
	return r, nil
}

func newWorld(t *testing.T) *world {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	w := &world{t: t, env: suite.NewTestWorkflowEnvironment(), start: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), check: up}
	w.env.SetStartTime(w.start)
	w.env.RegisterActivityWithOptions(func(context.Context, activities.CheckProviderInput) (activities.CheckProviderResult, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.checks = append(w.checks, w.env.Now().Sub(w.start).Round(time.Second).String())
		return w.check()
	}, sdkactivity.RegisterOptions{Name: "CheckProvider"})
	w.env.RegisterWorkflowWithOptions(providerhealth.Workflow, workflow.RegisterOptions{Name: workflows.TypeProviderHealth})
	w.env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: workflows.ProviderHealthID("mem"), TaskQueue: workflows.TaskQueue})
	w.env.SetTestTimeout(time.Minute)
	w.env.OnUpsertTypedSearchAttributes(mock.Anything).Return(nil).Maybe()
	return w
}

func (w *world) at(after time.Duration, step func()) { w.env.RegisterDelayedCallback(step, after) }

func (w *world) becomes(check func() (activities.CheckProviderResult, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.check = check
}

func (w *world) run(in api.ProviderHealthInput, stop time.Duration) error {
	w.at(stop, w.env.CancelWorkflow)
	w.env.ExecuteWorkflow(workflows.TypeProviderHealth, in)
	return w.env.GetWorkflowError()
}

func (w *world) mustStop(in api.ProviderHealthInput, stop time.Duration) {
	w.t.Helper()
	if err := w.run(in, stop); !temporal.IsCanceledError(err) {
		w.t.Fatalf("the workflow ended with %v, want the cancellation", err)
	}
}

func (w *world) status() api.ProviderHealth {
	w.t.Helper()
	v, err := w.env.QueryWorkflow(workflows.QueryStatus)
	if err != nil {
		w.t.Fatal(err)
	}
	var s api.ProviderHealth
	if err := v.Get(&s); err != nil {
		w.t.Fatal(err)
	}
	return s
}

var mem = api.ProviderHealthInput{Provider: "mem"}

func TestChecksEveryInterval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustStop(mem, 3*time.Minute+30*time.Second)
	if diff := cmp.Diff([]string{"0s", "1m0s", "2m0s", "3m0s"}, w.checks); diff != "" {
		t.Errorf("checks (-want +got):\n%s", diff)
	}
	s := w.status()
	if !s.Status.Ready || s.Status.Reason != api.ReasonAllReady || s.Status.Checks != 4 || s.Status.Type != "memory" || len(s.Status.Targets) != 2 {
		t.Errorf("status %+v", s.Status)
	}
	if !s.Status.Since.Equal(w.start) || s.Status.Conditions[0].Status != api.True {
		t.Errorf("since %s, conditions %+v", s.Status.Since, s.Status.Conditions)
	}
}

func TestStates(t *testing.T) {
	t.Parallel()
	fails := func(kind, message string) func() (activities.CheckProviderResult, error) {
		return func() (activities.CheckProviderResult, error) {
			return activities.CheckProviderResult{}, temporal.NewNonRetryableApplicationError(message, kind, nil)
		}
	}
	for name, tc := range map[string]struct {
		check  func() (activities.CheckProviderResult, error)
		ready  bool
		reason string
		says   string
	}{
		"ready":         {up, true, api.ReasonAllReady, ""},
		"a target down": {down, false, api.ReasonTargetsFailed, "1 of 2 targets not ready: south: Timeout"},
		"no check":      {func() (activities.CheckProviderResult, error) { return activities.CheckProviderResult{Type: "x"}, nil }, true, api.ReasonNotSupported, "no check of its own"},
		"no targets": {func() (activities.CheckProviderResult, error) {
			return activities.CheckProviderResult{Supported: true}, nil
		}, false, api.ReasonCheckFailed, "no target"},
		"not configured":  {fails(activities.ErrProviderNotConfigured, "no provider mem"), false, api.ReasonProviderNotConfigured, "no provider mem"},
		"the check fails": {fails("Transient", "it broke"), false, api.ReasonCheckFailed, "it broke"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.check = tc.check
			w.mustStop(mem, 30*time.Second)
			s := w.status().Status
			if s.Ready != tc.ready || s.Reason != tc.reason || !strings.Contains(s.Message, tc.says) {
				t.Errorf("status %+v, want ready %v, reason %s, message with %q", s, tc.ready, tc.reason, tc.says)
			}
			if c := s.Conditions[0]; c.Type != api.CondReady || (c.Status == api.True) != tc.ready || c.Reason != tc.reason {
				t.Errorf("condition %+v", c)
			}
		})
	}
}

func TestAFailedCheckKeepsTheTargets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.at(30*time.Second, func() {
		w.becomes(func() (activities.CheckProviderResult, error) {
			return activities.CheckProviderResult{}, temporal.NewNonRetryableApplicationError("it broke", "Transient", nil)
		})
	})
	w.mustStop(mem, 90*time.Second)
	s := w.status().Status
	if s.Ready || len(s.Targets) != 2 || !s.Supported || s.Type != "memory" || !s.Since.Equal(w.start.Add(time.Minute)) {
		t.Errorf("status %+v, want the targets that were known, and not ready since the second check", s)
	}
}

func TestSignals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.at(10*time.Second, func() { w.env.SignalWorkflow(workflows.SignalCheck, nil) })
	w.at(20*time.Second, func() {
		w.env.SignalWorkflow(workflows.SignalConfigure, api.HealthConfig{Interval: api.Duration(5 * time.Minute), ConfigHash: "h"})
	})
	w.at(30*time.Second, func() {
		w.env.SignalWorkflow(workflows.SignalConfigure, api.HealthConfig{Interval: api.Duration(40 * time.Second), ConfigHash: "h"})
	})
	w.mustStop(mem, 2*time.Minute)
	// At once when asked and when the configuration changes; then every 40 s
	// after the latest check.
	if diff := cmp.Diff([]string{"0s", "10s", "20s", "1m0s", "1m40s"}, w.checks); diff != "" {
		t.Errorf("checks (-want +got):\n%s", diff)
	}
	if s := w.status().Spec; s.Interval.Std() != 40*time.Second || s.ConfigHash != "h" {
		t.Errorf("spec %+v", s)
	}
}

// callbacks collects the answer of an update.
type callbacks struct {
	accepted bool
	rejected error
	answer   api.ProviderHealth
	err      error
	done     bool
}

func (c *callbacks) Accept()          { c.accepted = true }
func (c *callbacks) Reject(err error) { c.rejected = err }
func (c *callbacks) Complete(v any, err error) {
	c.done, c.err = true, err
	if h, ok := v.(api.ProviderHealth); ok {
		c.answer = h
	}
}

func TestUpdateAnswersAfterACheck(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var one, two callbacks
	w.at(10*time.Second, func() {
		w.becomes(down)
		w.env.UpdateWorkflow(workflows.UpdateCheck, "one", &one)
		w.env.UpdateWorkflow(workflows.UpdateCheck, "two", &two)
	})
	w.mustStop(mem, 30*time.Second)
	for _, c := range []callbacks{one, two} {
		if !c.accepted || !c.done || c.err != nil || c.answer.Status.Ready || c.answer.Status.CheckedAt.Before(w.start.Add(10*time.Second)) {
			t.Errorf("update %+v, want the health after a check that began after it", c)
		}
	}
}

func TestCancelAnswersWhoeverWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var c callbacks
	w.check = func() (activities.CheckProviderResult, error) {
		if len(w.checks) > 1 {
			return activities.CheckProviderResult{}, errors.New("again and again")
		}
		return up()
	}
	w.at(10*time.Second, func() { w.env.UpdateWorkflow(workflows.UpdateCheck, "one", &c) })
	w.mustStop(mem, 10*time.Second+500*time.Millisecond)
	if !c.done || c.err == nil || !strings.Contains(c.err.Error(), "no longer watched") {
		t.Errorf("update %+v, want an error", c)
	}
}

func TestContinueAsNew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.at(30*time.Second, func() { w.becomes(down) })
	w.at(90*time.Second, func() {
		w.env.SetContinueAsNewSuggested(true)
		w.env.SignalWorkflowSkippingWorkflowTask(workflows.SignalConfigure, api.HealthConfig{Interval: api.Duration(time.Hour)})
		w.env.SignalWorkflow(workflows.SignalConfigure, api.HealthConfig{Interval: api.Duration(2 * time.Minute)})
	})
	err := w.run(mem, time.Hour)
	var next *workflow.ContinueAsNewError
	if !errors.As(err, &next) {
		t.Fatalf("the workflow ended with %v, want a continue-as-new", err)
	}
	var in api.ProviderHealthInput
	if err := converter.GetDefaultDataConverter().FromPayloads(next.Input, &in); err != nil {
		t.Fatal(err)
	}
	before := w.status()
	again := newWorld(t)
	again.start = w.start.Add(95 * time.Second)
	again.env.SetStartTime(again.start)
	var after api.ProviderHealth
	again.at(time.Second, func() { after = again.status() })
	again.mustStop(in, 3*time.Minute)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("status (-before +after):\n%s", diff)
	}
	if after.Spec.Interval.Std() != 2*time.Minute || after.Status.Ready {
		t.Errorf("after %+v, want the last configuration and the target down", after)
	}
	if diff := cmp.Diff([]string{"1m25s"}, again.checks); diff != "" {
		t.Errorf("the next check keeps its time, 180 s after the start (-want +got):\n%s", diff)
	}
}

func TestInvalidInput(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		id, provider, says string
	}{
		"no provider": {"health/", "", "provider: is required"},
		"another id":  {"my-health", "mem", `workflow id "my-health": want health/mem`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: tc.id, TaskQueue: workflows.TaskQueue})
			err := w.run(api.ProviderHealthInput{Provider: tc.provider}, time.Hour)
			var app *temporal.ApplicationError
			if !errors.As(err, &app) || app.Type() != providerhealth.ErrInvalidInput || !strings.Contains(app.Message(), tc.says) {
				t.Errorf("the workflow ended with %v, want %q", err, tc.says)
			}
		})
	}
}
