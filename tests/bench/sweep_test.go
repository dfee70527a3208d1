//go:build bench

package bench

import (
	"fmt"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

func sweepOptions() client.StartWorkflowOptions {
	return client.StartWorkflowOptions{ID: workflows.OrphanGCID("mem") + "/bench", TaskQueue: workflows.TaskQueue}
}

// BenchmarkSweep sweeps 10,000 instances with an address each. Every owner is a
// workflow that runs on the engine and is looked up there, one by one.
func BenchmarkSweep(b *testing.B) {
	const instances, orphans = 10_000, 5
	w := newWorld(b, setting{pageSize: 50})
	start := time.Now()
	all := w.populate(instances)
	b.Logf("%d owners started in %s", instances, time.Since(start).Round(time.Second))
	w.worker.ask(order{Place: all})
	pid := w.worker.cmd.Process.Pid
	in := api.OrphanGCInput{Provider: "mem", MinAge: api.Duration(time.Millisecond), ConfirmAfter: api.Duration(time.Second)}
	var clean, deleting, bare time.Duration
	var engine, used time.Duration
	var rest, peak int64
	run := 0
	for b.Loop() {
		run++
		bare = w.describeAll(all)
		rest, _ = resident(b, pid)
		forgetPeak(b, pid)
		engine, used = w.engineCPU(), cpu(b, pid)
		r := w.sweep(b, in)
		engine, used = w.engineCPU()-engine, cpu(b, pid)-used
		_, peak = resident(b, pid)
		clean = r.FinishedAt.Sub(r.StartedAt)
		if r.Outcome != api.SweepClean || r.Instances != instances || r.Companions != instances || r.Verdicts["Owned"] != 2*instances {
			b.Errorf("a sweep of what is owned: %s %q, %d instances, %v", r.Outcome, r.Message, r.Instances, r.Verdicts)
		}
		for i := range orphans {
			uid := fmt.Sprintf("orphan-%d-%d", run, i)
			w.worker.ask(order{Place: []placed{{Name: provider.InstanceName(uid, 0), UID: uid, Proxy: uid}}})
		}
		r = w.sweep(b, in)
		deleting = r.FinishedAt.Sub(r.StartedAt) - in.ConfirmAfter.Std()
		// The instances take their addresses with them.
		if r.Outcome != api.SweepDeleted || r.OrphanCount != orphans {
			b.Errorf("a sweep with %d orphans: %s %q, %d orphans", orphans, r.Outcome, r.Message, r.OrphanCount)
		}
	}
	summary.add(b, "sweep-s", "sweep of 10,000 instances, all owners looked up", clean.Seconds(), "s", atMost(10))
	summary.add(b, "sweep-cpu-s", "the same, worker's CPU time with the cloud's own", used.Seconds(), "s", info)
	summary.add(b, "engine-cpu-s", "the same, engine's CPU time", engine.Seconds(), "s", info)
	summary.add(b, "lookups-s", "engine: the look-ups alone, by a client that does nothing else", bare.Seconds(), "s", info)
	summary.add(b, "over-lookups", "sweep over the look-ups alone", clean.Seconds()/bare.Seconds(), "x", info)
	summary.add(b, "two-looks-s", fmt.Sprintf("with %d orphans: two looks and the deletes, without the pause", orphans), deleting.Seconds(), "s", info)
	summary.add(b, "rss-mib", "most memory of the worker, with the cloud itself in it", mib(peak), "MiB", atMost(300))
	summary.add(b, "rss-growth-mib", "that is above what it had at rest", mib(peak-rest), "MiB", info)
}

// describeAll looks all owners up, as many at once as a sweep.
func (w *world) describeAll(all []placed) time.Duration {
	w.b.Helper()
	start := time.Now()
	parallel(w.b, len(all), 48, func(i int) error {
		_, err := w.client.DescribeWorkflow(w.b.Context(), workflows.ProxyID(namespace, all[i].Proxy), "")
		return err
	})
	return time.Since(start)
}
