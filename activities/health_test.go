package activities_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/metrics"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/memory"
)

// checked is a provider with a check of its own.
type checked struct {
	provider.Provider
	check func(context.Context) []provider.TargetStatus
}

func (c checked) Check(ctx context.Context) []provider.TargetStatus { return c.check(ctx) }

// unchecked is a provider without one.
type unchecked struct{ provider.Provider }

func health(p provider.Provider) *activities.Health {
	return &activities.Health{
		Lookup: func(name string) (provider.Provider, provider.Profile, bool, error) {
			return p, provider.Profile{}, name == "mem", nil
		},
		Type: func(string) string { return "memory" },
	}
}

func TestCheckProvider(t *testing.T) {
	t.Parallel()
	backend, lookup := cloud(t, memory.Options{})
	reg := prometheus.NewPedanticRegistry()
	a := &activities.Health{Lookup: lookup, Type: func(string) string { return "memory" }, Metrics: metrics.New(reg)}
	in := activities.CheckProviderInput{Provider: "mem"}
	out, err := call[activities.CheckProviderResult](t, activityEnv(a), a.CheckProvider, in)
	if err != nil || !out.Supported || out.Type != "memory" || len(out.Targets) != 2 || !out.Targets[0].Ready || out.At.IsZero() {
		t.Errorf("CheckProvider = %+v, %v; want two ready targets", out, err)
	}
	backend.Inject(memory.Fault{Err: &memory.APIError{Status: 500, Code: "broken"}})
	out, err = call[activities.CheckProviderResult](t, activityEnv(a), a.CheckProvider, in)
	if err != nil || len(out.Targets) != 2 || out.Targets[0].Ready {
		t.Errorf("CheckProvider = %+v, %v; want no target ready", out, err)
	}
	if n, err := testutil.GatherAndCount(reg, "tollgate_provider_target_up"); err != nil || n != 2 {
		t.Errorf("%d gauges, %v; want one for each target", n, err)
	}
}

func TestCheckProviderWithoutACheck(t *testing.T) {
	t.Parallel()
	a := health(unchecked{})
	out, err := call[activities.CheckProviderResult](t, activityEnv(a), a.CheckProvider, activities.CheckProviderInput{Provider: "mem"})
	if err != nil || out.Supported || out.Type != "memory" {
		t.Errorf("CheckProvider = %+v, %v; want it not supported", out, err)
	}
	_, err = call[activities.CheckProviderResult](t, activityEnv(a), a.CheckProvider, activities.CheckProviderInput{Provider: "x"})
	if err == nil || !strings.Contains(err.Error(), `no provider "x" is configured`) {
		t.Errorf("error %v", err)
	}
}

func TestCheckProviderBoundsWhatItReturns(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 2000)
	details := map[string]string{}
	for i := range 100 {
		details[fmt.Sprintf("key-%02d", i)] = long
	}
	a := health(checked{check: func(ctx context.Context) []provider.TargetStatus {
		if d, ok := ctx.Deadline(); !ok || time.Until(d) > time.Minute {
			t.Error("the check has no deadline")
		}
		out := make([]provider.TargetStatus, 500)
		for i := range out {
			out[i] = provider.TargetStatus{Target: fmt.Sprint("t", i), Message: long, Details: details}
		}
		return out
	}})
	out, err := call[activities.CheckProviderResult](t, activityEnv(a), a.CheckProvider, activities.CheckProviderInput{Provider: "mem"})
	if err != nil || len(out.Targets) != 100 {
		t.Fatalf("%d targets, error %v", len(out.Targets), err)
	}
	got := out.Targets[0]
	if len(got.Message) > 510 || len(got.Details) != 16 || got.Details["key-15"] == "" || strings.ContainsRune(got.Message, '�') {
		t.Errorf("%d bytes of message, %d details", len(got.Message), len(got.Details))
	}
	if len(details) != 100 {
		t.Error("the provider's own map was changed")
	}
}
