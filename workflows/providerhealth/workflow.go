// Package providerhealth watches whether a provider is usable: one entity
// workflow per provider has it checked every interval and whenever somebody
// asks, and says how each of its targets is.
package providerhealth

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
	"github.com/tollgate-dev/tollgate/workflows/spans"
)

// Types of the errors of this workflow.
const (
	ErrInvalidInput = "InvalidInput"
	// ErrEnding: an update came too late.
	ErrEnding = "Ending"
)

// noWorkerAfter is how long a check may wait for a worker.
const noWorkerAfter = time.Minute

type health struct {
	api.CarriedHealth
	provider      string
	continueAfter int
	ctx           workflow.Context
	log           log.Logger
	// wanted counts the checks that were asked for, done those that answer them.
	wanted, done int64
	ending       bool
	shown        shown
}

var healthActs *activities.Health

// Workflow watches one provider. Its id is health/<provider>. It ends when it is
// canceled, which is not a failure: the provider is no longer configured.
func Workflow(ctx workflow.Context, in api.ProviderHealthInput) error {
	ctx = spans.Detach(ctx)
	h, err := setup(ctx, in)
	if err != nil {
		return err
	}
	for {
		h.drain()
		if ctx.Err() != nil {
			return h.end()
		}
		h.show()
		if h.shouldContinue() {
			return h.continueAsNew()
		}
		if h.due(workflow.Now(ctx)) {
			h.check()
			continue
		}
		h.wait()
	}
}

func setup(ctx workflow.Context, in api.ProviderHealthInput) (*health, error) {
	info := workflow.GetInfo(ctx)
	invalid := func(format string, args ...any) error {
		return temporal.NewNonRetryableApplicationError(fmt.Sprintf(format, args...), ErrInvalidInput, nil)
	}
	switch want := workflows.ProviderHealthID(in.Provider); {
	case in.Provider == "":
		return nil, invalid("provider: is required: the name of a provider")
	case info.WorkflowExecution.ID != want:
		return nil, invalid("workflow id %q: want %s for this provider", info.WorkflowExecution.ID, want)
	}
	h := &health{provider: in.Provider, continueAfter: in.ContinueAfter, ctx: ctx, log: workflow.GetLogger(ctx)}
	if in.Carried != nil {
		h.CarriedHealth = *in.Carried
		h.shown = shownOf(h.Status)
	} else {
		now := workflow.Now(ctx)
		h.CarriedHealth = api.CarriedHealth{Config: in.Config, CreatedAt: now, NextCheck: now}
		h.Status.Reason = api.ReasonNotChecked
		if err := workflow.UpsertTypedSearchAttributes(ctx, workflows.AttrProvider.ValueSet(in.Provider)); err != nil {
			return nil, err
		}
	}
	if err := workflow.SetQueryHandler(ctx, workflows.QueryStatus, func() (api.ProviderHealth, error) { return h.view(), nil }); err != nil {
		return nil, err
	}
	return h, workflow.SetUpdateHandlerWithOptions(ctx, workflows.UpdateCheck, h.checkNow, workflow.UpdateHandlerOptions{
		Description: "checks the provider now and answers with its health",
		Validator: func(workflow.Context) error {
			if h.ending {
				return temporal.NewApplicationError("the provider is no longer watched", ErrEnding)
			}
			return nil
		},
	})
}

// checkNow answers after the first check that began after the question.
func (h *health) checkNow(ctx workflow.Context) (api.ProviderHealth, error) {
	h.wanted++
	mine := h.wanted
	// Await fails only at a cancellation, and then nobody checks any more.
	err := workflow.Await(ctx, func() bool { return h.done >= mine || h.ending })
	if err != nil || h.done < mine {
		return api.ProviderHealth{}, temporal.NewApplicationError("the provider is no longer watched", ErrEnding)
	}
	return h.view(), nil
}

func (h *health) interval() time.Duration {
	if d := h.Config.Interval.Std(); d >= time.Second {
		return d
	}
	return api.DefaultHealthInterval
}

