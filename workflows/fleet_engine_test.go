package workflows_test

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/historytest"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/memory"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// fleetID is the id of the shard that most tests watch.
var fleetID = workflows.FleetID("mem", 0)

func addr(n int) string { return fmt.Sprintf("10.1.0.%d:3128", n) }

func at(n int) func(*api.FleetRow) {
	return func(r *api.FleetRow) { r.IP = fmt.Sprintf("10.1.0.%d", n) }
}

// server places the instance that a row names and returns an edit that makes the
// row fit it.
func (w *world) server(uid, name string) func(*api.FleetRow) {
	s := w.backend.Place(memory.NewServer{Name: "inst-" + name, Region: "north",
		Labels: provider.Marks{UID: uid, Installation: installation, Namespace: "default", Proxy: name}.Labels()})
	return func(r *api.FleetRow) { r.InstanceID, r.IP = memory.ID(s), s.IP.String() }
}

func TestFleetFindsWhatHappensToInstances(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"well", "killed", "stopped", "ended"} {
		uid := w.proxy(name)
		w.report(api.FleetReport{Row: row(uid, name, w.server(uid, name))})
	}
	w.configure(0, fleetConfig())
	w.eventually("the first rounds", func() bool {
		s := w.fleetStatus(0)
		return s.Drift.Instances == 4 && s.Drift.Rows == 4 && s.Probe.Probed == 4 && len(s.Drift.Found) == 0
	})
	w.backend.Kill("inst-killed")
	w.backend.Stop("inst-stopped")
	if err := w.client.TerminateWorkflow(t.Context(), workflows.ProxyID("default", "ended"), "", "test"); err != nil {
		t.Fatal(err)
	}
	w.eventually("the missing one to be told", func() bool { return contains(w.seen("killed"), "Missing") })
	w.eventually("the stopped one to be told", func() bool { return contains(w.seen("stopped"), "Stopped") })
	w.eventually("the row of the terminated one to go", func() bool { return len(w.rows(0)) == 3 })
	if got := w.told("well"); len(got) != 0 {
		t.Errorf("the one that is well was told %v", got)
	}
	if d := w.details(fleetID); !has(d, "**mem, shard 0**: 3 proxies", "last listing", "3 instances", "last probes") {
		t.Errorf("details:\n%s", d)
	}
	w.replay(fleetID, "", "rounds")
}

func TestFleetBelievesFewFailuresAndNotMany(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for n := range 4 {
		name := fmt.Sprint("p", n)
		w.report(api.FleetReport{Row: row(w.proxy(name), name, at(n), func(r *api.FleetRow) { r.InstanceID = "" })})
	}
	w.configure(0, fleetConfig())
	w.set(func() { w.failing[addr(0)] = true })
	w.eventually("one failing proxy to be told", func() bool { return contains(w.seen("p0"), "Unhealthy") })
	w.set(func() { w.failing[addr(0)] = false })
	w.eventually("its recovery", func() bool { return contains(w.seen("p0"), "Healthy") })

	w.set(func() {
		for n := range 3 {
			w.failing[addr(n)] = true
		}
	})
	w.eventually("the brake", func() bool { return w.fleetStatus(0).Brake.On })
	rounds := w.fleetStatus(0).Probe.At
	w.eventually("two more rounds under the brake", func() bool { return w.fleetStatus(0).Probe.At.Sub(rounds) > 2*time.Second })
	for n, want := range []int{1, 0, 0, 0} {
		if name := fmt.Sprint("p", n); count(w.seen(name), "Unhealthy") != want {
			t.Errorf("%s was told under the brake: %v", name, w.seen(name))
		}
	}
	if d := w.details(fleetID); !has(d, "**Brake on** since", "3 of 4 probes fail at once", "--name release") {
		t.Errorf("details:\n%s", d)
	}
	w.signal(fleetID, workflows.SignalRelease, nil)
	w.eventually("the others to be told after the release", func() bool { return contains(w.seen("p1"), "Unhealthy") && contains(w.seen("p2"), "Unhealthy") })
	w.set(func() { clear(w.failing) })
	w.eventually("the end of the release", func() bool { s := w.fleetStatus(0); return !s.Brake.Released && len(s.Failing) == 0 })

	w.set(func() { w.failing[addr(3)], w.control = true, "nothing listens at the target" })
	w.eventually("the brake for the control", func() bool { return w.fleetStatus(0).Brake.Reason == api.ReasonControlFailed })
	w.replay(fleetID, "", "brake")
}

