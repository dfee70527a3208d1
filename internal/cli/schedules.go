package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tollgate-dev/tollgate/internal/config"
	"github.com/tollgate-dev/tollgate/internal/provider/all"
	sinks "github.com/tollgate-dev/tollgate/internal/reporting/sink/all"
	"github.com/tollgate-dev/tollgate/internal/schedules"
	sources "github.com/tollgate-dev/tollgate/internal/source/all"
	"github.com/tollgate-dev/tollgate/workflows"
)

// envConfig names the workers' configuration file.
const envConfig = "TOLLGATE_CONFIG"

const maxConfig = 1 << 20

func (a *app) schedulesCmd() *cobra.Command {
	c := group("schedules", "Show and apply the schedules",
		"Each provider has a schedule gc/PROVIDER that starts its sweeps, and one for each of its\n"+
			"reapers, reap/PROVIDER/SELECTOR; each source has one for its inventories,\n"+
			"inventory/SOURCE. Workers apply the schedules when they start. Pause one with:\n"+
			"temporal schedule toggle --pause.",
		a.schedulesApplyCmd(), a.schedulesListCmd())
	c.Aliases = []string{"schedule"}
	return c
}

func (a *app) schedulesApplyCmd() *cobra.Command {
	var file string
	var prune, dryRun bool
	c := &cobra.Command{
		Use: "apply --config FILE", Short: "Make the schedules what the configuration says",
		Long: "Creates and updates the schedules of the providers and sources in the workers'\n" +
			"configuration. Whether one is paused is not changed. Schedules of others, and of reapers\n" +
			"that are not in it, are shown, and deleted with --prune.",
		Example: "  tollgate schedules apply --config /etc/tollgate/tollgate.yaml",
		Annotations: temporalLines("temporal schedule create --schedule-id gc/local --workflow-id gc/local --type " + workflows.TypeOrphanGC +
			" --task-queue " + workflows.TaskQueue + " \\\n    --interval 10m --overlap-policy Skip --catchup-window 1m --input '{\"provider\":\"local\"}'"),
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				file = a.env.Getenv(envConfig)
			}
			if file == "" {
				return usage("%s: --config is required: the workers' configuration file, or %s", cmd.CommandPath(), envConfig)
			}
			b, err := a.readFile("config", file, maxConfig)
			if err != nil {
				return err
			}
			// The installation plays no part in schedules.
			cfg, err := config.Parse(b, file, config.Options{
				Types: all.Types(), SourceTypes: sources.Types(), SinkTypes: sinks.Types(), Installation: "unnamed"})
			if err != nil {
				return usageErr(err)
			}
			return a.connected(cmd, callTimeout, func(ctx context.Context, s *session) error {
				results, err := schedules.Apply(ctx, s.conn.Client.ScheduleClient(), schedules.Wanted(cfg),
					schedules.Options{Converter: s.conn.Converter, Prune: prune, DryRun: dryRun})
				if results == nil {
					results = []schedules.Result{}
				}
				return errors.Join(a.print(results, func(w io.Writer, _ bool) error {
					would := ""
					if dryRun {
						would = "would be "
					}
					for _, r := range results {
						verdict := string(r.Action)
						if r.Action != schedules.Unchanged && r.Action != schedules.Foreign {
							verdict = would + verdict
						}
						if r.Paused {
							verdict += " (paused)"
						}
						fmt.Fprintf(w, "schedule %s: %s\n", r.ID, verdict)
					}
					return nil
				}), s.translate(ctx, "schedules", err))
			})
		},
	}
	c.Flags().StringVar(&file, "config", "", "the workers' configuration `file` (default "+envConfig+")")
	c.Flags().BoolVar(&prune, "prune", false, "delete the schedules that are not in the configuration")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print what would change, and change nothing")
	return c
}

// scheduleView is one schedule for a list.
type scheduleView struct {
	ID       string   `json:"id"`
	Provider string   `json:"provider,omitempty"`
	Source   string   `json:"source,omitempty"`
	Paused   bool     `json:"paused,omitempty"`
	Note     string   `json:"note,omitempty"`
	Every    string   `json:"every,omitempty"`
	Next     string   `json:"next,omitempty"`
	Last     string   `json:"last,omitempty"`
	Recent   []string `json:"recent,omitempty"`
}

func (a *app) schedulesListCmd() *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the schedules",
		Example:     "  tollgate schedules list",
		Annotations: temporalLines("temporal schedule list", "temporal schedule describe --schedule-id gc/local"),
		Args:        exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.connected(cmd, callTimeout, func(ctx context.Context, s *session) error {
				entries, err := s.schedules(ctx)
				if err != nil {
					return err
				}
				views := []scheduleView{}
				for _, e := range entries {
					v := scheduleView{ID: e.ID, Provider: scheduleProvider(e.ID), Source: scheduleSource(e.ID), Paused: e.Paused, Note: e.Note}
					if e.Spec != nil && len(e.Spec.Intervals) > 0 {
						v.Every = e.Spec.Intervals[0].Every.String()
					}
					if len(e.NextActionTimes) > 0 && !e.Paused {
						v.Next = formatTime(e.NextActionTimes[0])
					}
					for _, r := range e.RecentActions {
						v.Last = formatTime(r.ActualTime)
						if r.StartWorkflowResult != nil {
							v.Recent = append(v.Recent, r.StartWorkflowResult.WorkflowID)
						}
					}
					views = append(views, v)
				}
				return a.print(views, func(w io.Writer, wide bool) error {
					t := table{wide: wide}
					t.head("ID", "PROVIDER", "EVERY", "STATE", "LAST", "NEXT", "+LAST RUN", "+NOTE")
					for _, v := range views {
						state, last := "active", ""
						if v.Paused {
							state = "paused"
						}
						if n := len(v.Recent); n > 0 {
							last = v.Recent[n-1]
						}
						t.row(v.ID, v.Provider, v.Every, state, v.Last, v.Next, last, v.Note)
					}
					return t.write(w)
				})
			})
		},
	}
}