func (h *health) due(now time.Time) bool { return h.wanted > h.done || !now.Before(h.NextCheck) }

// check makes one round.
func (h *health) check() {
	begun, wanted := workflow.Now(h.ctx), h.wanted
	ctx := workflow.WithActivityOptions(h.ctx, workflow.ActivityOptions{
		TaskQueue: workflows.ProviderTaskQueue(h.provider), Summary: "check " + h.provider,
		StartToCloseTimeout: 2 * time.Minute, ScheduleToStartTimeout: noWorkerAfter, ScheduleToCloseTimeout: 5 * time.Minute,
		HeartbeatTimeout: 5 * time.Second,
		RetryPolicy:      &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumAttempts: 3},
	})
	var out activities.CheckProviderResult
	err := workflow.ExecuteActivity(ctx, healthActs.CheckProvider, activities.CheckProviderInput{Provider: h.provider}).Get(ctx, &out)
	if h.ctx.Err() != nil {
		return
	}
	before := h.Status
	h.Status = judge(before, out, err, begun)
	if before.Ready != h.Status.Ready || before.Checks == 0 {
		h.log.Info("provider health changed", "provider", h.provider, "ready", h.Status.Ready, "reason", h.Status.Reason, "message", h.Status.Message)
	}
	h.NextCheck = begun.Add(h.interval())
	h.done = max(h.done, wanted)
}

// wait returns at the time of the next check, or when somebody wants something,
// or at a cancellation.
func (h *health) wait() {
	configure := workflow.GetSignalChannel(h.ctx, workflows.SignalConfigure)
	check := workflow.GetSignalChannel(h.ctx, workflows.SignalCheck)
	options := workflow.AwaitOptions{
		Timeout:      h.NextCheck.Sub(workflow.Now(h.ctx)),
		TimerOptions: workflow.TimerOptions{Summary: "until the next check"},
	}
	// The loop looks at what happened, a cancellation included.
	_, _ = workflow.AwaitWithOptions(h.ctx, options, func() bool {
		return h.wanted > h.done || configure.Len()+check.Len() > 0
	})
}

func (h *health) receiveConfig(c workflow.ReceiveChannel) bool {
	var cfg api.HealthConfig
	if !c.ReceiveAsync(&cfg) {
		return false
	}
	changed, old := cfg.ConfigHash != h.Config.ConfigHash, h.interval()
	h.Config = cfg
	if changed {
		h.NextCheck = workflow.Now(h.ctx)
	} else {
		h.NextCheck = h.NextCheck.Add(h.interval() - old)
	}
	return true
}

func (h *health) receiveCheck(c workflow.ReceiveChannel) bool {
	if !c.ReceiveAsync(nil) {
		return false
	}
	h.NextCheck = workflow.Now(h.ctx)
	return true
}

func (h *health) drain() {
	for h.receiveConfig(workflow.GetSignalChannel(h.ctx, workflows.SignalConfigure)) {
	}
	for h.receiveCheck(workflow.GetSignalChannel(h.ctx, workflows.SignalCheck)) {
	}
}

func (h *health) shouldContinue() bool {
	info := workflow.GetInfo(h.ctx)
	due := info.GetContinueAsNewSuggested() || h.continueAfter > 0 && info.GetCurrentHistoryLength() >= h.continueAfter
	return due && workflow.AllHandlersFinished(h.ctx)
}

func (h *health) continueAsNew() error {
	h.drain()
	carried := h.CarriedHealth
	return workflow.NewContinueAsNewError(h.ctx, workflows.TypeProviderHealth, api.ProviderHealthInput{
		Provider: h.provider, ContinueAfter: h.continueAfter, Carried: &carried,
	})
}

// end answers whoever waits.
func (h *health) end() error {
	h.ending = true
	ctx, _ := workflow.NewDisconnectedContext(h.ctx)
	if err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
		return err
	}
	return temporal.NewCanceledError()
}
