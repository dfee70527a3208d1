package fleetwatch_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// carriedBy runs a shard that is told to continue as new and returns what it
// hands over.
func carriedBy(t *testing.T, err error) api.FleetWatchInput {
	t.Helper()
	var next *workflow.ContinueAsNewError
	if !errors.As(err, &next) {
		t.Fatalf("the workflow ended with %v, want a continue-as-new", err)
	}
	var in api.FleetWatchInput
	if err := converter.GetDefaultDataConverter().FromPayloads(next.Input, &in); err != nil {
		t.Fatal(err)
	}
	if next.WorkflowType.Name != workflows.TypeFleetWatch {
		t.Errorf("it continues as %q", next.WorkflowType.Name)
	}
	return in
}

// TestContinueAsNewLosesNothing sends 1,000 signals, some of them in the same
// workflow task in which the run ends, and compares what queries say before and
// after.
func TestContinueAsNewLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.signal(0, workflows.SignalConfigure, config())
	w.probe = func(activities.ProbeFleetInput) (activities.ProbeFleetResult, error) {
		return activities.ProbeFleetResult{At: w.env.Now().UTC(), Probed: 1, Failing: map[string]int{"auth": 1},
			Counters: []api.ProbeCounter{{UID: "uid-001", Fails: 2, Class: "auth"}}, OwnersAfter: "uid-007"}, nil
	}
	const signals, proxies = 1000, 250
	send := func(n int) {
		r := report(fmt.Sprintf("uid-%03d", n%proxies), int64(1+n/proxies), func(r *api.FleetRow) { r.IP = fmt.Sprintf("10.0.%d.%d", n/250, n%250) })
		if n%97 == 96 {
			r.Gone = true
		}
		w.env.SignalWorkflow(workflows.SignalReport, r)
	}
	for n := range signals - 100 {
		w.at(time.Second+time.Duration(n)*time.Millisecond, func() { send(n) })
	}
	w.at(10*time.Second, func() {
		// The last hundred are there when the run decides to end.
		for n := signals - 100; n < signals-1; n++ {
			w.env.SignalWorkflowSkippingWorkflowTask(workflows.SignalReport,
				report(fmt.Sprintf("uid-%03d", n%proxies), int64(1+n/proxies), func(r *api.FleetRow) { r.IP = "10.9.9.9" }))
		}
		w.env.SetContinueAsNewSuggested(true)
		send(signals - 1)
	})
	in := carriedBy(t, w.run(local, time.Hour))
	before, table := w.status(), w.table()
	if len(table.Rows) == 0 || before.Status.Probe.Probed != 1 || before.Status.Drift.ListedAt.IsZero() {
		t.Fatalf("the run before: %+v", before.Status)
	}

	next := newWorld(t, 0)
	next.env.SetStartTime(w.start.Add(11 * time.Second))
	next.start = w.start.Add(11 * time.Second)
	var after api.Fleet
	var again api.FleetTable
	next.at(time.Millisecond, func() { after, again = next.status(), next.table() })
	next.mustStop(in, time.Second)
	if diff := cmp.Diff(table.Rows, again.Rows); diff != "" {
		t.Errorf("rows (-before +after):\n%s", diff)
	}
	before.Status.Version, after.Status.Version = "", ""
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("status (-before +after):\n%s", diff)
	}
	if in.Carried.Rebuild || in.Carried.Retry || len(next.seen("rebuild")) != 0 {
		t.Error("the next run rebuilds what it has")
	}
}

func TestContinueAsNewWaitsForJobsButNotForEver(t *testing.T) {
	t.Parallel()
	t.Run("waits", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, 0)
		w.signal(0, workflows.SignalConfigure, config())
		w.at(500*time.Millisecond, func() { w.env.SetContinueAsNewSuggested(true) })
		w.compare = func(activities.CompareFleetInput) (activities.CompareFleetResult, error) {
			if len(w.seen("compare")) == 1 {
				return activities.CompareFleetResult{}, errors.New("once more, in a second")
			}
			return activities.CompareFleetResult{ListedAt: w.env.Now().UTC(), Instances: 42, Items: []api.FleetObservation{observation("a", api.ObservedMissing)}}, nil
		}
		in := carriedBy(t, w.run(local, time.Hour))
		if in.Carried.Drift.Instances != 42 || len(in.Carried.Outbox) != 1 {
			t.Errorf("carried %+v, want the result of the job under way", in.Carried)
		}
		if got := w.seen("send"); got != nil {
			t.Errorf("sent %v, want that left to the next run", got)
		}
		next := newWorld(t, 0)
		next.mustStop(in, time.Second)
		if diff := cmp.Diff([]string{"0s send a Missing"}, next.seen("send")); diff != "" {
			t.Errorf("the next run sends (-want +got):\n%s", diff)
		}
	})
	t.Run("not for ever", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, 0)
		w.signal(0, workflows.SignalConfigure, config())
		w.signal(0, workflows.SignalReport, report("a", 1))
		w.at(500*time.Millisecond, func() {
			w.env.SetCurrentHistoryLength(20_000)
			w.env.SetContinueAsNewSuggested(true)
			w.env.SignalWorkflow(workflows.SignalReport, report("b", 1))
		})
		w.compare = func(activities.CompareFleetInput) (activities.CompareFleetResult, error) {
			return activities.CompareFleetResult{}, errors.New("again and again")
		}
		w.retry = func(activities.ShardInput) (activities.CountResult, error) {
			return activities.CountResult{}, errors.New("unavailable")
		}
		in := carriedBy(t, w.run(local, time.Hour))
		if len(in.Carried.Rows) != 2 || !in.Carried.NextDrift.Equal(w.start) || !in.Carried.Retry {
			t.Errorf("carried %+v, want both rows, and what was under way still to do", in.Carried)
		}
	})
}
