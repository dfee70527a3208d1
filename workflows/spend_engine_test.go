package workflows_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/activities"
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
	if err := workers[0].Tell(t.Context(), "mem", api.SpendRelease{Instance: request(granted[0]).Instance}); err != nil {
		t.Fatal(err)
	}
	told := func() (n int) {
		for i := range 40 {
			if slices.Contains(w.seen(fmt.Sprint("p", i)), "retry") {
				n++
			}
		}
		return n
	}
	w.eventually("one is told", func() bool { return told() > 0 })
	if n := told(); n != 1 {
		t.Errorf("%d were told of room for one", n)
	}
	config.SpendCap = most + 2*price
	w.configure(0, config)
	w.eventually("two more are told", func() bool { return told() == 3 })
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
