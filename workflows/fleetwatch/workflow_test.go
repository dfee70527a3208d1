package fleetwatch_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
	"github.com/tollgate-dev/tollgate/workflows/fleetwatch"
)

var local = api.FleetWatchInput{Provider: "local"}

func TestAShardWithoutConfigurationKeepsTheTableAndMakesNoRounds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.signal(0, workflows.SignalReport, report("b", 1))
	w.signal(time.Minute, workflows.SignalReport, report("a", 1, func(r *api.FleetRow) { r.Healthy, r.Latched = false, true }))
	var first, second api.FleetTable
	w.at(30*time.Second, func() { first = w.table() })
	w.at(time.Hour, func() {
		second = w.table()
		s := w.status()
		if s.Status.Rows != 2 || s.Status.Healthy != 1 || s.Status.Latched != 1 || s.Status.Phases[api.PhaseRunning] != 2 {
			t.Errorf("status %+v, want two rows, one healthy, one latched", s.Status)
		}
		if c := condition(s, api.CondConfigured); c.Status != api.False {
			t.Errorf("condition %+v, want it not configured", c)
		}
	})
	w.mustStop(local, 2*time.Hour)
	if len(w.calls) != 0 {
		t.Errorf("calls %v, want none", w.calls)
	}
	if len(first.Rows) != 1 || len(second.Rows) != 2 || first.Version == second.Version {
		t.Errorf("tables %+v and %+v, want one and two rows of different versions", first, second)
	}
	if got := []string{second.Rows[0].Name, second.Rows[1].Name}; !slices.Equal(got, []string{"proxy-a", "proxy-b"}) {
		t.Errorf("rows %v, want them in order", got)
	}
}

func TestRounds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.signal(0, workflows.SignalConfigure, config())
	w.signal(5*time.Minute, workflows.SignalReport, report("a", 1))
	w.mustStop(local, 6*time.Minute+30*time.Second)
	want := []string{"0s rebuild", "0s retry"}
	if diff := cmp.Diff(want, slices.Concat(w.seen("rebuild"), w.seen("retry"))); diff != "" {
		t.Errorf("first steps (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"0s compare", "2m0s compare", "4m0s compare", "6m0s compare"}, w.seen("compare")); diff != "" {
		t.Errorf("drift rounds (-want +got):\n%s", diff)
	}
	// Nobody to probe at first; then at once, and every interval.
	if diff := cmp.Diff([]string{"5m0s probe", "5m30s probe", "6m0s probe"}, w.seen("probe")); diff != "" {
		t.Errorf("probe rounds (-want +got):\n%s", diff)
	}
}

func TestOnlyShardZeroLists(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	c := config()
	c.Shards = 2
	w.signal(0, workflows.SignalConfigure, c)
	w.mustStop(api.FleetWatchInput{Provider: "local", Shard: 1}, 10*time.Minute)
	if got := w.seen("compare"); got != nil {
		t.Errorf("shard 1 lists: %v", got)
	}
}

