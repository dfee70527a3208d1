// Package sinktest is the conformance kit of sinks: what sink.Sink promises, as
// checks against the real sink over HTTP.
package sinktest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/fault"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
)

// Open is what a sink is made with.
type Open struct {
	URL     string
	Token   func(context.Context) (provider.Sensitive, error)
	Timeout time.Duration // for one request
}

// Harness makes the sink under test and says how its receivers answer.
type Harness struct {
	New   func(tb testing.TB, o Open) sink.Sink
	Reply Reply
}

// Clause is one promise with the check that proves it.
type Clause struct {
	// ID is SC- and two digits. Clauses are only ever added.
	ID string
	// Title is the promise, Why what breaks otherwise.
	Title, Why string
	check      func(e *env)
}

// Run checks every clause.
func Run(t *testing.T, h Harness) {
	t.Helper()
	for _, c := range Clauses() {
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			c.Check(t, h)
		})
	}
}

// Check checks one clause.
func (c Clause) Check(tb testing.TB, h Harness) {
	tb.Helper()
	e := &env{TB: tb, h: h, clause: c, recv: newReceiver(tb, h.Reply)}
	e.sink = h.New(tb, Open{URL: e.recv.url, Token: e.token, Timeout: 10 * time.Second})
	c.check(e)
}

// patience is how long a call may take that has no reason to wait.
const patience = 5 * time.Second

type env struct {
	testing.TB
	h      Harness
	clause Clause
	recv   *receiver
	sink   sink.Sink

	mu     sync.Mutex
	secret string
}

func (e *env) token(context.Context) (provider.Sensitive, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return provider.NewSensitive([]byte(e.secret)), nil
}

func (e *env) setToken(s string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.secret = s
}

// failf reports a violation with the promise.
func (e *env) failf(format string, args ...any) {
	e.Helper()
	e.Errorf("%s: %s\n%s\nwhy it matters: %s", e.clause.ID, e.clause.Title, fmt.Sprintf(format, args...), e.clause.Why)
}

// events makes n events, two to each resource.
func (e *env) events(n int) []event.Event {
	var all []event.Event
	for i := range n {
		typ, change := event.VolumeCreate, event.ChangeCreate
		if i%2 == 1 {
			typ, change = event.VolumeDelete, event.ChangeDelete
		}
		all = append(all, event.New(typ, time.Date(2026, 11, 2, 10, 0, i, 0, time.UTC), event.Data{Platform: event.Hetzner, Account: "acme",
			Resource: event.Resource{Type: event.Volume, ID: fmt.Sprint(i / 2)}, Change: change, Size: event.Size{event.SizeGB: event.Int(i)}}))
	}
	return all
}

// deliver delivers with a deadline and checks the shape of the answer.
func (e *env) deliver(events []event.Event) ([]sink.Result, error) {
	e.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return e.deliverWith(ctx, events)
}

func (e *env) deliverWith(ctx context.Context, events []event.Event) ([]sink.Result, error) {
	e.Helper()
	results, err := e.sink.Deliver(ctx, events)
	if len(results) != len(events) {
		e.failf("%d results for %d events", len(results), len(events))
		return sink.Unsent(events), err
	}
	unknown := 0
	for i, r := range results {
		if r.ID != events[i].ID {
			e.failf("result %d is about %q, not %q", i, r.ID, events[i].ID)
		}
		if !r.Outcome.Done() {
			unknown++
		}
		if (r.Outcome == sink.Rejected) != (r.Reason != "") {
			e.failf("result %d is %q with the reason %q", i, r.Outcome, r.Reason)
		}
	}
	if (unknown > 0) != (err != nil) {
		e.failf("%d results are unknown and the error is %v", unknown, err)
	}
	return results, err
}

// wantDelivered checks that all events are delivered.
func (e *env) wantDelivered(events []event.Event) {
	e.Helper()
	results, err := e.deliver(events)
	if err != nil {
		e.failf("the delivery fails: %v", err)
	}
	for _, r := range results {
		if !r.Outcome.Delivered() {
			e.failf("%s is %q (%s)", r.ID, r.Outcome, r.Reason)
		}
	}
}

// wantStored checks that the receiver has exactly these events.
func (e *env) wantStored(events []event.Event) {
	e.Helper()
	stored := e.recv.ids()
	var missing []string
	for _, ev := range events {
		if _, ok := stored[ev.ID]; !ok {
			missing = append(missing, ev.ID)
		}
		delete(stored, ev.ID)
	}
	if len(missing) > 0 {
		e.failf("the receiver lacks %d of %d events: %.200s", len(missing), len(events), fmt.Sprint(missing))
	}
	if len(stored) > 0 {
		e.failf("the receiver has %d events that nobody delivered: %.200s", len(stored), fmt.Sprint(slices.Collect(maps.Keys(stored))))
	}
}

// wantClass checks a failed delivery of which nothing is known.
func (e *env) wantClass(what string, results []sink.Result, err error, want fault.Class) {
	e.Helper()
	if got := fault.ClassOf(err); got != want {
		e.failf("%s: the error %v has the class %q, want %q", what, err, got, want)
	}
	for _, r := range results {
		if r.Outcome != sink.Unknown {
			e.failf("%s: %s is %q, though nothing is known of it", what, r.ID, r.Outcome)
		}
	}
}
