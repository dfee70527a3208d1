package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/tollgate-dev/tollgate/internal/app"
	"github.com/tollgate-dev/tollgate/internal/codec"
	"github.com/tollgate-dev/tollgate/internal/config"
	"github.com/tollgate-dev/tollgate/internal/devserver"
	"github.com/tollgate-dev/tollgate/internal/devserver/devstate"
	"github.com/tollgate-dev/tollgate/internal/devserver/probetarget"
	"github.com/tollgate-dev/tollgate/internal/devserver/simcloud"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/all"
	sinks "github.com/tollgate-dev/tollgate/internal/reporting/sink/all"
	sources "github.com/tollgate-dev/tollgate/internal/source/all"
	"github.com/tollgate-dev/tollgate/internal/telemetry"
	"github.com/tollgate-dev/tollgate/internal/temporalclient"
)

const (
	probeDir = "probe"

	engineStopLimit  = 20 * time.Second
	tracingStopLimit = 3 * time.Second
	// retention is how long the engine keeps the histories of deleted proxies.
	retention = 3 * 24 * time.Hour
)

// dev is one run of tollgate-dev. What it has opened is closed last in, first
// out.
type dev struct {
	opts       options
	out        io.Writer
	state      *devstate.State
	config     string
	log        *slog.Logger
	level      *slog.LevelVar
	engine     *devserver.Server
	hetzner    *simcloud.Hetzner    // nil without --with hetzner-sim
	kubernetes *simcloud.Kubernetes // nil without --with kubernetes-sim
	openstack  *simcloud.OpenStack  // nil without --with openstack-sim
	// reportingToken opens the Reporting API.
	reportingToken string
	// probes is the listener whose address a new configuration names; it is kept
	// open so that nobody else takes the port in between.
	probes net.Listener
	// providers are the configured ones.
	providers []config.Provider
	closers   []func()
}

// run works until ctx ends.
func run(ctx context.Context, o options, out io.Writer) error {
	d := &dev{opts: o, out: out, level: new(slog.LevelVar)}
	defer d.close()
	if err := d.prepare(ctx); err != nil {
		return o.explain(err)
	}
	if err := d.startEngine(ctx); err != nil {
		return o.explain(err)
	}
	return d.work(ctx)
}

// say prints a line for the person who watches.
func (d *dev) say(format string, args ...any) { _, _ = fmt.Fprintf(d.out, format+"\n", args...) }

func (d *dev) onClose(f func()) { d.closers = append(d.closers, f) }

func (d *dev) close() {
	for i := len(d.closers) - 1; i >= 0; i-- {
		d.closers[i]()
	}
}

// prepare does all that can fail by a mistake of the user, before anything
// takes time.
func (d *dev) prepare(ctx context.Context) (err error) {
	if d.state, err = devstate.Open(d.opts.stateDir); err != nil {
		var inUse *devstate.InUseError
		if errors.As(err, &inUse) {
			return fmt.Errorf("--state-dir: %w", err)
		}
		return err
	}
	d.onClose(d.state.Close)
	for _, p := range d.opts.ports() {
		// The engine's ports may still be held by the engine of a run that was
		// killed; devserver waits for it.
		if p.flag != flagTemporal && p.flag != flagUI {
			if err := devserver.CheckPort(p.port, p.use); err != nil {
				return err
			}
		}
	}
	if d.config = d.opts.configFile; d.config == "" {
		if d.config, err = d.state.EnsureConfig(d.newProbeTarget); err != nil {
			return err
		}
	}
	// The app would make the key as well, with a warning that is for fleets of
	// workers.
	if _, err := codec.Create(d.state.Path(app.KeyFileName)); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("codec key file: %w", err)
	}
	options := config.Options{Types: all.Types(), SourceTypes: sources.Types(), SinkTypes: sinks.Types(), Installation: d.state.Installation}
	cfg, err := config.Load(d.config, options)
	if err != nil {
		return err
	}
	if err := d.openLog(cfg); err != nil {
		return err
	}
	if err := d.serveReporting(ctx); err != nil {
		return err
	}
	if err := d.simulate(); err != nil {
		return err
	}
	options.Overlay = d.overlay()
	if cfg, err = config.Load(d.config, options); err != nil {
		return err
	}
	d.providers = cfg.Providers
	if d.state.Fresh {
		d.say("first start: made %s", shown(d.state.Dir))
	} else {
		d.say("continuing %s of %s", cfg.Installation, shown(d.state.Dir))
	}
	return d.serveProbes(cfg)
}

