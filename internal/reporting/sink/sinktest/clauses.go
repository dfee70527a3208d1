package sinktest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/fault"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
)

const (
	whyLost   = "The cursor moves past what a sink says is done: an event that did not arrive is lost for good."
	whyStuck  = "A cursor that cannot move stops the metering of everything behind it."
	whyTwice  = "A receiver tells events apart by their ids: a new id is a second bill."
	whyHammer = "A sink that is away for hours must not be hammered, and no activity must hang on it."
)

// Clauses returns what a sink promises.
func Clauses() []Clause {
	return []Clause{
		{"SC-01", "Every event arrives, unchanged, and has a result in its place", whyLost, func(e *env) {
			events := e.events(7)
			e.wantDelivered(events)
			e.wantStored(events)
			for id, got := range e.recv.ids() {
				if got.Data.Size[event.SizeGB].String() == "" || got.Validate() != nil {
					e.failf("%s arrived as %+v", id, got)
				}
			}
		}},
		{"SC-02", "No events make no call", whyHammer, func(e *env) {
			e.wantDelivered(nil)
			if n := e.recv.count(); n > 0 {
				e.failf("%d calls", n)
			}
		}},
		{"SC-03", "Many events arrive", whyLost, func(e *env) {
			events := e.events(1200)
			e.wantDelivered(events)
			e.wantStored(events)
		}},
		{"SC-04", "A receiver that has the events already is a delivery, with 200", whyStuck, func(e *env) {
			events := e.events(5)
			e.wantDelivered(events)
			e.wantDelivered(events)
			e.wantStored(events)
		}},
		{"SC-05", "409 says that the receiver has the event", whyStuck, duplicates(409, `{"code":"conflict"}`)},
		{"SC-06", "400 that says so in words says it too", whyStuck, duplicates(400, `{"error":"event already exists"}`)},
		{"SC-07", "After a 5xx, 408 or 429, nothing is lost", whyLost, func(e *env) {
			for i, status := range []int{500, 502, 503, 504, 599, 408, 429} {
				events := e.events(2 * (i + 1))
				e.recv.always(plan{status: status, body: "away"})
				results, err := e.deliver(events)
				if status == 500 && err == nil {
					e.failf("500: no error")
				}
				e.wantClass(fmt.Sprint(status), undone(e, results), err, fault.Retryable)
				e.recv.next(nil)
				e.wantDelivered(events)
				e.wantStored(events)
			}
		}},
		{"SC-08", "An answer that is lost leaves the events to be sent again, with the same ids", whyTwice, func(e *env) {
			events := e.events(3)
			e.recv.always(plan{lose: true})
			results, err := e.deliver(events)
			e.wantClass("a lost answer", results, err, fault.Retryable)
			e.recv.next(nil)
			e.wantDelivered(events)
			e.wantStored(events)
		}},
		{"SC-09", "What arrived before a failure stays delivered", whyLost, func(e *env) {
			events := e.events(1200)
			e.recv.next(func(n int, _ []event.Event) plan {
				if n == 1 {
					return plan{}
				}
				return plan{status: 503, delay: 20 * time.Millisecond}
			})
			results, err := e.deliver(events)
			if fault.ClassOf(err) != fault.Retryable {
				e.failf("the error is %v", err)
			}
			stored := e.recv.ids()
			for _, r := range results {
				if _, ok := stored[r.ID]; ok != r.Outcome.Delivered() {
					e.failf("%s is %q, and the receiver has it: %v", r.ID, r.Outcome, ok)
				}
			}
			if len(stored) == 0 || len(stored) == len(events) {
				e.failf("the receiver has %d of %d events", len(stored), len(events))
			}
			e.recv.next(nil)
			e.wantDelivered(events)
			e.wantStored(events)
		}},
		{"SC-10", "An event that the receiver will never take holds up no other", whyStuck, func(e *env) {
			events := e.events(9)
			e.recv.poison[events[4].ID] = true
			results, err := e.deliver(events)
			if err != nil {
				e.failf("the delivery fails: %v", err)
			}
			for i, r := range results {
				if (r.Outcome == sink.Rejected) != (i == 4) {
					e.failf("%s is %q", r.ID, r.Outcome)
				}
			}
			e.wantStored(append(events[:4:4], events[5:]...))
		}},
		{"SC-11", "Nor does one on which the receiver breaks", whyStuck, func(e *env) {
			events := e.events(1200)
			e.recv.next(func(_ int, batch []event.Event) plan {
				for _, ev := range batch {
					if ev.ID == events[4].ID {
						return plan{status: 500, body: "panic"}
					}
				}
				return plan{}
			})
			results, err := e.deliver(events)
			if fault.ClassOf(err) != fault.Retryable {
				e.failf("the error is %v", err)
			}
			for i, r := range results {
				if r.Outcome.Delivered() != (i != 4) {
					e.failf("%s is %q", r.ID, r.Outcome)
				}
			}
		}},
		{"SC-12", "The token is sent, and a new one from the next call on", whyStuck, func(e *env) {
			events := e.events(2)
			e.recv.mu.Lock()
			e.recv.token = "new-secret"
			e.recv.mu.Unlock()
			e.setToken("old-secret")
			results, err := e.deliver(events)
			e.wantClass("an old token", results, err, fault.Unauthorized)
			if err != nil && strings.Contains(err.Error(), "secret") {
				e.failf("the error shows the token: %v", err)
			}
			if n := e.recv.count(); n > 16 {
				e.failf("%d calls with a token that is refused", n)
			}
			e.setToken("new-secret")
			e.wantDelivered(events)
			e.recv.always(plan{status: 403, body: "no"})
			results, err = e.deliver(events)
			e.wantClass("403", results, err, fault.Unauthorized)
		}},
		{"SC-13", "A wrong address rejects no event", whyLost, func(e *env) {
			events := e.events(2)
			for _, p := range []plan{
				{status: 404}, {status: 405}, {status: 410}, {status: 415},
				{status: 301, header: [2]string{"Location", "/elsewhere"}}, {status: 307, header: [2]string{"Location", "/elsewhere"}},
			} {
				e.recv.always(p)
				results, err := e.deliver(events)
				e.wantClass(fmt.Sprint(p.status), results, err, fault.Misaddressed)
			}
		}},
		{"SC-14", "A receiver that never answers is given up in time", whyHammer, func(e *env) {
			e.recv.always(plan{hang: true})
			for what, limit := range map[string]func() (context.Context, context.CancelFunc, sink.Sink){
				"the caller's deadline": func() (context.Context, context.CancelFunc, sink.Sink) {
					ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
					return ctx, cancel, e.sink
				},
				"the caller's cancellation": func() (context.Context, context.CancelFunc, sink.Sink) {
					ctx, cancel := context.WithCancel(context.Background())
					time.AfterFunc(50*time.Millisecond, cancel)
					return ctx, cancel, e.sink
				},
				"its own timeout": func() (context.Context, context.CancelFunc, sink.Sink) {
					return context.Background(), func() {}, e.h.New(e, Open{URL: e.recv.url, Timeout: 50 * time.Millisecond})
				},
			} {
				ctx, cancel, s := limit()
				began := time.Now()
				was := e.sink
				e.sink = s
				done := make(chan struct{})
				go func() {
					defer close(done)
					results, err := e.deliverWith(ctx, e.events(2))
					e.wantClass(what, results, err, fault.Retryable)
				}()
				select {
				case <-done:
				case <-time.After(patience):
				}
				cancel()
				if took := time.Since(began); took >= patience {
					e.failf("%s: it takes %s", what, took)
					return
				}
				e.sink = was
			}
		}},
		{"SC-15", "How long the receiver wants to be left alone is passed on", whyHammer, func(e *env) {
			e.recv.always(plan{status: 503, header: [2]string{"Retry-After", "17"}})
			_, err := e.deliver(e.events(2))
			if got := fault.RetryAfter(err); got != 17*time.Second {
				e.failf("it is %s, want 17s", got)
			}
		}},
		{"SC-16", "A receiver that is away gets few calls per delivery", whyHammer, func(e *env) {
			e.recv.always(plan{status: 503})
			results, err := e.deliver(e.events(600))
			e.wantClass("503", results, err, fault.Retryable)
			if n := e.recv.count(); n > 32 {
				e.failf("%d calls for 600 events", n)
			}
		}},
		{"SC-17", "Deliveries may run at the same time", whyLost, func(e *env) {
			events := e.events(200)
			var wg sync.WaitGroup
			for i := range 4 {
				wg.Go(func() { e.wantDelivered(events[i*50 : (i+1)*50]) })
			}
			wg.Wait()
			e.wantStored(events)
		}},
	}
}

func duplicates(status int, body string) func(*env) {
	return func(e *env) {
		events := e.events(5)
		e.wantDelivered(events[:3])
		e.recv.always(plan{duplicates: status, body: body})
		e.wantDelivered(events[:3])
		e.wantDelivered(events) // some are new
		e.wantStored(events)
	}
}

// undone are the results of events that the receiver does not have.
func undone(e *env, results []sink.Result) []sink.Result {
	stored := e.recv.ids()
	var rest []sink.Result
	for _, r := range results {
		if _, ok := stored[r.ID]; !ok {
			rest = append(rest, r)
		}
	}
	return rest
}
