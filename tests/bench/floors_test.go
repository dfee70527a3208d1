//go:build bench

package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/internal/devserver/devservertest"
)

// floors runs workflows that do nothing, to measure what the engine itself
// costs. Its client has no codec, its worker as many pollers as ours.
type floors struct {
	b      *testing.B
	client client.Client
	runs   int
}

const floorQueue = "bench-floor"

// Sizes of the floors.
const (
	floorRuns       = 300 // empty workflows, for their rate
	floorWidth      = 64  // of them at once
	floorLoops      = 100 // workflows at once, for the rate of activities
	floorActivities = 20  // of each of them, one after the other
)

func empty(workflow.Context) error { return nil }

func nothing(context.Context) error { return nil }

func loop(ctx workflow.Context, n int) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	for range n {
		if err := workflow.ExecuteActivity(ctx, nothing).Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

func newFloors(b *testing.B, engine *devservertest.Server) *floors {
	b.Helper()
	f := &floors{b: b, client: engine.Client()}
	w := worker.New(f.client, floorQueue, worker.Options{
		MaxConcurrentWorkflowTaskPollers: 8, MaxConcurrentActivityTaskPollers: 8, DisableRegistrationAliasing: true,
	})
	w.RegisterWorkflow(empty)
	w.RegisterWorkflow(loop)
	w.RegisterActivity(nothing)
	if err := w.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(w.Stop)
	f.run("warm", loop, 1)
	return f
}

// run runs one workflow and returns the time from the call that starts it to its
// result.
func (f *floors) run(id string, workflow any, args ...any) time.Duration {
	f.b.Helper()
	took, err := f.try(id, workflow, args...)
	if err != nil {
		f.b.Fatal(err)
	}
	return took
}

func (f *floors) try(id string, workflow any, args ...any) (time.Duration, error) {
	ctx := f.b.Context()
	start := time.Now()
	run, err := f.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: floorQueue}, workflow, args...)
	if err != nil {
		return 0, err
	}
	err = run.Get(ctx, nil)
	return time.Since(start), err
}

// trivial is the latency of one workflow that does nothing.
func (f *floors) trivial() time.Duration {
	f.runs++
	return f.run(fmt.Sprintf("trivial-%d", f.runs), empty)
}

// oneActivity is the latency of one workflow with one activity that does
// nothing.
func (f *floors) oneActivity() time.Duration {
	f.runs++
	return f.run(fmt.Sprintf("one-%d", f.runs), loop, 1)
}

// workflowRate is how many empty workflows the engine gets through in a second.
func (f *floors) workflowRate() float64 {
	f.b.Helper()
	f.runs++
	prefix, start := f.runs, time.Now()
	parallel(f.b, floorRuns, floorWidth, func(i int) error {
		_, err := f.try(fmt.Sprintf("rate-%d-%d", prefix, i), empty)
		return err
	})
	return perSecond(floorRuns, time.Since(start))
}

// activityRate is how many activities that do nothing the engine gets through in
// a second, those of one workflow one after the other. The start of the
// workflows counts, and is small among so many activities.
func (f *floors) activityRate() float64 {
	f.b.Helper()
	return f.loops(floorLoops, floorActivities)
}

// loops is the rate of activities of so many workflows at once.
func (f *floors) loops(workflows, activities int) float64 {
	f.b.Helper()
	f.runs++
	prefix, start := f.runs, time.Now()
	parallel(f.b, workflows, workflows, func(i int) error {
		_, err := f.try(fmt.Sprintf("loop-%d-%d", prefix, i), loop, activities)
		return err
	})
	return perSecond(workflows*activities, time.Since(start))
}

// BenchmarkEngine measures what workflows cost that do nothing.
func BenchmarkEngine(b *testing.B) {
	f := newFloors(b, devservertest.Start(b))
	var trivial, one []time.Duration
	var workflows, activities float64
	for b.Loop() {
		for range 60 {
			trivial, one = append(trivial, f.trivial()), append(one, f.oneActivity())
		}
		workflows, activities = f.workflowRate(), f.activityRate()
	}
	summary.add(b, "trivial-p50-ms", "workflow that does nothing, start to result, p50", ms(p50(trivial)), "ms", info)
	summary.add(b, "trivial-p99-ms", "the same, p99", ms(quantile(trivial, 0.99)), "ms", info)
	summary.add(b, "one-activity-p50-ms", "workflow with one activity, p50", ms(p50(one)), "ms", info)
	summary.add(b, "workflows/s", fmt.Sprintf("workflows that do nothing, %d at once", floorWidth), workflows, "/s", info)
	summary.add(b, "activities/s", fmt.Sprintf("activities that do nothing, %d at once", floorLoops), activities, "/s", info)
}
