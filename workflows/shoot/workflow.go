// Package shoot attributes the infrastructure tenant of a Gardener shoot to its
// project: one workflow per shoot writes a relation when the shoot is created and
// closes it when it is gone. In between it sleeps, without a timer and without an
// activity. It removes nothing, ever.
package shoot

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
	"github.com/tollgate-dev/tollgate/workflows/spans"
)

// Types of the errors of this workflow.
const (
	ErrInvalidInput = "InvalidInput"
	// ErrEnding: an update came too late.
	ErrEnding = "Ending"
	// ErrRefused: an update contradicts what is known.
	ErrRefused = "Refused"
)

type registration struct {
	state
	continueAfter int
	ctx           workflow.Context
	log           log.Logger
	shown         shown
	// asked counts what was asked, so that a step under way can be broken off for
	// it; updateAt is the history's length when the latest update came.
	asked    int64
	updateAt int
	ending   bool
}

// Workflow registers one shoot. Its id is shoot/<project>/<name>/<uid>. It ends
// when the shoot is gone and everything is written; its result is what it has
// written. A cancellation ends it at once and leaves the relations as they are.
func Workflow(ctx workflow.Context, in api.ShootRegistrationInput) (api.ShootRegistration, error) {
	ctx = spans.Detach(ctx)
	r, err := setup(ctx, in)
	if err != nil {
		return api.ShootRegistration{}, err
	}
	for {
		r.drain()
		if ctx.Err() != nil {
			return r.finish(temporal.NewCanceledError("the relations stay as they are"))
		}
		do, i, until := r.next(workflow.Now(ctx))
		if do == stepDone {
			return r.finish(nil)
		}
		r.show()
		if r.shouldContinue() {
			return api.ShootRegistration{}, r.continueAsNew()
		}
		switch do {
		case stepRecall:
			r.recall()
		case stepResolve:
			r.resolve()
		case stepSettle:
			r.settle(i)
		default:
			r.wait(until)
		}
	}
}

func setup(ctx workflow.Context, in api.ShootRegistrationInput) (*registration, error) {
	info := workflow.GetInfo(ctx)
	r := &registration{continueAfter: in.ContinueAfter, ctx: ctx, updateAt: -1}
	if in.Carried != nil {
		r.CarriedShoot = *in.Carried
		r.shown = shownOf(r.CarriedShoot)
	} else {
		if err := in.ShootFacts.Validate(); err != nil {
			return nil, temporal.NewNonRetryableApplicationError(err.Error(), ErrInvalidInput, nil)
		}
		now := workflow.Now(ctx)
		r.CarriedShoot = api.CarriedShoot{Facts: in.ShootFacts, StartedAt: now, Look: true, Status: api.ShootStatus{Phase: api.ShootPending, Since: now}}
		r.Facts.CreatedAt = r.Facts.CreatedAt.UTC()
		if in.End != nil {
			r.end(now, *in.End)
		}
	}
	f := r.Facts
	if want := workflows.ShootID(f.Project, f.Name, f.UID); info.WorkflowExecution.ID != want {
		return nil, temporal.NewNonRetryableApplicationError(
			fmt.Sprintf("workflow id %q: want %s for this shoot", info.WorkflowExecution.ID, want), ErrInvalidInput, nil)
	}
	r.log = log.With(workflow.GetLogger(ctx), "source", f.Source, "shoot", f.Project+"/"+f.Name, "uid", f.UID)
	if in.Carried == nil {
		if err := workflow.UpsertTypedSearchAttributes(ctx, workflows.AttrSource.ValueSet(f.Source), workflows.AttrNamespace.ValueSet(f.Project)); err != nil {
			return nil, err
		}
	}
	if err := workflow.SetQueryHandler(ctx, workflows.QueryStatus, func() (api.ShootRegistration, error) { return r.view(), nil }); err != nil {
		return nil, err
	}
	return r, r.handlers()
}

// receive takes one signal.
func receive[T any](r *registration, name string, take func(T)) bool {
	var v T
	if !workflow.GetSignalChannel(r.ctx, name).ReceiveAsync(&v) {
		return false
	}
	r.asked++
	take(v)
	return true
}

