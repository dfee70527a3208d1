package fleetwatch_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

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
	w.mustStop(local, 6*time.Minute+15*time.Second)
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
