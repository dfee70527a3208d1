package eventcursor

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

var cursorActs *activities.Cursors

// noWorkerAfter is how long a step may wait for a worker.
const noWorkerAfter = time.Minute

func (c *cursor) ref() activities.StreamRef {
	return activities.StreamRef{Source: c.source, Stream: c.stream, Sink: c.Config.Sink}
}

func (c *cursor) options(summary string, attempt, total time.Duration) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue: workflows.SourceTaskQueue(c.source), Summary: summary,
		StartToCloseTimeout: attempt, ScheduleToCloseTimeout: total, ScheduleToStartTimeout: noWorkerAfter,
		HeartbeatTimeout: 5 * time.Second, WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second},
	}
}

// reading are the options of a step that reads and delivers. Whatever goes wrong at
// the source or the sink it returns; its attempts end when there is nothing new,
// or when a worker dies. However many there were, the next one follows at once.
func (c *cursor) reading(summary string, total time.Duration) workflow.ActivityOptions {
	o := c.options(summary, 10*time.Minute, total)
	o.RetryPolicy = &temporal.RetryPolicy{InitialInterval: 2 * time.Second, BackoffCoefficient: 1}
	return o
}

// run has an activity done. It is broken off when somebody asks for something; ok
// is false when it has no result then.
func run[T any](c *cursor, o workflow.ActivityOptions, act, in any) (out T, ok bool, err error) {
	ctx, cancel := workflow.WithCancel(workflow.WithActivityOptions(c.ctx, o))
	defer cancel()
	asked := c.asked
	f := workflow.ExecuteActivity(ctx, act, in)
	broken := false
	for !f.IsReady() && !broken {
		err := workflow.Await(c.ctx, func() bool { return f.IsReady() || c.asked != asked || c.signaled() })
		// A worker that starts says what is known already: that breaks nothing off.
		c.drain()
		broken = !f.IsReady() && (err != nil || c.asked != asked)
	}
	if broken {
		cancel()
	}
	// What the activity has done until it was broken off is done.
	dctx, _ := workflow.NewDisconnectedContext(c.ctx)
	err = f.Get(dctx, &out)
	if broken && err != nil || temporal.IsCanceledError(err) {
		return out, false, nil // however it ended: that is no failure
	}
	return out, err == nil, err
}

func (c *cursor) readSource() {
	now := workflow.Now(c.ctx)
	in := activities.ReadSourceInput{
		StreamRef: c.ref(), Cursor: c.Cursor, Interval: api.Duration(c.interval()), DeadLetters: len(c.Status.DeadLetters),
		Broken: c.Status.Broken,
	}
	// Until it is known that there is nothing more, the first that finds nothing
	// says so at once.
	if !c.backfilling() && (c.Status.Phase == api.CursorCaughtUp || c.Status.Phase == api.CursorDegraded) {
		in.ReturnBy = now.Add(hold)
	}
	out, ok, err := run[activities.ReadSourceResult](c, c.reading("read "+c.source+"/"+c.stream+" and deliver", 2*hold+10*time.Minute),
		cursorActs.ReadSource, in)
	now = workflow.Now(c.ctx)
	switch {
	case err != nil:
		c.fail(now, explain(err))
		c.log.Warn("not read", "reason", c.Status.Reason, "failures", c.Status.Failures, "error", c.Status.Message)
	case ok:
		for _, g := range out.Gaps {
			c.log.Error("entries are missing for good", "gap_from", g.From, "gap_to", g.To)
		}
		c.read(now, out)
		if out.Stop != nil {
			c.log.Warn("reading has stopped", "phase", string(c.Status.Phase), "reason", c.Status.Reason, "failures", c.Status.Failures, "error", c.Status.Message)
		} else if c.Status.Phase == api.CursorDegraded {
			c.log.Warn("parts of the source are not read", "reason", c.Status.Reason, "error", c.Status.Message)
		}
	}
	if c.Status.Paused {
		c.phase(now, api.CursorPaused, api.ReasonAsked, "paused; nothing is read and nothing is delivered")
	}
}

