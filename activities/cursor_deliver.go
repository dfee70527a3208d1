package activities

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/fault"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

const (
	// deliverAtOnce is the most events in one delivery.
	deliverAtOnce  = 100
	deliverTimeout = time.Minute
)

// deliver sends items until each is delivered or given up. It returns the ones
// given up and the time of the latest one that was delivered. With an error, some
// may have arrived: all of them may be sent again.
func (a *Cursors) deliver(ctx context.Context, ref StreamRef, to sink.Sink, items []source.Item, counts *api.CursorCounts) (dead []api.DeadLetter, last time.Time, err error) {
	for len(items) > 0 {
		n := min(len(items), deliverAtOnce)
		b := &batch{a: a, ref: ref, to: to, items: items[:n], seen: a.sinks.taken(ref.Sink), ill: a.sinks.ill(ref)}
		if err := b.send(ctx, func(i source.Item, res sink.Result) {
			switch res.Outcome {
			case sink.Rejected:
				counts.Rejected++
				dead = append(dead, api.DeadLetter{Ref: i.Ref, EventID: i.Event.ID, Reason: sink.Reason(res.Reason), At: i.Event.Time})
				return
			case sink.Duplicate:
				counts.Duplicates++
			default:
				counts.Delivered++
			}
			if len(i.Event.Data.UnknownSize) > 0 {
				counts.UnknownSizes++
			}
			if i.Event.Time.After(last) {
				last = i.Event.Time
			}
		}); err != nil {
			return nil, last, err
		}
		items = items[n:]
	}
	return dead, last, nil
}

// batch is a delivery under way.
type batch struct {
	a     *Cursors
	ref   StreamRef
	to    sink.Sink
	items []source.Item
	// seen is what the sink had taken before; own are those of them that are of
	// this batch.
	seen, own int
	// ill are the accounts of which the sink took nothing lately, while it took
	// others.
	ill map[string]bool
	// failed is the latest error of a send, and why that of each event.
	failed error
	why    map[int]error
}

// send delivers the batch as an isolation decides.
func (b *batch) send(ctx context.Context, done func(source.Item, sink.Result)) error {
	begun := b.a.now()
	accounts := make([]string, len(b.items))
	for i := range b.items {
		accounts[i] = b.items[i].Event.Data.Account
	}
	d := isolate(accounts, b.ill, begun)
	for {
		k := known{now: b.a.now(), elsewhere: b.a.sinks.taken(b.ref.Sink) - b.seen - b.own}
		control, ok := b.a.sinks.latest(b.ref.Sink)
		k.control = ok
		switch do, portion, pause := d.next(k); do {
		case doneSending:
			return nil
		case holdAll:
			return b.failed
		case askSink:
			d.answers(b.there(ctx))
		case sendControl:
			results, err := b.call(ctx, []event.Event{control})
			d.proven(err == nil && results[0].Outcome.Delivered())
		case giveUp:
			b.a.sinks.fell(b.ref, d.ill)
			for _, i := range d.suspects {
				how := "alone"
				if d.ill[accounts[i]] {
					how = "with others of its account, of which nothing arrived,"
				}
				done(b.items[i], sink.Result{ID: b.items[i].Event.ID, Outcome: sink.Rejected, Reason: fmt.Sprintf(
					"sent %s %d times in %s without success, while the sink took %d other events: %v",
					how, d.rounds, k.now.Sub(begun).Round(time.Second), d.taken+k.elsewhere, b.why[i])})
			}
			return nil
		case sendPortion:
			if err := b.a.pause(ctx, pause); err != nil {
				return err
			}
			how, err := b.portion(ctx, portion, done)
			if err != nil {
				return err
			}
			d.sent(how)
		}
	}
}

