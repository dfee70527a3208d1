// Command tollgate-dev runs all of Tollgate on one machine, in the foreground:
// the embedded Temporal engine with its Web UI as a supervised child process;
// workers, discovery API, Reporting API, codec and sweeps in this one. Everything listens on
// loopback and everything is kept in one directory. Started again it continues
// where it was: the proxies of provider local outlive it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

const (
	exitFailure = 1
	exitForced  = 130
)

func main() {
	// A hang-up is a closed terminal: nobody watches any more.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	o := defaultOptions()
	cmd := newCommand(&o, func(ctx context.Context) error {
		go forceOnSecondSignal(ctx, stop)
		return run(ctx, o, os.Stdout)
	})
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.AddCommand(newDayCommand(os.Stdout))
	if err := cmd.ExecuteContext(ctx); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "tollgate-dev:", err)
		os.Exit(exitFailure)
	}
}

// forceOnSecondSignal ends the process at the second signal. The engine ends
// with it by itself, and its database survives that.
func forceOnSecondSignal(first context.Context, stop func()) {
	<-first.Done()
	again := make(chan os.Signal, 1)
	signal.Notify(again, os.Interrupt, syscall.SIGTERM)
	stop()
	<-again
	fmt.Fprintln(os.Stderr, "tollgate-dev: stopped at once; the next start recovers")
	os.Exit(exitForced)
}

func newCommand(o *options, run func(context.Context) error) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tollgate-dev",
		Short: "Run all of Tollgate on this machine",
		Long: "Runs the embedded Temporal engine with its Web UI, the worker, the discovery API, the\n" +
			"Reporting API and the sweeps in the foreground, on loopback. Everything is kept in the state directory;\n" +
			"started again it continues where it was, proxies included.",
		Example: "  tollgate-dev\n" +
			"  tollgate-dev --temporal-port 17233 --ui-port 18233   # beside another Temporal\n" +
			"  tollgate-dev --config tollgate.yaml                  # own configuration\n" +
			"  tollgate-dev --with hetzner-sim                      # and a cloud to try, without an account",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.stateDir, "state-dir", o.stateDir, "`directory` of database, keys, configuration, logs and proxies")
	f.IntVar(&o.temporalPort, flagTemporal, o.temporalPort, "`port` of Temporal")
	f.IntVar(&o.uiPort, flagUI, o.uiPort, "`port` of Temporal's Web UI")
	f.IntVar(&o.httpPort, flagHTTP, o.httpPort, "`port` of discovery, health, codec and webhooks")
	f.IntVar(&o.metricsPort, flagMetrics, o.metricsPort, "`port` of the Prometheus metrics")
	f.IntVar(&o.reportingPort, flagReporting, o.reportingPort, "`port` of the Reporting API and its pages")
	f.IntVar(&o.probePort, flagProbe, o.probePort, "`port` of the probe target in a new configuration; another one if it is taken")
	f.StringVar(&o.configFile, "config", o.configFile, "configuration `file` (default: tollgate.yaml in the state directory, made at the first start)")
	f.StringArrayVar(&o.with, "with", nil, "also run a `simulator` and a provider for it, beside those of the configuration: "+strings.Join(simulators, ", "))
	return cmd
}
