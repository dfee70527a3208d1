package budget

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

const (
	// maxWait is how long a request waits at most. What would take longer is
	// refused with the time to come back, so that it holds no worker.
	maxWait = 15 * time.Second
	// maxFlying bounds the requests of one worker that are under way at once, and
	// with them what the other workers do not know of it.
	maxFlying = 16
	// staleAfter is how old the backend's latest word may be. After it requests go
	// one at a time until the backend has spoken again.
	staleAfter = 10 * time.Second
	// patience is how long others wait for the answer to such a request.
	patience = 2 * time.Second
	// steps of the limit that are kept for what is more important, per priority.
	stepShare = 0.02
	// reserveShare of the limit is the default reserve, and restartShare above the
	// reserve is where requests start again after a 429.
	reserveShare = 0.1
	restartShare = 0.05
	// trickleShare of the refill is what a worker takes below the reserve, so that
	// others who use up everything cannot stop it for good.
	trickleShare = 0.25
	// longestRetry bounds how far the retries of refused calls are spread.
	longestRetry = 5 * time.Minute
	// recently is how long a refusal counts as being throttled, and longWaiting
	// from when on a wait does.
	recently    = 30 * time.Second
	longWaiting = time.Second
	hour        = float64(time.Hour)
)

// priorities, the most important first.
const (
	prioDelete = iota
	prioCreate
	prioGet
	prioList
	priorities
)

// priority orders the operations. What belongs to none, such as a health check
// or a collector, comes last.
func priority(op provider.Op) int {
	switch op {
	case provider.OpDelete, provider.OpDeleteCompanion:
		return prioDelete
	case provider.OpCreate:
		return prioCreate
	case provider.OpGet, provider.OpFind:
		return prioGet
	}
	return prioList
}

// waiter is a request that waits for its turn.
type waiter struct {
	prio int
	// step is the priority whose share of the limit has to be left alone: that of
	// an operation which has begun is not held back half-way.
	step  int
	since time.Time
	ready chan struct{}
	gone  bool // granted, or given up
}

// account is the request budget of one account as this process sees it.
type account struct {
	mu     sync.Mutex
	limits map[string]Limits // of the providers that use it, by name

	limit int     // requests per hour by the headers, 0 while unknown
	left  float64 // of them by the latest answer, less what was sent since
	at    time.Time
	own   float64 // left of Limits.PerHour, if that is set
	ownAt time.Time

	queue       []*waiter // the next one first
	flying      int
	window      int // of flying
	heard       time.Time
	trickled    time.Time
	pausedUntil time.Time
	promised    [priorities]time.Time
	lastRefused time.Time
	lastUsed    time.Time
	timer       *time.Timer
}

func newAccount() *account {
	return &account{limits: map[string]Limits{}, window: 1}
}

// setLimits changes what one provider wants; the strictest of all is kept to.
func (a *account) setLimits(name string, l Limits) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.perHour()
	a.limits[name] = l
	if now := time.Now(); before == 0 || a.ownAt.IsZero() {
		a.own, a.ownAt = float64(a.perHour()), now
	} else {
		a.own = min(a.own, float64(a.perHour()))
	}
	a.dispatch(time.Now())
}

func (a *account) forget(name string) (unused bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.limits, name)
	return len(a.limits) == 0
}

// perHour is the strictest configured limit less the reserve, 0 for none.
func (a *account) perHour() int {
	n := 0
	for _, l := range a.limits {
		if l.PerHour > 0 && (n == 0 || l.PerHour < n) {
			n = l.PerHour
		}
	}
	if n == 0 {
		return 0
	}
	return max(1, n-int(a.reserve(float64(n))))
}

// reserve is what is left to others of a limit.
func (a *account) reserve(limit float64) float64 {
	most := 0.0
	for _, l := range a.limits {
		r := reserveShare * limit
		if l.Reserve != nil {
			r = float64(*l.Reserve)
		}
		most = max(most, r)
	}
	return min(most, limit/2) // a reserve made for another limit stops nobody
}

// refill brings the counts up to now.
func (a *account) refill(now time.Time) {
	if a.limit > 0 {
		a.left = min(float64(a.limit), a.left+float64(now.Sub(a.at))/hour*float64(a.limit))
	}
	a.at = now
	if n := float64(a.perHour()); n > 0 {
		a.own = min(n, a.own+float64(now.Sub(a.ownAt))/hour*n)
	}
	a.ownAt = now
}

// every is the time in which a limit gives back one request.
func every(perHour float64) time.Duration { return time.Duration(hour / perHour) }

// lacking is how long the account has to fill until n requests of the step can
// be made, zero when they can be now.
func (a *account) lacking(step, n int) time.Duration {
	var wait time.Duration
	need := func(have, keep, perHour float64) {
		if lack := keep + stepShare*float64(step)*perHour + float64(n) - have; lack > 0 {
			wait = max(wait, time.Duration(lack*float64(every(perHour))))
		}
	}
	if a.limit > 0 {
		need(a.left, a.reserve(float64(a.limit)), float64(a.limit))
	}
	if own := a.perHour(); own > 0 {
		need(a.own, 0, float64(own))
	}
	return wait
}

