package activities_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/fault"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/memory"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// broken is a receiver that falls over each time it gets one of some events.
type broken struct {
	*receiver
	on func(e event.Event) bool
}

func (b *broken) Deliver(ctx context.Context, events []event.Event) ([]sink.Result, error) {
	if slices.ContainsFunc(events, b.on) {
		return sink.Unsent(events), &fault.Error{Class: fault.Retryable, Status: 502, Err: errors.New("the upstream has closed the connection")}
	}
	return b.receiver.Deliver(ctx, events)
}

// An event that always breaks the receiver becomes a dead letter, with the reason,
// and holds up no other: those of its page, of the pages behind it, and later ones.
func TestAnEventThatBreaksTheSink(t *testing.T) {
	t.Parallel()
	f := &memory.Feed{PageSize: 10}
	want := feed(f, 14)
	poison := f.Add("poison", source.VerbCreate, 1)
	want = append(want, f.Add("behind", source.VerbCreate, 1).EventID("acme"))
	for i := range 20 {
		want = append(want, f.Add(fmt.Sprint("later", i), source.VerbCreate, 1).EventID("acme"))
	}
	slices.Sort(want)
	r := &broken{receiver: newReceiver(), on: func(e event.Event) bool { return e.ID == poison.EventID("acme") }}
	a := cursors(memory.New("cloud", "acme", f), r)
	out, _, err := attempt(t, a, activities.ReadSourceInput{StreamRef: stream}, nil)
	if err != nil || !out.CaughtUp || len(out.DeadLetters) != 1 || out.Counts.Rejected != 1 || out.Counts.Delivered != int64(len(want)) {
		t.Fatalf("%+v, %v; want all delivered but one", out, err)
	}
	l := out.DeadLetters[0]
	if l.EventID != poison.EventID("acme") || l.Ref == "" || !strings.Contains(l.Reason, "5 times") || !strings.Contains(l.Reason, "502") {
		t.Errorf("dead letter %+v", l)
	}
	if diff := cmp.Diff(r.ids(), want); diff != "" {
		t.Errorf("received (-got +want):\n%s", diff)
	}
	// The receiver is repaired.
	r.on = func(event.Event) bool { return false }
	res, err := call[api.RedriveResult](t, activityEnv(a), a.RedriveDeadLetters, activities.RedriveInput{StreamRef: stream, Letters: out.DeadLetters})
	if err != nil || res.Delivered != 1 || !slices.Contains(r.ids(), poison.EventID("acme")) {
		t.Errorf("redrive %+v, %v", res, err)
	}
}

// A receiver that takes nothing loses nothing, however it says so, and whatever it
// took before.
func TestASinkThatTakesNothing(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]*fault.Error{
		"connection": {Class: fault.Retryable, Err: errors.New("connection refused")},
		"500":        {Class: fault.Retryable, Status: 500, Err: errors.New("no database")},
		"429":        {Class: fault.Retryable, Status: 429, Err: errors.New("too many")},
		"rejected":   {Class: fault.Rejected, Status: 400, Err: errors.New("all of it")}, // no sink may say this of a batch
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &memory.Feed{PageSize: 10}
			want := feed(f, 3)
			r := newReceiver()
			a := cursors(memory.New("cloud", "acme", f), r)
			out, _, err := attempt(t, a, activities.ReadSourceInput{StreamRef: stream}, nil)
			if err != nil || !out.CaughtUp {
				t.Fatalf("%+v, %v", out, err)
			}
			want = append(want, f.Add("one more", source.VerbCreate, 1).EventID("acme"))
			slices.Sort(want)
			reads, failing := f.Reads(), true
			r.before = func() error {
				if failing {
					return failure
				}
				return nil
			}
			from := out.Cursor
			for range 20 {
				out, _, err = attempt(t, a, activities.ReadSourceInput{StreamRef: stream, Cursor: from}, nil)
				if err != nil || out.Stop == nil || !out.Stop.Sink || out.Cursor != from || len(out.DeadLetters) != 0 {
					t.Fatalf("%+v, %v; want it held", out, err)
				}
			}
			if n := f.Reads() - reads; n != 20 {
				t.Errorf("%d reads of the source by 20 activities", n)
			}
			failing = false
			if out, _, err = attempt(t, a, activities.ReadSourceInput{StreamRef: stream, Cursor: from}, nil); err != nil || !out.CaughtUp || len(out.DeadLetters) != 0 {
				t.Errorf("%+v, %v; want it to go on", out, err)
			}
			if diff := cmp.Diff(r.ids(), want); diff != "" {
				t.Errorf("received (-got +want):\n%s", diff)
			}
		})
	}
}

