package budget_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/budget"
)

func TestReserveIsLeftToOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBackend(3600)
		c := newClient(t, budget.New(nil), "hetzner", b)
		b.spend("tok", 3000)
		var wg sync.WaitGroup
		for range 600 {
			wg.Go(func() { c.again(provider.OpGet, "tok") })
		}
		lowest := b.limit
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		for ended := false; !ended; {
			select {
			case <-done:
				ended = true
			case <-time.After(time.Second):
				lowest = min(lowest, b.left("tok"))
			}
		}
		if b.count(http.StatusTooManyRequests) != 0 {
			t.Errorf("%d answers 429", b.count(http.StatusTooManyRequests))
		}
		// A tenth is the reserve; what is under way may go below it.
		if lowest < 340 {
			t.Errorf("the bucket fell to %.0f, want at least about 360", lowest)
		}
	})
}

func TestForeignToolIsSeen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBackend(3600)
		c := newClient(t, budget.New(nil), "hetzner", b)
		if err := c.do(provider.OpCreate, "tok"); err != nil {
			t.Fatal(err)
		}
		b.spend("tok", 3400) // leaves less than the reserve
		if err := c.do(provider.OpCreate, "tok"); err != nil {
			t.Fatalf("the first request after it could not know: %v", err)
		}
		// A trickle goes on.
		start := time.Now()
		if err := c.do(provider.OpCreate, "tok"); err != nil {
			t.Fatal(err)
		}
		if err := c.do(provider.OpCreate, "tok"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < 3*time.Second || took > 6*time.Second {
			t.Errorf("the second of two requests below the reserve went after %v, want about 4 s", took)
		}
	})
}

func TestPriorities(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBackend(3600)
		accounts := budget.New(nil)
		c := newClient(t, accounts, "hetzner", b)
		b.spend("tok", 3400)
		if err := c.do(provider.OpDelete, "tok"); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for _, op := range []provider.Op{"", provider.OpGet, provider.OpCreate, provider.OpDelete} {
			wg.Go(func() { c.again(op, "tok") })
			synctest.Wait()
		}
		if s := accounts.Throttler("hetzner").Throttle(); s.Waiting == 0 {
			t.Errorf("state %+v, want waiting requests", s)
		}
		wg.Wait()
		// The first of them was the first to come, and went before the others were there.
		got := b.ops()[1:]
		if got[len(got)-1] == provider.OpDelete || indexOf(got, provider.OpDelete) > indexOf(got, provider.OpCreate) ||
			indexOf(got, provider.OpCreate) > indexOf(got, provider.OpGet) {
			t.Errorf("the order was %q, want deletes before creates before gets", got)
		}
	})
}

func indexOf(ops []provider.Op, op provider.Op) int {
	for i, o := range ops {
		if o == op {
			return i
		}
	}
	return len(ops)
}

// The shares that are kept for what is more important hold between processes.
func TestLessImportantStopsEarlier(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBackend(3600)
		deletes, lists := newClient(t, budget.New(nil), "p", b), newClient(t, budget.New(nil), "p", b)
		b.spend("tok", 3600-460) // between the floors of deletes (360) and of listings (576)
		ctx := func(op provider.Op) context.Context {
			ctx, cancel := context.WithTimeout(provider.ContextWithOp(t.Context(), op), 3*time.Second)
			t.Cleanup(cancel)
			return ctx
		}
		for _, c := range []client{deletes, lists} {
			_ = c.get(ctx(provider.OpDelete), "tok") // so that both know
		}
		for range 30 {
			if err := deletes.get(ctx(provider.OpDelete), "tok"); err != nil {
				t.Fatalf("a delete: %v", err)
			}
		}
		if err := lists.get(ctx(provider.OpList), "tok"); err != nil {
			t.Fatalf("the first below its share trickles: %v", err)
		}
		if err := lists.get(ctx(provider.OpList), "tok"); !provider.NotSent(err) {
			t.Errorf("a listing: %v, want a refusal", err)
		}
	})
}

func TestBegunOperationGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBackend(3600)
		c := newClient(t, budget.New(nil), "p", b)
		b.spend("tok", 3600-600)
		list := provider.ContextWithOp(t.Context(), provider.OpList)
		start := time.Now()
		for range 100 { // from 600 to 500, below what a new listing has to leave
			if err := c.get(list, "tok"); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("the pages of one listing took %v", took)
		}
		if _, begun := provider.OpOf(list); !begun {
			t.Error("the operation has not begun")
		}
	})
}

func TestTooManyRequests(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBackend(3600)
		accounts := budget.New(nil)
		c := newClient(t, accounts, "hetzner", b)
		other := newClient(t, accounts, "other", b)
		if err := c.do(provider.OpCreate, "tok"); err != nil {
			t.Fatal(err)
		}
		b.refuse.Store(int64(time.Minute))
		if err := c.do(provider.OpCreate, "tok"); err != nil {
			t.Fatal(err)
		}
		b.refuse.Store(0)
		paused := time.Now()
		s := accounts.Throttler("hetzner").Throttle()
		if !s.Throttled || s.Until.Sub(paused) < 58*time.Second || s.Until.Sub(paused) > time.Minute {
			t.Errorf("state %+v, want throttled for a minute", s)
		}
		before := b.count(0)
		waits := map[time.Duration]bool{}
		for range 10 {
			err := c.do(provider.OpCreate, "tok")
			var pe *provider.Error
			if !errors.As(err, &pe) || pe.Class != provider.RateLimited || pe.Reason != provider.ReasonThrottled ||
				pe.Provider != "hetzner" || pe.Op != provider.OpCreate {
				t.Fatalf("during the pause: %v", err)
			}
			if pe.RetryAfter < 58*time.Second {
				t.Errorf("RetryAfter %v, want the pause", pe.RetryAfter)
			}
			waits[pe.RetryAfter] = true
		}
		if len(waits) != 10 {
			t.Errorf("%d times to come back for 10 refused calls: %v", len(waits), waits)
		}
		if b.count(0) != before {
			t.Errorf("%d requests were sent during the pause", b.count(0)-before)
		}
		if err := other.do(provider.OpCreate, "another account"); err != nil {
			t.Errorf("another account: %v", err)
		}
		time.Sleep(time.Until(s.Until))
		b.atOnce()
		var wg sync.WaitGroup
		wg.Go(func() { c.again(provider.OpDelete, "tok") })
		synctest.Wait()
		for range 20 {
			wg.Go(func() { c.again(provider.OpDelete, "tok") })
		}
		synctest.Wait()
		if n := b.atOnce(); n != 1 {
			t.Errorf("%d requests at once right after the pause, want one", n)
		}
		wg.Wait()
		time.Sleep(time.Minute)
		if s := accounts.Throttler("hetzner").Throttle(); s.Throttled {
			t.Errorf("state %+v when all is over", s)
		}
	})
}

// The vendor's reset is when everything is back: an hour, for an empty bucket.
func TestRestartBeforeTheBucketIsFull(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBackend(3600)
		accounts := budget.New(nil)
		c := newClient(t, accounts, "p", b)
		b.spend("tok", 3600)
		if err := c.do(provider.OpCreate, "tok"); err != nil {
			t.Fatal(err)
		}
		until := accounts.Throttler("p").Throttle().Until
		if d := time.Until(until); d < 8*time.Minute || d > 10*time.Minute {
			t.Errorf("the pause takes %v, want what 15 %% of the limit takes: 9 min", d)
		}
		time.Sleep(time.Until(until))
		if err := c.do(provider.OpCreate, "tok"); err != nil {
			t.Errorf("after the pause: %v", err)
		}
	})
}

func TestRetryAfterHeader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		accounts := budget.New(nil)
		answers := http.Header{"Retry-After": {"7"}}
		rt := accounts.Transport("p")(roundTrip(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusTooManyRequests, Header: answers, Body: http.NoBody}, nil
		}), "acme")
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.example/", nil)
		if _, err := rt.RoundTrip(r); err != nil {
			t.Fatal(err)
		}
		if d := time.Until(accounts.Throttler("p").Throttle().Until); d != 7*time.Second {
			t.Errorf("the pause takes %v, want 7 s", d)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
