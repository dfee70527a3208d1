package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// SeekSource finds the cursor of a time.
func (a *Cursors) SeekSource(ctx context.Context, in SeekSourceInput) (SeekSourceResult, error) {
	s, err := a.source(in.StreamRef)
	if err != nil {
		return SeekSourceResult{}, err
	}
	defer heartbeat(ctx).stop()
	c, err := s.Seek(ctx, in.To)
	return SeekSourceResult{Cursor: c}, toTemporal(ctx, err)
}

// CheckEvery is the time between two checks of a sink that is down.
const CheckEvery = 15 * time.Second

// CheckSink returns once the sink answers again; until then it asks to be tried
// again, which costs no history. The source is not asked meanwhile. A sink that
// cannot be asked gets a pause instead.
func (a *Cursors) CheckSink(ctx context.Context, in CheckSinkInput) error {
	s, err := a.sink(in.StreamRef)
	if err != nil {
		return err
	}
	c, ok := s.(SinkChecker)
	if !ok {
		if activity.GetInfo(ctx).Attempt > 1 {
			return nil
		}
		return again(ErrSinkUnavailable, CheckEvery, "the sink takes nothing")
	}
	defer heartbeat(ctx).stop()
	if err := c.Check(ctx); err != nil {
		if canceled(ctx) {
			return toTemporal(ctx, err)
		}
		return again(ErrSinkUnavailable, CheckEvery, sink.Reason(err.Error()))
	}
	return nil
}

// RedriveDeadLetters derives the events of dead letters again and delivers them.
// What the source no longer has is gone; what is refused again, or cannot be
// derived, stays.
func (a *Cursors) RedriveDeadLetters(ctx context.Context, in RedriveInput) (api.RedriveResult, error) {
	from, err := a.source(in.StreamRef)
	if err != nil {
		return api.RedriveResult{}, err
	}
	to, err := a.sink(in.StreamRef)
	if err != nil {
		return api.RedriveResult{}, err
	}
	b := heartbeat(ctx)
	defer b.stop()
	var out api.RedriveResult
	for _, l := range in.Letters {
		items, err := from.Derive(ctx, l.Ref)
		l.Tries++
		switch class := provider.ClassOf(err); {
		case ctx.Err() != nil:
			return out, toTemporal(ctx, ctx.Err())
		case class == provider.NotFound, err == nil && len(items) == 0:
			out.Gone++
			continue
		case err != nil:
			l.Reason = sink.Reason(err.Error())
			out.Left = append(out.Left, l)
			continue
		}
		var counts api.CursorCounts
		dead, _, err := a.deliver(ctx, in.StreamRef, to, items, &counts)
		if err == nil {
			err = a.follow(ctx, in.Source, items)
		}
		switch {
		case ctx.Err() != nil:
			return out, toTemporal(ctx, ctx.Err())
		case err != nil:
			l.Reason = sink.Reason(err.Error())
			out.Left = append(out.Left, l)
		case len(dead) > 0:
			l.EventID, l.Reason, l.At = dead[0].EventID, dead[0].Reason, dead[0].At
			out.Left = append(out.Left, l)
		default:
			out.Delivered++
		}
	}
	return out, nil
}
