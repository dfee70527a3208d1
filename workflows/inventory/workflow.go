// Package inventory is one inventory of a source: it looks twice at what exists,
// what was reported and what this installation owns, with a pause between, and has
// what both looks agree on, and the feed does not tell, repaired with events. What
// cannot be read concludes nothing. The rules are those of package
// internal/inventory.
package inventory

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
	"github.com/tollgate-dev/tollgate/workflows/spans"
)

// ErrInvalidInput is the type of the error that a run with bad input ends in.
const ErrInvalidInput = "InvalidInput"

const (
	// attemptTimeout bounds one attempt at a look, stepTimeout all of them.
	attemptTimeout = 20 * time.Minute
	stepTimeout    = time.Hour
	// noWorkerAfter is how long a step may wait for a worker.
	noWorkerAfter = time.Minute
	stepAttempts  = 5
)

var (
	acts     *activities.Inventory
	doneActs *activities.Inventories
)

type inventory struct {
	api.Inventory
	ctx workflow.Context
}

// Workflow makes one inventory. Its result is the report; only bad input makes it
// fail. A cancellation ends it between two steps.
func Workflow(ctx workflow.Context, in api.InventoryInput) (api.InventoryResult, error) {
	in = in.WithDefaults()
	if err := in.Validate(); err != nil {
		return api.InventoryResult{}, temporal.NewNonRetryableApplicationError(err.Error(), ErrInvalidInput, nil)
	}
	i := &inventory{ctx: spans.Detach(ctx)}
	i.Inventory = api.Inventory{
		APIVersion: api.APIVersion, Kind: api.KindInventory, Metadata: api.Metadata{Name: in.Source},
		Spec: in, Status: api.InventoryResult{StartedAt: workflow.Now(ctx)},
	}
	if err := workflow.SetQueryHandler(ctx, workflows.QueryStatus, func() (api.Inventory, error) { return i.Inventory, nil }); err != nil {
		return api.InventoryResult{}, err
	}
	if err := workflow.UpsertTypedSearchAttributes(ctx, workflows.AttrSource.ValueSet(in.Source)); err != nil {
		return api.InventoryResult{}, err
	}
	i.run()
	return i.finish()
}

// run goes from look to look and sets the outcome.
func (i *inventory) run() {
	i.step(api.InventoryLooking)
	var first activities.LookInventoryResult
	err := i.do(i.ctx, "look at what exists and what was reported", acts.LookInventory,
		activities.LookInventoryInput{Source: i.Spec.Source, Sink: i.Spec.Sink}, &first)
	if err != nil {
		i.failed(err)
		return
	}
	i.Spec.Sink = first.Sink
	var differ []activities.LookedStream
	for _, s := range first.Streams {
		i.Status.Streams = append(i.Status.Streams, s.InventoryStream)
		if len(s.Seen) > 0 {
			differ = append(differ, s)
		}
	}
	if len(differ) == 0 && !first.Extras {
		i.conclude(nil)
		return
	}
	if len(differ) > 0 {
		i.step(api.InventoryWaiting)
		if err := workflow.NewTimerWithOptions(i.ctx, i.Spec.ConfirmAfter.Std(), workflow.TimerOptions{Summary: "before the second look"}).Get(i.ctx, nil); err != nil {
			i.failed(err)
			return
		}
	}
	i.step(api.InventoryRepairing)
	var out activities.RepairInventoryResult
	err = i.do(i.ctx, "look a second time and deliver what is missing", acts.RepairInventory, activities.RepairInventoryInput{
		Source: i.Spec.Source, Sink: first.Sink, DryRun: i.Spec.DryRun, MaxEnds: i.Spec.MaxEnds, Streams: differ, Before: i.before(),
	}, &out)
	if err != nil {
		i.failed(err)
		return
	}
	i.Status.Count, i.Status.Differences = out.Count, out.Differences
	i.Status.Delivered, i.Status.Duplicates = out.Delivered, out.Duplicates
	for _, s := range out.Streams {
		i.replace(s)
	}
	i.conclude(out.Actions)
}

// do has an activity done on the source's queue.
func (i *inventory) do(ctx workflow.Context, summary string, act, in, out any) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: workflows.SourceTaskQueue(i.Spec.Source), Summary: summary,
		StartToCloseTimeout: attemptTimeout, ScheduleToCloseTimeout: stepTimeout, ScheduleToStartTimeout: noWorkerAfter,
		HeartbeatTimeout: 5 * time.Second, WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute, MaximumAttempts: stepAttempts},
	})
	return workflow.ExecuteActivity(ctx, act, in).Get(ctx, out)
}

// before are the differences that the inventory before has left.
func (i *inventory) before() (out []activities.SeenDifference) {
	if !workflow.HasLastCompletionResult(i.ctx) {
		return nil
	}
	var last api.InventoryResult
	if err := workflow.GetLastCompletionResult(i.ctx, &last); err != nil {
		workflow.GetLogger(i.ctx).Warn("the result of the inventory before cannot be read", "error", err)
		return nil
	}
	for _, d := range last.Differences {
		if d.Open() && !d.FirstSeen.IsZero() {
			out = append(out, activities.SeenDifference{Stream: d.Stream, Kind: d.Kind, Account: d.Account,
				Type: d.Resource.Type, ID: d.Resource.ID, FirstSeen: d.FirstSeen})
		}
	}
	return out
}

// replace puts what the second look says of a stream in the place of the first.
func (i *inventory) replace(s api.InventoryStream) {
	for n := range i.Status.Streams {
		if i.Status.Streams[n].Stream == s.Stream {
			i.Status.Streams[n] = s
			return
		}
	}
	i.Status.Streams = append(i.Status.Streams, s)
}

// finish records the outcome and returns the report.
func (i *inventory) finish() (api.InventoryResult, error) {
	i.Step = api.InventoryDone
	r := &i.Status
	r.FinishedAt = workflow.Now(i.ctx)
	i.show()
	ctx, _ := workflow.NewDisconnectedContext(i.ctx)
	log := workflow.GetLogger(ctx)
	if err := workflow.UpsertTypedSearchAttributes(ctx, workflows.AttrOutcome.ValueSet(string(r.Outcome))); err != nil {
		log.Warn("search attributes not set", "error", err)
	}
	local := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: 10 * time.Second, Summary: "count the outcome",
	})
	done := activities.InventoryDoneInput{Source: i.Spec.Source, Outcome: r.Outcome, Count: r.Count, Message: r.Message}
	if err := workflow.ExecuteLocalActivity(local, doneActs.RecordInventory, done).Get(local, nil); err != nil {
		log.Warn("outcome not counted", "source", i.Spec.Source, "outcome", string(r.Outcome), "error", err)
	}
	if r.Outcome == api.InventoryCanceled {
		return *r, temporal.NewCanceledError(r.Message)
	}
	return *r, nil
}
