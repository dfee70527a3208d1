package decorators_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/decorators"
)

// made records the calls that get through a budget, with their times.
type made struct {
	mu    sync.Mutex
	start time.Time
	ops   []provider.Op
	at    []time.Duration
	fail  error // answer of every call
}

func (m *made) note(op provider.Op) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ops = append(m.ops, op)
	m.at = append(m.at, time.Since(m.start))
	return m.fail
}

func (m *made) Create(context.Context, provider.CreateRequest) (provider.InstanceID, error) {
	return "1", m.note(provider.OpCreate)
}
func (m *made) Get(context.Context, provider.InstanceID) (provider.Instance, error) {
	return provider.Instance{}, m.note(provider.OpGet)
}
func (m *made) Find(context.Context, string, provider.Marks) (provider.Instance, error) {
	return provider.Instance{}, m.note(provider.OpFind)
}
func (m *made) Delete(context.Context, provider.InstanceID) error { return m.note(provider.OpDelete) }
func (m *made) List(context.Context, provider.Selector) ([]provider.Instance, error) {
	return nil, m.note(provider.OpList)
}
func (m *made) PriceEURPerHour(context.Context, provider.Placement) (provider.MicroEUR, bool, error) {
	return 0, true, m.note(provider.OpPrice)
}
func (m *made) ListCompanions(context.Context, provider.Selector) ([]provider.Companion, error) {
	return nil, m.note(provider.OpListCompanions)
}
func (m *made) DeleteCompanion(context.Context, provider.Companion) error {
	return m.note(provider.OpDeleteCompanion)
}

// bubble runs a test in fake time with a budget around a recording driver.
func bubble(t *testing.T, o decorators.BudgetOptions, test func(t *testing.T, b *decorators.Budget, p provider.Provider, m *made)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &made{start: time.Now()}
		b := decorators.NewBudget(name, o, nil)
		test(t, b, b.Wrap(m, name), m)
	})
}

func TestBudgetRate(t *testing.T) {
	bubble(t, decorators.BudgetOptions{RequestsPerSecond: 2, Burst: 3}, func(t *testing.T, _ *decorators.Budget, p provider.Provider, m *made) {
		for range 7 {
			if _, err := p.Get(t.Context(), "1"); err != nil {
				t.Fatal(err)
			}
		}
		want := []time.Duration{0, 0, 0, 500 * time.Millisecond, time.Second, 1500 * time.Millisecond, 2 * time.Second}
		near := cmp.Comparer(func(a, b time.Duration) bool { return (a - b).Abs() < 5*time.Millisecond })
		if diff := cmp.Diff(m.at, want, near); diff != "" {
			t.Errorf("calls were made at (-got +want):\n%s", diff)
		}
	})
}

