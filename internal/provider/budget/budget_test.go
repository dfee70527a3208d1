package budget_test

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/budget"
)

// backend is a vendor whose projects have a bucket of requests each, told apart
// by the token. It answers in fake time.
type backend struct {
	mu      sync.Mutex
	limit   float64
	buckets map[string]*bucket
	calls   []made
	latency time.Duration
	silent  bool // without headers
	flying  int
	most    int
	refuse  atomic.Int64 // answer 429 with a reset so far away
}

type bucket struct {
	left float64
	at   time.Time
}

type made struct {
	at     time.Time
	op     provider.Op
	token  string
	status int
}

func newBackend(limit float64) *backend {
	return &backend{limit: limit, buckets: map[string]*bucket{}, latency: 50 * time.Millisecond}
}

func (b *backend) bucket(token string) *bucket {
	v := b.buckets[token]
	if v == nil {
		v = &bucket{left: b.limit, at: time.Now()}
		b.buckets[token] = v
	}
	now := time.Now()
	v.left = min(b.limit, v.left+now.Sub(v.at).Hours()*b.limit)
	v.at = now
	return v
}

// spend takes n requests as somebody else would.
func (b *backend) spend(token string, n float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v := b.bucket(token)
	v.left = max(0, v.left-n)
}

func (b *backend) left(token string) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bucket(token).left
}

func (b *backend) RoundTrip(r *http.Request) (*http.Response, error) {
	b.mu.Lock()
	b.flying++
	b.most = max(b.most, b.flying)
	b.mu.Unlock()
	time.Sleep(b.latency)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flying--
	token := r.Header.Get("Authorization")
	v := b.bucket(token)
	h, status := http.Header{}, http.StatusOK
	reset := time.Duration((b.limit - v.left) / b.limit * float64(time.Hour))
	switch {
	case b.refuse.Load() > 0:
		status, reset = http.StatusTooManyRequests, time.Duration(b.refuse.Load())
	case v.left < 1:
		status = http.StatusTooManyRequests
	default:
		v.left--
	}
	if !b.silent {
		h.Set("RateLimit-Limit", strconv.Itoa(int(b.limit)))
		h.Set("RateLimit-Remaining", strconv.Itoa(int(v.left)))
		h.Set("RateLimit-Reset", strconv.FormatInt(time.Now().Add(reset).Unix(), 10))
	}
	op, _ := provider.OpOf(r.Context())
	b.calls = append(b.calls, made{time.Now(), op, token, status})
	return &http.Response{StatusCode: status, Header: h, Body: http.NoBody, Request: r}, nil
}

// atOnce is the largest number of calls at once since the last question.
func (b *backend) atOnce() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.most
	b.most = 0
	return n
}

// count is the number of calls, those with the status only unless it is zero.
func (b *backend) count(status int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, c := range b.calls {
		if status == 0 || c.status == status {
			n++
		}
	}
	return n
}

func (b *backend) ops() []provider.Op {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []provider.Op
	for _, c := range b.calls {
		out = append(out, c.op)
	}
	return out
}

// client makes requests of one provider.
type client struct {
	t  *testing.T
	rt http.RoundTripper
}

func newClient(t *testing.T, a *budget.Accounts, name string, b *backend) client {
	return client{t, a.Transport(name)(b, "")}
}

func (c client) get(ctx context.Context, token string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://api.example/servers", nil)
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", token)
	_, err = c.rt.RoundTrip(r)
	return err
}

// do makes one request of an operation of its own.
func (c client) do(op provider.Op, token string) error {
	return c.get(provider.ContextWithOp(c.t.Context(), op), token)
}

// again makes the request until it is not refused, as Temporal would.
func (c client) again(op provider.Op, token string) {
	for {
		err := c.do(op, token)
		if err == nil {
			return
		}
		if !provider.NotSent(err) {
			c.t.Errorf("%s: %v", op, err)
			return
		}
		time.Sleep(provider.RetryAfterOf(err))
	}
}

func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

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
		time.Sleep(s.Until.Sub(time.Now()))
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

// Three workers know nothing of each other but what the backend says.
func TestWorkersShareAnAccount(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBackend(3600)
		b.spend("tok", 2600)
		var wg sync.WaitGroup
		for range 3 {
			c := newClient(t, budget.New(nil), "p", b)
			for range 400 {
				wg.Go(func() { c.again(provider.OpCreate, "tok") })
			}
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
		if n := b.count(http.StatusTooManyRequests); n != 0 {
			t.Errorf("%d answers 429", n)
		}
		if lowest < 300 {
			t.Errorf("the bucket fell to %.0f with a reserve of 360", lowest)
		}
		if b.count(0) != 1200 {
			t.Errorf("%d requests, want 1200", b.count(0))
		}
	})
}

func TestFirstRequestsGoOneAtATime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBackend(3600)
		c := newClient(t, budget.New(nil), "p", b)
		burst := func() {
			b.atOnce()
			var wg sync.WaitGroup
			for range 30 {
				wg.Go(func() { c.again(provider.OpGet, "tok") })
			}
			time.Sleep(b.latency / 2)
			if n := b.atOnce(); n != 1 {
				t.Errorf("%d requests at once before the first answer", n)
			}
			wg.Wait()
			if n := b.atOnce(); n < 8 || n > 16 {
				t.Errorf("%d requests at once after some answers, want 8 to 16", n)
			}
		}
		burst()
		time.Sleep(time.Minute) // what is known is old
		burst()
	})
}

func TestLostAnswerHoldsNobodyUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBackend(3600)
		b.latency = 10 * time.Second
		c := newClient(t, budget.New(nil), "p", b)
		start := time.Now()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { c.again(provider.OpDelete, "tok") })
		}
		wg.Wait()
		if took := time.Since(start); took > 15*time.Second {
			t.Errorf("three requests of 10 s took %v", took)
		}
	})
}

func TestOwnLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBackend(1e6)
		b.silent = true
		accounts := budget.New(nil)
		reserve := 0
		accounts.Set("p", budget.Limits{PerHour: 360, Reserve: &reserve})
		c := newClient(t, accounts, "p", b)
		start := time.Now()
		var wg sync.WaitGroup
		for range 720 {
			wg.Go(func() { c.again(provider.OpDelete, "tok") })
		}
		wg.Wait()
		if took := time.Since(start); took < 59*time.Minute || took > 70*time.Minute {
			t.Errorf("twice the hourly limit took %v, want an hour, as half of it is a burst", took)
		}
		accounts.Set("p", budget.Limits{})
		start = time.Now()
		for range 100 {
			if err := c.do(provider.OpDelete, "tok"); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("without a limit 100 requests took %v", took)
		}
	})
}

func TestAccountsAreToldApart(t *testing.T) {
	for what, tt := range map[string]struct {
		one, two   budget.Limits
		tok1, tok2 string
		shared     bool
	}{
		"one token":               {tok1: "t", tok2: "t", shared: true},
		"two tokens":              {tok1: "t", tok2: "u"},
		"two tokens, one account": {budget.Limits{Account: "acme"}, budget.Limits{Account: "acme"}, "t", "u", true},
		"one token, two accounts": {budget.Limits{Account: "a"}, budget.Limits{Account: "b"}, "t", "t", false},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBackend(3600)
				accounts := budget.New(nil)
				accounts.Set("one", tt.one)
				accounts.Set("two", tt.two)
				one, two := newClient(t, accounts, "one", b), newClient(t, accounts, "two", b)
				for _, err := range []error{one.do(provider.OpGet, tt.tok1), two.do(provider.OpGet, tt.tok2)} {
					if err != nil {
						t.Fatal(err)
					}
				}
				b.refuse.Store(int64(time.Minute))
				if err := one.do(provider.OpGet, tt.tok1); err != nil {
					t.Fatal(err)
				}
				b.refuse.Store(0)
				if err := two.do(provider.OpGet, tt.tok2); provider.NotSent(err) != tt.shared {
					t.Errorf("after a 429 of the one, the other: %v; one account: %v", err, tt.shared)
				}
				if got := accounts.Throttler("two").Throttle().Throttled; got != tt.shared {
					t.Errorf("the other is throttled: %v, want %v", got, tt.shared)
				}
			})
		})
	}
}

func TestCancellation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBackend(3600)
		c := newClient(t, budget.New(nil), "p", b)
		b.spend("tok", 3400)
		for range 2 {
			if err := c.do(provider.OpGet, "tok"); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var err error
		var wg sync.WaitGroup
		wg.Go(func() { err = c.get(ctx, "tok") })
		synctest.Wait()
		cancel()
		wg.Wait()
		if !errors.Is(err, context.Canceled) || b.count(0) != 2 {
			t.Errorf("%v after a cancellation, %d requests", err, b.count(0))
		}
	})
}

func TestMetrics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		accounts := budget.New(budget.NewMetrics(reg))
		b := newBackend(3600)
		c := newClient(t, accounts, "hetzner", b)
		if err := c.do(provider.OpCreate, "tok"); err != nil {
			t.Fatal(err)
		}
		b.refuse.Store(int64(time.Minute))
		_ = c.do("", "tok")
		_ = c.do(provider.OpList, "tok")
		want := `
# HELP tollgate_provider_requests_limit Requests per hour that the backend allows the provider's account, by its latest answer to this worker.
# TYPE tollgate_provider_requests_limit gauge
tollgate_provider_requests_limit{provider="hetzner"} 3600
# HELP tollgate_provider_requests_refused_total HTTP requests that were not sent because the account's budget had no room in time.
# TYPE tollgate_provider_requests_refused_total counter
tollgate_provider_requests_refused_total{op="list",provider="hetzner"} 1
# HELP tollgate_provider_requests_remaining Requests that the provider's account has left, whoever uses it, by the backend's latest answer and the refill since.
# TYPE tollgate_provider_requests_remaining gauge
tollgate_provider_requests_remaining{provider="hetzner"} 0
# HELP tollgate_provider_requests_total HTTP requests to backends by operation and status code; error when there was no answer.
# TYPE tollgate_provider_requests_total counter
tollgate_provider_requests_total{code="200",op="create",provider="hetzner"} 1
tollgate_provider_requests_total{code="429",op="other",provider="hetzner"} 1
# HELP tollgate_provider_throttled 1 while requests to the provider's account are held back or refused by its budget.
# TYPE tollgate_provider_throttled gauge
tollgate_provider_throttled{provider="hetzner"} 1
`
		if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "tollgate_provider_requests_limit", "tollgate_provider_requests_remaining",
			"tollgate_provider_throttled", "tollgate_provider_requests_total", "tollgate_provider_requests_refused_total"); err != nil {
			t.Error(err)
		}
		accounts.Forget("hetzner")
		if n, err := testutil.GatherAndCount(reg); err != nil || n != 0 {
			t.Errorf("%d series, %v after the provider was forgotten", n, err)
		}
	})
}
