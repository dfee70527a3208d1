// Package fleetwatch watches the proxies of one provider, so that an idle proxy
// can sleep. One workflow holds one shard of the provider's fleet table: what
// its proxies reported last. Shard 0 has one listing of the provider compared
// with the tables of all shards every drift interval; every shard has its
// proxies probed every probe interval. Proxies are told of differences and of
// thresholds that were crossed, and verify what they are told.
//
// The workflow is a loop: take all signals, start what is due, wait. What it
// knows is in state, which is pure; the rows of the table stay out of the
// history, since activities read them by query.
package fleetwatch

import (
	"fmt"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
	"github.com/tollgate-dev/tollgate/workflows/spans"
)

// ErrInvalidInput is the type of the error that a run with bad input ends in.
const ErrInvalidInput = "InvalidInput"

// maxEvents is the length of a history at which jobs under way are given up for
// a continue-as-new. Below it, after the server's advice, they may end.
const maxEvents = 20_000

type fleet struct {
	*state
	provider      string
	continueAfter int
	version       string // of this run
	ctx           workflow.Context
	log           log.Logger
	jobs          [jobKinds]*job
	timer         *alarm
	// braked is what the search attributes say.
	braked string
	// nudge wakes the loop after an update.
	nudge workflow.Channel
}

// Workflow runs one shard of a provider's fleet table. Its id is
// fleet/<provider>/<shard>.
func Workflow(ctx workflow.Context, in api.FleetWatchInput) error {
	f, err := setup(spans.Detach(ctx), in)
	if err != nil {
		return err
	}
	for {
		f.drain()
		f.show()
		if err := ctx.Err(); err != nil {
			return err
		}
		if due, urgent := f.shouldContinue(); due && (urgent || !f.busy()) {
			return f.continueAsNew()
		} else if !due {
			if f.idle() && !f.busy() {
				return nil
			}
			f.start()
		}
		f.wait()
	}
}

func setup(ctx workflow.Context, in api.FleetWatchInput) (*fleet, error) {
	info := workflow.GetInfo(ctx)
	invalid := func(format string, args ...any) error {
		return temporal.NewNonRetryableApplicationError(fmt.Sprintf(format, args...), ErrInvalidInput, nil)
	}
	switch want := workflows.FleetID(in.Provider, in.Shard); {
	case in.Provider == "":
		return nil, invalid("provider: is required: the name of a provider")
	case in.Shard < 0:
		return nil, invalid("shard: %d is negative: use 0 or more", in.Shard)
	case info.WorkflowExecution.ID != want:
		return nil, invalid("workflow id %q: want %s for this provider and shard", info.WorkflowExecution.ID, want)
	}
	f := &fleet{
		state: newState(in), provider: in.Provider, continueAfter: in.ContinueAfter,
		version: info.WorkflowExecution.RunID, ctx: ctx, log: workflow.GetLogger(ctx),
	}
	f.version = f.version[:min(8, len(f.version))]
	if in.Carried == nil {
		if err := workflow.UpsertTypedSearchAttributes(ctx, workflows.AttrProvider.ValueSet(in.Provider)); err != nil {
			return nil, err
		}
	}
	if f.brake.On {
		f.braked = f.brake.Reason
	}
	if err := workflow.SetQueryHandler(ctx, workflows.QueryTable, f.table); err != nil {
		return nil, err
	}
	if err := f.spendHandlers(); err != nil {
		return nil, err
	}
	return f, workflow.SetQueryHandler(ctx, workflows.QueryStatus, f.status)
}

// signals are the channels of the workflow and what is done with what they
// carry.
func (f *fleet) signals() []signal {
	return []signal{
		listen(f, workflows.SignalReport, func(r api.FleetReport) { f.report(workflow.Now(f.ctx), r) }),
		listen(f, workflows.SignalConfigure, func(c api.FleetConfig) { f.configure(workflow.Now(f.ctx), c) }),
		listen(f, workflows.SignalReleased, func(r api.SpendRelease) { f.released(workflow.Now(f.ctx), r) }),
		f.listenRelease(),
	}
}

// listenRelease takes a signal whatever it carries: people send it by hand.
func (f *fleet) listenRelease() signal {
	c := workflow.GetSignalChannel(f.ctx, workflows.SignalRelease)
	return signal{c, func() bool {
		if !c.ReceiveAsync(nil) {
			return false
		}
		f.release(workflow.Now(f.ctx))
		return true
	}}
}

type signal struct {
	channel workflow.ReceiveChannel
	// receive takes one signal if there is one.
	receive func() bool
}

func listen[T any](f *fleet, name string, do func(T)) signal {
	c := workflow.GetSignalChannel(f.ctx, name)
	return signal{c, func() bool {
		var v T
		if !c.ReceiveAsync(&v) {
			return false
		}
		do(v)
		return true
	}}
}

// drain takes every signal that there is.
func (f *fleet) drain() {
	for _, s := range f.signals() {
		for s.receive() {
		}
	}
}

// shouldContinue says whether the run has become long, and whether it is so long
// that jobs under way are not waited for.
func (f *fleet) shouldContinue() (due, urgent bool) {
	info := workflow.GetInfo(f.ctx)
	n := info.GetCurrentHistoryLength()
	due = info.GetContinueAsNewSuggested() || f.continueAfter > 0 && n >= f.continueAfter
	return due, n >= maxEvents
}

func (f *fleet) busy() bool {
	for _, j := range f.jobs {
		if j != nil {
			return true
		}
	}
	return false
}

// continueAsNew hands everything over. Jobs that are given up are repeated by
// the next run, which does no harm.
func (f *fleet) continueAsNew() error {
	f.drain()
	carried := f.carried()
	carried.Forward = carried.Forward || f.jobs[jobForward] != nil
	carried.Rebuild = carried.Rebuild || f.jobs[jobRebuild] != nil
	carried.Retry = carried.Retry || f.jobs[jobRetry] != nil
	return workflow.NewContinueAsNewError(f.ctx, workflows.TypeFleetWatch, api.FleetWatchInput{
		Provider: f.provider, Shard: f.shard, ContinueAfter: f.continueAfter, Carried: carried,
	})
}

// wait returns after a signal, the end of a job, the time of the next one, or a
// cancellation.
func (f *fleet) wait() {
	s := workflow.NewSelector(f.ctx)
	s.AddReceive(f.ctx.Done(), func(workflow.ReceiveChannel, bool) {})
	s.AddReceive(f.nudge, func(c workflow.ReceiveChannel, _ bool) { c.ReceiveAsync(nil) })
	for _, sig := range f.signals() {
		s.AddReceive(sig.channel, func(workflow.ReceiveChannel, bool) { sig.receive() })
	}
	for k, j := range f.jobs {
		if j != nil {
			s.AddFuture(j.future, func(workflow.Future) {
				f.jobs[k] = nil
				j.end()
			})
		}
	}
	if t := f.alarm(); t != nil {
		s.AddFuture(t.future, func(workflow.Future) { f.timer = nil })
	}
	s.Select(f.ctx)
}
