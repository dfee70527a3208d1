package activities

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/tollgate-dev/tollgate/internal/metrics"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/fault"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Types of errors of cursors' activities.
const (
	// ErrSourceNotConfigured: no worker has the source or the stream.
	ErrSourceNotConfigured = "SourceNotConfigured"
	// ErrSinkNotConfigured: the sink is not configured or cannot be used.
	ErrSinkNotConfigured = "SinkNotConfigured"
	// ErrSinkUnavailable: the sink takes nothing; the poll goes on.
	ErrSinkUnavailable = "SinkUnavailable"
)

// Bounds of one read.
const (
	// readFor is how long one activity reads on while there is more: often enough
	// for people who look at the cursor, and seldom enough for its history.
	readFor = 30 * time.Second
	// maxLettersPerRead ends a read early, so that the workflow keeps what there is.
	maxLettersPerRead = 50
)

// SinkChecker is implemented by sinks that can be asked whether they would take
// an event, without one.
type SinkChecker interface {
	Check(ctx context.Context) error
}

// Cursors reads sources and delivers to sinks.
type Cursors struct {
	// Stream finds a stream of a configured source. ok is false when there is none
	// of that name; err says why a configured one cannot be used.
	Stream func(source, stream string) (s source.Source, ok bool, err error)
	// Sink finds a configured sink, the same way.
	Sink func(name string) (s sink.Sink, ok bool, err error)
	// Followers are told of what the cursors of a source have delivered; nil means
	// nobody is.
	Followers func(source string) []Follower
	Metrics   *metrics.Cursors
	// Now is time.Now if nil, and Wait, which waits between two tries of a delivery,
	// a timer.
	Now  func() time.Time
	Wait func(ctx context.Context, d time.Duration) error

	sinks tallies
}

func (a *Cursors) now() time.Time {
	if a.Now != nil {
		return a.Now().UTC()
	}
	return time.Now().UTC()
}

func (a *Cursors) source(r StreamRef) (source.Source, error) {
	s, ok, err := a.Stream(r.Source, r.Stream)
	switch {
	case !ok:
		return nil, final(ErrSourceNotConfigured, fmt.Sprintf("source: no source %q with a stream %q is configured", r.Source, r.Stream))
	case err != nil:
		return nil, final(ErrSourceNotConfigured, fmt.Sprintf("source: %q cannot be used: %v", r.Source, err))
	}
	return s, nil
}

func (a *Cursors) sink(r StreamRef) (sink.Sink, error) {
	s, ok, err := a.Sink(r.Sink)
	switch {
	case !ok:
		return nil, final(ErrSinkNotConfigured, fmt.Sprintf("sink: no sink %q is configured", r.Sink))
	case err != nil:
		return nil, final(ErrSinkNotConfigured, fmt.Sprintf("sink: %q cannot be used: %v", r.Sink, err))
	}
	return s, nil
}

// ReadSource reads page after page and delivers each before it goes on. It
// returns when it has something to tell: events were delivered and the source is
// caught up, a gap, dead letters, or something that keeps it from going on. While
// there is nothing new it asks to be tried again after the interval, which costs
// no history, until ReturnBy.
//
// After a crash the next attempt goes on behind the last page that was delivered
// for certain; what was delivered beyond that is delivered again with the same
// ids.
func (a *Cursors) ReadSource(ctx context.Context, in ReadSourceInput) (ReadSourceResult, error) {
	r := &sourceRead{a: a, in: in, begun: a.now(), done: ReadSourceResult{Cursor: in.Cursor}}
	if activity.HasHeartbeatDetails(ctx) {
		var before ReadSourceResult
		if activity.GetHeartbeatDetails(ctx, &before) == nil {
			r.done = before
		}
	}
	var err error
	if r.from, err = a.source(in.StreamRef); err != nil {
		return ReadSourceResult{}, err
	}
	if r.to, err = a.sink(in.StreamRef); err != nil {
		return ReadSourceResult{}, err
	}
	r.beat = heartbeat(ctx, r.done)
	defer r.beat.stop()
	defer r.drop()
	for {
		more, err := r.page(ctx)
		if canceled(ctx) {
			return r.done, nil // everything before the cursor is delivered
		}
		if err != nil {
			return ReadSourceResult{}, toTemporal(ctx, err)
		}
		if more {
			continue
		}
		if r.quiet() && a.now().Add(in.Interval.Std()).Before(in.ReturnBy) {
			return ReadSourceResult{}, again(ErrNothingNew, in.Interval.Std(), "nothing new")
		}
		return r.done, nil
	}
}

// sourceRead is one attempt to read.
type sourceRead struct {
	a     *Cursors
	in    ReadSourceInput
	from  source.Source
	to    sink.Sink
	beat  *beat
	begun time.Time
	done  ReadSourceResult
	// flowing: a page was delivered in this attempt.
	flowing bool
	ahead   *ahead
}

// quiet reports whether there is nothing that the workflow would want to know.
func (r *sourceRead) quiet() bool {
	c := r.done.Counts
	return r.done.CaughtUp && c.Delivered+c.Duplicates+c.Rejected == 0 && len(r.done.Gaps)+len(r.done.DeadLetters) == 0 && r.done.Stop == nil && !r.done.Done &&
		slices.EqualFunc(r.done.Broken, r.in.Broken, func(a, b api.BrokenPart) bool { return a.Part == b.Part && a.Class == b.Class && a.Reason == b.Reason })
}