func TestBudgetPriorities(t *testing.T) {
	bubble(t, decorators.BudgetOptions{RequestsPerSecond: 1, Burst: 1}, func(t *testing.T, b *decorators.Budget, p provider.Provider, m *made) {
		do := every(p)
		if err := do[provider.OpGet](t.Context()); err != nil { // uses the burst
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		// The least important come first, each before the next one asks.
		for _, op := range []provider.Op{
			provider.OpList, provider.OpListCompanions, provider.OpPrice, provider.OpFind, provider.OpGet,
			provider.OpCreate, provider.OpDelete, provider.OpDeleteCompanion,
		} {
			wg.Go(func() {
				if err := do[op](t.Context()); err != nil {
					t.Errorf("%s: %v", op, err)
				}
			})
			synctest.Wait()
		}
		if s := b.Throttle(); s.Waiting != 8 || s.Throttled {
			t.Errorf("state %+v right after, want 8 waiting and not throttled yet", s)
		}
		time.Sleep(1500 * time.Millisecond)
		if s := b.Throttle(); !s.Throttled {
			t.Errorf("state %+v after 1.5 s of waiting, want throttled", s)
		}
		wg.Wait()
		want := []provider.Op{
			provider.OpGet, provider.OpDelete, provider.OpDeleteCompanion, provider.OpCreate, provider.OpFind, provider.OpGet,
			provider.OpList, provider.OpListCompanions, provider.OpPrice,
		}
		if diff := cmp.Diff(m.ops, want); diff != "" {
			t.Errorf("order (-got +want):\n%s", diff)
		}
	})
}

func TestBudgetRefusesWhatWouldComeTooLate(t *testing.T) {
	bubble(t, decorators.BudgetOptions{RequestsPerSecond: 0.1, Burst: 1, MaxWait: 5 * time.Second}, func(t *testing.T, b *decorators.Budget, p provider.Provider, m *made) {
		if err := p.Delete(t.Context(), "1"); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, err := p.Create(t.Context(), request("u1"))
		if provider.ClassOf(err) != provider.RateLimited || provider.ReasonOf(err) != provider.ReasonThrottled {
			t.Errorf("a call that would wait 10 s with MaxWait 5 s: %v", err)
		}
		if got := provider.RetryAfterOf(err); got < 9*time.Second || got > 10*time.Second {
			t.Errorf("RetryAfter %v, want about 10 s", got)
		}
		if time.Since(start) != 0 {
			t.Errorf("it was refused after %v, want at once", time.Since(start))
		}
		var pe *provider.Error
		if !errors.As(err, &pe) || pe.Op != provider.OpCreate || pe.Provider != name || pe.ID != request("u1").Name {
			t.Errorf("the error says %+v", pe)
		}
		if s := b.Throttle(); !s.Throttled {
			t.Errorf("state %+v after a refusal, want throttled", s)
		}
		time.Sleep(time.Minute)
		if s := b.Throttle(); s.Throttled {
			t.Errorf("state %+v a minute later, want not throttled", s)
		}
		// The caller's deadline counts like MaxWait.
		if err := p.Delete(t.Context(), "1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Second) // 4 s are left
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := p.Delete(ctx, "1"); provider.ReasonOf(err) != provider.ReasonThrottled {
			t.Errorf("a wait of 4 s with a deadline in 3 s: %v", err)
		}
		if err := p.Delete(t.Context(), "1"); err != nil {
			t.Errorf("a wait of 4 s without a deadline: %v", err)
		}
		if len(m.ops) != 3 {
			t.Errorf("%d calls reached the driver, want 3", len(m.ops))
		}
	})
}

func TestBudgetHonoursCancellation(t *testing.T) {
	bubble(t, decorators.BudgetOptions{RequestsPerSecond: 0.5, Burst: 1}, func(t *testing.T, b *decorators.Budget, p provider.Provider, m *made) {
		if err := p.Delete(t.Context(), "1"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var err error
		var wg sync.WaitGroup
		wg.Go(func() { err = p.Delete(ctx, "2") })
		synctest.Wait()
		cancel()
		wg.Wait()
		if provider.ClassOf(err) != provider.Transient || !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled wait: %v", err)
		}
		if s := b.Throttle(); s.Waiting != 0 {
			t.Errorf("%d calls wait after the only one was cancelled", s.Waiting)
		}
		// The turn of the one that gave up is not lost.
		start := time.Now()
		if err := p.Delete(t.Context(), "3"); err != nil || time.Since(start) > 2100*time.Millisecond {
			t.Errorf("the next call: %v after %v, want success after 2 s", err, time.Since(start))
		}
		if got := len(m.ops); got != 2 {
			t.Errorf("%d calls reached the driver, want 2", got)
		}
	})
}

// A low call that more important ones keep pushing back gives up in the end.
func TestBudgetOvertakenCallGivesUp(t *testing.T) {
	bubble(t, decorators.BudgetOptions{RequestsPerSecond: 1, Burst: 1, MaxWait: 3 * time.Second}, func(t *testing.T, _ *decorators.Budget, p provider.Provider, m *made) {
		if err := p.Delete(t.Context(), "1"); err != nil {
			t.Fatal(err)
		}
		var err error
		var wg sync.WaitGroup
		wg.Go(func() { _, err = p.List(t.Context(), provider.Selector{}) })
		synctest.Wait()
		for range 6 {
			wg.Go(func() { _ = p.Delete(t.Context(), "1") })
			synctest.Wait()
			time.Sleep(700 * time.Millisecond)
		}
		wg.Wait()
		if provider.ReasonOf(err) != provider.ReasonThrottled || provider.RetryAfterOf(err) < time.Second {
			t.Errorf("the overtaken call: %v (RetryAfter %v)", err, provider.RetryAfterOf(err))
		}
		if slices.Contains(m.ops, provider.OpList) {
			t.Error("the overtaken call was made after all")
		}
	})
}

func TestBudgetPausesWhenTheBackendSaysSo(t *testing.T) {
	bubble(t, decorators.BudgetOptions{RequestsPerSecond: 10, Burst: 20, MaxWait: time.Minute}, func(t *testing.T, b *decorators.Budget, p provider.Provider, m *made) {
		m.fail = provider.WithRetryAfter(provider.Wrap(provider.RateLimited, provider.OpGet, name, "1", errors.New("slow down")), 30*time.Second)
		_, err := p.Get(t.Context(), "1")
		if provider.ClassOf(err) != provider.RateLimited || provider.ReasonOf(err) == provider.ReasonThrottled {
			t.Fatalf("the backend's own refusal: %v", err)
		}
		m.fail = nil
		if s := b.Throttle(); !s.Throttled || time.Until(s.Until) != 30*time.Second {
			t.Errorf("state %+v, want throttled for 30 s", s)
		}
		short, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := p.Delete(short, "1"); provider.ReasonOf(err) != provider.ReasonThrottled || provider.RetryAfterOf(err) < 30*time.Second {
			t.Errorf("a call in the pause with a short deadline: %v (RetryAfter %v)", err, provider.RetryAfterOf(err))
		}
		var wg sync.WaitGroup
		for range 12 {
			wg.Go(func() {
				if err := p.Delete(t.Context(), "1"); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if first := m.at[1]; first < 30*time.Second {
			t.Errorf("the first call after the pause came after %v, want 30 s", first)
		}
		// At the rate, not in one burst: 12 calls need 1.2 s.
		if last := m.at[12] - 30*time.Second; last < 1100*time.Millisecond || last > 1400*time.Millisecond {
			t.Errorf("the last of 12 calls came %v after the pause, want about 1.2 s", last)
		}
		if s := b.Throttle(); !s.Until.IsZero() {
			t.Errorf("state %+v after the pause", s)
		}
	})
}

func TestBudgetPauseWithoutATime(t *testing.T) {
	bubble(t, decorators.BudgetOptions{RequestsPerSecond: 10, Burst: 20}, func(t *testing.T, b *decorators.Budget, p provider.Provider, m *made) {
		m.fail = provider.Wrap(provider.RateLimited, provider.OpGet, name, "1", errors.New("slow down"))
		_, _ = p.Get(t.Context(), "1")
		if s, want := b.Throttle(), provider.RuleFor(provider.RateLimited).Delay; time.Until(s.Until) != want {
			t.Errorf("paused for %v, want the table's %v", time.Until(s.Until), want)
		}
	})
}

func TestBudgetCost(t *testing.T) {
	cost := func(op provider.Op) int {
		if op == provider.OpCreate {
			return 4
		}
		return 0 // counts as one
	}
	bubble(t, decorators.BudgetOptions{RequestsPerSecond: 1, Burst: 3, Cost: cost}, func(t *testing.T, _ *decorators.Budget, p provider.Provider, m *made) {
		// More than the burst is the whole burst, not for ever.
		if _, err := p.Create(t.Context(), request("u1")); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Get(t.Context(), "1"); err != nil {
			t.Fatal(err)
		}
		if m.at[0] != 0 || (m.at[1]-time.Second).Abs() > 5*time.Millisecond {
			t.Errorf("calls at %v, want 0 and 1 s", m.at)
		}
	})
}

func TestBudgetsKeepAPauseOverReload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set := decorators.NewBudgets(nil)
		m := &made{start: time.Now(), fail: provider.WithRetryAfter(provider.Wrap(provider.RateLimited, provider.OpGet, name, "1", errors.New("slow down")), time.Minute)}
		_, _ = set.For(name, decorators.BudgetOptions{RequestsPerSecond: 1, Burst: 2}).Wrap(m, name).Get(t.Context(), "1")
		again := set.For(name, decorators.BudgetOptions{RequestsPerSecond: 5, Burst: 1})
		if s := again.Throttle(); !s.Throttled {
			t.Errorf("state after a reload %+v, want the pause to go on", s)
		}
		if s := set.For("south", decorators.BudgetOptions{RequestsPerSecond: 5, Burst: 1}).Throttle(); s.Throttled {
			t.Errorf("another account is throttled, too: %+v", s)
		}
		// Limits that shrink under a waiting call do not strand it.
		b := set.For("east", decorators.BudgetOptions{RequestsPerSecond: 1, Burst: 4, Cost: func(provider.Op) int { return 4 }})
		ok := &made{start: time.Now()}
		p := b.Wrap(ok, "east")
		_ = p.Delete(t.Context(), "1")
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := p.Delete(t.Context(), "2"); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		b.SetLimits(decorators.BudgetOptions{RequestsPerSecond: 1, Burst: 2})
		wg.Wait()
	})
}