func TestDifferencesAreSignalled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.signal(0, workflows.SignalConfigure, config())
	for _, uid := range []string{"a", "b", "c"} {
		w.signal(0, workflows.SignalReport, report(uid, 1))
	}
	w.compare = func(in activities.CompareFleetInput) (activities.CompareFleetResult, error) {
		out := activities.CompareFleetResult{ListedAt: w.env.Now().UTC(), Instances: 2, Rows: 3}
		switch {
		case len(w.seen("compare")) > 2:
		case in.After == "":
			out.Items, out.Next = []api.FleetObservation{observation("a", api.ObservedMissing)}, "a"
			out.Found = map[string]int{"Missing": 2}
		case in.After == "a":
			out.Items = []api.FleetObservation{observation("b", api.ObservedMissing)}
			out.Found = map[string]int{"Missing": 2}
		default:
			t.Errorf("compare after %q", in.After)
		}
		return out, nil
	}
	w.send = func(in activities.SignalObservedInput) (activities.SignalObservedResult, error) {
		return activities.SignalObservedResult{Sent: len(in.Items), Ended: []string{"b", "unknown"}[:len(in.Items)*map[string]int{"a": 0, "b": 2}[in.Items[0].UID]]}, nil
	}
	w.at(time.Minute, func() {
		if s := w.status(); s.Status.Drift.Found["Missing"] != 2 || s.Status.Drift.Instances != 2 || s.Status.Pending != 0 {
			t.Errorf("status %+v, want two missing", s.Status.Drift)
		}
		if rows := w.table().Rows; len(rows) != 2 || rows[0].UID != "a" || rows[1].UID != "c" {
			t.Errorf("rows %v, want b's dropped, whose proxy is gone", rows)
		}
	})
	w.mustStop(local, 3*time.Minute)
	if diff := cmp.Diff([]string{"0s compare", "0s compare", "2m0s compare"}, w.seen("compare")); diff != "" {
		t.Errorf("the round has two parts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"0s send a Missing", "0s send b Missing"}, w.seen("send")); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}

func TestAFailedListingConcludesNothing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err   error
		class string
		next  string // the compare after the failed round
	}{
		"credentials": {temporal.NewNonRetryableApplicationError("401 from the API", string(provider.Permanent), nil), "Permanent", "2m0s compare"},
		"rate limit, with a wait": {temporal.NewNonRetryableApplicationError("429", string(provider.RateLimited), nil,
			activities.FailureDetails{Class: provider.RateLimited, RetryAfter: 7 * time.Minute}), "RateLimited", "7m0s compare"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 0)
			w.signal(0, workflows.SignalReport, report("a", 1))
			w.signal(0, workflows.SignalConfigure, config())
			w.compare = func(activities.CompareFleetInput) (activities.CompareFleetResult, error) {
				if len(w.seen("compare")) == 1 {
					return activities.CompareFleetResult{Items: []api.FleetObservation{observation("a", api.ObservedMissing)}}, tc.err
				}
				return activities.CompareFleetResult{ListedAt: w.env.Now().UTC()}, nil
			}
			w.at(time.Minute, func() {
				s := w.status()
				if c := condition(s, api.CondListed); c.Status != api.False || c.Reason != tc.class || s.Status.Drift.Failures != 1 {
					t.Errorf("condition %+v, drift %+v, want the failure of class %s", c, s.Status.Drift, tc.class)
				}
			})
			w.at(8*time.Minute, func() {
				if c := condition(w.status(), api.CondListed); c.Status != api.True {
					t.Errorf("condition %+v, want it listed again", c)
				}
			})
			w.mustStop(local, 9*time.Minute)
			if got := w.seen("send"); got != nil {
				t.Errorf("sent %v", got)
			}
			if got := w.seen("compare"); len(got) < 2 || got[1] != tc.next {
				t.Errorf("compares %v, want the second one to be %q", got, tc.next)
			}
		})
	}
}

// TestBrake has more proxies fail than is believed, releases the brake while a
// round is under way, and has them recover.
func TestBrake(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.signal(0, workflows.SignalConfigure, config())
	for _, uid := range []string{"a", "b", "c"} {
		w.signal(0, workflows.SignalReport, report(uid, 1))
	}
	failing := true
	var released []bool
	w.probe = func(in activities.ProbeFleetInput) (activities.ProbeFleetResult, error) {
		released = append(released, in.Released)
		out := activities.ProbeFleetResult{At: w.env.Now().UTC(), Probed: 3}
		switch {
		case failing && in.Released:
			out.Failing, out.Brake.Released = map[string]int{"timeout": 3}, true
			out.Items = []api.FleetObservation{observation("a", api.ObservedUnhealthy)}
			out.Counters = []api.ProbeCounter{{UID: "a", Fails: 3, Down: true, Class: "timeout"}, {UID: "not in the table", Fails: 1}}
		case failing:
			out.Failing = map[string]int{"timeout": 3}
			out.Brake = api.FleetBrake{On: true, Reason: api.ReasonManyFailing, Message: "probe network suspect: 3 of 3 probes fail at once"}
		}
		return out, nil
	}
	w.at(45*time.Second, func() {
		s := w.status()
		c := condition(s, api.CondProbesTrusted)
		if !s.Status.Brake.On || c.Status != api.False || c.Reason != api.ReasonManyFailing || !s.Status.Brake.Since.Equal(w.start) {
			t.Errorf("brake %+v and condition %+v, want it on since the first round", s.Status.Brake, c)
		}
		if got := w.seen("send"); got != nil {
			t.Errorf("sent under the brake: %v", got)
		}
	})
	w.signal(50*time.Second, workflows.SignalRelease, nil)
	w.at(55*time.Second, func() {
		s := w.status()
		if s.Status.Brake.On || !s.Status.Brake.Released || len(s.Status.Failing) != 1 || s.Status.Failing[0].Name != "proxy-a" || !s.Status.Failing[0].Told {
			t.Errorf("status %+v, want it released and a told", s.Status)
		}
	})
	w.at(time.Minute, func() { failing = false })
	w.at(2*time.Minute, func() {
		s := w.status()
		if s.Status.Brake != (api.FleetBrake{}) || condition(s, api.CondProbesTrusted).Reason != "Trusted" {
			t.Errorf("brake %+v, want none", s.Status.Brake)
		}
	})
	w.mustStop(local, 150*time.Second)
	if got := w.seen("send"); len(got) == 0 || got[0] != "50s send a Unhealthy" {
		t.Errorf("sent %v, want a told when the brake is released", got)
	}
	if want := []bool{false, false, true}; !slices.Equal(released[:3], want) {
		t.Errorf("released in the first rounds: %v, want %v", released[:3], want)
	}
}

func TestAProbeRoundThatFailsSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.signal(0, workflows.SignalConfigure, config())
	w.signal(0, workflows.SignalReport, report("a", 1))
	w.probe = func(activities.ProbeFleetInput) (activities.ProbeFleetResult, error) {
		return activities.ProbeFleetResult{}, temporal.NewNonRetryableApplicationError("no table", "Transient", nil)
	}
	w.at(10*time.Second, func() {
		if c := condition(w.status(), api.CondProbesTrusted); c.Status != api.False || c.Message != "no table" {
			t.Errorf("condition %+v, want the failure", c)
		}
	})
	w.mustStop(local, time.Minute+15*time.Second)
	if got := w.seen("probe"); len(got) != 3 {
		t.Errorf("rounds %v, want one every 30 s", got)
	}
}

func TestRowsOfProxiesThatAreGoneAreDropped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.signal(0, workflows.SignalConfigure, config())
	w.signal(0, workflows.SignalReport, report("a", 1))
	w.signal(0, workflows.SignalReport, report("b", 1))
	w.signal(10*time.Second, workflows.SignalReport, report("b", 2))
	w.probe = func(activities.ProbeFleetInput) (activities.ProbeFleetResult, error) {
		return activities.ProbeFleetResult{At: w.env.Now(), Ended: []activities.RowRef{{UID: "a", Seq: 1}, {UID: "b", Seq: 1}, {UID: "c", Seq: 1}}, OwnersAfter: "b"}, nil
	}
	w.at(35*time.Second, func() {
		// b was there at the first round; a report of it came later.
		if rows := w.table().Rows; len(rows) != 1 || rows[0].UID != "b" || rows[0].Seq != 2 {
			t.Errorf("rows %+v, want b's new one only", rows)
		}
	})
	w.probe = func(in activities.ProbeFleetInput) (activities.ProbeFleetResult, error) {
		out := activities.ProbeFleetResult{At: w.env.Now(), OwnersAfter: "b"}
		if len(w.seen("probe")) == 2 {
			out.Ended = []activities.RowRef{{UID: "a", Seq: 1}, {UID: "b", Seq: 1}, {UID: "c", Seq: 1}}
			if in.OwnersAfter != "b" {
				t.Errorf("the second round looks at owners after %q", in.OwnersAfter)
			}
		}
		return out, nil
	}
	w.mustStop(local, time.Minute)
}

func TestMoreShards(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	uids := []string{"a", "b", "c", "d", "e", "f"}
	var other []string
	w.signal(0, workflows.SignalConfigure, config())
	for _, uid := range uids {
		w.signal(0, workflows.SignalReport, report(uid, 1))
		if workflows.ShardOf(uid, 2) != 0 {
			other = append(other, uid)
		}
	}
	c := config()
	c.Shards = 2
	w.signal(time.Minute, workflows.SignalConfigure, c)
	w.forward = func(in activities.ShardInput) (activities.ForwardRowsResult, error) {
		if in.Shards != 2 {
			t.Errorf("rows are handed over to %d shards", in.Shards)
		}
		// One at a time, and the first call fails.
		if len(w.seen("forward")) == 1 {
			return activities.ForwardRowsResult{}, errors.New("unavailable")
		}
		out := activities.ForwardRowsResult{Forwarded: []activities.RowRef{{UID: other[0], Seq: 1}}, More: len(other) > 1}
		other = other[1:]
		return out, nil
	}
	w.at(5*time.Minute, func() {
		for _, r := range w.table().Rows {
			if workflows.ShardOf(r.UID, 2) != 0 {
				t.Errorf("row %s is still in shard 0", r.UID)
			}
		}
	})
	w.mustStop(local, 6*time.Minute)
	if len(other) != 0 {
		t.Errorf("rows not handed over: %v", other)
	}
}

