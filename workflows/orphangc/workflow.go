// Package orphangc is one sweep of a provider for things that nobody owns any
// more: it looks twice, with a pause between, and deletes what both looks agree
// on, unless there is suspiciously much of it. Whatever cannot be read makes it
// delete nothing. The rules are those of package orphan.
package orphangc

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/orphan"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
	"github.com/tollgate-dev/tollgate/workflows/internal/words"
	"github.com/tollgate-dev/tollgate/workflows/spans"
)

// ErrInvalidInput is the type of the error that a run with bad input ends in.
const ErrInvalidInput = "InvalidInput"

const (
	// findTimeout bounds a sighting, deleteTimeout a delete with the wait for its
	// end, each with all attempts.
	findTimeout   = 15 * time.Minute
	deleteTimeout = 15 * time.Minute
	findAttempts  = 5
	// deletesAtOnce bounds the load of a sweep with a large cap.
	deletesAtOnce = 10
	// maxReported is how many orphans the report lists.
	maxReported = 100
)

var (
	gcActs    *activities.GC
	sweepActs *activities.Sweeps
)

type sweep struct {
	api.OrphanSweep
	ctx workflow.Context
}

// Workflow runs one sweep. Its result is the report; only bad input makes it
// fail. A cancellation ends it between two steps, deletes under way included.
func Workflow(ctx workflow.Context, in api.OrphanGCInput) (api.OrphanGCResult, error) {
	in = in.WithDefaults()
	if err := in.Validate(); err != nil {
		return api.OrphanGCResult{}, temporal.NewNonRetryableApplicationError(err.Error(), ErrInvalidInput, nil)
	}
	s := &sweep{ctx: spans.Detach(ctx)}
	s.OrphanSweep = api.OrphanSweep{
		APIVersion: api.APIVersion, Kind: api.KindOrphanSweep, Metadata: api.Metadata{Name: in.Provider},
		Spec: in, Status: api.OrphanGCResult{StartedAt: workflow.Now(ctx)},
	}
	if err := workflow.SetQueryHandler(ctx, workflows.QueryStatus, func() (api.OrphanSweep, error) { return s.OrphanSweep, nil }); err != nil {
		return api.OrphanGCResult{}, err
	}
	if err := workflow.UpsertTypedSearchAttributes(ctx, workflows.AttrProvider.ValueSet(in.Provider)); err != nil {
		return api.OrphanGCResult{}, err
	}
	s.run()
	return s.finish()
}

// run goes from sighting to sighting and sets the outcome.
func (s *sweep) run() {
	in := s.Spec
	policy := orphan.Policy{MinAge: in.MinAge.Std(), Cap: in.Cap, DryRun: in.DryRun}
	var seen []activities.OrphanRef
	for second := range 2 {
		s.step([]string{api.SweepListing, api.SweepConfirming}[second])
		found, err := s.find(seen)
		if err != nil {
			s.failed(err)
			return
		}
		s.Status.Instances, s.Status.Companions, s.Status.Verdicts = found.Instances, found.Companions, found.Verdicts
		s.Status.OrphanCount, s.Status.Orphans = found.Count, found.Orphans
		switch orphan.Decide(orphan.Sighting{Second: second == 1, Orphans: found.Count, Unreadable: found.Unreadable != ""}, policy) {
		case orphan.StepUnreadable:
			s.outcome(api.SweepUnreadable, "Nothing was deleted, because not everything could be read: %s.", found.Unreadable)
			return
		case orphan.StepDone:
			s.clean(second == 1)
			return
		case orphan.StepOverCap:
			s.overCap()
			return
		case orphan.StepReport:
			s.dryRun()
			return
		case orphan.StepDelete:
			s.step(api.SweepDeleting)
			s.deleteAll()
			return
		}
		if found.Count > len(found.Orphans) {
			// Too many even to remember; far more than any cap.
			s.overCap()
			return
		}
		for _, o := range found.Orphans {
			seen = append(seen, activities.OrphanRef{Kind: o.Kind, ID: o.ID, UID: o.UID})
		}
		s.step(api.SweepWaiting)
		if err := s.pause(in.ConfirmAfter.Std()); err != nil {
			s.failed(err)
			return
		}
	}
}

// find is one sighting.
func (s *sweep) find(seen []activities.OrphanRef) (activities.FindOrphansResult, error) {
	summary := "list " + s.Spec.Provider + " and look up owners"
	if len(seen) > 0 {
		summary = fmt.Sprintf("look a second time at %s", words.Plural(len(seen), "orphan"))
	}
	ctx := workflow.WithActivityOptions(s.ctx, workflow.ActivityOptions{
		TaskQueue: workflows.ProviderTaskQueue(s.Spec.Provider), Summary: summary,
		StartToCloseTimeout: 10 * time.Minute, ScheduleToCloseTimeout: findTimeout, HeartbeatTimeout: 5 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute, MaximumAttempts: findAttempts},
	})
	var out activities.FindOrphansResult
	err := workflow.ExecuteActivity(ctx, gcActs.FindOrphans,
		activities.FindOrphansInput{Provider: s.Spec.Provider, MinAge: s.Spec.MinAge, Seen: seen}).Get(ctx, &out)
	return out, err
}

