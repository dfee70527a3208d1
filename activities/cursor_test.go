package activities_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/fault"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/memory"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// receiver stores events by id, as the Reporting API does. before and after are
// called around each delivery; an error of after loses the answer.
type receiver struct {
	mu     sync.Mutex
	stored map[string]event.Event
	sends  int
	refuse func(e event.Event) string
	before func() error
	// half is called when half of a delivery is stored.
	half, after func() error
	checks      int
	check       error
}

func newReceiver() *receiver { return &receiver{stored: map[string]event.Event{}} }

func (r *receiver) Deliver(_ context.Context, events []event.Event) ([]sink.Result, error) {
	call := func(f func() error) error {
		if f == nil {
			return nil
		}
		return f()
	}
	if err := call(r.before); err != nil {
		return sink.Unsent(events), err
	}
	r.mu.Lock()
	r.sends++
	r.mu.Unlock()
	out := sink.Unsent(events)
	for i, e := range events {
		if i == len(events)/2 {
			if err := call(r.half); err != nil {
				return sink.Unsent(events), err
			}
		}
		r.mu.Lock()
		_, dup := r.stored[e.ID]
		reason := ""
		if r.refuse != nil {
			reason = r.refuse(e)
		}
		switch {
		case reason != "":
			out[i].Outcome, out[i].Reason = sink.Rejected, reason
		case dup:
			out[i].Outcome = sink.Duplicate
		default:
			out[i].Outcome, r.stored[e.ID] = sink.Accepted, e
		}
		r.mu.Unlock()
	}
	if err := call(r.after); err != nil {
		return sink.Unsent(events), err
	}
	return out, nil
}

func (r *receiver) Check(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.checks++
	return r.check
}

func (r *receiver) ids() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []string{}
	for id := range r.stored {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

// spied is a source whose reads can be stepped into.
type spied struct {
	source.Source
	step func()
}

func (s spied) Next(ctx context.Context, c source.Cursor) (source.Page, error) {
	s.step()
	p, err := s.Source.Next(ctx, c)
	s.step()
	return p, err
}

func cursors(s source.Source, to sink.Sink) *activities.Cursors {
	return &activities.Cursors{
		Stream: func(name, stream string) (source.Source, bool, error) {
			return s, name == "cloud" && stream == "thing", nil
		},
		Sink: func(name string) (sink.Sink, bool, error) { return to, name == "billing", nil },
		Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	}
}

var stream = activities.StreamRef{Source: "cloud", Stream: "thing", Sink: "billing"}

// feed fills a feed with n finished changes and returns their ids.
func feed(f *memory.Feed, n int) (ids []string) {
	for i := range n {
		ids = append(ids, f.Add(fmt.Sprintf("t%03d", len(ids)+i*1000), source.VerbCreate, 1).EventID("acme"))
	}
	slices.Sort(ids)
	return ids
}

// attempt runs one attempt with what the one before left, and returns what it
// leaves itself.
func attempt(t *testing.T, a *activities.Cursors, in activities.ReadSourceInput, left *activities.ReadSourceResult) (out activities.ReadSourceResult, leaves *activities.ReadSourceResult, err error) {
	t.Helper()
	env := activityEnv(a)
	if left != nil {
		env.SetHeartbeatDetails(*left)
		leaves = left
	}
	var mu sync.Mutex
	env.SetOnActivityHeartbeatListener(func(_ *activity.Info, details converter.EncodedValues) {
		var d activities.ReadSourceResult
		if details.Get(&d) == nil {
			mu.Lock()
			defer mu.Unlock()
			leaves = &d
		}
	})
	v, err := env.ExecuteActivity(a.ReadSource, in)
	if err == nil {
		err = v.Get(&out)
	}
	mu.Lock()
	defer mu.Unlock()
	return out, leaves, err
}

// The worker dies at every point between two calls, with and without its latest
// heartbeat having arrived: in the end the receiver has exactly what happened.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	const changes = 29
	points := 0
	for _, heartbeats := range []bool{true, false} {
		for kill := 1; ; kill++ {
			f := &memory.Feed{PageSize: 4}
			open := f.Begin("late", source.VerbCreate, 1)
			want := append(feed(f, changes), open.EventID("acme"))
			slices.Sort(want)
			var mu sync.Mutex // what is read ahead is read beside the delivery
			steps, died := 0, false
			step := func() {
				mu.Lock()
				defer mu.Unlock()
				if steps++; steps == kill {
					died = true
					panic("killed")
				}
			}
			r := newReceiver()
			r.before = func() error { step(); return nil }
			r.half = func() error { step(); return nil }
			r.after = func() error { step(); return nil }
			a := cursors(spied{memory.New("cloud", "acme", f), step}, r)
			in := activities.ReadSourceInput{StreamRef: stream}
			// until attempts an activity until it is not killed.
			until := func(in activities.ReadSourceInput) activities.ReadSourceResult {
				was := died
				out, left, err := attempt(t, a, in, nil)
				if died != was {
					if !heartbeats {
						left = nil
					}
					out, _, err = attempt(t, a, in, left)
				}
				if err != nil || !out.CaughtUp {
					t.Fatalf("killed at %d: %+v, %v", kill, out, err)
				}
				return out
			}
			out := until(in)
			f.Finish(open.ID)
			until(activities.ReadSourceInput{StreamRef: stream, Cursor: out.Cursor})
			if diff := cmp.Diff(r.ids(), want); diff != "" {
				t.Errorf("killed at %d, heartbeats %v (-received +happened):\n%s", kill, heartbeats, diff)
			}
			if !died {
				break
			}
			points++
		}
	}
	if points < 80 {
		t.Errorf("only %d points: want at least 40 of each sort", points)
	}
}

