// Package reaper deletes the instances of a provider that are old, whoever owns
// them: the cost safety net for throw-away fleets. One run is one look at the
// provider. Orphans are the business of package orphangc.
package reaper

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
	"github.com/tollgate-dev/tollgate/workflows/internal/words"
	"github.com/tollgate-dev/tollgate/workflows/spans"
)

// ErrInvalidInput is the type of the error that a run with bad input ends in.
const ErrInvalidInput = "InvalidInput"

const (
	attemptTimeout = 10 * time.Minute
	reapTimeout    = 30 * time.Minute
	reapAttempts   = 5
)

var (
	reaperActs *activities.Reaper
	sweepActs  *activities.Sweeps
)

type run struct {
	api.Reap
	ctx workflow.Context
}

// Workflow makes one run. Its result is the report; only bad input makes it
// fail. A cancellation stops it before the next delete.
func Workflow(ctx workflow.Context, in api.ReaperInput) (api.ReaperResult, error) {
	if err := in.Validate(); err != nil {
		return api.ReaperResult{}, temporal.NewNonRetryableApplicationError(err.Error(), ErrInvalidInput, nil)
	}
	r := &run{ctx: spans.Detach(ctx), Reap: api.Reap{
		APIVersion: api.APIVersion, Kind: api.KindReap, Metadata: api.Metadata{Name: in.Provider},
		Spec: in, Status: api.ReaperResult{StartedAt: workflow.Now(ctx)},
	}}
	if err := workflow.SetQueryHandler(ctx, workflows.QueryStatus, func() (api.Reap, error) { return r.Reap, nil }); err != nil {
		return api.ReaperResult{}, err
	}
	if err := workflow.UpsertTypedSearchAttributes(ctx, workflows.AttrProvider.ValueSet(in.Provider)); err != nil {
		return api.ReaperResult{}, err
	}
	workflow.SetCurrentDetails(ctx, details(r.Reap))
	r.judge(r.reap())
	return r.finish()
}

func (r *run) reap() (activities.ReapResult, error) {
	verb := "delete"
	if r.Spec.DryRun {
		verb = "look for"
	}
	ctx := workflow.WithActivityOptions(r.ctx, workflow.ActivityOptions{
		TaskQueue: workflows.ProviderTaskQueue(r.Spec.Provider), WaitForCancellation: true, HeartbeatTimeout: 5 * time.Second,
		Summary:             fmt.Sprintf("%s what is older than %s on %s", verb, r.Spec.OlderThan, r.Spec.Provider),
		StartToCloseTimeout: attemptTimeout, ScheduleToCloseTimeout: reapTimeout,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute, MaximumAttempts: reapAttempts},
	})
	var out activities.ReapResult
	err := workflow.ExecuteActivity(ctx, reaperActs.Reap, r.Spec).Get(ctx, &out)
	return out, err
}

// judge sets the outcome.
func (r *run) judge(out activities.ReapResult, err error) {
	s := &r.Status
	s.Matched, s.UnknownAge, s.Count, s.Failed, s.Reaped = out.Matched, out.UnknownAge, out.Count, out.Failed, out.Reaped
	say := func(o api.ReapOutcome, format string, args ...any) {
		s.Outcome, s.Message = o, fmt.Sprintf(format, args...)
	}
	switch {
	case temporal.IsCanceledError(err):
		say(api.ReapCanceled, "Canceled; what was deleted by then is gone.")
	case err != nil:
		class, text := words.Explain(err, "provider")
		say(api.ReapUnreadable, "Nothing is known of %s: %s: %s.", r.Spec.Provider, class, strings.TrimSuffix(text, "."))
	case out.Count == 0:
		say(api.ReapNothing, "Nothing is older than %s.", r.Spec.OlderThan)
	case r.Spec.DryRun:
		say(api.ReapDryRun, "This was a dry run: %s would be deleted.", words.Plural(out.Count, "instance"))
	case out.Failed > 0:
		say(api.ReapIncomplete, "%d of %s deleted, %d failed; the next run tries again.", out.Count-out.Failed, words.Plural(out.Count, "instance"), out.Failed)
	default:
		say(api.ReapDone, "%s deleted.", words.Plural(out.Count, "instance"))
	}
	if s.UnknownAge > 0 && err == nil {
		s.Message += fmt.Sprintf(" %s without a creation time left alone.", words.Plural(s.UnknownAge, "instance"))
	}
}

// finish records the outcome and returns the report.
func (r *run) finish() (api.ReaperResult, error) {
	s := &r.Status
	s.FinishedAt = workflow.Now(r.ctx)
	ctx, _ := workflow.NewDisconnectedContext(r.ctx)
	workflow.SetCurrentDetails(ctx, details(r.Reap))
	log := workflow.GetLogger(ctx)
	if err := workflow.UpsertTypedSearchAttributes(ctx, workflows.AttrOutcome.ValueSet(string(s.Outcome))); err != nil {
		log.Warn("search attributes not set", "error", err)
	}
	local := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: 10 * time.Second, Summary: "count the outcome",
	})
	done := activities.ReapDoneInput{Provider: r.Spec.Provider, Outcome: s.Outcome, Message: s.Message}
	if !r.Spec.DryRun {
		done.Deleted = s.Count - s.Failed
	}
	if err := workflow.ExecuteLocalActivity(local, sweepActs.RecordReap, done).Get(local, nil); err != nil {
		log.Warn("outcome not counted", "provider", r.Spec.Provider, "outcome", string(s.Outcome), "error", err)
	}
	if s.Outcome == api.ReapCanceled {
		return *s, temporal.NewCanceledError(s.Message)
	}
	return *s, nil
}