func (s *sweep) pause(d time.Duration) error {
	return workflow.NewTimerWithOptions(s.ctx, d, workflow.TimerOptions{Summary: "before the second look"}).Get(s.ctx, nil)
}

// deleteAll deletes the confirmed orphans, instances before companions, since an
// instance takes its companions with it.
func (s *sweep) deleteAll() {
	all := s.Status.Orphans
	instances := 0
	for instances < len(all) && all[instances].Kind == api.KindInstance {
		instances++
	}
	s.deleteSome(all[:instances])
	s.deleteSome(all[instances:])

	count := map[api.OrphanAction]int{}
	for _, o := range all {
		count[o.Action]++
	}
	switch {
	case s.ctx.Err() != nil:
		s.outcome(api.SweepCanceled, "Canceled: %d of %s deleted.", count[api.OrphanDeleted], words.Plural(len(all), "orphan"))
	case count[api.OrphanFailed] > 0:
		s.outcome(api.SweepIncomplete, "%d of %s deleted, %d failed; the next sweep tries again.",
			count[api.OrphanDeleted], words.Plural(len(all), "orphan"), count[api.OrphanFailed])
	default:
		message := fmt.Sprintf("%s deleted", words.Plural(count[api.OrphanDeleted], "orphan"))
		if n := count[api.OrphanGone] + count[api.OrphanKept]; n > 0 {
			message += fmt.Sprintf(", %d gone or owned again by then", n)
		}
		s.outcome(api.SweepDeleted, "%s.", message)
	}
}

// deleteSome deletes some orphans, a few at a time, and writes into each what
// became of it.
func (s *sweep) deleteSome(orphans []api.Orphan) {
	slots := workflow.NewSemaphore(s.ctx, deletesAtOnce)
	wg := workflow.NewWaitGroup(s.ctx)
	for i := range orphans {
		if err := slots.Acquire(s.ctx, 1); err != nil {
			break // canceled
		}
		wg.Add(1)
		workflow.Go(s.ctx, func(ctx workflow.Context) {
			defer wg.Done()
			defer slots.Release(1)
			out, err := s.delete(ctx, orphans[i])
			if err != nil {
				_, text := words.Explain(err, "provider")
				out = activities.DeleteOrphanResult{Action: api.OrphanFailed, Message: text}
			}
			orphans[i].Action, orphans[i].Message = out.Action, out.Message
			s.show()
		})
	}
	// What was started is waited for, canceled or not.
	d, _ := workflow.NewDisconnectedContext(s.ctx)
	wg.Wait(d)
}

func (s *sweep) delete(ctx workflow.Context, o api.Orphan) (activities.DeleteOrphanResult, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: workflows.ProviderTaskQueue(s.Spec.Provider), Summary: fmt.Sprintf("delete %s %s", o.Kind, name(o)),
		StartToCloseTimeout: 2 * time.Minute, ScheduleToCloseTimeout: deleteTimeout, HeartbeatTimeout: 5 * time.Second,
		WaitForCancellation: true,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute},
	})
	var out activities.DeleteOrphanResult
	err := workflow.ExecuteActivity(ctx, gcActs.DeleteOrphan,
		activities.DeleteOrphanInput{Provider: s.Spec.Provider, MinAge: s.Spec.MinAge, Orphan: o}).Get(ctx, &out)
	return out, err
}

// finish records the outcome and returns the report.
func (s *sweep) finish() (api.OrphanGCResult, error) {
	s.Step = api.SweepDone
	r := &s.Status
	if len(r.Orphans) > maxReported {
		r.Orphans = r.Orphans[:maxReported]
	}
	r.FinishedAt = workflow.Now(s.ctx)
	s.show()
	ctx, _ := workflow.NewDisconnectedContext(s.ctx)
	log := workflow.GetLogger(ctx)
	if err := workflow.UpsertTypedSearchAttributes(ctx, workflows.AttrOutcome.ValueSet(string(r.Outcome))); err != nil {
		log.Warn("search attributes not set", "error", err)
	}
	local := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: 10 * time.Second, Summary: "count the outcome",
	})
	done := activities.SweepDoneInput{Provider: s.Spec.Provider, Outcome: r.Outcome, Orphans: r.OrphanCount, Message: r.Message}
	if err := workflow.ExecuteLocalActivity(local, sweepActs.RecordSweep, done).Get(local, nil); err != nil {
		log.Warn("outcome not counted", "provider", s.Spec.Provider, "outcome", string(r.Outcome), "error", err)
	}
	if r.Outcome == api.SweepCanceled {
		return *r, temporal.NewCanceledError(r.Message)
	}
	return *r, nil
}

func name(o api.Orphan) string {
	if o.Name != "" {
		return o.Name
	}
	return o.ID
}

func sentence(s string) string { return strings.TrimSuffix(s, ".") }