// portion sends some events of the batch. Its error is none of the sink's.
func (b *batch) portion(ctx context.Context, places []int, done func(source.Item, sink.Result)) (sending, error) {
	events := make([]event.Event, len(places))
	for i, at := range places {
		events[i] = b.items[at].Event
	}
	results, err := b.call(ctx, events)
	if ctx.Err() != nil {
		return sending{}, errors.Join(context.Cause(ctx), err)
	}
	if results == nil {
		return sending{}, err
	}
	var how sending
	for i, r := range results {
		if !r.Outcome.Done() {
			how.left = append(how.left, places[i])
			continue
		}
		if done(b.items[places[i]], r); r.Outcome.Delivered() {
			b.own++
			b.a.sinks.took(b.ref, events[i])
		}
	}
	if len(how.left) == 0 {
		return how, nil
	}
	if err == nil {
		err = errors.New("the sink does not say what became of some events")
	}
	b.failed = err
	if b.why == nil {
		b.why = map[int]error{}
	}
	for _, at := range how.left {
		b.why[at] = err
	}
	how.retryable, how.retryAfter = fault.ClassOf(err) == fault.Retryable, fault.RetryAfter(err)
	how.busy = how.retryAfter > 0 || busy(err)
	return how, nil
}

// busy reports whether a sink has put a call off, whatever it was about.
func busy(err error) bool {
	var f *fault.Error
	if !errors.As(err, &f) {
		return false
	}
	switch f.Status {
	case http.StatusTooManyRequests, http.StatusTooEarly, http.StatusLocked:
		return true
	}
	return false
}

// call makes one call. Without results, the sink has broken its contract.
func (b *batch) call(ctx context.Context, events []event.Event) ([]sink.Result, error) {
	start := b.a.now()
	ctx, cancel := context.WithTimeout(ctx, deliverTimeout)
	defer cancel()
	results, err := b.to.Deliver(ctx, events)
	b.a.Metrics.Delivered(b.ref.Source, b.ref.Stream, b.a.now().Sub(start))
	if len(results) != len(events) {
		return nil, errors.Join(fmt.Errorf("sink %s gave %d results for %d events", b.ref.Sink, len(results), len(events)), err)
	}
	return results, err
}

// there asks the sink whether it is there. One that cannot be asked may be.
func (b *batch) there(ctx context.Context) bool {
	c, ok := b.to.(SinkChecker)
	if !ok {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, deliverTimeout)
	defer cancel()
	return c.Check(ctx) == nil
}

func (a *Cursors) pause(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	if a.Wait != nil {
		return a.Wait(ctx, d)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// tallies remember, for each sink, what it has taken from this process: how many
// events, and the latest one, which it can be sent again to see whether it takes
// anything. They only help to tell a broken event from a sink that is down.
type tallies struct {
	mu sync.Mutex
	of map[string]*tally
}

type tally struct {
	taken  int
	latest event.Event
	// ill are the accounts of each stream of which nothing arrives.
	ill map[StreamRef]map[string]bool
}

// tally is that of a sink; the caller holds the lock.
func (t *tallies) tally(name string) *tally {
	if t.of == nil {
		t.of = map[string]*tally{}
	}
	n := t.of[name]
	if n == nil {
		n = &tally{ill: map[StreamRef]map[string]bool{}}
		t.of[name] = n
	}
	return n
}

func (t *tallies) took(r StreamRef, e event.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.tally(r.Sink)
	n.taken++
	n.latest = e
	delete(n.ill[r], e.Data.Account)
}

// fell notes that accounts are ill.
func (t *tallies) fell(r StreamRef, ill map[string]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.tally(r.Sink)
	if n.ill[r] == nil {
		n.ill[r] = map[string]bool{}
	}
	maps.Copy(n.ill[r], ill)
}

// ill are the accounts of a stream that fell ill and of which nothing arrived
// since.
func (t *tallies) ill(r StreamRef) map[string]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.of[r.Sink]; n != nil {
		return maps.Clone(n.ill[r])
	}
	return nil
}

func (t *tallies) taken(name string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.of[name]; n != nil {
		return n.taken
	}
	return 0
}

func (t *tallies) latest(name string) (event.Event, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.of[name]; n != nil && n.taken > 0 {
		return n.latest, true
	}
	return event.Event{}, false
}
