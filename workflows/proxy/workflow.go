// Package proxy is the life of one egress proxy as an entity workflow: it makes
// an instance, waits for it, proves it with a CONNECT, sleeps until somebody
// wants or sees something, replaces it, and in the end deletes all it made.
//
// The workflow is a loop around one pure function: decide looks at the state and
// the time and names the next step; a step calls one activity and writes what
// came of it into the state. Handlers only write wishes into the state. So every
// crash, race and continue-as-new resumes at the step that is missing.
package proxy

import (
	"cmp"
	"time"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
	"github.com/tollgate-dev/tollgate/workflows/spans"
)

// ErrInvalidInput is the type of the error that a run with bad input ends in.
const ErrInvalidInput = "InvalidInput"

type proxy struct {
	api.CarriedProxy
	namespace, name, uid string

	// base is not cancelled with the workflow: a cancellation is the wish to
	// delete, and that takes activities. ctx is base in the trace of whoever
	// asked for what is being done, if anybody did.
	base, ctx workflow.Context
	log       log.Logger
	canceled  bool
	finished  bool
	// gone makes the reporter send the end of the row.
	gone, goneReported bool
	// reporting: a report is on its way; forceReport: send one though nothing changed.
	reporting, forceReport bool
	// updateAt is the history's length when the latest update came.
	updateAt int
	// nudges counts the times that somebody changed what a failure rested on.
	nudges int
	shown  shown
}

// Workflow runs one proxy. Its id is proxy/<namespace>/<name>.
func Workflow(ctx workflow.Context, in api.ProxyInput) (api.ProxyResult, error) {
	p, err := setup(ctx, in)
	if err != nil {
		return api.ProxyResult{}, temporal.NewNonRetryableApplicationError(err.Error(), ErrInvalidInput, nil)
	}
	if err := p.handlers(ctx); err != nil {
		return api.ProxyResult{}, err
	}
	workflow.Go(p.ctx, p.reporter)
	for {
		p.show()
		next := p.decide(p.now())
		if next.kind == stepFinish {
			break
		}
		if p.due(ctx) {
			p.flush(flushLimit)
			if p.quiet(ctx) {
				return api.ProxyResult{}, p.continueAsNew(ctx)
			}
		}
		if next.kind != stepSleep && next.kind != stepWait {
			p.do(next)
			continue
		}
		// What comes after a rest is nobody's operation, until somebody asks.
		p.ctx = spans.Detach(p.base)
		p.rest(next, func() bool { return p.due(ctx) && p.quiet(ctx) })
	}
	p.finish()
	if p.canceled {
		return api.ProxyResult{}, temporal.NewCanceledError()
	}
	return api.ProxyResult{Reason: p.DeleteReason, Deleted: p.Deleted, Replacements: p.Replacements}, nil
}

func setup(ctx workflow.Context, in api.ProxyInput) (*proxy, error) {
	info := workflow.GetInfo(ctx)
	ns, name, err := workflows.ParseProxyID(info.WorkflowExecution.ID)
	if err != nil {
		return nil, err
	}
	if err := validateIdentity(ns, name, in); err != nil {
		return nil, err
	}
	p := &proxy{namespace: ns, name: name, updateAt: -1, uid: cmp.Or(info.FirstRunID, info.WorkflowExecution.RunID)}
	p.base, _ = workflow.NewDisconnectedContext(ctx)
	p.ctx = p.base
	p.log = workflow.GetLogger(ctx)
	if in.Carried != nil {
		p.CarriedProxy = *in.Carried
		return p, nil
	}
	p.CarriedProxy = api.CarriedProxy{
		Spec: in.Spec.WithDefaults(), Labels: normal(in.Labels), Generation: 1,
		CreatedAt: p.now(), ContinueAfter: in.ContinueAfter,
	}
	now := p.now()
	p.setCondition(now, api.CondProvisioned, api.False, api.ReasonPending, "")
	p.setCondition(now, api.CondHealthy, api.Unknown, api.ReasonPending, "")
	return p, nil
}

// normal makes an empty map nil, as it is after a trip through JSON.
func normal(labels map[string]string) map[string]string {
	if len(labels) == 0 {
		return nil
	}
	return labels
}

// now is the workflow's time in a form that equals itself after a trip through
// JSON, so that state can be compared across a continue-as-new.
func (p *proxy) now() time.Time { return workflow.Now(p.ctx).UTC().Round(0) }

// rest waits for a change: until a time, or without a timer for as long as it
// takes. stop ends it too.
func (p *proxy) rest(s step, stop func() bool) {
	changed := func() bool {
		if stop() {
			return true
		}
		next := p.decide(p.now())
		return next.kind != s.kind || !next.until.Equal(s.until)
	}
	if s.kind == stepSleep {
		_ = workflow.Await(p.ctx, changed)
		return
	}
	p.await(s.until.Sub(p.now()), "next try after "+p.waitingFor(), changed)
}

// await waits for the condition, at most for limit, and says whether it came
// true. Unlike the SDK's own it takes its timer back, so that no timer outlives
// what it was for and wakes an idle proxy.
func (p *proxy) await(limit time.Duration, summary string, ok func() bool) bool {
	if ok() {
		return true
	}
	ctx, cancel := workflow.WithCancel(p.ctx)
	defer cancel()
	timer := workflow.NewTimerWithOptions(ctx, limit, workflow.TimerOptions{Summary: summary})
	_ = workflow.Await(p.ctx, func() bool { return ok() || timer.IsReady() })
	return ok()
}

// due: the history is long enough for a new run.
func (p *proxy) due(ctx workflow.Context) bool {
	info := workflow.GetInfo(ctx)
	return info.GetContinueAsNewSuggested() || p.ContinueAfter > 0 && info.GetCurrentHistoryLength() >= p.ContinueAfter
}

// quiet: nobody waits for an answer and no activity is under way. It is asked
// between steps only, where the state is all there is. A workflow task that took
// an update does not end the run as well: if that task has to be repeated, which
// a signal at the wrong moment does, the server fails the update's caller.
func (p *proxy) quiet(ctx workflow.Context) bool {
	return p.updateAt != workflow.GetInfo(ctx).GetCurrentHistoryLength() && workflow.AllHandlersFinished(ctx) && !p.reportDue() && !p.canceled
}

func (p *proxy) continueAsNew(ctx workflow.Context) error {
	p.drainSignals(ctx)
	carried := p.CarriedProxy
	// By name: a function is only known to the worker by its last word.
	return workflow.NewContinueAsNewError(ctx, workflows.TypeProxy, api.ProxyInput{Carried: &carried})
}

// finish answers everybody who waits and says goodbye to the fleet.
func (p *proxy) finish() {
	now := p.now()
	p.setCondition(now, api.CondProvisioned, api.False, api.ReasonDeleted, "nothing is left at the provider")
	p.setCondition(now, api.CondHealthy, api.False, api.ReasonDeleted, "")
	p.gone = true
	p.flush(0)
	p.finished = true
	p.show()
	// Only a lost context makes Await fail, and this one cannot be cancelled.
	_ = workflow.Await(p.ctx, func() bool { return workflow.AllHandlersFinished(p.ctx) })
}

// flush waits until the fleet has the newest row, at most for limit if that is
// not zero: a fleet that cannot be told must not keep a proxy from going on.
func (p *proxy) flush(limit time.Duration) {
	told := func() bool { return !p.reportDue() }
	if limit == 0 {
		_ = workflow.Await(p.ctx, told)
		return
	}
	if !p.await(limit, "tell the fleet first", told) {
		p.log.Warn("fleet not told in time, going on", "limit", limit.String())
	}
}