// newProbeTarget opens the probe target of a new configuration and returns its
// address.
func (d *dev) newProbeTarget() (string, error) {
	l, err := net.Listen("tcp", loopback(d.opts.probePort))
	if err != nil {
		if l, err = net.Listen("tcp", loopback(0)); err != nil {
			return "", fmt.Errorf("probe target: %w", err)
		}
	}
	d.probes = l
	d.onClose(func() { _ = l.Close() }) // closed already if it was served
	return l.Addr().String(), nil
}

func loopback(port int) string { return net.JoinHostPort(devserver.Host, strconv.Itoa(port)) }

// openLog sends everything to a file and what somebody has to look at to the
// terminal too.
func (d *dev) openLog(cfg *config.Config) error {
	f, err := d.state.OpenLog()
	if err != nil {
		return err
	}
	d.onClose(func() { _ = f.Close() })
	d.level.Set(cfg.Log.Level)
	file, err := telemetry.NewLogger(f, cfg.Log.Format, d.level)
	if err != nil {
		return err
	}
	terminal, err := telemetry.NewLogger(os.Stderr, telemetry.FormatText, slog.LevelWarn)
	if err != nil {
		return err
	}
	d.log = slog.New(slog.NewMultiHandler(file.Handler(), terminal.Handler()))
	return nil
}

// serveProbes serves the probe target if the configuration's target is verified
// with the CA of this state directory.
func (d *dev) serveProbes(cfg *config.Config) error {
	dir := d.state.Path(probeDir)
	if !sameFile(cfg.Probe.TLS.CAFile, probetarget.CAFile(dir)) {
		return nil
	}
	target, err := probetarget.Start(dir, cfg.Probe.Target, d.probes)
	if err != nil {
		return fmt.Errorf("probe.target in %s: %w; name another port there", d.config, err)
	}
	d.onClose(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		target.Close(ctx)
	})
	return nil
}

// sameFile compares paths, since the file may not exist yet.
func sameFile(a, b string) bool {
	if a == "" {
		return false
	}
	a, errA := filepath.Abs(a)
	b, errB := filepath.Abs(b)
	return errA == nil && errB == nil && a == b
}

func (d *dev) startEngine(ctx context.Context) error {
	d.say("starting Temporal on %s", loopback(d.opts.temporalPort))
	began := time.Now()
	engine, err := devserver.Start(ctx, devserver.Options{
		Dir:           d.state.Dir,
		Port:          d.opts.temporalPort,
		UIPort:        d.opts.uiPort,
		Retention:     retention,
		CodecEndpoint: d.codecURL(),
		Logger:        d.log,
		Progress:      d.out,
	})
	if err != nil {
		return err
	}
	d.engine = engine
	d.onClose(func() {
		ctx, cancel := context.WithTimeout(context.Background(), engineStopLimit)
		defer cancel()
		if err := engine.Stop(ctx); err != nil {
			d.log.Warn("engine stop failed", "error", err)
		}
	})
	d.say("Temporal is up after %v", time.Since(began).Round(10*time.Millisecond))
	return nil
}

// work runs the app until ctx ends or something fails that cannot be restarted.
func (d *dev) work(ctx context.Context) error {
	token, err := d.state.Token()
	if err != nil {
		return err
	}
	tracing, err := telemetry.NewTracing(ctx, telemetry.TracingOptions{Service: "tollgate-dev", Logger: d.log})
	if err != nil {
		return err
	}
	d.onClose(func() {
		ctx, cancel := context.WithTimeout(context.Background(), tracingStopLimit)
		defer cancel()
		if err := tracing.Shutdown(ctx); err != nil {
			d.log.Warn("export of the last spans failed", "error", err)
		}
	})
	a, err := app.New(ctx, app.Options{
		ConfigFile:   d.config,
		Overlay:      d.overlay(),
		Installation: d.state.Installation,
		StateDir:     d.state.Dir,
		HTTPAddr:     loopback(d.opts.httpPort),
		MetricsAddr:  loopback(d.opts.metricsPort),
		// Only the engine of this process will do, whatever the environment says.
		Temporal:   temporalclient.Options{Isolated: true, Address: d.engine.HostPort(), Namespace: devserver.Namespace},
		CodecToken: provider.NewSensitive([]byte(token)),
		UIURL:      d.engine.UIURL(),
		Logger:     d.log,
		Level:      d.level,
		Tracing:    tracing,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-d.engine.Done():
			cancel(fmt.Errorf("the engine is gone: %w", d.engine.Err()))
		case <-ctx.Done():
		}
	}()
	if err := d.writeAddresses(); err != nil {
		return err
	}
	go func() {
		select {
		case <-a.Ready():
			d.announce(token)
		case <-ctx.Done():
		}
	}()
	go func() {
		<-ctx.Done()
		d.say("\nstopping; proxies keep running (Ctrl-C again: at once)")
	}()
	err = a.Run(ctx)
	if cause := context.Cause(ctx); err == nil && cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	return err
}
