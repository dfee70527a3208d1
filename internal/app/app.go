package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/codec"
	"github.com/tollgate-dev/tollgate/internal/config"
	"github.com/tollgate-dev/tollgate/internal/discovery"
	"github.com/tollgate-dev/tollgate/internal/inventory"
	"github.com/tollgate-dev/tollgate/internal/metrics"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/budget"
	"github.com/tollgate-dev/tollgate/internal/provider/decorators"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/telemetry"
	"github.com/tollgate-dev/tollgate/internal/temporalclient"
)

// App is a running Tollgate: workers and servers. Make one with New and run it
// once.
type App struct {
	opts  Options
	log   *slog.Logger
	level *slog.LevelVar

	telemetry *telemetry.Metrics
	config    *config.Metrics
	calls     *decorators.Metrics
	budgets   *decorators.Budgets
	requests  *budget.Accounts
	usable    *prometheus.GaugeVec
	watched   *metrics.Metrics

	conn      *temporalclient.Connection
	keys      *codec.KeyFile
	hashKey   []byte
	registry  *provider.Registry
	sources   *source.Registry
	cursors   *metrics.Cursors
	shoots    *activities.ShootFollower
	relations *activities.ShootRelations
	gardens   struct {
		sync.Mutex
		byName map[string]readGarden
	}
	// inventory has the latest listing of each stream, for the exporter too.
	inventory *inventory.Store
	compared  *metrics.Inventory
	// inventories counts whole ones.
	inventories *metrics.InventoryRuns
	registered  *metrics.Registrations
	pool        *pool
	announce    *announcer

	http, prom net.Listener
	discovery  *discovery.Server

	current atomic.Pointer[version]
	// committing is the version that commit builds providers of.
	committing *version
	// prepared counts versions, so that a secret is looked up in the newest one.
	prepared atomic.Int64

	ready     chan struct{}
	readyOnce sync.Once
	draining  atomic.Bool
	closeOnce sync.Once
}

// New reads the configuration, binds the addresses and connects to Temporal. An
// error says what to change; nothing is left open then.
func New(ctx context.Context, o Options) (_ *App, err error) {
	o, err = o.withDefaults()
	if err != nil {
		return nil, err
	}
	cfg, err := o.load()
	if err != nil {
		return nil, err
	}
	a := &App{opts: o, ready: make(chan struct{}), level: o.Level}
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	if err := a.instruments(cfg); err != nil {
		return nil, err
	}
	if err := a.openKeys(cfg); err != nil {
		return nil, err
	}
	if a.http, err = listen("http", o.HTTPAddr); err != nil {
		return nil, err
	}
	if a.prom, err = listen("metrics", o.MetricsAddr); err != nil {
		return nil, err
	}
	a.registry = provider.NewRegistry(o.Types, a.decorate)
	a.sources, a.inventory = source.NewRegistry(o.SourceTypes), inventory.NewStore()
	a.export(a.telemetry.Registry())
	v, err := a.prepare(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := a.connect(ctx); err != nil {
		return nil, err
	}
	a.compose(cfg.Installation)
	if err := a.commit(ctx, v); err != nil {
		return nil, err
	}
	a.warn(cfg)
	return a, nil
}

// instruments sets up log and metrics.
func (a *App) instruments(cfg *config.Config) (err error) {
	if a.level == nil {
		a.level = new(slog.LevelVar)
	}
	a.level.Set(cfg.Log.Level)
	if a.log = a.opts.Logger; a.log == nil {
		if a.log, err = telemetry.NewLogger(os.Stderr, cfg.Log.Format, a.level); err != nil {
			return err
		}
	}
	if a.telemetry = a.opts.Metrics; a.telemetry == nil {
		if a.telemetry, err = telemetry.NewMetrics(telemetry.ReadBuildInfo(""), a.log); err != nil {
			return err
		}
	}
	reg := a.telemetry.Registry()
	a.config, a.calls = config.NewMetrics(reg), decorators.NewMetrics(reg)
	a.budgets, a.requests = decorators.NewBudgets(a.calls), budget.New(budget.NewMetrics(reg))
	a.usable, a.watched, a.cursors, a.compared = newUsable(reg), metrics.New(reg), metrics.NewCursors(reg), metrics.NewInventory(reg)
	a.inventories, a.registered = metrics.NewInventoryRuns(reg), metrics.NewRegistrations(reg)
	return nil
}

func newUsable(reg prometheus.Registerer) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "tollgate_provider_usable",
		Help: "1 for each configured provider that could be built, 0 for one that could not; the log says why.",
	}, []string{"provider", "type"})
	reg.MustRegister(g)
	return g
}

