package app

import (
	"context"
	"path/filepath"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/worker"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/config"
	"github.com/tollgate-dev/tollgate/internal/discovery"
	"github.com/tollgate-dev/tollgate/internal/probe"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/budget"
	"github.com/tollgate-dev/tollgate/internal/provider/decorators"
	"github.com/tollgate-dev/tollgate/internal/registration"
	"github.com/tollgate-dev/tollgate/internal/telemetry"
	"github.com/tollgate-dev/tollgate/workflows/api"
	"github.com/tollgate-dev/tollgate/workflows/register"
)

// decorate puts the decorators around a driver that commit has just built.
func (a *App) decorate(def provider.Definition, _ provider.Type, p provider.Provider) provider.Provider {
	var tracer trace.TracerProvider
	if a.opts.Tracing != nil {
		tracer = a.opts.Tracing.TracerProvider()
	}
	c, _ := a.committing.cfg.Provider(def.Config.Name)
	return decorators.Chain(p, decorators.Options{
		Name: c.Name, Installation: def.Config.Installation, Tracer: tracer,
		Budget: a.budgets.For(c.Name, limits(c)), Metrics: a.calls, Requests: a.requests.Throttler(c.Name),
	})
}

func requestLimits(p config.Provider) budget.Limits {
	return budget.Limits{PerHour: p.Requests.PerHour, Reserve: p.Requests.Reserve, Account: p.Requests.Account}
}

func limits(p config.Provider) decorators.BudgetOptions {
	return decorators.BudgetOptions{RequestsPerSecond: p.Budget.RequestsPerSecond, Burst: p.Budget.Burst}
}

// compose makes what lasts as long as the process: activities, workers and the
// discovery API. They ask for the configuration when they need it.
func (a *App) compose(installation string) {
	secret := func(ctx context.Context, name string) (provider.Sensitive, error) {
		return a.Config().Secret(ctx, name)
	}
	shards := func(name string) int { p, _ := a.Config().Provider(name); return p.Shards }

	prices := &activities.Prices{List: func(name string) provider.PriceList { p, _ := a.Config().Provider(name); return p.Prices }}
	spend := activities.NewSpend(a.conn.Client, func(name string) provider.MicroEUR { p, _ := a.Config().Provider(name); return p.SpendCap }, prices, a.watched)
	proxies := &activities.Proxies{
		Installation: installation, Lookup: a.lookup, Secret: secret, ProbeProxy: a.probeProxy, Spend: spend, Prices: prices,
	}
	fleet := &activities.Fleet{
		Temporal: a.conn.Client, Shards: shards, ProbeProxy: a.probeProxy, ProbeControl: a.probeControl, Secret: secret,
		Concurrency: func() int { return a.Config().Probe.Concurrency }, Metrics: a.watched,
	}
	sweeps := &activities.Sweeps{Metrics: a.watched}
	drift := &activities.Drift{Installation: installation, Lookup: a.lookup, Temporal: a.conn.Client, Prices: prices, Metrics: a.watched}
	gc := &activities.GC{Installation: installation, Lookup: a.lookup, Temporal: a.conn.Client, Shards: shards, Spend: spend, Metrics: a.watched}
	reaper := &activities.Reaper{Installation: installation, Lookup: a.lookup, Temporal: a.conn.Client, Metrics: a.watched}
	health := &activities.Health{
		Lookup: a.lookup, Type: func(name string) string { p, _ := a.Config().Provider(name); return p.Type },
		Interval: func() time.Duration { return a.Config().Health.Interval }, Metrics: a.watched,
	}
	resolver := &registration.Resolver{Identify: (&registration.Identities{}).Identify}
	shoots := &activities.Shoots{Settings: a.shootSettings, Resolver: resolver}
	a.relations = &activities.ShootRelations{Temporal: a.conn.Client, Settings: a.shootSettings, Resolver: resolver}
	a.shoots = &activities.ShootFollower{Temporal: a.conn.Client, Account: func(name string) (string, bool) {
		s, ok := a.current.Load().tolls.registrations[name]
		return s.Account, ok
	}}
	cursors := &activities.Cursors{Stream: a.stream, Sink: a.sinkNamed, Followers: a.followers, Metrics: a.cursors}
	inventory, inventories := a.newInventory(installation, shards), &activities.Inventories{Metrics: a.inventories}
	a.pool = &pool{
		client: a.conn.Client, log: a.log,
		main: func(w worker.Worker) {
			register.All(w)
			for _, x := range []any{proxies, fleet, sweeps, inventories} {
				w.RegisterActivity(x)
			}
		},
		provider: func(w worker.Worker) {
			for _, x := range []any{proxies, drift, gc, health, reaper} {
				w.RegisterActivity(x)
			}
		},
		source: func(w worker.Worker) {
			for _, x := range []any{cursors, shoots, inventory} {
				w.RegisterActivity(x)
			}
		},
		byName: map[string]*providerWorker{}, bySource: map[string]worker.Worker{},
	}
	a.announce = &announcer{app: a, kick: make(chan struct{}, 1), log: telemetry.Component(a.log, "announcer")}
	a.discovery = discovery.New(discovery.Options{
		Source:  discovery.Workflows(a.conn.Client),
		Fleets:  func() []discovery.Fleet { return a.current.Load().fleets },
		Token:   a.discoveryToken,
		Logger:  telemetry.Component(a.log, "discovery"),
		Metrics: a.telemetry.Registry(),
	})
}

// lookup is how activities find a provider.
func (a *App) lookup(name string) (provider.Provider, provider.Profile, bool, error) {
	e, ok := a.registry.Lookup(name)
	return e.Provider, e.Profile, ok, e.Err
}

func (a *App) probeProxy(ctx context.Context, addr string, auth *provider.BasicAuth) activities.ProbeResult {
	return probeResult(a.current.Load().prober.Probe(ctx, probe.Target{Addr: addr, Auth: auth}))
}

func (a *App) probeControl(ctx context.Context) activities.ProbeResult {
	return probeResult(a.current.Load().prober.Control(ctx))
}

func probeResult(r probe.Result) activities.ProbeResult {
	return activities.ProbeResult{OK: r.OK, Class: string(r.Class), Message: r.Message, Latency: api.Duration(r.Latency)}
}

func (a *App) discoveryToken(ctx context.Context) (provider.Sensitive, bool, error) {
	cfg := a.Config()
	if cfg.Discovery.Token == "" {
		return provider.Sensitive{}, false, nil
	}
	t, err := cfg.Token(ctx, cfg.Discovery.Token)
	return t, true, err
}

func (a *App) providerDir(name string) string {
	return filepath.Join(a.opts.StateDir, ProvidersDir, name)
}
