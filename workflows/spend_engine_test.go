package workflows_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/converter"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/historytest"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Many workers ask at once while the fleet continues as new under them: what is
// let through is exactly what there is room for, and those who wait are told
// when there is more.
func TestSpendCapOnTheEngine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const price, most = 6000, 60_000
	config := fleetConfig()
	config.SpendCap = most
	w.configure(0, config, func(in *api.FleetWatchInput) { in.ContinueAfter = 100 })
	w.eventually("the costs are known", func() bool { s := w.fleetStatus(0).Spend; return s != nil && s.SpendCap == "0.060000" })

	workers := make([]*activities.Spend, 3)
	for i := range workers {
		workers[i] = activities.NewSpend(w.client, func(string) provider.MicroEUR { return most }, &activities.Prices{}, nil)
	}
	request := func(n int) api.SpendRequest {
		name := fmt.Sprint("p", n)
		return api.SpendRequest{UID: "uid-" + name, Namespace: "default", Proxy: name, Instance: "inst-" + name, Price: price, Known: true, Cap: most}
	}
	asked := func(n int) api.SpendAnswer {
		for {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			a, err := workers[n%len(workers)].Ask(ctx, "mem", request(n))
			cancel()
			switch {
			case err != nil && t.Context().Err() != nil:
				t.Error(err)
				return a
			case err == nil && !a.Unready:
				return a
			}
			// As an activity would: the fleet was between two runs.
		}
	}
	var mu sync.Mutex
	var granted []int
	var wg sync.WaitGroup
	for n := range 40 {
		w.proxy(fmt.Sprint("p", n))
		wg.Go(func() {
			for range 2 { // each tries again
				if a := asked(n); a.Granted {
					mu.Lock()
					if !slices.Contains(granted, n) {
						granted = append(granted, n)
					}
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if len(granted) != most/price {
		t.Fatalf("%d creates were let through, want %d", len(granted), most/price)
	}
	if s := w.fleetStatus(0).Spend; s.EURPerHour != "0.060000" || s.Waiting != 30 {
		t.Errorf("status %+v", s)
	}
	first, err := w.client.DescribeWorkflow(t.Context(), workflows.FleetID("mem", 0), "")
	if err != nil {
		t.Fatal(err)
	}
	if info := first.RawResponse.GetWorkflowExecutionInfo(); info.GetFirstRunId() == info.GetExecution().GetRunId() {
		t.Error("the fleet did not continue as new meanwhile")
	}

	// One of those that were let through ends; one that waits is told.
	told := func() (n int) {
		for i := range 40 {
			if slices.Contains(w.seen(fmt.Sprint("p", i)), "retry") {
				n++
			}
		}
		return n
	}
	if err := workers[0].Tell(t.Context(), "mem", api.SpendRelease{Instance: request(granted[0]).Instance}); err != nil {
		t.Fatal(err)
	}
	w.eventually("one is told", func() bool { return told() > 0 })
	more := time.Now()
	config.SpendCap = most + 2*price
	w.configure(0, config)
	w.eventually("two more are told", func() bool { return told() >= 3 })
	w.wantRoomKept(func(at time.Time) int {
		if at.Before(more) {
			return 1
		}
		return 3
	})
}

// wantRoomKept checks that no more proxies were told than there was room for. The
// room of one that does not come, and here none does, is kept for half a minute;
// then the next are told.
func (w *world) wantRoomKept(room func(at time.Time) int) {
	w.t.Helper()
	runs, err := historytest.Runs(w.t.Context(), w.client, workflows.FleetID("mem", 0))
	if err != nil {
		w.t.Fatal(err)
	}
	var at []time.Time // of each proxy that was told, as the fleet sees the time
	for _, run := range runs {
		var now time.Time
		for _, e := range historytest.Fetch(w.t, w.client, workflows.FleetID("mem", 0), run).GetEvents() {
			if e.GetWorkflowTaskStartedEventAttributes() != nil {
				now = e.GetEventTime().AsTime()
			}
			job := e.GetActivityTaskScheduledEventAttributes()
			if job.GetActivityType().GetName() != "RetryProxies" {
				continue
			}
			var in activities.RetryProxiesInput
			if err := converter.GetDefaultDataConverter().FromPayloads(job.GetInput(), &in); err != nil {
				w.t.Fatal(err)
			}
			for range in.Proxies {
				at = append(at, now)
			}
		}
	}
	for i, last := range at {
		kept := 0
		for _, t := range at[:i+1] {
			if last.Sub(t) < 30*time.Second {
				kept++
			}
		}
		if most := room(last); kept > most {
			w.t.Fatalf("%d were told within half a minute before %s, of room for %d", kept, last, most)
		}
	}
	if len(at) < 3 {
		w.t.Errorf("%d were told, want 3 or more", len(at))
	}
}

// A small fleet with a cap, recorded.
func TestSpendCapHistory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	config := fleetConfig()
	config.DriftInterval = api.Duration(time.Minute)
	config.SpendCap = 6000
	w.configure(0, config)
	w.eventually("the costs are known", func() bool { return w.fleetStatus(0).Spend != nil })
	spend := activities.NewSpend(w.client, func(string) provider.MicroEUR { return 6000 }, &activities.Prices{}, nil)
	for i, want := range []bool{true, false} {
		name := fmt.Sprint("p", i)
		w.proxy(name)
		a, err := spend.Ask(t.Context(), "mem", api.SpendRequest{UID: "uid-" + name, Namespace: "default", Proxy: name, Instance: "inst-" + name, Price: 6000, Known: true, Cap: 6000})
		if err != nil || a.Granted != want {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
	if err := spend.Tell(t.Context(), "mem", api.SpendRelease{Instance: "inst-p0"}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the second is told", func() bool { return slices.Contains(w.seen("p1"), "retry") })
	w.eventually("the job is done", func() bool {
		return w.events(workflows.FleetID("mem", 0), "EVENT_TYPE_ACTIVITY_TASK_COMPLETED") >= 2 || w.events(workflows.FleetID("mem", 0), "ActivityTaskCompleted") >= 2
	})
	w.replay(workflows.FleetID("mem", 0), "", "spend-cap")
}

// A create that comes before any worker has configured the fleet starts it.
func TestFirstCreateStartsTheFleet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	spend := activities.NewSpend(w.client, func(string) provider.MicroEUR { return 6000 }, &activities.Prices{}, nil)
	a, err := spend.Ask(t.Context(), "mem", api.SpendRequest{UID: "u", Namespace: "default", Proxy: "p", Instance: "i", Price: 1, Known: true, Cap: 6000})
	if err != nil || a.Granted || !a.Unready {
		t.Errorf("%+v, %v", a, err)
	}
	if s := w.fleetStatus(0); s.Spend != nil || s.Rows != 0 {
		t.Errorf("status %+v", s)
	}
}
