package fleetwatch_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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
	"github.com/tollgate-dev/tollgate/workflows/fleetwatch"
)

// world is a shard in the test environment; its activities are the functions
// below, and calls says which of them ran with what.
type world struct {
	t     *testing.T
	env   *testsuite.TestWorkflowEnvironment
	start time.Time

	mu    sync.Mutex
	calls []string

	compare func(activities.CompareFleetInput) (activities.CompareFleetResult, error)
	probe   func(activities.ProbeFleetInput) (activities.ProbeFleetResult, error)
	send    func(activities.SignalObservedInput) (activities.SignalObservedResult, error)
	forward func(activities.ShardInput) (activities.ForwardRowsResult, error)
	retry   func(activities.ShardInput) (activities.CountResult, error)
}

func newWorld(t *testing.T, shard int) *world {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	w := &world{t: t, env: suite.NewTestWorkflowEnvironment()}
	w.start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	w.env.SetStartTime(w.start)
	register := func(name string, f any) {
		w.env.RegisterActivityWithOptions(f, sdkactivity.RegisterOptions{Name: name})
	}
	register("CompareFleet", func(ctx context.Context, in activities.CompareFleetInput) (activities.CompareFleetResult, error) {
		w.called(ctx, "compare")
		if w.compare == nil {
			return activities.CompareFleetResult{ListedAt: w.env.Now().UTC()}, nil
		}
		return w.compare(in)
	})
	register("ProbeFleet", func(ctx context.Context, in activities.ProbeFleetInput) (activities.ProbeFleetResult, error) {
		w.called(ctx, "probe")
		if w.probe == nil {
			return activities.ProbeFleetResult{At: w.env.Now().UTC()}, nil
		}
		return w.probe(in)
	})
	register("SignalObserved", func(ctx context.Context, in activities.SignalObservedInput) (activities.SignalObservedResult, error) {
		for _, i := range in.Items {
			w.called(ctx, "send "+i.UID+" "+string(i.Observation.Kind))
		}
		if w.send == nil {
			return activities.SignalObservedResult{Sent: len(in.Items)}, nil
		}
		return w.send(in)
	})
	register("ForwardRows", func(ctx context.Context, in activities.ShardInput) (activities.ForwardRowsResult, error) {
		w.called(ctx, "forward")
		if w.forward == nil {
			return activities.ForwardRowsResult{}, nil
		}
		return w.forward(in)
	})
	register("RetryLatched", func(ctx context.Context, in activities.ShardInput) (activities.CountResult, error) {
		w.called(ctx, "retry")
		if w.retry == nil {
			return activities.CountResult{}, nil
		}
		return w.retry(in)
	})
	register("RequestReports", func(ctx context.Context, _ activities.ShardInput) (activities.CountResult, error) {
		w.called(ctx, "rebuild")
		return activities.CountResult{}, nil
	})
	w.env.RegisterWorkflowWithOptions(fleetwatch.Workflow, workflow.RegisterOptions{Name: workflows.TypeFleetWatch})
	w.env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: workflows.FleetID("local", shard), TaskQueue: workflows.TaskQueue})
	w.env.SetTestTimeout(time.Minute)
	w.env.OnUpsertTypedSearchAttributes(mock.Anything).Return(nil).Maybe()
	return w
}

// called notes a call with the seconds since the start.
func (w *world) called(_ context.Context, what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, w.env.Now().Sub(w.start).Round(time.Second).String()+" "+what)
}

func (w *world) seen(prefix string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, c := range w.calls {
		if _, what, _ := strings.Cut(c, " "); strings.HasPrefix(what, prefix) {
			out = append(out, c)
		}
	}
	return out
}

// at has step done at a time of the workflow's clock.
func (w *world) at(after time.Duration, step func()) { w.env.RegisterDelayedCallback(step, after) }

func (w *world) signal(after time.Duration, name string, arg any) {
	w.at(after, func() { w.env.SignalWorkflow(name, arg) })
}

// run runs the shard until stop, when it is canceled unless it ended.
func (w *world) run(in api.FleetWatchInput, stop time.Duration) error {
	w.t.Helper()
	w.at(stop, w.env.CancelWorkflow)
	w.env.ExecuteWorkflow(workflows.TypeFleetWatch, in)
	if !w.env.IsWorkflowCompleted() {
		w.t.Fatal("the workflow did not end")
	}
	return w.env.GetWorkflowError()
}

// mustStop runs the shard and expects the end by cancellation.
func (w *world) mustStop(in api.FleetWatchInput, stop time.Duration) {
	w.t.Helper()
	if err := w.run(in, stop); !temporal.IsCanceledError(err) {
		w.t.Fatalf("the workflow ended with %v, want the cancellation", err)
	}
}

func query[T any](w *world, name string) T {
	w.t.Helper()
	var out T
	var v converter.EncodedValue
	v, err := w.env.QueryWorkflow(name)
	if err == nil {
		err = v.Get(&out)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

func (w *world) status() api.Fleet     { return query[api.Fleet](w, workflows.QueryStatus) }
func (w *world) table() api.FleetTable { return query[api.FleetTable](w, workflows.QueryTable) }

func condition(f api.Fleet, kind string) api.Condition {
	i := slices.IndexFunc(f.Status.Conditions, func(c api.Condition) bool { return c.Type == kind })
	if i < 0 {
		return api.Condition{}
	}
	return f.Status.Conditions[i]
}

func report(uid string, seq int64, edit ...func(*api.FleetRow)) api.FleetReport {
	r := api.FleetRow{UID: uid, Namespace: "default", Name: "proxy-" + uid, Seq: seq, Phase: api.PhaseRunning, Healthy: true,
		InstanceID: provider.InstanceID("id-" + uid), InstanceName: "name-" + uid, IP: "10.0.0.1", Port: 3128}
	for _, e := range edit {
		e(&r)
	}
	return api.FleetReport{Row: r}
}

func config() api.FleetConfig {
	return api.FleetConfig{ConfigHash: "h1", Shards: 1, DriftInterval: api.Duration(2 * time.Minute), ProbeInterval: api.Duration(30 * time.Second),
		UnhealthyAfter: 3, HealthyAfter: 1, BrakeFraction: .2, BrakeMin: 3}
}

func observation(uid string, kind api.ObservationKind) api.FleetObservation {
	return api.FleetObservation{UID: uid, Namespace: "default", Name: "proxy-" + uid,
		Observation: api.Observation{Kind: kind, InstanceID: provider.InstanceID("id-" + uid)}}
}