// checkSink waits until the sink answers again.
func (c *cursor) checkSink() {
	o := c.options("until sink "+c.Config.Sink+" answers", time.Minute, 24*time.Hour)
	o.RetryPolicy = &temporal.RetryPolicy{InitialInterval: activities.CheckEvery, BackoffCoefficient: 1}
	_, ok, err := run[any](c, o, cursorActs.CheckSink, activities.CheckSinkInput{StreamRef: c.ref()})
	now := workflow.Now(c.ctx)
	switch {
	case err != nil:
		stop := explain(err)
		stop.Sink, stop.Reason = true, api.ReasonSinkUnavailable
		c.fail(now, stop)
	case ok && !c.Status.Paused:
		// Failures stay counted until something was delivered.
		c.phase(now, api.CursorReading, c.Status.Reason, "the sink answers again")
		c.NextRead = now
	}
}

func (c *cursor) rewind() {
	to := *c.Rewind
	out, ok, err := run[activities.SeekSourceResult](c, c.options("find "+clock(to), 5*time.Minute, 15*time.Minute), cursorActs.SeekSource,
		activities.SeekSourceInput{StreamRef: c.ref(), To: to})
	now := workflow.Now(c.ctx)
	switch {
	case err != nil:
		c.fail(now, explain(err))
	case ok:
		c.Cursor, c.Rewind, c.NextRead = out.Cursor, nil, now
		c.Status.CaughtUpTo, c.Status.Failures = to, 0
		if !c.Status.Paused {
			c.phase(now, api.CursorReading, "", "")
		}
		c.log.Info("rewound", "to", to)
	}
}

func (c *cursor) backfill() {
	b := *c.Status.Backfill
	if !c.BackfillFound {
		out, ok, err := run[activities.SeekSourceResult](c, c.options("find "+clock(b.From)+" for the backfill", 5*time.Minute, 15*time.Minute),
			cursorActs.SeekSource, activities.SeekSourceInput{StreamRef: c.ref(), To: b.From})
		switch {
		case err != nil:
			stop := explain(err)
			b.Message = stop.Message
			c.Status.Backfill = &b
			c.fail(workflow.Now(c.ctx), stop)
		case ok:
			c.Backfill, c.BackfillFound = out.Cursor, true
		}
		return
	}
	in := activities.ReadSourceInput{StreamRef: c.ref(), Cursor: c.Backfill, From: b.From, To: b.To, DeadLetters: len(c.Status.DeadLetters)}
	out, ok, err := run[activities.ReadSourceResult](c, c.reading("backfill "+clock(b.From)+" to "+clock(b.To), 20*time.Minute),
		cursorActs.ReadSource, in)
	switch {
	case err != nil:
		stop := explain(err)
		b.Message = stop.Message
		c.Status.Backfill = &b
		c.fail(workflow.Now(c.ctx), stop)
	case ok:
		c.backfilled(workflow.Now(c.ctx), out)
	}
}

func (c *cursor) redrive() {
	r := c.redrives[0]
	c.redrives = c.redrives[1:]
	ctx := workflow.WithActivityOptions(c.ctx, c.options(sprintf("drive %d dead letters again", len(r.letters)), 5*time.Minute, 15*time.Minute))
	r.err = workflow.ExecuteActivity(ctx, cursorActs.RedriveDeadLetters, activities.RedriveInput{StreamRef: c.ref(), Letters: r.letters}).Get(ctx, &r.result)
	if r.done = true; r.err == nil {
		c.redriven(r.letters, r.result)
	} else {
		stop := explain(r.err)
		r.err = refuse("%s", stop.Message)
	}
}

// explain reads an activity's failure.
func explain(err error) api.Stop {
	var app *temporal.ApplicationError
	var timeout *temporal.TimeoutError
	switch {
	case errors.As(err, &app):
		s := api.Stop{Class: app.Type(), Message: app.Message()}
		var d activities.FailureDetails
		if app.HasDetails() && app.Details(&d) == nil {
			s.Reason, s.RetryAfter = d.Reason, api.Duration(d.RetryAfter)
		}
		if s.Class == activities.ErrSourceNotConfigured || s.Class == activities.ErrSinkNotConfigured {
			s.Reason, s.Class = s.Class, string(provider.Permanent)
		}
		return s
	case errors.As(err, &timeout) && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START:
		return api.Stop{Class: string(provider.Transient), Reason: api.ReasonNoWorker, Message: "no worker took it: is the source configured on any?"}
	case errors.As(err, &timeout):
		return api.Stop{Class: string(provider.Transient), Reason: api.ReasonTimeout, Message: "it took too long (" + timeout.TimeoutType().String() + ")"}
	}
	return api.Stop{Class: string(provider.Transient), Message: err.Error()}
}
