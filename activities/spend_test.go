package activities_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.temporal.io/sdk/temporal"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/metrics"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/memory"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// counted counts the calls that reach the cloud.
type counted struct {
	provider.Provider
	creates, prices int
	fail            error
	unpriced        bool
}

func (c *counted) Create(ctx context.Context, req provider.CreateRequest) (provider.InstanceID, error) {
	c.creates++
	if c.fail != nil {
		return "", c.fail
	}
	return c.Provider.Create(ctx, req)
}

func (c *counted) PriceEURPerHour(context.Context, provider.Placement) (provider.MicroEUR, bool, error) {
	c.prices++
	return 6000, !c.unpriced, nil
}

// Placements implements provider.Placer.
func (c *counted) Placements(p provider.Placement) []provider.Placement {
	if p.MachineType == "" {
		p.MachineType = "standard"
	}
	return []provider.Placement{p}
}

// till is a cloud behind a cap.
type till struct {
	*counted
	proxies *activities.Proxies
	asked   []api.SpendRequest
	told    []api.SpendRelease
	answer  api.SpendAnswer
	fail    error
	reg     *prometheus.Registry
	most    provider.MicroEUR
	list    provider.PriceList
}

func newTill(t *testing.T) *till {
	t.Helper()
	_, lookup := cloud(t, memory.Options{})
	p, profile, _, _ := lookup("mem")
	x := &till{counted: &counted{Provider: p}, reg: prometheus.NewRegistry(), most: 10_000}
	prices := &activities.Prices{List: func(string) provider.PriceList { return x.list }}
	x.proxies = &activities.Proxies{
		Installation: installation, Prices: prices,
		Lookup: func(name string) (provider.Provider, provider.Profile, bool, error) {
			return x.counted, profile, name == "mem", nil
		},
		Spend: &activities.Spend{
			Cap: func(string) provider.MicroEUR { return x.most }, Prices: prices, Metrics: metrics.New(x.reg),
			Ask: func(_ context.Context, name string, req api.SpendRequest) (api.SpendAnswer, error) {
				x.asked = append(x.asked, req)
				return x.answer, x.fail
			},
			Tell: func(_ context.Context, name string, r api.SpendRelease) error {
				x.told = append(x.told, r)
				return nil
			},
		},
	}
	return x
}

func (x *till) create(t *testing.T) error {
	t.Helper()
	_, err := call[activities.CreateInstanceResult](t, activityEnv(x.proxies), x.proxies.CreateInstance, activities.CreateInstanceInput{
		Ref:  activities.InstanceRef{Provider: "mem", Name: "proxy-a", UID: "uid-a", Namespace: "default", Proxy: "a"},
		Spec: api.ProxySpec{Provider: "mem", Placement: provider.Placement{Region: "north"}}, SpecHash: "h",
	})
	return err
}

func TestCreateAsksForRoomFirst(t *testing.T) {
	t.Parallel()
	x := newTill(t)
	x.answer = api.SpendAnswer{Cap: 10_000, Total: 6000, Instances: 1, Creates: 1, Unpriced: 2}
	for range 3 {
		err := x.create(t)
		var ae *temporal.ApplicationError
		var d activities.FailureDetails
		if !errors.As(err, &ae) || ae.Type() != string(provider.QuotaExceeded) || !ae.NonRetryable() || ae.Details(&d) != nil || d.Reason != provider.ReasonSpendCap {
			t.Fatalf("refused with %v, %+v", err, d)
		}
		for _, want := range []string{"spendCap: 0.010000 EUR/h", "the fleet costs 0.006000 (1 listed, 1 being made, the price of 2 not known)", "would add 0.006000"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v lacks %q", err, want)
			}
		}
	}
	if x.creates != 0 || x.prices != 1 {
		t.Errorf("three refusals made %d creates and read prices %d times", x.creates, x.prices)
	}
	if n := testutil.ToFloat64(mustCounter(t, x.reg, "tollgate_fleet_spend_refusals_total")); n != 3 {
		t.Errorf("%v refusals counted", n)
	}
	want := api.SpendRequest{UID: "uid-a", Namespace: "default", Proxy: "a", Instance: "proxy-a", Price: 6000, Known: true, Cap: 10_000}
	if diff := cmp.Diff(x.asked[0], want); diff != "" {
		t.Errorf("asked (-got +want):\n%s", diff)
	}
	x.answer = api.SpendAnswer{Granted: true}
	if err := x.create(t); err != nil || x.creates != 1 || len(x.told) != 0 {
		t.Errorf("let through: %v, %d creates, told %v", err, x.creates, x.told)
	}
}