// A receiver that stores and loses its answer, or answers 5xx, gets everything
// once as it sees it.
func TestAnswersAreLost(t *testing.T) {
	t.Parallel()
	f := &memory.Feed{PageSize: 4}
	want := feed(f, 21)
	r := newReceiver()
	n := 0
	fail := func() error {
		if n++; n%3 != 0 {
			return &fault.Error{Class: fault.Retryable, Status: 503, Err: errors.New("lost")}
		}
		return nil
	}
	r.after = fail
	a := cursors(memory.New("cloud", "acme", f), r)
	var c source.Cursor
	var counts api.CursorCounts
	for range 100 {
		out, _, err := attempt(t, a, activities.ReadSourceInput{StreamRef: stream, Cursor: c}, nil)
		if err != nil {
			t.Fatal(err)
		}
		c = out.Cursor
		counts.Add(out.Counts)
		if out.Stop == nil && out.CaughtUp {
			break
		}
	}
	if diff := cmp.Diff(r.ids(), want); diff != "" {
		t.Errorf("received (-got +want):\n%s", diff)
	}
	if counts.Delivered+counts.Duplicates != int64(len(want)) || counts.Duplicates == 0 {
		t.Errorf("counts %+v, want each event once, those with lost answers as duplicates", counts)
	}
}

// A sink that is down costs one page, not one more call to the source.
func TestSinkDownKeepsTheCursor(t *testing.T) {
	t.Parallel()
	f := &memory.Feed{PageSize: 4}
	feed(f, 9)
	for class, reason := range map[fault.Class]string{fault.Retryable: api.ReasonSinkUnavailable, fault.Unauthorized: api.ReasonSinkRefuses} {
		r := newReceiver()
		r.before = func() error { return &fault.Error{Class: class, RetryAfter: time.Second, Err: errors.New("away")} }
		before := f.Reads()
		a := cursors(memory.New("cloud", "acme", f), r)
		out, _, err := attempt(t, a, activities.ReadSourceInput{StreamRef: stream, Cursor: ""}, nil)
		if err != nil || out.Stop == nil || !out.Stop.Sink || out.Stop.Reason != reason || out.Stop.Class != string(class) ||
			out.Stop.RetryAfter != api.Duration(time.Second) || out.Cursor != "" {
			t.Errorf("%s: %+v, %v; want it stopped by the sink where it was", class, out, err)
		}
		if n := f.Reads() - before; n != 1 {
			t.Errorf("%s: %d reads of the source, want one", class, n)
		}
	}
}

func TestSourceFailureKeepsWhatIsDelivered(t *testing.T) {
	t.Parallel()
	f := &memory.Feed{PageSize: 4, OnRead: func(_ context.Context, n int) error {
		if n >= 3 {
			return &memory.APIError{Status: 429}
		}
		return nil
	}}
	feed(f, 20)
	r := newReceiver()
	out, _, err := attempt(t, cursors(memory.New("cloud", "acme", f), r), activities.ReadSourceInput{StreamRef: stream}, nil)
	if err != nil || out.Stop == nil || out.Stop.Sink || out.Stop.SourceClass() != provider.RateLimited || out.Counts.Delivered != 8 || out.Cursor == "" {
		t.Errorf("%+v, %v; want it stopped after two pages", out, err)
	}
}