// What the receiver asks for with Retry-After is kept: a short time within the
// delivery, a long one by the workflow.
func TestRetryAfterIsKept(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		asked time.Duration
		sends int
	}{{3 * time.Second, 2}, {30 * time.Second, 1}} {
		f := &memory.Feed{}
		feed(f, 5)
		r := newReceiver()
		busy := 1
		r.before = func() error {
			r.sends++
			if busy--; busy >= 0 {
				return &fault.Error{Class: fault.Retryable, Status: 429, RetryAfter: tc.asked, Err: errors.New("slow down")}
			}
			return nil
		}
		a := cursors(memory.New("cloud", "acme", f), r)
		var waited []time.Duration
		a.Wait = func(_ context.Context, d time.Duration) error {
			waited = append(waited, d)
			return nil
		}
		out, _, err := attempt(t, a, activities.ReadSourceInput{StreamRef: stream}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if tc.sends == 1 {
			if out.Stop == nil || out.Stop.RetryAfter != api.Duration(tc.asked) || len(waited) != 0 {
				t.Errorf("%s: %+v, waited %v; want the workflow to wait", tc.asked, out, waited)
			}
		} else if out.Stop != nil || !out.CaughtUp || !cmp.Equal(waited, []time.Duration{tc.asked}) {
			t.Errorf("%s: %+v, waited %v; want it delivered afterwards", tc.asked, out, waited)
		}
	}
}

// While a page is delivered the next one is read; of a source that fails meanwhile
// everything before is delivered.
func TestReadAhead(t *testing.T) {
	t.Parallel()
	f := &memory.Feed{PageSize: 3}
	want := feed(f, 20)
	r := newReceiver()
	page := 0
	r.before = func() error {
		if page++; page == 1 || page == 7 {
			return nil // nothing was delivered yet; nothing follows
		}
		for deadline := time.Now().Add(10 * time.Second); f.Reads() != page+1; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("page %d: %d reads so far, want the next page to be read", page, f.Reads())
				return nil
			}
		}
		return nil
	}
	a := cursors(memory.New("cloud", "acme", f), r)
	out, _, err := attempt(t, a, activities.ReadSourceInput{StreamRef: stream}, nil)
	if err != nil || !out.CaughtUp {
		t.Errorf("%+v, %v", out, err)
	}
	if diff := cmp.Diff(r.ids(), want); diff != "" {
		t.Errorf("received (-got +want):\n%s", diff)
	}
	if n := f.Reads(); n != 7 {
		t.Errorf("%d reads for 7 pages", n)
	}

	fails := &memory.Feed{PageSize: 3, OnRead: func(ctx context.Context, n int) error {
		if n >= 4 {
			return &memory.APIError{Status: 500}
		}
		return nil
	}}
	feed(fails, 20)
	out, _, err = attempt(t, cursors(memory.New("cloud", "acme", fails), newReceiver()), activities.ReadSourceInput{StreamRef: stream}, nil)
	if err != nil || out.Stop == nil || out.Stop.Sink || out.Counts.Delivered != 9 {
		t.Errorf("%+v, %v; want three pages delivered", out, err)
	}
}
