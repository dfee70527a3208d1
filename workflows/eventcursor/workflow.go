// Package eventcursor reads one stream of an event source and delivers what
// happened: one entity workflow per stream holds the cursor and moves it when the
// sink has acknowledged everything before it. Events never enter its history.
package eventcursor

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
	// ErrRefused: an update is not possible as things are.
	ErrRefused = "Refused"
)

type cursor struct {
	state
	source, stream string
	continueAfter  int
	ctx            workflow.Context
	log            log.Logger
	shown          shown
	// asked counts what was asked of the cursor, so that a step under way can be
	// broken off for it.
	asked  int64
	ending bool
}

// Workflow reads one stream. Its id is cursor/<source>/<stream>. It ends when it
// is canceled; what it has delivered until then is lost as a position, so pause it
// instead.
func Workflow(ctx workflow.Context, in api.EventCursorInput) error {
	ctx = spans.Detach(ctx)
	c, err := setup(ctx, in)
	if err != nil {
		return err
	}
	for {
		c.drain()
		if ctx.Err() != nil {
			return c.end()
		}
		c.show()
		if c.shouldContinue() {
			return c.continueAsNew()
		}
		do, until := c.next(workflow.Now(ctx))
		switch do {
		case stepRewind:
			c.rewind()
		case stepRedrive:
			c.redrive()
		case stepCheckSink:
			c.checkSink()
		case stepRead:
			c.readSource()
		case stepBackfill:
			c.backfill()
		default:
			c.wait(until)
		}
	}
}

func setup(ctx workflow.Context, in api.EventCursorInput) (*cursor, error) {
	info := workflow.GetInfo(ctx)
	invalid := func(format string, args ...any) error {
		return temporal.NewNonRetryableApplicationError(fmt.Sprintf(format, args...), ErrInvalidInput, nil)
	}
	switch want := workflows.CursorID(in.Source, in.Stream); {
	case in.Source == "" || in.Stream == "":
		return nil, invalid("source and stream: are required: the name of a configured source, and of one of its streams")
	case info.WorkflowExecution.ID != want:
		return nil, invalid("workflow id %q: want %s for this stream", info.WorkflowExecution.ID, want)
	case in.Config.Sink == "" && in.Carried == nil:
		return nil, invalid("config.sink: is required: the name of a configured sink")
	}
	c := &cursor{source: in.Source, stream: in.Stream, continueAfter: in.ContinueAfter, ctx: ctx,
		log: log.With(workflow.GetLogger(ctx), "source", in.Source, "stream", in.Stream)}
	c.afresh = func() bool {
		return workflow.GetVersion(ctx, "afresh-after-progress", workflow.DefaultVersion, 1) >= 1
	}
	c.parts = func() bool {
		return workflow.GetVersion(ctx, "broken-parts", workflow.DefaultVersion, 1) >= 1
	}
	if in.Carried != nil {
		c.CarriedCursor = *in.Carried
		c.shown = shownOf(c.Status)
	} else {
		now := workflow.Now(ctx)
		c.CarriedCursor = api.CarriedCursor{Config: in.Config, CreatedAt: now, NextRead: now, Rewind: in.From}
		c.Status = api.CursorStatus{Source: in.Source, Stream: in.Stream, Phase: api.CursorReading, Since: now}
		if err := workflow.UpsertTypedSearchAttributes(ctx, workflows.AttrSource.ValueSet(in.Source)); err != nil {
			return nil, err
		}
	}
	if err := workflow.SetQueryHandler(ctx, workflows.QueryStatus, func() (api.Cursor, error) { return c.view(), nil }); err != nil {
		return nil, err
	}
	return c, c.handlers()
}

// receive takes one signal.
func receive[T any](c *cursor, name string, take func(T)) bool {
	var v T
	if !workflow.GetSignalChannel(c.ctx, name).ReceiveAsync(&v) {
		return false
	}
	take(v)
	return true
}

func (c *cursor) drain() {
	now := workflow.Now(c.ctx)
	for receive(c, workflows.SignalConfigure, func(cfg api.CursorConfig) {
		if c.configure(now, cfg) {
			c.asked++
		}
	}) {
	}
	// Of a pause and a resume that came together, the order is not known: the
	// pause wins, which costs least.
	for receive(c, workflows.SignalResume, func(any) { c.asked++; c.resume(now) }) {
	}
	for receive(c, workflows.SignalPause, func(any) { c.asked++; c.pause(now) }) {
	}
}

// signaled reports whether there is a signal to take.
func (c *cursor) signaled() bool {
	n := 0
	for _, name := range []string{workflows.SignalConfigure, workflows.SignalPause, workflows.SignalResume} {
		n += workflow.GetSignalChannel(c.ctx, name).Len()
	}
	return n > 0
}

// wait returns at a time, at a signal or an update, or at a cancellation.
func (c *cursor) wait(until time.Time) {
	asked := c.asked
	told := func() bool { return c.asked != asked || c.signaled() }
	if until.IsZero() {
		_ = workflow.Await(c.ctx, told) // the loop looks at a cancellation
		return
	}
	summary := "until the next read"
	if c.Status.Failures > 0 {
		summary = "until the next try"
	}
	_, _ = workflow.AwaitWithOptions(c.ctx, workflow.AwaitOptions{
		Timeout: until.Sub(workflow.Now(c.ctx)), TimerOptions: workflow.TimerOptions{Summary: summary},
	}, told)
}

func (c *cursor) shouldContinue() bool {
	info := workflow.GetInfo(c.ctx)
	due := info.GetContinueAsNewSuggested() || c.continueAfter > 0 && info.GetCurrentHistoryLength() >= c.continueAfter
	return due && workflow.AllHandlersFinished(c.ctx)
}

func (c *cursor) continueAsNew() error {
	c.drain()
	carried := c.CarriedCursor
	return workflow.NewContinueAsNewError(c.ctx, workflows.TypeEventCursor, api.EventCursorInput{
		Source: c.source, Stream: c.stream, ContinueAfter: c.continueAfter, Carried: &carried,
	})
}

// end answers whoever waits.
func (c *cursor) end() error {
	c.ending = true
	ctx, _ := workflow.NewDisconnectedContext(c.ctx)
	if err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
		return err
	}
	return temporal.NewCanceledError()
}