// signals are all signals that are taken.
func signals() []string {
	return []string{workflows.SignalShootCreated, workflows.SignalShootRotated, workflows.SignalShootEnded, workflows.SignalRetry}
}

// drain takes all signals. Their order does not matter: see state.
func (r *registration) drain() {
	now := workflow.Now(r.ctx)
	for receive(r, workflows.SignalShootCreated, func(f api.ShootFacts) {
		if err := r.agrees(f); err != nil {
			r.log.Warn("facts that contradict what is known are left out", "error", err)
			return
		}
		r.created(f)
	}) {
	}
	for receive(r, workflows.SignalShootRotated, func(x api.ShootRotation) { r.rotated(now, x) }) {
	}
	for receive(r, workflows.SignalShootEnded, func(e api.ShootEnd) { r.end(now, e) }) {
	}
	for receive(r, workflows.SignalRetry, func(any) { r.retry() }) {
	}
}

// agrees says whether facts are about this shoot.
func (r *registration) agrees(f api.ShootFacts) error {
	is := r.Facts
	switch {
	case f.Project != "" && f.Project != is.Project || f.Name != "" && f.Name != is.Name || f.UID != "" && f.UID != is.UID:
		return fmt.Errorf("they are about shoot %s/%s with uid %s", f.Project, f.Name, f.UID)
	case f.Source != "" && f.Source != is.Source:
		return fmt.Errorf("source: %q is another one than %q, which the shoot was registered with", f.Source, is.Source)
	case f.Tenant != nil && f.Tenant.Validate("tenant") != nil:
		return f.Tenant.Validate("tenant")
	}
	return nil
}

// signaled reports whether there is a signal to take.
func (r *registration) signaled() bool {
	n := 0
	for _, name := range signals() {
		n += workflow.GetSignalChannel(r.ctx, name).Len()
	}
	return n > 0
}

// wait returns at a time, at a signal or an update, or at a cancellation.
func (r *registration) wait(until time.Time) {
	asked := r.asked
	told := func() bool { return r.asked != asked || r.signaled() }
	if until.IsZero() {
		_ = workflow.Await(r.ctx, told) // the loop looks at a cancellation
		return
	}
	_, _ = workflow.AwaitWithOptions(r.ctx, workflow.AwaitOptions{
		Timeout:      until.Sub(workflow.Now(r.ctx)),
		TimerOptions: workflow.TimerOptions{Summary: "for somebody who saw the end"},
	}, told)
}

// shouldContinue: a workflow task that took an update does not end the run as
// well: if it has to be repeated, the server fails the update's caller.
func (r *registration) shouldContinue() bool {
	info := workflow.GetInfo(r.ctx)
	due := info.GetContinueAsNewSuggested() || r.continueAfter > 0 && info.GetCurrentHistoryLength() >= r.continueAfter
	return due && r.updateAt != info.GetCurrentHistoryLength() && workflow.AllHandlersFinished(r.ctx)
}

func (r *registration) continueAsNew() error {
	r.drain()
	carried := r.CarriedShoot
	return workflow.NewContinueAsNewError(r.ctx, workflows.TypeShootRegistration, api.ShootRegistrationInput{
		ShootFacts: carried.Facts, ContinueAfter: r.continueAfter, Carried: &carried,
	})
}

// finish ends the run. Nobody is left without an answer.
func (r *registration) finish(end error) (api.ShootRegistration, error) {
	r.ending = true
	if end == nil {
		r.judge(workflow.Now(r.ctx))
		r.phase(workflow.Now(r.ctx), api.ShootEnded, "", "")
	}
	ctx, _ := workflow.NewDisconnectedContext(r.ctx)
	r.show()
	if err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
		return api.ShootRegistration{}, err
	}
	if end == nil {
		r.log.Info("the shoot's attribution is complete", "relations", len(r.Status.Relations)+r.Status.Dropped)
	}
	return r.view(), end
}
