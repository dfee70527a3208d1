//go:build bench

package bench

import (
	"fmt"
	"maps"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/tollgate-dev/tollgate/internal/provider/memory"
	"github.com/tollgate-dev/tollgate/workflows"
)

// Rounds of an hour at the default intervals.
const (
	probesPerHour   = 120
	listingsPerHour = 30
)

// rounds is what the history of a fleet says of its rounds.
type rounds struct {
	run              string
	events           int
	probes, listings []round
}

// round is one activity, from its start on the worker to its end.
type round struct{ took time.Duration }

// rounds reads the current run of the fleet.
func (w *world) rounds() rounds {
	w.b.Helper()
	h, err := w.history(workflows.FleetID("mem", 0))
	if err != nil {
		w.b.Fatal(err)
	}
	out := rounds{run: h[0].GetWorkflowExecutionStartedEventAttributes().GetOriginalExecutionRunId(), events: len(h)}
	names, started := map[int64]string{}, map[int64]*historypb.HistoryEvent{}
	for _, e := range h {
		switch e.GetEventType() {
		case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
			names[e.GetEventId()] = e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName()
		case enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED:
			started[e.GetActivityTaskStartedEventAttributes().GetScheduledEventId()] = e
		case enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
			id := e.GetActivityTaskCompletedEventAttributes().GetScheduledEventId()
			r := round{e.GetEventTime().AsTime().Sub(started[id].GetEventTime().AsTime())}
			switch names[id] {
			case "ProbeFleet":
				out.probes = append(out.probes, r)
			case "CompareFleet":
				out.listings = append(out.listings, r)
			}
		}
	}
	return out
}

func times(rs []round) []time.Duration {
	var out []time.Duration
	for _, r := range rs {
		out = append(out, r.took)
	}
	return out
}

// waitRounds waits until the fleet has made so many more rounds than at before,
// which must be in the same run.
func (w *world) waitRounds(before rounds, probes, listings int) rounds {
	w.b.Helper()
	return w.roundsAfter(before, probes, listings, true)
}

// settle waits until the fleet has made so many rounds from now on.
func (w *world) settle(probes, listings int) rounds {
	w.b.Helper()
	return w.roundsAfter(w.rounds(), probes, listings, false)
}

func (w *world) roundsAfter(before rounds, probes, listings int, sameRun bool) rounds {
	w.b.Helper()
	var now rounds
	eventually(w.b, 10*time.Minute, time.Second, func() string {
		now = w.rounds()
		if now.run != before.run {
			if sameRun {
				w.b.Fatal("the fleet continued as new in between: its events cannot be compared")
			}
			before = rounds{run: now.run}
		}
		p, l := len(now.probes)-len(before.probes), len(now.listings)-len(before.listings)
		if p < probes || l < listings {
			return fmt.Sprintf("%d of %d probe rounds and %d of %d listings were made", p, probes, l, listings)
		}
		return ""
	})
	return now
}

// lengths are the numbers of history events of proxies.
func (w *world) lengths(names []string) map[string]int64 {
	w.b.Helper()
	all := make([]int64, len(names))
	parallel(w.b, len(names), 8, func(i int) error {
		d, err := w.client.DescribeWorkflow(w.b.Context(), workflows.ProxyID(namespace, names[i]), "")
		if err == nil {
			all[i] = d.RawResponse.GetWorkflowExecutionInfo().GetHistoryLength()
		}
		return err
	})
	out := map[string]int64{}
	for i, n := range names {
		out[n] = all[i]
	}
	return out
}

// BenchmarkIdle lets as many rounds pass as an hour has and counts what they
// leave in the histories of proxies that nothing happens to.
func BenchmarkIdle(b *testing.B) {
	const proxies = 50
	w := newWorld(b, setting{probe: time.Second, drift: 4 * time.Second})
	names := make([]string, proxies)
	parallel(b, proxies, 16, func(i int) error {
		names[i] = fmt.Sprintf("idle-%d", i)
		_, err := w.create(b.Context(), names[i], w.spec())
		return err
	})
	w.waitHealthy(proxies, 3*time.Minute)
	// The last reports are under way until the histories stand still.
	settled := w.settle(3, 1)
	var grown int64
	var perRound float64
	for b.Loop() {
		before, calls, start := w.lengths(names), w.worker.calls(), settled
		end := w.waitRounds(start, probesPerHour, listingsPerHour)
		after := w.lengths(names)
		grown = 0
		for n := range after {
			grown += after[n] - before[n]
		}
		if !maps.Equal(before, after) {
			b.Errorf("%d events in the histories of proxies that nothing happens to", grown)
		}
		if got := callsSince(calls, w.worker.calls(), memory.CallGetServer); got != 0 {
			b.Errorf("%d calls about single instances", got)
		}
		made := len(end.probes) - len(start.probes) + len(end.listings) - len(start.listings)
		perRound = float64(end.events-start.events) / float64(made)
		settled = end
	}
	summary.add(b, "events/proxy-hour", fmt.Sprintf("history events of an idle proxy in %d probe rounds and %d listings", probesPerHour, listingsPerHour),
		float64(grown)/proxies, "", atMost(0))
	summary.add(b, "fleet-events/round", "history events of the fleet watch in a round", perRound, "", info)
	summary.add(b, "fleet-events/hour", "that is, in an hour, whatever the number of proxies", perRound*(probesPerHour+listingsPerHour), "", info)
}

func callsSince(before, after map[memory.Call]int, kinds ...memory.Call) int {
	n := 0
	for _, k := range kinds {
		n += after[k] - before[k]
	}
	return n
}
