//go:build bench

package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	querypb "go.temporal.io/api/query/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/tollgate-dev/tollgate/internal/provider/memory"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// listCalls are what listings and sweeps cost in requests.
var listCalls = []memory.Call{memory.CallListServers, memory.CallListAddresses, memory.CallGetServer, memory.CallFindServer}

// fleetSize is the number of proxies that costs are given for.
const fleetSize = 1000

// BenchmarkFleet measures what watching 1,000 proxies costs the worker and the
// provider. Listings come in pages of 50, which is what most clouds allow.
func BenchmarkFleet(b *testing.B) {
	w := newWorld(b, setting{probe: time.Second, pageSize: 50})
	all := w.populate(fleetSize)
	w.worker.ask(order{Place: all})
	w.report(b, all, 1)
	w.waitHealthy(fleetSize, time.Minute)
	before := w.settle(2, 0)

	var plain, listing cost
	var query, queried = time.Duration(0), tableSize{}
	var absorbed, perSweep float64
	seq := int64(1)
	for b.Loop() {
		plain = w.cost(before, 20, 0)
		w.noneWasTold()
		query, queried = w.queryTable(30)
		seq++
		start := time.Now()
		w.report(b, all, seq)
		w.waitSeq(seq)
		absorbed = perSecond(fleetSize, time.Since(start))
		w.reconfigure(api.Duration(hardlyEver), api.Duration(time.Second))
		before = w.settle(0, 1)
		listing = w.cost(before, 0, 20)
		w.noneWasTold()
		calls := w.worker.calls()
		w.sweep(b, api.OrphanGCInput{Provider: "mem", MinAge: api.Duration(time.Millisecond)})
		perSweep = float64(callsSince(calls, w.worker.calls(), listCalls...))
		w.reconfigure(api.Duration(time.Second), api.Duration(hardlyEver))
		before = w.settle(1, 0)
	}
	perHour := listing.calls * listingsPerHour / fleetSize
	summary.add(b, "probe-round-ms", "probe round of 1,000 proxies, CONNECT on loopback, p50", ms(plain.took), "ms", info)
	summary.add(b, "probe-round-cpu-ms", "the same, worker's CPU time", ms(plain.cpu), "ms", info)
	summary.add(b, "listing-round-ms", "listing of 1,000 instances and comparison, p50", ms(listing.took), "ms", info)
	summary.add(b, "listing-round-cpu-ms", "the same, worker's CPU time with the cloud's own", ms(listing.cpu), "ms", info)
	summary.add(b, "provider-calls/proxy-hour", fmt.Sprintf("provider calls per proxy-hour by %d listings", listingsPerHour), perHour, "", atMost(0.6))
	summary.add(b, "sweep-calls/proxy-hour", "and by 6 sweeps, companions included", perSweep*6/fleetSize, "", info)
	summary.add(b, "table-query-ms", "query of all 1,000 rows, p50", ms(query), "ms", info)
	summary.add(b, "table-json-kb", "its size as JSON", float64(queried.json)/1e3, "kB", info)
	summary.add(b, "table-wire-kb", "its size on the wire, encrypted", float64(queried.wire)/1e3, "kB", info)
	summary.add(b, "transitions/s", "transitions that one shard takes, from signal to table", absorbed, "/s", info)
}

// BenchmarkFleetTLS probes with a verified TLS handshake, as it should be.
func BenchmarkFleetTLS(b *testing.B) {
	w := newWorld(b, setting{probe: time.Second, pageSize: 50, tls: true})
	all := w.populate(fleetSize)
	w.worker.ask(order{Place: all})
	w.report(b, all, 1)
	w.waitHealthy(fleetSize, time.Minute)
	before := w.settle(2, 0)
	var c cost
	for b.Loop() {
		c = w.cost(before, 10, 0)
		w.noneWasTold()
		before = w.rounds()
	}
	summary.add(b, "probe-round-ms", "probe round of 1,000 proxies, CONNECT and TLS on loopback, p50", ms(c.took), "ms", info)
	summary.add(b, "probe-round-cpu-ms", "the same, worker's CPU time", ms(c.cpu), "ms", info)
}

// cost is that of a round.
type cost struct {
	took, cpu time.Duration
	calls     float64
}

