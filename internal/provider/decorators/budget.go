package decorators

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// BudgetOptions are the limits of one account.
type BudgetOptions struct {
	// RequestsPerSecond and Burst are the rate, both positive.
	RequestsPerSecond float64
	Burst             int
	// MaxWait is how long a call waits at most, 15 s if zero. What would take
	// longer is refused with the time to come back, so that it holds no worker.
	MaxWait time.Duration
	// Cost is how many requests an operation amounts to at this backend; nil is
	// one each.
	Cost func(op provider.Op) int
}

// Budget hands out the requests of one account. Of the calls that wait, deletes
// go first, then creates, then reads of single instances, then listings and
// prices: what ends costs before what makes them, and work before watching. When
// the backend says "too many requests", nothing goes out until the time it asks
// for, and then at the rate, without a burst. It is safe for concurrent use.
type Budget struct {
	name    string
	metrics *Metrics

	mu          sync.Mutex
	opt         BudgetOptions
	limiter     *rate.Limiter
	queue       waiters
	seq         int
	timer       *time.Timer
	pausedUntil time.Time
	resumed     bool // the burst saved up in the pause has been dropped
	lastRefused time.Time
}

// NewBudget returns a budget with a full burst. metrics may be nil.
func NewBudget(name string, o BudgetOptions, metrics *Metrics) *Budget {
	b := &Budget{name: name, metrics: metrics, resumed: true}
	b.SetLimits(o)
	return b
}

// SetLimits changes the limits; waiting calls go on under the new ones.
func (b *Budget) SetLimits(o BudgetOptions) {
	if o.RequestsPerSecond <= 0 || o.Burst < 1 {
		panic(fmt.Sprintf("budget of %s: %v requests per second, burst %d: must be positive", b.name, o.RequestsPerSecond, o.Burst))
	}
	o.MaxWait = cmp.Or(o.MaxWait, 15*time.Second)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opt = o
	if b.limiter == nil {
		b.limiter = rate.NewLimiter(rate.Limit(o.RequestsPerSecond), o.Burst)
		return
	}
	now := time.Now()
	b.limiter.SetLimitAt(now, rate.Limit(o.RequestsPerSecond))
	b.limiter.SetBurstAt(now, o.Burst)
	b.dispatch(now)
}

// errRefused is a call that the budget has no room for.
type errRefused struct{ wait time.Duration }

func (e *errRefused) Error() string {
	return fmt.Sprintf("the request budget is used up for the next %v", e.wait.Round(time.Millisecond))
}

// wait returns when the operation may be made. It fails with the context's error
// when that is cancelled, and with errRefused, as early as that can be known,
// when the operation's turn would come too late.
func (b *Budget) wait(ctx context.Context, op provider.Op) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := &waiter{prio: priority(op), since: time.Now(), ready: make(chan struct{})}
	b.mu.Lock()
	w.cost = 1
	if b.opt.Cost != nil {
		w.cost = max(1, b.opt.Cost(op))
	}
	w.cost = min(w.cost, b.opt.Burst)
	limit := b.opt.MaxWait
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end))
	}
	if need := b.estimate(w.since, w); need > limit {
		b.lastRefused = w.since
		b.mu.Unlock()
		return &errRefused{need}
	}
	b.seq++
	w.seq = b.seq
	heap.Push(&b.queue, w)
	b.dispatch(w.since)
	b.mu.Unlock()

	tooLate := time.NewTimer(limit)
	defer tooLate.Stop()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	case <-tooLate.C: // others went first
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.index < 0 {
		return nil // granted at the same moment
	}
	heap.Remove(&b.queue, w.index)
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	now := time.Now()
	b.lastRefused = now
	return &errRefused{max(b.estimate(now, w), time.Second)}
}

// estimate is how long w would wait if nobody more important came.
func (b *Budget) estimate(now time.Time, w *waiter) time.Duration {
	ahead := w.cost
	for _, o := range b.queue {
		if o.prio <= w.prio {
			ahead += o.cost
		}
	}
	var wait time.Duration
	tokens := b.limiter.TokensAt(now)
	if now.Before(b.pausedUntil) {
		wait, tokens = b.pausedUntil.Sub(now), 0
	} else if !b.resumed {
		tokens = 0
	}
	if missing := float64(ahead) - tokens; missing > 0 {
		wait += time.Duration(missing / b.opt.RequestsPerSecond * float64(time.Second))
	}
	return wait
}