func TestAShardTooManyEndsOnceItIsEmpty(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.signal(0, workflows.SignalReport, report("a", 1))
	w.signal(time.Minute, workflows.SignalConfigure, config()) // one shard
	w.forward = func(activities.ShardInput) (activities.ForwardRowsResult, error) {
		return activities.ForwardRowsResult{Forwarded: []activities.RowRef{{UID: "a", Seq: 1}}}, nil
	}
	if err := w.run(api.FleetWatchInput{Provider: "local", Shard: 1}, time.Hour); err != nil {
		t.Errorf("the workflow ended with %v, want success", err)
	}
	if diff := cmp.Diff([]string{"1m0s forward"}, w.seen("")); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestAFleetThatNobodyServesEndsOnceItIsEmpty(t *testing.T) {
	t.Parallel()
	gone := report("a", 2)
	gone.Gone = true
	t.Run("never configured", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, 0)
		w.signal(0, workflows.SignalReport, report("a", 1))
		w.signal(time.Minute, workflows.SignalReport, gone)
		if err := w.run(local, time.Hour); err != nil || w.env.Now().Sub(w.start) > 2*time.Minute {
			t.Errorf("the workflow ended with %v after %s, want success at the end of its proxy", err, w.env.Now().Sub(w.start))
		}
	})
	t.Run("no longer configured", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, 0)
		w.signal(0, workflows.SignalConfigure, config())
		w.signal(0, workflows.SignalReport, report("a", 1))
		w.compare = func(activities.CompareFleetInput) (activities.CompareFleetResult, error) {
			return activities.CompareFleetResult{}, temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)
		}
		w.at(10*time.Minute, func() {
			if c := condition(w.status(), api.CondListed); c.Reason != "NoWorker" {
				t.Errorf("condition %+v, want that no worker serves it", c)
			}
		})
		w.signal(11*time.Minute, workflows.SignalReport, gone)
		if err := w.run(local, time.Hour); err != nil {
			t.Errorf("the workflow ended with %v, want success at the end of its proxy", err)
		}
	})
}

func TestAnotherConfigurationTellsLatchedProxies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.signal(0, workflows.SignalConfigure, config())
	w.signal(time.Minute, workflows.SignalConfigure, config())
	c := config()
	c.ConfigHash = "h2"
	w.signal(2*time.Minute+5*time.Second, workflows.SignalConfigure, c)
	w.mustStop(local, 3*time.Minute)
	if diff := cmp.Diff([]string{"0s retry", "2m5s retry"}, w.seen("retry")); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	if got := w.seen("compare"); !slices.Contains(got, "2m5s compare") {
		t.Errorf("compares %v, want one at the change", got)
	}
}

func TestInvalidInput(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		id   string
		in   api.FleetWatchInput
		says string
	}{
		"no provider":    {"fleet//0", api.FleetWatchInput{}, "provider: is required"},
		"negative shard": {"fleet/local/-1", api.FleetWatchInput{Provider: "local", Shard: -1}, "shard: -1 is negative"},
		"another id":     {"my-fleet", local, `workflow id "my-fleet": want fleet/local/0`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 0)
			w.env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: tc.id, TaskQueue: workflows.TaskQueue})
			err := w.run(tc.in, time.Hour)
			var app *temporal.ApplicationError
			if !errors.As(err, &app) || app.Type() != fleetwatch.ErrInvalidInput || !app.NonRetryable() || !strings.Contains(app.Message(), tc.says) {
				t.Errorf("the workflow ended with %v, want a final error with %q", err, tc.says)
			}
		})
	}
}

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
		w.compare = func(activities.CompareFleetInput) (activities.CompareFleetResult, error) {
			w.env.SetContinueAsNewSuggested(true)
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
		w.compare = func(activities.CompareFleetInput) (activities.CompareFleetResult, error) {
			w.env.SetCurrentHistoryLength(20_000)
			w.env.SetContinueAsNewSuggested(true)
			return activities.CompareFleetResult{}, errors.New("again and again")
		}
		w.retry = func(activities.ShardInput) (activities.CountResult, error) {
			return activities.CountResult{}, errors.New("unavailable")
		}
		in := carriedBy(t, w.run(local, time.Hour))
		if len(in.Carried.Rows) != 1 || !in.Carried.NextDrift.Equal(w.start) || !in.Carried.Retry {
			t.Errorf("carried %+v, want the row, and what was under way still to do", in.Carried)
		}
	})
}