// openKeys opens the keyring that payloads are encrypted with. One that the
// configuration names must exist: a fresh one would shut this worker out of what
// the others have written.
func (a *App) openKeys(cfg *config.Config) (err error) {
	path := cfg.Codec.KeyFile
	if path != "" {
		if a.keys, err = codec.Open(path, a.log); err != nil {
			return fmt.Errorf("codec.keyFile: %w", err)
		}
	} else {
		path = filepath.Join(a.opts.StateDir, KeyFileName)
		_, statErr := os.Stat(path)
		if a.keys, err = codec.OpenOrCreate(path, a.log); err != nil {
			return fmt.Errorf("codec key file: %w", err)
		}
		if errors.Is(statErr, os.ErrNotExist) {
			a.log.Warn("new codec key file: every worker and command line of this installation needs a copy of it", "file", path)
		}
	}
	if a.hashKey, err = os.ReadFile(path); err != nil {
		return fmt.Errorf("codec key file: %w", err)
	}
	return nil
}

func (a *App) connect(ctx context.Context) (err error) {
	if a.conn = a.opts.Connection; a.conn == nil {
		t := a.opts.Temporal
		t.Codec, t.Logger, t.Metrics = codec.New(a.keys), a.log, a.telemetry.Temporal()
		if a.opts.Tracing != nil {
			t.TracerProvider = a.opts.Tracing.TracerProvider()
		}
		if t.Identity == "" {
			t.Identity = identity()
		}
		if a.conn, err = temporalclient.Dial(ctx, t); err != nil {
			return err
		}
	}
	return temporalclient.EnsureSearchAttributes(ctx, a.conn)
}

// Run works until ctx ends, then drains: no new requests, no new tasks,
// activities may finish within WorkerStopTimeout. It returns nil after a drain,
// and an error when something that cannot be retried has failed.
func (a *App) Run(ctx context.Context) error {
	defer a.close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var background sync.WaitGroup
	servers := a.serve(func(err error) { cancel(err) })
	if err := a.pool.start(func(err error) { cancel(fmt.Errorf("worker: %w", err)) }); err != nil {
		cancel(err)
	}
	background.Go(func() { a.announce.run(ctx) })
	background.Go(func() { a.countShoots(ctx) })
	if a.opts.ConfigFile != "" {
		w := &config.Watcher{
			Current: func() *config.Config { return a.current.Load().cfg },
			Load:    a.opts.load, Apply: a.reload, Poll: a.opts.ReloadPoll, Now: a.opts.Reload,
			Logger: a.log, Metrics: a.config,
		}
		background.Go(func() { w.Run(ctx) })
	}
	a.log.Info("tollgate is running", "installation", a.current.Load().cfg.Installation,
		"temporal", a.conn.Address, "namespace", a.conn.Namespace,
		"http", addrOf(a.http), "metrics", addrOf(a.prom), "providers", a.registry.Names())
	<-ctx.Done()
	return a.drain(context.Cause(ctx), servers, &background)
}

func (a *App) drain(cause error, servers *servers, background *sync.WaitGroup) error {
	began := time.Now()
	a.draining.Store(true)
	a.log.Info("draining")
	background.Wait()
	a.discovery.Close()
	servers.stopHTTP()
	a.pool.stop()
	servers.stopMetrics()
	if errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded) {
		cause = nil
	}
	a.log.Info("drained", "took", time.Since(began))
	return cause
}

// close releases what New has opened. Each part may be missing.
func (a *App) close() {
	a.closeOnce.Do(func() {
		for _, l := range []net.Listener{a.http, a.prom} {
			if l != nil {
				_ = l.Close() // closed already by its server
			}
		}
		if a.conn != nil && a.opts.Connection == nil {
			a.conn.Close()
		}
		if a.telemetry != nil && a.opts.Metrics == nil {
			ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
			defer cancel()
			_ = a.telemetry.Shutdown(ctx) // nothing is pushed, so nothing is lost
		}
	})
}

// Close releases an App that is not run.
func (a *App) Close() { a.close() }

// warn says what a person should know about the way this process is set up.
func (a *App) warn(cfg *config.Config) {
	if a.http == nil || cfg.Discovery.Token != "" {
		return
	}
	if tcp, ok := a.http.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		a.log.Warn("the discovery API is open to everybody who reaches this address: set discovery.token", "http", tcp.String())
	}
}

func (a *App) markReady() { a.readyOnce.Do(func() { close(a.ready) }) }

// Ready is closed once the workers run and the schedules and fleets know the
// configuration.
func (a *App) Ready() <-chan struct{} { return a.ready }

// HTTPAddr is the address of the HTTP server, "" without one.
func (a *App) HTTPAddr() string { return addrOf(a.http) }

// MetricsAddr is the address of the metrics server, "" without one.
func (a *App) MetricsAddr() string { return addrOf(a.prom) }

// Connection is the connection to Temporal. It is closed with the App.
func (a *App) Connection() *temporalclient.Connection { return a.conn }

// Config is the configuration at work.
func (a *App) Config() *config.Config { return a.current.Load().cfg }

func addrOf(l net.Listener) string {
	if l == nil {
		return ""
	}
	return l.Addr().String()
}
