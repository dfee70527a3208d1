package shoot

import (
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

var shootActs *activities.Shoots

const (
	attemptTimeout = 2 * time.Minute
	// waitFor is how long one activity waits out trouble: an outage of a day costs
	// one activity.
	waitFor = 24 * time.Hour
	// noWorkerAfter is how long a step waits for a worker before it says that
	// there is none. After that it waits for ever.
	noWorkerAfter = time.Minute
)

// run has a step done. Trouble that is known already is waited out in the
// activity, however long it lasts, at no cost; ok is false when there is other
// trouble, which is shown then, and when the step was broken off because somebody
// asked for something.
func run[T any](r *registration, s step, summary string, act any, in func(activities.ShootStep) any, problem func(T) *api.ShootProblem) (out T, ok bool) {
	base := activities.ShootStep{Facts: r.Facts, Failures: r.Status.Failures}
	if r.Trouble != nil && r.TroubleWith == string(s) {
		base.Known = r.Trouble.Reason
	}
	o := workflow.ActivityOptions{
		TaskQueue: workflows.SourceTaskQueue(r.Facts.Source), Summary: summary,
		StartToCloseTimeout: attemptTimeout, ScheduleToCloseTimeout: waitFor, ScheduleToStartTimeout: noWorkerAfter, HeartbeatTimeout: 5 * time.Second, WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute},
	}
	if base.Known != "" {
		o.ScheduleToStartTimeout = 0
	}
	ctx, cancel := workflow.WithCancel(workflow.WithActivityOptions(r.ctx, o))
	defer cancel()
	f := workflow.ExecuteActivity(ctx, act, in(base))
	asked := r.asked
	waited := workflow.Await(r.ctx, func() bool { return f.IsReady() || r.asked != asked || r.signaled() })
	broken := !f.IsReady()
	if broken {
		cancel()
	}
	// What the activity has done until it was broken off is done.
	dctx, _ := workflow.NewDisconnectedContext(r.ctx)
	err := f.Get(dctx, &out)
	now := workflow.Now(r.ctx)
	switch p := problem(out); {
	case err != nil && (broken || waited != nil || temporal.IsCanceledError(err)):
		return out, false // however it ended: that is no trouble
	case stillWaits(err) && r.Trouble != nil:
		r.Status.Failures++
		return out, false
	case err != nil:
		r.stuck(now, s, explain(err))
		return out, false
	case p != nil:
		r.stuck(now, s, *p)
		return out, false
	}
	r.Trouble, r.TroubleWith, r.Status.Failures = nil, "", 0
	return out, true
}

// stillWaits: the known trouble has outlasted the activity.
func stillWaits(err error) bool {
	var app *temporal.ApplicationError
	return errors.As(err, &app) && app.Type() == activities.ErrShootWaits
}

// stuck shows trouble.
func (r *registration) stuck(now time.Time, s step, p api.ShootProblem) {
	r.Trouble, r.TroubleWith = &p, string(s)
	r.Status.Failures++
	r.log.Warn("the registration does not get on", "step", string(s), "reason", p.Reason, "failures", r.Status.Failures, "error", p.Message)
}

func (r *registration) recall() {
	if out, ok := run(r, stepRecall, "what is known of the shoot", shootActs.RecallShoot,
		func(b activities.ShootStep) any { return b },
		func(o activities.RecallShootResult) *api.ShootProblem { return o.Problem }); ok {
		r.recalled(out)
	}
}

func (r *registration) resolve() {
	out, ok := run(r, stepResolve, "find the tenant", shootActs.ResolveTenant,
		func(b activities.ShootStep) any { return b },
		func(o activities.ResolveTenantResult) *api.ShootProblem { return o.Problem })
	if ok || out.Problem != nil {
		r.resolved(workflow.Now(r.ctx), out)
	}
}

func (r *registration) settle(i int) {
	want := r.Status.Relations[i]
	summary := "write the relation to " + want.Tenant.String()
	if !want.ValidTo.IsZero() {
		summary = "close the relation to " + want.Tenant.String() + " at " + clock(want.ValidTo)
	}
	if out, ok := run(r, stepSettle, summary, shootActs.SettleRelation,
		func(b activities.ShootStep) any {
			return activities.SettleRelationInput{ShootStep: b, Relation: want}
		},
		func(o activities.SettleRelationResult) *api.ShootProblem { return o.Problem }); ok {
		r.settled(i, out)
	}
}

// explain reads an activity's failure.
func explain(err error) api.ShootProblem {
	var app *temporal.ApplicationError
	var timeout *temporal.TimeoutError
	switch {
	case errors.As(err, &timeout) && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START:
		return api.ShootProblem{Reason: api.ReasonNoWorker, Message: "no worker took it: is the source configured on any?"}
	case errors.As(err, &app):
		return api.ShootProblem{Reason: app.Type(), Message: app.Message()}
	case errors.As(err, &timeout):
		return api.ShootProblem{Reason: api.ReasonTimeout, Message: "it took too long (" + timeout.TimeoutType().String() + ")"}
	}
	return api.ShootProblem{Reason: string(provider.Transient), Message: err.Error()}
}
