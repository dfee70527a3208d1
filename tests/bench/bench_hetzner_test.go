//go:build bench

package bench

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/config"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/budget"
	"github.com/tollgate-dev/tollgate/internal/provider/decorators"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
)

// hetznerRequests is the most HTTP requests that a running proxy may cost per
// hour in a fleet of a thousand.
const hetznerRequests = 0.6

// emptyTemporal is a Temporal without workflows.
type emptyTemporal struct{ activities.Temporal }

func (emptyTemporal) QueryWorkflow(context.Context, string, string, string, ...any) (converter.EncodedValue, error) {
	return nil, serviceerror.NewNotFound("no such workflow")
}

// BenchmarkHetznerIdleFleet counts the HTTP requests that 1,000 running proxies
// cause at the vendor's API per hour: what one listing, one sweep and one health
// check take, the real driver's requests to the simulator, times how often each
// is made with the default configuration.
func BenchmarkHetznerIdleFleet(b *testing.B) {
	const fleet = 1000
	const project, installation = "the-project", "acme"
	cfg, err := config.Parse([]byte("installation: acme\nproviders: [{name: cloud, type: hetzner}]\nprobe: {target: 'x:1'}\n"), "bench.yaml",
		config.Options{Types: []provider.Type{hetzner.Type()}})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		sim := hetznersim.New(hetznersim.Options{OneProject: project})
		for n := range fleet {
			name := fmt.Sprintf("proxy-%04d", n)
			m := provider.Marks{UID: "uid-" + name, Installation: installation, Namespace: "default", Proxy: name, SpecHash: "h"}
			sim.PlaceServer(project, name, m.Labels())
		}
		accounts := budget.New(nil)
		driver, err := hetzner.New(provider.Config{Name: "cloud", Installation: installation,
			Secret: func(context.Context, string) (provider.Sensitive, error) {
				return provider.NewSensitive([]byte("token")), nil
			},
			Transport: func(_ http.RoundTripper, account string) http.RoundTripper {
				return accounts.Transport("cloud")(sim.Transport(), account)
			},
			Decode: func(into any) error {
				*into.(*hetzner.Options) = hetzner.Options{Token: "t", Endpoint: "http://sim" + hetznersim.BasePath, Image: "debian-13",
					Candidates: []hetzner.Candidate{{Location: "nbg1", ServerType: "cx23"}},
					Firewall:   hetzner.Firewall{AllowFrom: []string{"192.0.2.0/24"}}}
				return nil
			}})
		if err != nil {
			b.Fatal(err)
		}
		p := decorators.Chain(driver, decorators.Options{Name: "cloud", Installation: installation, Requests: accounts.Throttler("cloud")})
		lookup := func(string) (provider.Provider, provider.Profile, bool, error) {
			return p, hetzner.Type().Profile, true, nil
		}
		requests := func(what string, do func()) int {
			before := sim.Count("")
			do()
			n := sim.Count("") - before
			b.Logf("%s: %d requests", what, n)
			return n
		}
		var suite testsuite.WorkflowTestSuite
		suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
		prices := &activities.Prices{}
		drift := &activities.Drift{Installation: installation, Lookup: lookup, Temporal: emptyTemporal{}, Prices: prices}
		var found activities.CompareFleetResult
		compare := func() {
			env := suite.NewTestActivityEnvironment()
			env.RegisterActivity(drift)
			v, err := env.ExecuteActivity(drift.CompareFleet, activities.CompareFleetInput{Provider: "cloud", Shards: 1})
			if err == nil {
				err = v.Get(&found)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		requests("first listing", compare) // reads the prices, too, which later ones do not
		listing := requests("listing", compare)
		if found.Instances != fleet || found.Spend == nil || found.Spend.Unpriced != 0 {
			b.Fatalf("listed %d, costs %+v", found.Instances, found.Spend)
		}
		sweep := requests("sweep", func() {
			sel := provider.Selector{Installation: installation}
			if all, err := p.List(b.Context(), sel); err != nil || len(all) != fleet {
				b.Fatalf("%d, %v", len(all), err)
			}
			beside, _ := provider.As[provider.Companions](p)
			if _, err := beside.ListCompanions(b.Context(), sel); err != nil {
				b.Fatal(err)
			}
		})
		checker, _ := provider.As[provider.Checker](p)
		check := func() {
			for _, t := range checker.Check(b.Context()) {
				if !t.Ready {
					b.Fatalf("target %+v", t)
				}
			}
		}
		requests("first check", check)
		health := requests("check", check)

		every := max(cfg.Providers[0].DriftInterval, found.AtLeast.Std())
		perHour := func(n int, interval time.Duration) float64 {
			return float64(n) * float64(time.Hour) / float64(interval)
		}
		listings, sweeps, checks := perHour(listing, every), perHour(sweep, cfg.GC.Interval), perHour(health, cfg.Health.Interval)
		const priceList = 1 // per worker and hour
		each := (listings + sweeps + checks + priceList) / fleet
		summary.add(b, "requests/proxy-hour", "Hetzner: requests per running proxy and hour, fleet of 1,000", each, "", atMost(hetznerRequests))
		b.ReportMetric(listings, "listing-requests/h")
		b.ReportMetric(sweeps, "sweep-requests/h")
		b.ReportMetric(checks, "check-requests/h")
		b.ReportMetric(every.Seconds(), "s/listing")
		if each > hetznerRequests {
			b.Errorf("%.3f requests per proxy and hour in a fleet of %d, want at most %.1f", each, fleet, hetznerRequests)
		}
		_ = sim.Close(context.WithoutCancel(b.Context()))
	}
}
