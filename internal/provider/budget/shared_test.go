package budget_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/budget"
)

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