// dispatch lets everybody go whose turn it is and sets the timer for the next.
// Callers hold mu.
func (b *Budget) dispatch(now time.Time) {
	if now.Before(b.pausedUntil) {
		if len(b.queue) > 0 {
			b.after(b.pausedUntil.Sub(now))
		}
		return
	}
	if !b.resumed {
		b.resumed = true
		b.limiter.AllowN(now, int(b.limiter.TokensAt(now)))
	}
	for len(b.queue) > 0 {
		w := b.queue[0]
		cost := min(w.cost, b.opt.Burst) // the burst may have shrunk since
		if !b.limiter.AllowN(now, cost) {
			missing := float64(cost) - b.limiter.TokensAt(now)
			wait := time.Duration(math.Ceil(missing / b.opt.RequestsPerSecond * float64(time.Second)))
			b.after(max(wait, time.Millisecond))
			return
		}
		heap.Pop(&b.queue)
		close(w.ready)
	}
}

func (b *Budget) after(d time.Duration) {
	if b.timer != nil {
		b.timer.Reset(d)
		return
	}
	b.timer = time.AfterFunc(d, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.dispatch(time.Now())
	})
}

// pause stops everything for d, because the backend asked for it.
func (b *Budget) pause(d time.Duration) {
	d = cmp.Or(d, provider.RuleFor(provider.RateLimited).Delay)
	b.mu.Lock()
	defer b.mu.Unlock()
	if until := time.Now().Add(d); until.After(b.pausedUntil) {
		b.pausedUntil, b.resumed = until, false
		if b.metrics != nil {
			b.metrics.paused.WithLabelValues(b.name).Set(float64(until.UnixMilli()) / 1000)
		}
	}
}

// recently is how long a refusal is remembered as being throttled, and how long
// a call may wait before it is.
const (
	recently    = 30 * time.Second
	longWaiting = time.Second
)

// Throttle says how the budget stands.
func (b *Budget) Throttle() provider.ThrottleState {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	s := provider.ThrottleState{Waiting: len(b.queue)}
	if now.Before(b.pausedUntil) {
		s.Throttled, s.Until = true, b.pausedUntil
	}
	if !b.lastRefused.IsZero() && now.Sub(b.lastRefused) < recently {
		s.Throttled = true
	}
	for _, w := range b.queue {
		s.Throttled = s.Throttled || now.Sub(w.since) > longWaiting
	}
	return s
}

// Wrap makes the calls of p wait for the budget. A call whose turn would come
// after its context's deadline or MaxWait is refused with RateLimited, reason
// Throttled and the wait as RetryAfter; the driver does not see it.
func (b *Budget) Wrap(p provider.Provider, name string) provider.Provider {
	inner := intercept(p, func(ctx context.Context, c *call, do func(context.Context) error) error {
		start := time.Now()
		err := b.wait(ctx, c.op)
		var no *errRefused
		switch {
		case errors.As(err, &no):
			if b.metrics != nil {
				b.metrics.refused.WithLabelValues(name, string(c.op)).Inc()
			}
			return provider.WithReason(provider.WithRetryAfter(
				provider.Wrap(provider.RateLimited, c.op, name, c.id, err), no.wait), provider.ReasonThrottled)
		case err != nil:
			return provider.Wrap(provider.Transient, c.op, name, c.id, err)
		}
		if b.metrics != nil {
			b.metrics.waited.WithLabelValues(name, string(c.op)).Observe(time.Since(start).Seconds())
		}
		err = do(ctx)
		// A refusal by the budget of the account's requests holds back the one
		// operation, and not those that are more important.
		if provider.ClassOf(err) == provider.RateLimited && !provider.NotSent(err) {
			b.pause(provider.RetryAfterOf(err))
		}
		return err
	})
	return &budgeted{Provider: inner, budget: b}
}

// budgeted makes the budget's state reachable by provider.As.
type budgeted struct {
	provider.Provider
	budget *Budget
}

var (
	_ provider.Provider  = (*budgeted)(nil)
	_ provider.Unwrapper = (*budgeted)(nil)
	_ provider.Throttler = (*budgeted)(nil)
)

// Unwrap returns the provider that is decorated.
func (b *budgeted) Unwrap() provider.Provider { return b.Provider }

// Throttle implements provider.Throttler.
func (b *budgeted) Throttle() provider.ThrottleState { return b.budget.Throttle() }

// Budgets keeps the budgets of a process by provider name, so that a pause that
// a backend asked for outlives a reload of the configuration.
type Budgets struct {
	metrics *Metrics
	mu      sync.Mutex
	byName  map[string]*Budget
}

// NewBudgets returns an empty set. metrics may be nil.
func NewBudgets(metrics *Metrics) *Budgets {
	return &Budgets{metrics: metrics, byName: map[string]*Budget{}}
}

// For returns the budget of that name with these limits.
func (b *Budgets) For(name string, o BudgetOptions) *Budget {
	b.mu.Lock()
	defer b.mu.Unlock()
	if old := b.byName[name]; old != nil {
		old.SetLimits(o)
		return old
	}
	n := NewBudget(name, o, b.metrics)
	b.byName[name] = n
	return n
}
