package budget

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// wait returns when the request may be made; the caller calls done after it.
func (a *account) wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	op, begun := provider.OpOf(ctx)
	now := time.Now()
	w := &waiter{prio: priority(op), since: now, ready: make(chan struct{})}
	if w.step = w.prio; begun {
		w.step = prioDelete
	}
	limit := maxWait
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end))
	}
	a.mu.Lock()
	a.refill(now)
	a.lastUsed = now
	if need := a.estimate(now, w); need > limit {
		defer a.mu.Unlock()
		return a.refuse(now, w, need)
	}
	at, _ := slices.BinarySearchFunc(a.queue, w, func(x, y *waiter) int {
		if x.prio <= y.prio {
			return -1
		}
		return 1
	})
	a.queue = slices.Insert(a.queue, at, w)
	a.dispatch(now)
	a.mu.Unlock()

	tooLate := time.NewTimer(limit)
	defer tooLate.Stop()
	select {
	case <-w.ready:
		provider.BeginOp(ctx)
		return nil
	case <-ctx.Done():
	case <-tooLate.C: // others went first
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if w.gone {
		provider.BeginOp(ctx)
		return nil // granted at the same moment
	}
	w.gone = true
	a.queue = slices.DeleteFunc(a.queue, func(x *waiter) bool { return x == w })
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	now = time.Now()
	a.refill(now)
	return a.refuse(now, w, max(a.estimate(now, w), time.Second))
}

// estimate is how long w would wait if nobody more important came.
func (a *account) estimate(now time.Time, w *waiter) time.Duration {
	n := 1
	for _, o := range a.queue {
		if o.prio <= w.prio {
			n++
		}
	}
	pause := max(0, a.pausedUntil.Sub(now))
	lacking := max(0, a.lacking(w.step, n)-pause)
	if at, ok := a.trickle(now.Add(pause)); ok && lacking > 0 {
		trickling := at.Sub(now.Add(pause)) + time.Duration(float64(n-1)*float64(every(float64(a.limit)))/trickleShare)
		lacking = min(lacking, trickling)
	}
	return pause + lacking
}

// errNoRoom is why a request is not made.
type errNoRoom struct{ wait time.Duration }

func (e *errNoRoom) Error() string {
	return fmt.Sprintf("the account's request budget has no room for the next %v", e.wait.Round(time.Second))
}

// refuse notes a refusal and gives each refused call a time of its own to come
// back, so that not all of them do at once.
func (a *account) refuse(now time.Time, w *waiter, need time.Duration) error {
	a.lastRefused = now
	at := now.Add(need)
	for _, p := range a.promised[:w.prio+1] {
		if p.After(at) {
			at = p
		}
	}
	if end := now.Add(need + longestRetry); at.After(end) {
		at = end
	}
	a.promised[w.prio] = at.Add(a.spacing())
	return &errNoRoom{at.Sub(now)}
}