func TestFleetTellsWhoShouldReportAndTryAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.proxy("lost")
	latched := w.proxy("latched")
	w.eventually("visibility to know both", func() bool {
		n, err := w.client.CountWorkflow(t.Context(), &workflowservice.CountWorkflowExecutionsRequest{
			Query: "WorkflowType = 'Proxy' AND ExecutionStatus = 'Running' AND TollgateProvider = 'mem'"})
		return err == nil && n.GetCount() == 2
	})
	w.report(api.FleetReport{Row: row(latched, "latched", func(r *api.FleetRow) { r.Phase, r.Healthy, r.Latched = api.PhasePending, false, true })})
	// A table without history may be one that was lost.
	w.configure(0, fleetConfig())
	w.eventually("the lost one to be asked", func() bool { return contains(w.seen("lost"), "ReportWanted") })
	w.eventually("the latched one to be told", func() bool { return contains(w.seen("latched"), "retry") })
	c := fleetConfig()
	c.ConfigHash = "h2"
	w.configure(0, c)
	w.eventually("the latched one to be told again", func() bool { return count(w.seen("latched"), "retry") == 2 })
	if n := count(w.seen("lost"), "ReportWanted"); n != 1 {
		t.Errorf("the lost one was asked %d times", n)
	}
	w.replay(fleetID, "", "rebuilt-and-reconfigured")
}

func TestFleetMovesRowsBetweenShards(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	two := fleetConfig()
	two.Shards = 2
	const proxies = 40
	var uids []string
	for n := range proxies {
		uids = append(uids, fmt.Sprintf("uid-%02d", n))
		w.report(api.FleetReport{Row: row(uids[n], "p", func(r *api.FleetRow) { r.Phase, r.Since = api.PhaseProvisioning, time.Now() })})
	}
	placed := func(shards int) bool {
		n := 0
		for shard := range shards {
			rows := w.rows(shard)
			n += len(rows)
			for uid := range rows {
				if workflows.ShardOf(uid, shards) != shard {
					return false
				}
			}
		}
		return n == proxies
	}
	w.configure(0, fleetConfig())
	w.eventually("all rows in one shard", func() bool { return placed(1) })
	w.set(func() { w.shards = 2 })
	w.configure(0, two)
	w.configure(1, two)
	w.eventually("all rows in their shards", func() bool { return placed(2) })
	w.replay(fleetID, "", "more-shards")
	w.set(func() { w.shards = 1 })
	w.configure(1, fleetConfig())
	w.configure(0, fleetConfig())
	w.eventually("all rows back", func() bool { return placed(1) })
	if err := w.client.GetWorkflow(t.Context(), workflows.FleetID("mem", 1), "").Get(t.Context(), nil); err != nil {
		t.Errorf("the shard too many ended with %v", err)
	}
	w.replay(workflows.FleetID("mem", 1), "", "shard-too-many")
}

