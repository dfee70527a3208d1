package decorators_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/decorators"
	"github.com/tollgate-dev/tollgate/internal/provider/memory"
	"github.com/tollgate-dev/tollgate/internal/provider/memory/memorytest"
	"github.com/tollgate-dev/tollgate/internal/provider/providertest"
)

const (
	name         = "north"
	installation = "acme"
)

// driver builds the in-memory driver over a backend of its own.
func driver(t *testing.T) (*memory.Provider, *memory.Backend) {
	t.Helper()
	b := memory.NewBackend(memory.Options{})
	p, err := memory.New(t.Context(), b, provider.Config{Name: name, Installation: installation})
	if err != nil {
		t.Fatal(err)
	}
	return p, b
}

func request(uid string) provider.CreateRequest {
	return provider.CreateRequest{
		Name:      provider.InstanceName(uid, 0),
		Marks:     provider.Marks{UID: uid, Installation: installation, Namespace: "default", Proxy: uid, SpecHash: "s1"},
		Placement: provider.Placement{Region: "north"},
		Port:      3128,
	}
}

func fullChain(p provider.Provider) provider.Provider {
	return decorators.Chain(p, decorators.Options{
		Name: name, Installation: installation, Tracer: trace.NewTracerProvider(),
		Budget:  decorators.NewBudget(name, decorators.BudgetOptions{RequestsPerSecond: 1e6, Burst: 1e6}, nil),
		Metrics: decorators.NewMetrics(prometheus.NewRegistry()),
	})
}

// The wrapped driver still keeps the whole contract. The budget is left out: it
// answers "too many requests" itself, which the kit would take for the driver.
func TestChainKeepsTheContract(t *testing.T) {
	t.Setenv(providertest.RequireEnv, "all")
	h := memorytest.Harness()
	open := h.Open
	m := decorators.NewMetrics(prometheus.NewRegistry())
	h.Open = func(tb testing.TB, b providertest.Backend, o providertest.OpenOptions) provider.Provider {
		return decorators.Chain(open(tb, b, o), decorators.Options{
			Name: o.Name, Installation: o.Installation, Tracer: trace.NewTracerProvider(), Metrics: m,
		})
	}
	providertest.Run(t, h)
}

// only hides the optional interfaces of a driver.
type only struct{ provider.Provider }

type onlyPricer struct {
	provider.Provider
	provider.Pricer
}

type onlyCompanions struct {
	provider.Provider
	provider.Companions
}

func TestOptionalInterfaces(t *testing.T) {
	t.Parallel()
	p, _ := driver(t)
	for what, tt := range map[string]struct {
		driver                      provider.Provider
		checker, pricer, companions bool
	}{
		"all":             {p, true, true, true},
		"none":            {only{p}, false, false, false},
		"pricer only":     {onlyPricer{p, p}, false, true, false},
		"companions only": {onlyCompanions{p, p}, false, false, true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			chain := fullChain(tt.driver)
			_, checker := provider.As[provider.Checker](chain)
			_, pricer := provider.As[provider.Pricer](chain)
			_, companions := provider.As[provider.Companions](chain)
			want := [3]bool{tt.checker, tt.pricer, tt.companions}
			if got := [3]bool{checker, pricer, companions}; got != want {
				t.Errorf("through the chain: Checker, Pricer, Companions %v, want %v", got, want)
			}
			if _, ok := provider.As[provider.Throttler](chain); !ok {
				t.Error("the budget's state is not reachable")
			}
		})
	}
}

// Every layer can be unwrapped down to the driver, in the documented order.
func TestChainUnwraps(t *testing.T) {
	t.Parallel()
	p, _ := driver(t)
	layers := 0
	var at provider.Provider = fullChain(p)
	for at != provider.Provider(p) {
		u, ok := at.(provider.Unwrapper)
		if !ok {
			t.Fatalf("layer %d, a %T, does not unwrap", layers, at)
		}
		at = u.Unwrap()
		if layers++; layers > 10 {
			t.Fatal("no driver under ten layers")
		}
	}
	if bare := decorators.Chain(p, decorators.Options{Name: name, Installation: installation}); bare == nil {
		t.Error("a chain without options is nil")
	}
}

// Optional methods are decorated: their calls are counted.
func TestOptionalMethodsGoThroughTheChain(t *testing.T) {
	t.Parallel()
	p, _ := driver(t)
	reg := prometheus.NewRegistry()
	chain := decorators.Chain(p, decorators.Options{Name: name, Installation: installation, Metrics: decorators.NewMetrics(reg)})
	ctx := t.Context()
	if _, err := chain.Create(ctx, request("u1")); err != nil {
		t.Fatal(err)
	}
	comp, _ := provider.As[provider.Companions](chain)
	all, err := comp.ListCompanions(ctx, provider.Selector{})
	if err != nil || len(all) != 1 {
		t.Fatalf("companions %v, %v; want one", all, err)
	}
	if err := comp.DeleteCompanion(ctx, all[0]); err != nil {
		t.Fatal(err)
	}
	pricer, _ := provider.As[provider.Pricer](chain)
	if price, known, err := pricer.PriceEURPerHour(ctx, provider.Placement{Region: "south"}); price != 6000 || !known || err != nil {
		t.Errorf("price %v, known %v, %v; want 0.006000", price, known, err)
	}
	want := map[string]float64{"create/OK": 1, "list_companions/OK": 1, "delete_companion/OK": 1, "price/OK": 1}
	if diff := cmp.Diff(calls(t, reg), want); diff != "" {
		t.Errorf("calls counted (-got +want):\n%s", diff)
	}
}

// slow is a driver that hangs until its context ends and says when that was.
type slow struct {
	provider.Provider
	took time.Duration
}

func (s *slow) hang(ctx context.Context, op provider.Op) error {
	start := time.Now()
	<-ctx.Done()
	s.took = time.Since(start)
	return provider.Wrap(provider.Permanent, op, name, "", ctx.Err())
}

func (s *slow) Create(ctx context.Context, _ provider.CreateRequest) (provider.InstanceID, error) {
	return "", s.hang(ctx, provider.OpCreate)
}

func (s *slow) Get(ctx context.Context, _ provider.InstanceID) (provider.Instance, error) {
	return provider.Instance{}, s.hang(ctx, provider.OpGet)
}

func (s *slow) Find(ctx context.Context, _ string, _ provider.Marks) (provider.Instance, error) {
	return provider.Instance{}, s.hang(ctx, provider.OpFind)
}

func (s *slow) Delete(ctx context.Context, _ provider.InstanceID) error {
	return s.hang(ctx, provider.OpDelete)
}

func (s *slow) List(ctx context.Context, _ provider.Selector) ([]provider.Instance, error) {
	return nil, s.hang(ctx, provider.OpList)
}

func (s *slow) PriceEURPerHour(ctx context.Context, _ provider.Placement) (provider.MicroEUR, bool, error) {
	return 0, false, s.hang(ctx, provider.OpPrice)
}

func (s *slow) ListCompanions(ctx context.Context, _ provider.Selector) ([]provider.Companion, error) {
	return nil, s.hang(ctx, provider.OpListCompanions)
}

func (s *slow) DeleteCompanion(ctx context.Context, _ provider.Companion) error {
	return s.hang(ctx, provider.OpDeleteCompanion)
}
