package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	temporalclient "go.temporal.io/sdk/client"
	tlog "go.temporal.io/sdk/log"

	"github.com/tollgate-dev/tollgate/internal/devserver"
	"github.com/tollgate-dev/tollgate/internal/devserver/demoday"
	"github.com/tollgate-dev/tollgate/internal/devserver/devstate"
	"github.com/tollgate-dev/tollgate/internal/devserver/simcloud"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting"
	"github.com/tollgate-dev/tollgate/workflows"
)

func newDayCommand(out io.Writer) *cobra.Command {
	stateDir := defaultOptions().stateDir
	cmd := &cobra.Command{
		Use:   "demo-day",
		Short: "Let a day happen in the simulated cloud and show its usage",
		Long: "Drives a project of the simulated Hetzner Cloud through the 14th of March 2026, with a clock of\n" +
			"its own, waits until the events of each step have arrived at the Reporting API, compares them with\n" +
			"those that there should be, and prints the usage of the day. It needs a running\n" +
			"tollgate-dev --with " + simcloud.HetznerName + ". docs/tutorials/first-toll.md works the figures out by hand.",
		Example:       "  tollgate-dev demo-day",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return runDay(cmd.Context(), stateDir, out) },
	}
	cmd.Flags().StringVar(&stateDir, "state-dir", stateDir, "`directory` of the running tollgate-dev")
	return cmd
}

// runDay runs the scripted day at the tollgate-dev that works in a directory.
func runDay(ctx context.Context, stateDir string, out io.Writer) error {
	a, err := readAddresses(stateDir)
	if err != nil {
		return err
	}
	if a.Day.Endpoint == "" {
		return fmt.Errorf("tollgate-dev runs in %s without a simulated cloud: start it with --with %s", stateDir, simcloud.HetznerName)
	}
	cloudToken, err := readToken(a.Day.TokenFile)
	if err != nil {
		return err
	}
	client, err := reporting.New(reporting.Options{URL: a.Reporting, Token: func(context.Context) (provider.Sensitive, error) {
		t, err := readToken(filepath.Join(stateDir, devstate.ReportingTokenName))
		return provider.NewSensitive([]byte(t)), err
	}})
	if err != nil {
		return err
	}
	temporal, err := temporalclient.DialContext(ctx, temporalclient.Options{HostPort: a.Temporal, Namespace: devserver.Namespace,
		Logger: tlog.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	if err != nil {
		return fmt.Errorf("the engine of tollgate-dev: %w", err)
	}
	defer temporal.Close()
	r, err := demoday.Run(ctx, demoday.Options{
		Endpoint: a.Day.Endpoint, Admin: a.Day.Admin, Token: cloudToken, Reporting: client, Out: out,
		Inventory: func(ctx context.Context) error {
			return temporal.ScheduleClient().GetHandle(ctx, workflows.InventorySchedule(simcloud.DaySource)).Trigger(ctx, temporalclient.ScheduleTriggerOptions{})
		},
	})
	if ctx.Err() != nil {
		return errors.New("the day was broken off; start tollgate-dev with another --state-dir for a new one")
	}
	if err != nil {
		return err
	}
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) } // a closed terminal is no matter
	if r.Again {
		say("the day has been already; it does not happen twice")
	} else {
		say("\n%d events have arrived, as they should", len(r.Events))
	}
	say("\nUsage of %s:\n", demoday.From.Format("2 January 2006"))
	if err := demoday.WriteUsage(out, r.Usage); err != nil {
		return err
	}
	say("\nLook at it: %s/projects/%s?month=%s", a.Reporting, r.Project.ID, demoday.From.Format("2006-01"))
	return nil
}

func readAddresses(stateDir string) (a addresses, err error) {
	b, err := os.ReadFile(filepath.Join(stateDir, addressesName))
	if errors.Is(err, fs.ErrNotExist) {
		return a, fmt.Errorf("no tollgate-dev runs in %s: start it with tollgate-dev --with %s, or name its --state-dir", stateDir, simcloud.HetznerName)
	}
	if err == nil {
		err = json.Unmarshal(b, &a)
	}
	if err != nil {
		return a, fmt.Errorf("addresses of tollgate-dev: %w", err)
	}
	return a, nil
}

func readToken(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}
