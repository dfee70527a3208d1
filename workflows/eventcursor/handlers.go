package eventcursor

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

func refuse(format string, args ...any) error {
	return temporal.NewApplicationError(sprintf(format, args...), ErrRefused)
}

func (c *cursor) open() error {
	if c.ending {
		return temporal.NewApplicationError("the cursor is ending", ErrEnding)
	}
	return nil
}

func (c *cursor) handlers() error {
	type options = workflow.UpdateHandlerOptions
	for _, h := range []struct {
		name string
		f    any
		o    options
	}{
		{workflows.UpdatePause, func(ctx workflow.Context) (api.Cursor, error) {
			c.asked++
			c.pause(workflow.Now(ctx))
			return c.view(), nil
		}, options{Description: "stops reading and delivering until it is resumed", Validator: func(workflow.Context) error { return c.open() }}},
		{workflows.UpdateResume, func(ctx workflow.Context) (api.Cursor, error) {
			c.asked++
			c.resume(workflow.Now(ctx))
			return c.view(), nil
		}, options{Description: "goes on after a pause, and tries at once after a failure", Validator: func(workflow.Context) error { return c.open() }}},
		{workflows.UpdateRewind, c.onRewind, options{Description: "reads everything again from a time on; answers when that is found",
			Validator: func(ctx workflow.Context, in api.RewindInput) error {
				switch {
				case in.To.IsZero():
					return refuse("to: is required: the time from which everything is read again")
				case in.To.After(workflow.Now(ctx)):
					return refuse("to: %s is in the future", clock(in.To))
				case c.Rewind != nil:
					return refuse("a rewind to %s is under way", clock(*c.Rewind))
				}
				return c.open()
			}}},
		{workflows.UpdateBackfill, c.onBackfill, options{Description: "delivers a range of time again, beside the reading; answers when it has begun",
			Validator: func(ctx workflow.Context, in api.BackfillInput) error {
				switch {
				case in.From.IsZero() || !in.From.Before(in.To):
					return refuse("from and to: are required, from before to")
				case in.From.After(workflow.Now(ctx)):
					return refuse("from: %s is in the future", clock(in.From))
				case c.backfilling():
					return refuse("a backfill from %s to %s is under way", clock(c.Status.Backfill.From), clock(c.Status.Backfill.To))
				}
				return c.open()
			}}},
		{workflows.UpdateRedrive, c.onRedrive, options{Description: "derives dead letters again and delivers them; answers with what became of them",
			Validator: func(_ workflow.Context, in api.RedriveInput) error {
				if _, err := c.letters(in); err != nil {
					return refuse("%v", err)
				}
				return c.open()
			}}},
	} {
		if err := workflow.SetUpdateHandlerWithOptions(c.ctx, h.name, h.f, h.o); err != nil {
			return err
		}
	}
	return nil
}

// onRewind answers when the cursor stands at its new place.
func (c *cursor) onRewind(ctx workflow.Context, in api.RewindInput) (api.Cursor, error) {
	to := in.To.UTC()
	c.asked++
	if c.Rewind = &to; c.Status.Phase == api.CursorFailing {
		c.NextRead = workflow.Now(ctx)
	}
	err := workflow.Await(ctx, func() bool { return c.Rewind == nil || c.ending })
	if err != nil || c.Rewind != nil {
		return api.Cursor{}, temporal.NewApplicationError("the cursor is ending", ErrEnding)
	}
	return c.view(), nil
}

func (c *cursor) onBackfill(ctx workflow.Context, in api.BackfillInput) (api.Cursor, error) {
	c.asked++
	c.Status.Backfill = &api.BackfillStatus{From: in.From.UTC(), To: in.To.UTC()}
	c.Backfill, c.BackfillFound, c.BackfillAfter = "", false, time.Time{}
	return c.view(), nil
}

func (c *cursor) onRedrive(ctx workflow.Context, in api.RedriveInput) (api.RedriveResult, error) {
	letters, err := c.letters(in)
	if err != nil {
		return api.RedriveResult{}, refuse("%v", err)
	}
	if len(letters) == 0 {
		return api.RedriveResult{}, nil
	}
	c.asked++
	r := &redrive{letters: letters}
	c.redrives = append(c.redrives, r)
	if err := workflow.Await(ctx, func() bool { return r.done || c.ending }); err != nil || !r.done {
		return api.RedriveResult{}, temporal.NewApplicationError("the cursor is ending", ErrEnding)
	}
	return r.result, r.err
}