// page reads one page, delivers it and moves the cursor. An error means that the
// attempt was cut off.
func (r *sourceRead) page(ctx context.Context) (more bool, err error) {
	ref := r.in.StreamRef
	page, err := r.next(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return false, err
		}
		r.stop(sourceStop(err))
		return false, nil
	}
	counts := api.CursorCounts{Pages: 1, Ignored: int64(page.Ignored)}
	letters := make([]api.DeadLetter, 0, len(page.Rejected))
	for _, x := range page.Rejected {
		letters = append(letters, api.DeadLetter{Ref: x.Ref, Reason: sink.Reason(x.Reason), At: r.a.now()})
	}
	items := r.inRange(page.Items)
	r.lookAhead(ctx, page)
	dead, last, err := r.a.deliver(ctx, ref, r.to, items, &counts)
	if err != nil {
		if ctx.Err() != nil {
			return false, err
		}
		r.stop(sinkStop(err))
		return false, nil
	}
	if err := r.a.follow(ctx, ref.Source, items); err != nil {
		if ctx.Err() != nil {
			return false, err
		}
		r.stop(followStop(err))
		return false, nil
	}
	counts.Rejected += int64(len(page.Rejected))
	d := &r.done
	d.Cursor, d.CaughtUp, d.UpTo, d.Pending, d.ReadAt = page.Next, page.CaughtUp, page.UpTo.UTC(), page.Pending, r.a.now()
	d.Counts.Add(counts)
	d.DeadLetters = append(append(d.DeadLetters, letters...), dead...)
	if last.After(d.LastEventAt) {
		d.LastEventAt = last
	}
	if page.Gap != nil && r.in.To.IsZero() {
		d.Gaps = append(d.Gaps, *page.Gap)
	}
	d.Done, r.flowing = r.past(page), true
	d.Broken = broken(page)
	if len(d.Broken) > 0 && !r.in.To.IsZero() && page.CaughtUp {
		// A backfill waits for the part; whatever else there is is delivered.
		r.stop(sourceStop(page.Broken[0].Err))
		d.Stop.Message = d.Broken[0].Part + ": " + d.Stop.Message
	}
	r.beat.set(*d)
	r.a.Metrics.Page(ref.Source, ref.Stream, counts, page.Gap != nil && r.in.To.IsZero())
	if r.in.To.IsZero() {
		r.a.Metrics.State(ref.Source, ref.Stream, metrics.CursorState{
			UpTo: d.UpTo, ReadAt: d.ReadAt, Pending: d.Pending, DeadLetters: r.in.DeadLetters + len(d.DeadLetters), Broken: d.Broken})
	}
	return r.more(page) && len(d.DeadLetters) < maxLettersPerRead && (r.ahead != nil || r.inTime()), nil
}

// past reports whether a page ends the range of a backfill.
func (r *sourceRead) past(p source.Page) bool {
	return !r.in.To.IsZero() && (p.CaughtUp && len(p.Broken) == 0 || p.UpTo.After(r.in.To))
}

// broken are the parts that a page says cannot be read.
func broken(p source.Page) (out []api.BrokenPart) {
	for _, b := range p.Broken {
		out = append(out, api.BrokenPart{Part: b.Part, Class: string(provider.ClassOf(b.Err)), Reason: provider.ReasonOf(b.Err),
			Message: sink.Reason(b.Err.Error())})
	}
	return out
}

// more reports whether a page is to be followed by the next one at once.
func (r *sourceRead) more(p source.Page) bool { return !p.CaughtUp && p.Gap == nil && !r.past(p) }

func (r *sourceRead) inTime() bool { return r.a.now().Sub(r.begun) < readFor }

// inRange leaves out what a backfill is not about.
func (r *sourceRead) inRange(items []source.Item) []source.Item {
	if r.in.To.IsZero() {
		return items
	}
	var out []source.Item
	for _, i := range items {
		if t := i.Event.Time; !t.Before(r.in.From) && t.Before(r.in.To) {
			out = append(out, i)
		}
	}
	return out
}

func (r *sourceRead) stop(s api.Stop) {
	r.done.Stop = &s
	class := s.Class
	switch {
	case s.Sink:
		class = "Sink" + class
	case s.Reason == api.ReasonFollowerFailed:
		class = "Follower" + class
	}
	r.a.Metrics.Failed(r.in.Source, r.in.Stream, class)
}

func sourceStop(err error) api.Stop {
	return api.Stop{Class: string(provider.ClassOf(err)), Reason: provider.ReasonOf(err), Message: err.Error(), RetryAfter: api.Duration(provider.RetryAfterOf(err))}
}

func sinkStop(err error) api.Stop {
	s := api.Stop{Sink: true, Class: string(fault.ClassOf(err)), Reason: api.ReasonSinkUnavailable, Message: sink.Reason(err.Error()),
		RetryAfter: api.Duration(fault.RetryAfter(err))}
	if fault.ClassOf(err) != fault.Retryable {
		s.Reason = api.ReasonSinkRefuses
	}
	return s
}