// trickle is when the next request may be made below the reserve; ok is false
// when the account is without any.
func (a *account) trickle(now time.Time) (at time.Time, ok bool) {
	if own := a.perHour(); a.limit == 0 || a.left < 1 || own > 0 && a.own < 1 {
		return time.Time{}, false
	}
	at = a.trickled.Add(time.Duration(float64(every(float64(a.limit))) / trickleShare))
	if at.Before(now) {
		at = now
	}
	return at, true
}

// closed reports whether as many requests are under way as may be. Without a
// word of the backend on its limit there is nothing to be careful about.
func (a *account) closed(now time.Time) bool {
	if a.flying == 0 && now.Sub(a.heard) > staleAfter {
		a.window = 1
	}
	unknown := a.heard.IsZero()
	return (a.limit > 0 || unknown) && a.flying >= a.window
}

// spacing is the time between two requests at the pace of the refill.
func (a *account) spacing() time.Duration {
	d := time.Duration(0)
	if a.limit > 0 {
		d = every(float64(a.limit))
	}
	if own := a.perHour(); own > 0 {
		d = max(d, every(float64(own)))
	}
	return d
}

// dispatch lets everybody go whose turn it is and sets the timer for the next.
// Callers hold mu.
func (a *account) dispatch(now time.Time) {
	if len(a.queue) == 0 {
		return
	}
	a.refill(now)
	if now.Before(a.pausedUntil) {
		a.after(a.pausedUntil.Sub(now))
		return
	}
	wake := time.Duration(-1)
	sooner := func(d time.Duration) {
		if d = max(d, time.Millisecond); wake < 0 || d < wake {
			wake = d
		}
	}
	for i := 0; i < len(a.queue); {
		if a.closed(now) {
			// An answer wakes everybody; so does waiting too long for one.
			sooner(patience)
			break
		}
		w := a.queue[i]
		lacking := a.lacking(w.step, 1)
		if lacking > 0 && i == 0 {
			if at, ok := a.trickle(now); ok && !at.After(now) {
				a.trickled, lacking = now, 0
			} else if ok {
				sooner(at.Sub(now))
			}
		}
		if lacking > 0 {
			sooner(lacking)
			i++ // one that has begun may go before it
			continue
		}
		a.queue = slices.Delete(a.queue, i, i+1)
		w.gone = true
		a.left--
		a.own--
		a.flying++
		close(w.ready)
	}
	if len(a.queue) > 0 && wake > 0 {
		a.after(wake)
	}
}

func (a *account) after(d time.Duration) {
	if a.timer != nil {
		a.timer.Reset(d)
		return
	}
	a.timer = time.AfterFunc(d, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		now := time.Now()
		if a.closed(now) && now.Sub(a.heard) >= patience {
			a.window = a.flying + 1 // no answer so far: it may be lost
		}
		a.dispatch(now)
	})
}

// done takes the outcome of a request that was granted.
func (a *account) done(resp *http.Response, err error) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.flying--
	a.refill(now)
	if err == nil {
		a.heard = now
		if h, ok := readHeaders(resp.Header); ok {
			// What is under way may or may not be counted by the backend yet.
			a.limit, a.left = h.limit, max(0, float64(h.left-a.flying))
		}
		if resp.StatusCode == http.StatusTooManyRequests {
			a.pause(now, resp.Header)
		} else {
			a.window = min(maxFlying, 2*a.window)
		}
	}
	a.dispatch(now)
}

// pause stops everything after a 429. The vendor's reset is the time at which
// the whole limit is back, which can be an hour away; requests start again when
// the reserve and a little more is, if that comes first, and one at a time.
func (a *account) pause(now time.Time, h http.Header) {
	d := provider.RuleFor(provider.RateLimited).Delay
	if reset, ok := readReset(h, now); ok {
		d = reset
		if a.limit > 0 {
			a.left = 0
			level := a.reserve(float64(a.limit)) + restartShare*float64(a.limit)
			d = min(d, time.Duration(level*float64(every(float64(a.limit)))))
		}
	}
	if after, ok := readRetryAfter(h, now); ok {
		d = after
	}
	a.window = 1
	if until := now.Add(max(d, time.Second)); until.After(a.pausedUntil) {
		a.pausedUntil = until
	}
}

// throttle says how the budget stands.
func (a *account) throttle(now time.Time) provider.ThrottleState {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := provider.ThrottleState{Waiting: len(a.queue), PerHour: a.limit}
	if own := a.perHour(); own > 0 && (s.PerHour == 0 || own < s.PerHour) {
		s.PerHour = own
	}
	if now.Before(a.pausedUntil) {
		s.Throttled, s.Until = true, a.pausedUntil.UTC()
	}
	// Below the reserve whatever comes is held back, even if nothing does.
	if a.refill(now); a.limit > 0 && a.left < a.reserve(float64(a.limit)) {
		s.Throttled = true
	}
	if !a.lastRefused.IsZero() && now.Sub(a.lastRefused) < recently {
		s.Throttled = true
	}
	for _, w := range a.queue {
		s.Throttled = s.Throttled || now.Sub(w.since) > longWaiting
	}
	return s
}

// standing is what the metrics show.
func (a *account) standing(now time.Time) (limit int, left float64, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refill(now)
	return a.limit, max(0, a.left), a.limit > 0
}
