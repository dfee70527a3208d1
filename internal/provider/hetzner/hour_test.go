package hetzner_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/budget"
	"github.com/tollgate-dev/tollgate/internal/provider/decorators"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
)

// TestAnHourUnderTheLimit lets 26 proxies be created, deleted and created again
// within one hour of the simulator's time, with the vendor's limit enforced and
// a foreign tool that first takes 1,000 requests and later all that are left.
func TestAnHourUnderTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const proxies = 26
		sim := hetznersim.New(hetznersim.Options{OneProject: "the-project"})
		accounts := budget.New(nil)
		driver, err := hetzner.New(provider.Config{Name: "cloud", Installation: "acme",
			Secret: func(context.Context, string) (provider.Sensitive, error) {
				return provider.NewSensitive([]byte("token")), nil
			},
			Transport: func(_ http.RoundTripper, account string) http.RoundTripper {
				return accounts.Transport("cloud")(sim.Transport(), account)
			},
			Decode: func(into any) error {
				*into.(*hetzner.Options) = hetzner.Options{Token: "t", Endpoint: "http://sim/v1", Image: "debian-13",
					Candidates: []hetzner.Candidate{{Location: "nbg1", ServerType: "cx23"}},
					Firewall:   hetzner.Firewall{AllowFrom: []string{"192.0.2.0/24"}}}
				return nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		p := decorators.Chain(driver, decorators.Options{Name: "cloud", Installation: "acme", Requests: accounts.Throttler("cloud")})
		start := time.Now()
		var throttled atomic.Bool
		done := make(chan struct{})
		go watch(p, done, &throttled)
		sim.Spend("the-project", 1000)
		// Right before everything is deleted.
		drain := time.AfterFunc(65*time.Second, func() { sim.Spend("the-project", 3600) })
		defer drain.Stop()
		var wg sync.WaitGroup
		for n := range proxies {
			wg.Go(func() { life(t, p, n) })
		}
		wg.Wait()
		close(done)
		took := time.Since(start)

		mine, late := 0, 0
		for _, r := range sim.Requests() {
			mine++
			if r.Status == http.StatusTooManyRequests {
				late++
			}
		}
		perCycle := float64(mine) / proxies
		t.Logf("%d requests in %v, %.1f per proxy and cycle, %d of them refused with 429", mine, took, perCycle, late)
		if perCycle > 12 {
			t.Errorf("%.1f requests per proxy and cycle, want at most 12", perCycle)
		}
		if took > time.Hour {
			t.Errorf("it took %v, want at most an hour", took)
		}
		if late > proxies {
			t.Errorf("%d requests were made although the vendor had said no", late)
		}
		if !throttled.Load() {
			t.Error("nobody was ever told that the account is throttled")
		}
		if running := sim.Servers("the-project"); len(running) != proxies {
			t.Errorf("%d servers at the end, want %d", len(running), proxies)
		}
		if err := sim.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func watch(p provider.Provider, done <-chan struct{}, throttled *atomic.Bool) {
	th, _ := provider.As[provider.Throttler](p)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			if th.Throttle().Throttled {
				throttled.Store(true)
			}
		}
	}
}

// life is what a proxy's workflow asks of its provider: a create, looks until it
// runs, later a delete, and the next one.
func life(t *testing.T, p provider.Provider, n int) {
	uid := fmt.Sprintf("uid-%d", n)
	for incarnation := range 2 {
		req := provider.CreateRequest{Name: provider.InstanceName(uid, incarnation), Port: 3128,
			Marks: provider.Marks{UID: uid, Installation: "acme", Namespace: "default", Proxy: fmt.Sprintf("p%d", n), SpecHash: "hash"}}
		var id provider.InstanceID
		attempt(t, func() (err error) { id, err = p.Create(t.Context(), req); return err })
		for {
			time.Sleep(hetzner.Type().Profile.ReadyPoll)
			var in provider.Instance
			attempt(t, func() (err error) { in, err = p.Get(t.Context(), id); return err })
			if in.State == provider.StateRunning {
				break
			}
		}
		if incarnation == 0 {
			time.Sleep(time.Minute)
			attempt(t, func() error { return p.Delete(t.Context(), id) })
		}
	}
}

// attempt makes a call as Temporal does: again after the wait that the error
// names, for as long as the class says that it may work.
func attempt(t *testing.T, call func() error) {
	for try := 0; ; try++ {
		err := call()
		class := provider.ClassOf(err)
		switch {
		case err == nil:
			return
		case provider.RuleFor(class).NonRetryable || try > 100:
			t.Errorf("attempt %d: %v", try, err)
			return
		}
		wait := provider.RetryAfterOf(err)
		if wait == 0 {
			wait = max(time.Second, provider.RuleFor(class).Delay)
		}
		time.Sleep(wait)
	}
}