// cost measures rounds of one kind while there are none of the other.
func (w *world) cost(before rounds, probes, listings int) cost {
	w.b.Helper()
	pid := w.worker.cmd.Process.Pid
	calls, used := w.worker.calls(), cpu(w.b, pid)
	after := w.waitRounds(before, probes, listings)
	used = cpu(w.b, pid) - used
	made := after.probes[len(before.probes):]
	if listings > 0 {
		made = after.listings[len(before.listings):]
	}
	return cost{
		took: p50(times(made)), cpu: used / time.Duration(len(made)),
		calls: float64(callsSince(calls, w.worker.calls(), listCalls...)) / float64(len(made)),
	}
}

func (w *world) status() api.Fleet {
	w.b.Helper()
	var f api.Fleet
	v, err := w.client.QueryWorkflow(w.b.Context(), workflows.FleetID("mem", 0), "", workflows.QueryStatus)
	if err == nil {
		err = v.Get(&f)
	}
	if err != nil {
		w.b.Fatal(err)
	}
	return f
}

// noneWasTold fails the benchmark unless the rounds found everything in order: a
// round that finds much to say costs more.
func (w *world) noneWasTold() {
	w.b.Helper()
	s := w.status().Status
	if s.Healthy != fleetSize || len(s.Probe.Failing) > 0 || len(s.Drift.Found) > 0 || s.Drift.Failures > 0 || s.Probe.Failures > 0 {
		w.b.Errorf("the fleet is not in order: %d healthy, failing %v, found %v", s.Healthy, s.Probe.Failing, s.Drift.Found)
	}
}

// reconfigure sets the intervals of the rounds.
func (w *world) reconfigure(probe, drift api.Duration) {
	w.b.Helper()
	c := w.status().Spec
	c.ProbeInterval, c.DriftInterval = probe, drift
	if err := w.client.SignalWorkflow(w.b.Context(), workflows.FleetID("mem", 0), "", workflows.SignalConfigure, c); err != nil {
		w.b.Fatal(err)
	}
}

type tableSize struct{ json, wire int }

// queryTable reads the whole table so many times.
func (w *world) queryTable(n int) (time.Duration, tableSize) {
	w.b.Helper()
	var took []time.Duration
	var size tableSize
	for range n {
		start := time.Now()
		t, err := w.table(w.b.Context())
		took = append(took, time.Since(start))
		if err != nil {
			w.b.Fatal(err)
		}
		text, err := json.Marshal(t)
		if err != nil {
			w.b.Fatal(err)
		}
		size.json = len(text)
	}
	raw, err := w.client.WorkflowService().QueryWorkflow(w.b.Context(), &workflowservice.QueryWorkflowRequest{
		Namespace: "default", Execution: &commonpb.WorkflowExecution{WorkflowId: workflows.FleetID("mem", 0)},
		Query: &querypb.WorkflowQuery{QueryType: workflows.QueryTable},
	})
	if err != nil {
		w.b.Fatal(err)
	}
	for _, p := range raw.GetQueryResult().GetPayloads() {
		size.wire += len(p.GetData())
	}
	return p50(took), size
}

// waitSeq waits until the table has a report of that number from everybody.
func (w *world) waitSeq(seq int64) {
	w.b.Helper()
	eventually(w.b, time.Minute, 20*time.Millisecond, func() string {
		t, err := w.table(w.b.Context())
		late := 0
		for _, r := range t.Rows {
			if r.Seq < seq {
				late++
			}
		}
		if err != nil || late > 0 || len(t.Rows) < fleetSize {
			return fmt.Sprintf("%d of %d rows are old (%v)", late, len(t.Rows), err)
		}
		return ""
	})
}

// sweep runs one sweep and returns its report.
func (w *world) sweep(b *testing.B, in api.OrphanGCInput) api.OrphanGCResult {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 5*time.Minute)
	defer cancel()
	run, err := w.client.ExecuteWorkflow(ctx, sweepOptions(), workflows.TypeOrphanGC, in)
	var out api.OrphanGCResult
	if err == nil {
		err = run.Get(ctx, &out)
	}
	if err != nil {
		b.Fatal(err)
	}
	return out
}
