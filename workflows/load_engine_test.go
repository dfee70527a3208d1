package workflows_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/historytest"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// TestFleetHoldsAFullShard fills a shard with rows as large as they may be,
// which its continue-as-new has to carry in one payload, and reports one proxy
// more.
func TestFleetHoldsAFullShard(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	config := fleetConfig()
	config.DriftInterval, config.ProbeInterval = api.Duration(time.Hour), api.Duration(time.Hour)
	w.configure(0, config, func(in *api.FleetWatchInput) { in.ContinueAfter = 1500 })
	wide := func(r *api.FleetRow) {
		r.Labels = map[string]string{"team": strings.Repeat("t", 60), "purpose": strings.Repeat("p", 60)}
		r.Phase, r.Since = api.PhaseProvisioning, time.Now()
	}
	start := time.Now()
	var wg sync.WaitGroup
	next := make(chan int)
	for range 24 {
		wg.Go(func() {
			for n := range next {
				uid := fmt.Sprintf("0190a000-0000-7000-8000-%012d", n)
				report := api.FleetReport{Row: row(uid, fmt.Sprintf("proxy-%04d", n), wide)}
				if err := w.fleet.ReportFleet(t.Context(), activities.ReportFleetInput{Provider: "mem", Report: report}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for n := range api.MaxFleetRows {
		next <- n
	}
	close(next)
	wg.Wait()
	took := time.Since(start)
	w.eventually("all rows", func() bool { return w.fleetStatus(0).Rows == api.MaxFleetRows })
	t.Logf("%d reports in %s, %.0f/s", api.MaxFleetRows, took.Round(time.Millisecond), api.MaxFleetRows/took.Seconds())
	w.report(api.FleetReport{Row: row("one-too-many", "one-too-many", wide)})
	w.eventually("the one too many to be refused", func() bool { return w.fleetStatus(0).Refused.Count == 1 })
	if d := w.details(fleetID); !has(d, "**1 refused**", "default/one-too-many") {
		t.Errorf("details:\n%s", d)
	}
	// What is refused is said again after the next continue-as-new.
	w.signal(fleetID, "report", api.FleetReport{Row: row(fmt.Sprintf("0190a000-0000-7000-8000-%012d", 7), "proxy-0007", wide, func(r *api.FleetRow) { r.Seq = 2 })})
	w.eventually("the report of a proxy that it knows", func() bool { return w.rows(0)[fmt.Sprintf("0190a000-0000-7000-8000-%012d", 7)].Seq == 2 })
	runs, err := historytest.Runs(t.Context(), w.client, fleetID)
	if err != nil || len(runs) < 2 {
		t.Fatalf("%d runs, %v; want more than one", len(runs), err)
	}
	begin := time.Now()
	rows := w.rows(0)
	t.Logf("query of %d rows in %s", len(rows), time.Since(begin).Round(time.Millisecond))
}
