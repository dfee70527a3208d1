package sinktest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/fault"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink/cloudevents"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink/sinktest"
)

// recorder notes failures in place of a test.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	failures []string
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}
func (r *recorder) Fatal(args ...any) {
	r.Errorf("%s", fmt.Sprint(args...))
	runtime.Goexit()
}

// deliverer is a sink made of a function.
type deliverer func(ctx context.Context, events []event.Event) ([]sink.Result, error)

func (d deliverer) Deliver(ctx context.Context, events []event.Event) ([]sink.Result, error) {
	return d(ctx, events)
}

// Every clause fails with a sink that breaks it.
func TestEveryClauseCanFail(t *testing.T) {
	t.Parallel()
	type broken func(good sink.Sink, o sinktest.Open) sink.Sink
	all := func(events []event.Event, o sink.Outcome, reason string) []sink.Result {
		results := sink.Unsent(events)
		for i := range results {
			results[i].Outcome, results[i].Reason = o, reason
		}
		return results
	}
	status := func(err error) int {
		var f *fault.Error
		if errors.As(err, &f) {
			return f.Status
		}
		return 0
	}
	singly := func(good sink.Sink, judge func(sink.Result, error) (sink.Result, bool)) sink.Sink {
		return deliverer(func(ctx context.Context, events []event.Event) ([]sink.Result, error) {
			results := sink.Unsent(events)
			var first error
			for i := range events {
				rs, err := good.Deliver(ctx, events[i:i+1])
				r, stop := judge(rs[0], err)
				results[i] = r
				if !r.Outcome.Done() && first == nil {
					first = err
				}
				if stop {
					break
				}
			}
			return results, first
		})
	}
	mutants := map[string]struct {
		clauses []string
		make    broken
	}{
		"says accepted and sends nothing": {[]string{"SC-01", "SC-03", "SC-07", "SC-08"}, func(sink.Sink, sinktest.Open) sink.Sink {
			return deliverer(func(_ context.Context, events []event.Event) ([]sink.Result, error) {
				return all(events, sink.Accepted, ""), nil
			})
		}},
		"calls for nothing": {[]string{"SC-02"}, func(good sink.Sink, o sinktest.Open) sink.Sink {
			return deliverer(func(ctx context.Context, events []event.Event) ([]sink.Result, error) {
				if len(events) == 0 {
					_, err := good.Deliver(ctx, []event.Event{{ID: "probe"}})
					return nil, err
				}
				return good.Deliver(ctx, events)
			})
		}},
		"cuts what is too much": {[]string{"SC-03"}, func(good sink.Sink, _ sinktest.Open) sink.Sink {
			return deliverer(func(ctx context.Context, events []event.Event) ([]sink.Result, error) {
				_, err := good.Deliver(ctx, events[:min(len(events), 1000)])
				return all(events, sink.Accepted, ""), err
			})
		}},
		"gives each send a new id": {[]string{"SC-04", "SC-08"}, func(good sink.Sink, _ sinktest.Open) sink.Sink {
			var mu sync.Mutex
			n := 0
			return deliverer(func(ctx context.Context, events []event.Event) ([]sink.Result, error) {
				mu.Lock()
				n++
				renamed := append([]event.Event(nil), events...)
				for i := range renamed {
					renamed[i].ID = fmt.Sprint(renamed[i].ID, "-", n)
				}
				mu.Unlock()
				results, err := good.Deliver(ctx, renamed)
				for i := range results {
					results[i].ID = events[i].ID
				}
				return results, err
			})
		}},
		"takes a duplicate for a refusal": {[]string{"SC-05", "SC-06"}, func(good sink.Sink, _ sinktest.Open) sink.Sink {
			return singly(good, func(r sink.Result, err error) (sink.Result, bool) {
				if r.Outcome == sink.Duplicate {
					r.Outcome, r.Reason = sink.Rejected, "conflict"
				}
				return r, false
			})
		}},
		"swallows errors": {[]string{"SC-07", "SC-08", "SC-09", "SC-12", "SC-14"}, func(good sink.Sink, _ sinktest.Open) sink.Sink {
			return deliverer(func(ctx context.Context, events []event.Event) ([]sink.Result, error) {
				_, _ = good.Deliver(ctx, events)
				return all(events, sink.Accepted, ""), nil
			})
		}},
		"forgets what arrived": {[]string{"SC-09", "SC-11"}, func(good sink.Sink, _ sinktest.Open) sink.Sink {
			return deliverer(func(ctx context.Context, events []event.Event) ([]sink.Result, error) {
				results, err := good.Deliver(ctx, events)
				if err != nil {
					return sink.Unsent(events), err
				}
				return results, nil
			})
		}},
		"lets one event stop the others": {[]string{"SC-10", "SC-11"}, func(good sink.Sink, _ sinktest.Open) sink.Sink {
			return singly(good, func(r sink.Result, err error) (sink.Result, bool) {
				return r, err != nil || r.Outcome == sink.Rejected
			})
		}},
		"keeps its first token": {[]string{"SC-12"}, func(_ sink.Sink, o sinktest.Open) sink.Sink {
			var once sync.Once
			var first provider.Sensitive
			token := o.Token
			o.Token = func(ctx context.Context) (provider.Sensitive, error) {
				once.Do(func() { first, _ = token(ctx) })
				return first, nil
			}
			return structured(t, o)
		}},
		"shows its token": {[]string{"SC-12"}, func(good sink.Sink, o sinktest.Open) sink.Sink {
			return deliverer(func(ctx context.Context, events []event.Event) ([]sink.Result, error) {
				results, err := good.Deliver(ctx, events)
				if err != nil {
					token, _ := o.Token(ctx)
					err = fmt.Errorf("with token %s: %w", token.Reveal(), err)
				}
				return results, err
			})
		}},
		"rejects what the address is to blame for": {[]string{"SC-13"}, func(good sink.Sink, _ sinktest.Open) sink.Sink {
			return deliverer(func(ctx context.Context, events []event.Event) ([]sink.Result, error) {
				results, err := good.Deliver(ctx, events)
				if s := status(err); s == 404 || s == 405 {
					return all(events, sink.Rejected, "not found"), nil
				}
				return results, err
			})
		}},
		"waits for ever": {[]string{"SC-14"}, func(_ sink.Sink, o sinktest.Open) sink.Sink {
			o.Timeout = time.Hour
			good := structured(t, o)
			return deliverer(func(ctx context.Context, events []event.Event) ([]sink.Result, error) {
				return good.Deliver(context.WithoutCancel(ctx), events)
			})
		}},
		"drops how long to wait": {[]string{"SC-15"}, func(good sink.Sink, _ sinktest.Open) sink.Sink {
			return deliverer(func(ctx context.Context, events []event.Event) ([]sink.Result, error) {
				results, err := good.Deliver(ctx, events)
				if err != nil {
					err = &fault.Error{Class: fault.ClassOf(err), Err: err}
				}
				return results, err
			})
		}},
		"tries every event": {[]string{"SC-16"}, func(good sink.Sink, _ sinktest.Open) sink.Sink {
			return singly(good, func(r sink.Result, _ error) (sink.Result, bool) { return r, false })
		}},
		"is for one caller": {[]string{"SC-17"}, func(good sink.Sink, _ sinktest.Open) sink.Sink {
			var mu sync.Mutex
			return deliverer(func(ctx context.Context, events []event.Event) ([]sink.Result, error) {
				if !mu.TryLock() {
					return all(events, sink.Accepted, ""), nil
				}
				defer mu.Unlock()
				return good.Deliver(ctx, events)
			})
		}},
	}
	killed := map[string]bool{}
	clauses := map[string]sinktest.Clause{}
	for _, c := range sinktest.Clauses() {
		clauses[c.ID] = c
	}
	var mu sync.Mutex
	t.Run("mutants", func(t *testing.T) {
		for name, m := range mutants {
			for _, id := range m.clauses {
				t.Run(strings.ReplaceAll(name, " ", "-")+"/"+id, func(t *testing.T) {
					t.Parallel()
					rec := &recorder{TB: t}
					done := make(chan struct{})
					go func() { // Fatal ends the goroutine
						defer close(done)
						clauses[id].Check(rec, sinktest.Harness{Reply: sinktest.ReplyStatus, New: func(tb testing.TB, o sinktest.Open) sink.Sink {
							return m.make(structured(t, o), o)
						}})
					}()
					<-done
					rec.mu.Lock()
					defer rec.mu.Unlock()
					if len(rec.failures) == 0 {
						t.Errorf("a sink that %s passes %s", name, id)
						return
					}
					mu.Lock()
					defer mu.Unlock()
					killed[id] = true
				})
			}
		}
	})
	for id := range clauses {
		if !killed[id] {
			t.Errorf("no broken sink fails %s", id)
		}
	}
}

func structured(tb testing.TB, o sinktest.Open) sink.Sink {
	s, err := cloudevents.New(cloudevents.Options{URL: o.URL, Token: o.Token, Timeout: o.Timeout})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}