// mustCounter finds the one series of a counter.
func mustCounter(t *testing.T, reg *prometheus.Registry, name string) prometheus.Collector {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name && len(f.GetMetric()) == 1 {
			c := prometheus.NewCounter(prometheus.CounterOpts{Name: "copy"})
			c.Add(f.GetMetric()[0].GetCounter().GetValue())
			return c
		}
	}
	t.Fatalf("no series of %s", name)
	return nil
}

func TestCreateWithoutCapAsksNobody(t *testing.T) {
	t.Parallel()
	x := newTill(t)
	x.most = 0
	if err := x.create(t); err != nil || len(x.asked) != 0 || x.creates != 1 {
		t.Errorf("%v, asked %v, %d creates", err, x.asked, x.creates)
	}
}

func TestCreateWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	x := newTill(t)
	x.fail = errors.New("temporal is away")
	if err := x.create(t); err == nil || !strings.Contains(err.Error(), "temporal is away") || x.creates != 0 {
		t.Errorf("%v, %d creates", err, x.creates)
	}
	x.fail, x.answer = nil, api.SpendAnswer{Unready: true}
	err := x.create(t)
	var ae *temporal.ApplicationError
	if !errors.As(err, &ae) || ae.NonRetryable() || ae.Type() != string(provider.Transient) || ae.NextRetryDelay() <= 0 || x.creates != 0 {
		t.Errorf("%v, %d creates", err, x.creates)
	}
}

func TestUnknownPriceIsRefused(t *testing.T) {
	t.Parallel()
	x := newTill(t)
	x.unpriced = true
	x.answer = api.SpendAnswer{Cap: 10_000}
	if err := x.create(t); err == nil || !strings.Contains(err.Error(), "the price of this placement is not known") || x.creates != 0 {
		t.Errorf("%v, %d creates", err, x.creates)
	}
	if x.asked[0].Known {
		t.Error("asked with a known price")
	}
}

// What the configuration says of prices goes before what the provider says, and
// helps one that says nothing; where it says nothing, the provider is asked.
func TestConfiguredPrices(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		list  provider.PriceList
		want  provider.MicroEUR
		asked int
	}{
		"for everything":    {provider.PriceList{{EURPerHour: 4000}}, 4000, 0},
		"for this region":   {provider.PriceList{{Region: "south", EURPerHour: 1}, {Region: "north", EURPerHour: 5000}}, 5000, 0},
		"for another one":   {provider.PriceList{{Region: "south", EURPerHour: 1}}, 6000, 1},
		"for nothing":       {nil, 6000, 1},
		"for a default":     {provider.PriceList{{MachineType: "standard", EURPerHour: 3000}}, 3000, 0},
		"free is known too": {provider.PriceList{{Region: "north"}}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newTill(t)
			x.list, x.answer = tc.list, api.SpendAnswer{Granted: true}
			if err := x.create(t); err != nil {
				t.Fatal(err)
			}
			if got := x.asked[0]; got.Price != tc.want || !got.Known || x.prices != tc.asked {
				t.Errorf("asked for room for %+v, and the provider %d times; want %v, %d times", got, x.prices, tc.want, tc.asked)
			}
		})
	}
}

