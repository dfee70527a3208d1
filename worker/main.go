// Command tollgate-worker runs Tollgate against a Temporal server: workflows,
// activities, the discovery API and metrics. Any number of workers may share a
// namespace.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tollgate-dev/tollgate/internal/app"
	"github.com/tollgate-dev/tollgate/internal/config"
	"github.com/tollgate-dev/tollgate/internal/telemetry"
	"github.com/tollgate-dev/tollgate/internal/temporalclient"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	// exitUsage is for flags and configuration: trying again will not help.
	exitUsage = 2
)

// version is set by the linker.
var version string

const usage = `tollgate-worker runs Tollgate's workflows, activities, discovery API and metrics
against a Temporal server.

Usage:
  tollgate-worker --config FILE [flags]

Examples:
  tollgate-worker --config /etc/tollgate/tollgate.yaml
  TEMPORAL_ADDRESS=temporal.example.com:7233 TEMPORAL_NAMESPACE=tollgate tollgate-worker --config tollgate.yaml
  tollgate-worker --config tollgate.yaml --check

The connection comes from the TEMPORAL_* variables and temporal.toml
(TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_API_KEY, TEMPORAL_TLS_*,
TEMPORAL_PROFILE, TEMPORAL_CONFIG_FILE). Traces are exported as the OTEL_*
variables say.

Signals: TERM and INT drain and end (a second one ends at once); HUP reloads the
configuration, which a change of the file does as well.

Flags:
`

type flags struct {
	config, state, http, metrics string
	wait                         time.Duration
	check, version               bool
}

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	f, code := parse(args, stdout, stderr)
	if f == nil {
		return code
	}
	if f.version {
		b := telemetry.ReadBuildInfo(version)
		fmt.Fprintf(stdout, "tollgate-worker %s %s %s\n", b.Version, b.Revision, b.GoVersion)
		return exitOK
	}
	cfg, err := app.Check(context.Background(), app.Options{ConfigFile: f.config, StateDir: f.state})
	if err != nil {
		return fail(stderr, exitUsage, err)
	}
	if f.check {
		fmt.Fprintf(stdout, "%s: installation %s, %d providers\n", f.config, cfg.Installation, len(cfg.Providers))
		return exitOK
	}
	ctx, stop := signals(stderr)
	defer stop()
	if err := work(ctx, f, cfg, stderr); err != nil {
		return fail(stderr, exitFailure, err)
	}
	return exitOK
}

func parse(args []string, stdout, stderr io.Writer) (*flags, int) {
	var f flags
	fs := flag.NewFlagSet("tollgate-worker", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&f.config, "config", os.Getenv("TOLLGATE_CONFIG"), "configuration `file` (default $TOLLGATE_CONFIG)")
	fs.StringVar(&f.state, "state-dir", ".tollgate", "`directory` of what has to survive restarts: the codec's key file if the configuration names none, and providers on this machine")
	fs.StringVar(&f.http, "http-addr", "127.0.0.1:7280", "`host:port` of discovery API, health and codec endpoint; empty for none")
	fs.StringVar(&f.metrics, "metrics-addr", "127.0.0.1:7290", "`host:port` of the Prometheus metrics; empty for none")
	fs.DurationVar(&f.wait, "temporal-wait", 30*time.Second, "how long to wait at the start for a Temporal server that does not answer")
	fs.BoolVar(&f.check, "check", false, "check the configuration file and exit")
	fs.BoolVar(&f.version, "version", false, "print the version and exit")
	help := func(w io.Writer) {
		fmt.Fprint(w, usage)
		fs.SetOutput(w)
		fs.PrintDefaults()
	}
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		help(stdout)
		return nil, exitOK
	case err != nil:
		return nil, fail(stderr, exitUsage, fmt.Errorf("%w (see tollgate-worker --help)", err))
	case fs.NArg() > 0:
		return nil, fail(stderr, exitUsage, fmt.Errorf("unexpected argument %q: all settings are flags (see tollgate-worker --help)", fs.Arg(0)))
	case f.config == "" && !f.version:
		return nil, fail(stderr, exitUsage, errors.New("--config is required: the configuration file (see docs/reference/config.md)"))
	}
	return &f, exitOK
}

func work(ctx context.Context, f *flags, cfg *config.Config, stderr io.Writer) error {
	level := new(slog.LevelVar)
	level.Set(cfg.Log.Level)
	log, err := telemetry.NewLogger(stderr, cfg.Log.Format, level)
	if err != nil {
		return err
	}
	build := telemetry.ReadBuildInfo(version)
	log.Info("starting", "version", build.Version, "revision", build.Revision, "config", f.config)
	metrics, err := telemetry.NewMetrics(build, log)
	if err != nil {
		return err
	}
	tracing, err := telemetry.NewTracing(ctx, telemetry.TracingOptions{Service: "tollgate-worker", Version: build.Version, Logger: log})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		if err := tracing.Shutdown(ctx); err != nil {
			log.Warn("the last traces were not exported", "error", err)
		}
	}()
	a, err := app.New(ctx, app.Options{
		ConfigFile: f.config, StateDir: f.state, HTTPAddr: f.http, MetricsAddr: f.metrics,
		Temporal: temporalclient.Options{Wait: f.wait},
		Logger:   log, Level: level, Metrics: metrics, Tracing: tracing, Reload: hangups(ctx),
	})
	if err != nil {
		if ctx.Err() != nil {
			return nil // interrupted while starting
		}
		return hint(err)
	}
	return a.Run(ctx)
}

// hint adds the flag that helps.
func hint(err error) error {
	var l *app.ListenError
	if errors.As(err, &l) {
		return fmt.Errorf("%w; choose another address with --%s-addr", err, l.Server)
	}
	return err
}

// signals returns a context that ends with the first TERM or INT. The second
// one ends the process.
func signals(stderr io.Writer) (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	c := make(chan os.Signal, 2)
	signal.Notify(c, syscall.SIGTERM, os.Interrupt)
	go func() {
		<-c
		cancel()
		<-c
		fmt.Fprintln(stderr, "tollgate-worker: second signal, ending at once")
		os.Exit(exitFailure)
	}()
	return ctx, func() { signal.Stop(c); cancel() }
}

// hangups turns HUP into requests for a reload.
func hangups(ctx context.Context) <-chan struct{} {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	out := make(chan struct{})
	go func() {
		defer signal.Stop(c)
		for {
			select {
			case <-ctx.Done():
				return
			case <-c:
			}
			select {
			case out <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// fail prints an error, one line per problem, and returns the exit code.
func fail(stderr io.Writer, code int, err error) int {
	fmt.Fprintf(stderr, "tollgate-worker: %v\n", err)
	return code
}
