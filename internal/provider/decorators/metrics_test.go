package decorators_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/decorators"
	"github.com/tollgate-dev/tollgate/internal/provider/memory"
)

// calls reads tollgate_provider_calls_total as "op/class" to count.
func calls(t *testing.T, reg prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "tollgate_provider_calls_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			l := map[string]string{}
			for _, p := range m.GetLabel() {
				l[p.GetName()] = p.GetValue()
			}
			if l["provider"] != name {
				t.Errorf("the label provider is %q, want %q", l["provider"], name)
			}
			out[l["op"]+"/"+l["class"]] = m.GetCounter().GetValue()
		}
	}
	return out
}

func TestMetricsCountByClass(t *testing.T) {
	t.Parallel()
	p, b := driver(t)
	reg := prometheus.NewRegistry()
	m := decorators.NewMetrics(reg)
	chain := decorators.Chain(p, decorators.Options{Name: name, Installation: installation, Metrics: m})
	ctx := t.Context()
	id, err := chain.Create(ctx, request("u1"))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := chain.Get(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := chain.Get(ctx, "memory/99/x"); provider.ClassOf(err) != provider.NotFound {
		t.Fatalf("get of an absent instance: %v", err)
	}
	heal := b.Inject(memory.Fault{Err: &memory.APIError{Status: 500, Code: "internal"}})
	if _, err := chain.List(ctx, provider.Selector{}); err == nil {
		t.Fatal("list during an outage succeeded")
	}
	heal()
	// Refused before the driver: no call.
	if _, err := chain.Create(ctx, provider.CreateRequest{}); provider.ClassOf(err) != provider.Permanent {
		t.Fatalf("an empty request: %v", err)
	}
	want := map[string]float64{"create/OK": 1, "get/OK": 3, "get/NotFound": 1, "list/Transient": 1}
	if diff := cmp.Diff(calls(t, reg), want); diff != "" {
		t.Errorf("calls (-got +want):\n%s", diff)
	}
	if n := testutil.CollectAndCount(reg, "tollgate_provider_call_duration_seconds"); n != 3 {
		t.Errorf("%d duration series, want one for each of create, get and list", n)
	}
	b.SetRaw(request("u1").Name, "levitating")
	if _, err := chain.Get(ctx, id); err != nil {
		t.Fatal(err)
	}
	wantUnknown := `# HELP tollgate_provider_unknown_state 1 for each word for an instance's state that the backend used and the driver does not know.
# TYPE tollgate_provider_unknown_state gauge
tollgate_provider_unknown_state{provider="north",state="levitating"} 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(wantUnknown), "tollgate_provider_unknown_state"); err != nil {
		t.Error(err)
	}
	m.Forget(name)
	if n := testutil.CollectAndCount(reg); n != 0 {
		t.Errorf("%d series of a forgotten provider", n)
	}
}

func TestMetricsLint(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	m := decorators.NewMetrics(reg)
	p, b := driver(t)
	budget := decorators.NewBudget(name, decorators.BudgetOptions{RequestsPerSecond: 1, Burst: 1, MaxWait: time.Nanosecond}, m)
	chain := decorators.Chain(p, decorators.Options{Name: name, Installation: installation, Metrics: m, Budget: budget})
	b.Inject(memory.Fault{Err: &memory.APIError{Status: 429, Code: "rate_limit"}, Times: 1})
	for range 2 {
		if _, err := chain.List(t.Context(), provider.Selector{}); provider.ClassOf(err) != provider.RateLimited {
			t.Fatalf("list: %v, want RateLimited", err)
		}
	}
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("metrics lint: %v, %v", problems, err)
	}
	for _, want := range []string{
		"tollgate_provider_budget_refusals_total", "tollgate_provider_budget_wait_seconds",
		"tollgate_provider_paused_until_timestamp_seconds", "tollgate_provider_calls_in_flight",
	} {
		if testutil.CollectAndCount(reg, want) != 1 {
			t.Errorf("no series %s", want)
		}
	}
}