func TestPlacesAreGivenBack(t *testing.T) {
	t.Parallel()
	for class, want := range map[provider.Class][]api.SpendRelease{
		provider.CapacityUnavailable: {{Instance: "proxy-a", Failed: true}},
		provider.QuotaExceeded:       {{Instance: "proxy-a", Failed: true}},
		provider.Conflict:            {{Instance: "proxy-a", Failed: true}},
		provider.Permanent:           {{Instance: "proxy-a", Failed: true}},
		provider.Transient:           nil, // it may have been made
		provider.RateLimited:         nil, // an earlier try may have
	} {
		x := newTill(t)
		x.answer = api.SpendAnswer{Granted: true}
		x.counted.fail = provider.Wrap(class, provider.OpCreate, "mem", "proxy-a", errors.New("no"))
		if err := x.create(t); err == nil {
			t.Fatal("created")
		}
		if diff := cmp.Diff(x.told, want); diff != "" {
			t.Errorf("%s: told (-got +want):\n%s", class, diff)
		}
	}
	x := newTill(t)
	x.answer = api.SpendAnswer{Granted: true}
	if err := x.create(t); err != nil {
		t.Fatal(err)
	}
	if _, err := call[activities.DeleteInstanceResult](t, activityEnv(x.proxies), x.proxies.DeleteInstance, activities.DeleteInstanceInput{
		Ref: activities.InstanceRef{Provider: "mem", Name: "proxy-a", UID: "uid-a", Namespace: "default", Proxy: "a"},
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(x.told, []api.SpendRelease{{Instance: "proxy-a"}}); diff != "" {
		t.Errorf("after a delete (-got +want):\n%s", diff)
	}
}

func TestListingsArePriced(t *testing.T) {
	t.Parallel()
	b, lookup := cloud(t, memory.Options{PageSize: 3})
	p, profile, _, _ := lookup("mem")
	c := &counted{Provider: p}
	f := newTemporal()
	f.fleet(0).table.Held = []string{"proxy-b", "proxy-z"}
	for _, name := range []string{"proxy-a", "proxy-b", "proxy-c"} {
		b.Place(memory.NewServer{Name: name, Labels: marks("uid-"+name, name).Labels(), Region: "north"})
	}
	reg := prometheus.NewRegistry()
	drift := &activities.Drift{Installation: installation, Temporal: f, Prices: &activities.Prices{}, Metrics: metrics.New(reg),
		Lookup: func(name string) (provider.Provider, provider.Profile, bool, error) { return c, profile, true, nil }}
	compare := func() *api.SpendListing {
		out, err := call[activities.CompareFleetResult](t, activityEnv(drift), drift.CompareFleet, activities.CompareFleetInput{Provider: "mem", Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		return out.Spend
	}
	if diff := cmp.Diff(compare(), &api.SpendListing{Total: 18_000, Instances: 3, Held: []string{"proxy-b"}}); diff != "" {
		t.Errorf("costs (-got +want):\n%s", diff)
	}
	if c.prices != 1 {
		t.Errorf("the price of one placement was asked for %d times", c.prices)
	}
	want := "# HELP tollgate_fleet_cost_eur_per_hour What this installation's instances in the latest complete listing cost per hour, in euros, net.\n" +
		"# TYPE tollgate_fleet_cost_eur_per_hour gauge\ntollgate_fleet_cost_eur_per_hour{provider=\"mem\"} 0.018\n"
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "tollgate_fleet_cost_eur_per_hour"); err != nil {
		t.Error(err)
	}
	c.unpriced, drift.Prices = true, &activities.Prices{}
	if diff := cmp.Diff(compare(), &api.SpendListing{Instances: 3, Unpriced: 3, Held: []string{"proxy-b"}}); diff != "" {
		t.Errorf("costs without prices (-got +want):\n%s", diff)
	}
}

// paged is a cloud whose listings take some requests of a budget.
type paged struct {
	provider.Provider
	requests, perHour int
}

func (p paged) List(ctx context.Context, sel provider.Selector) ([]provider.Instance, error) {
	ctx = provider.ContextWithOp(ctx, provider.OpList)
	for range p.requests {
		provider.BeginOp(ctx)
	}
	return p.Provider.List(ctx, sel)
}

func (p paged) Throttle() provider.ThrottleState { return provider.ThrottleState{PerHour: p.perHour} }

// Listings of a large fleet are as far apart as a tenth of the account's
// requests allows.
func TestListingsKeepToTheirShare(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		requests, perHour int
		want              time.Duration
	}{{20, 3600, 200 * time.Second}, {1, 3600, 10 * time.Second}, {20, 0, 0}, {0, 3600, 0}} {
		_, lookup := cloud(t, memory.Options{})
		p, profile, _, _ := lookup("mem")
		drift := &activities.Drift{Installation: installation, Temporal: newTemporal(),
			Lookup: func(string) (provider.Provider, provider.Profile, bool, error) {
				return paged{p, tt.requests, tt.perHour}, profile, true, nil
			}}
		out, err := call[activities.CompareFleetResult](t, activityEnv(drift), drift.CompareFleet, activities.CompareFleetInput{Provider: "mem", Shards: 1})
		if err != nil || out.AtLeast.Std() != tt.want {
			t.Errorf("%d requests of %d per hour: %v, %v; want %v", tt.requests, tt.perHour, out.AtLeast, err, tt.want)
		}
	}
}