// TestFleetLosesNothingOverContinueAsNew sends 1,000 reports of 250 proxies from
// several clients to a shard that continues as new every 200 events, while it
// makes its rounds.
func TestFleetLosesNothingOverContinueAsNew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.configure(0, fleetConfig(), func(in *api.FleetWatchInput) { in.ContinueAfter = 200 })
	const senders, proxies, each = 5, 50, 4
	start := time.Now()
	var wg sync.WaitGroup
	var sent atomic.Int64
	for s := range senders {
		wg.Go(func() {
			for seq := range each {
				for p := range proxies {
					uid := fmt.Sprintf("uid-%d-%02d", s, p)
					gone := seq == each-1 && p%10 == 9
					report := api.FleetReport{Gone: gone, Row: row(uid, fmt.Sprintf("p%d-%d", s, p), func(r *api.FleetRow) {
						r.Seq, r.Phase, r.IP = int64(seq+1), api.PhaseProvisioning, fmt.Sprintf("10.2.%d.%d", s, seq)
						r.Since = time.Now()
					})}
					if err := w.fleet.ReportFleet(t.Context(), activities.ReportFleetInput{Provider: "mem", Report: report}); err != nil {
						t.Error(err)
					}
					sent.Add(1)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d reports in %s", sent.Load(), time.Since(start).Round(time.Millisecond))
	want := senders * proxies * 9 / 10
	w.eventually("all reports in the table", func() bool {
		rows := w.rows(0)
		if len(rows) != want {
			return false
		}
		for _, r := range rows {
			if r.Seq != each {
				return false
			}
		}
		return true
	})
	runs, err := historytest.Runs(t.Context(), w.client, fleetID)
	if err != nil || len(runs) < 4 {
		t.Fatalf("%d runs, %v; want several", len(runs), err)
	}
	for _, run := range runs[:len(runs)-1] {
		h := historytest.Fetch(t, w.client, fleetID, run)
		if err := historytest.ReplayHistory(h, registerWatchers); err != nil {
			t.Errorf("replay of run %s: %v", run, err)
		}
	}
	if s := w.fleetStatus(0); s.Refused.Count != 0 {
		t.Errorf("refused: %+v", s.Refused)
	}
}

func TestFleetContinuesAsNewBetweenRounds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.configure(0, fleetConfig(), func(in *api.FleetWatchInput) { in.ContinueAfter = 60 })
	uid := w.proxy("p")
	w.report(api.FleetReport{Row: row(uid, "p", w.server(uid, "p"))})
	w.eventually("three runs", func() bool {
		runs, err := historytest.Runs(t.Context(), w.client, fleetID)
		if err != nil {
			t.Fatal(err)
		}
		return len(runs) >= 3
	})
	runs, err := historytest.Runs(t.Context(), w.client, fleetID)
	if err != nil {
		t.Fatal(err)
	}
	if rows := w.rows(0); len(rows) != 1 || rows[uid].Name != "p" {
		t.Errorf("rows %+v", rows)
	}
	w.replay(fleetID, runs[0], "continue-as-new-first")
	w.replay(fleetID, runs[1], "continue-as-new-second")
}

func TestFleetSaysThatAListingFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	uid := w.proxy("p")
	w.report(api.FleetReport{Row: row(uid, "p")}) // no such instance
	heal := w.backend.Inject(memory.Fault{Err: &memory.APIError{Status: 401, Code: "unauthorized"}})
	w.configure(0, fleetConfig())
	w.eventually("the failure to show", func() bool { s := w.fleetStatus(0); return s.Drift.Failures > 1 && s.Drift.Class == "Permanent" })
	if got := w.told("p"); len(got) != 0 {
		t.Errorf("a failed listing concluded %v", got)
	}
	if d := w.details(fleetID); !has(d, "**no listing** for", "Permanent") {
		t.Errorf("details:\n%s", d)
	}
	heal()
	w.eventually("the missing instance", func() bool { return contains(w.seen("p"), "Missing") })
	w.replay(fleetID, "", "listing-fails")
}

// TestFleetForgetsAProxyWhoseEndASweepReported covers the report that has no
// sequence of its own.
func TestFleetForgetsAProxyWhoseEndASweepReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.report(api.FleetReport{Row: row("uid-1", "p", func(r *api.FleetRow) { r.Seq = 1 << 40 })})
	w.eventually("the row", func() bool { return len(w.rows(0)) == 1 })
	w.report(api.FleetReport{Gone: true, Row: api.FleetRow{UID: "uid-1", Seq: math.MaxInt64}})
	w.eventually("the row to go", func() bool { return len(w.rows(0)) == 0 })
}

func TestFleetStartIsWhatTheWorkflowAccepts(t *testing.T) {
	t.Parallel()
	for shard := range 3 {
		options, in := activities.FleetStart("a-provider", shard)
		if options.ID != workflows.FleetID(in.Provider, in.Shard) || options.TaskQueue != workflows.TaskQueue {
			t.Errorf("FleetStart(%d) = %+v, %+v", shard, options, in)
		}
	}
}
