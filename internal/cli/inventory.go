package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/tollgate-dev/tollgate/internal/inventory/reports"
	"github.com/tollgate-dev/tollgate/internal/schedules"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

func (a *app) inventoryCmd() *cobra.Command {
	c := group("inventory", "Compare what exists with what was reported",
		"An inventory lists what exists at a source, what was reported of it and what this\n"+
			"installation owns, and delivers the events that are missing. Schedules do this; here it\n"+
			"is done now, and its reports are shown.",
		a.inventoryListCmd(), a.inventoryGetCmd(), a.inventoryRunCmd())
	c.Aliases = []string{"inventories"}
	return c
}

// sources finds the names of all sources that have cursors or inventories.
func (s *session) sources(ctx context.Context) ([]string, error) {
	cursors, err := s.cursorNames(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, c := range cursors {
		name, _, _ := strings.Cut(c, "/")
		names = append(names, name)
	}
	entries, err := s.schedules(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if name := scheduleSource(e.ID); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// inventoriesOf reads the latest inventory of each source.
func (s *session) inventoriesOf(ctx context.Context, names []string) ([]reports.Report, error) {
	found := make([]*reports.Report, len(names))
	err := eachIndex(ctx, len(names), func(ctx context.Context, i int) error {
		ctx, cancel := context.WithTimeout(ctx, s.timeout)
		defer cancel()
		r, ok, err := reports.Latest(ctx, s.conn.Client, names[i])
		if err != nil {
			return s.translate(ctx, "inventory of "+names[i], err)
		}
		if ok {
			found[i] = &r
		}
		return nil
	})
	out := []reports.Report{}
	for _, r := range found {
		if r != nil {
			out = append(out, *r)
		}
	}
	return out, err
}

func (a *app) inventoryListCmd() *cobra.Command {
	return &cobra.Command{
		Use: "list [SOURCE...]", Aliases: []string{"ls"}, Short: "List the latest inventory of each source",
		Example:     "  tollgate inventory list",
		Annotations: temporalLines("temporal workflow list --query \"WorkflowType = '" + workflows.TypeInventory + "'\""),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.connected(cmd, callTimeout, func(ctx context.Context, s *session) error {
				names := args
				if len(names) == 0 {
					var err error
					if names, err = s.sources(ctx); err != nil {
						return err
					}
				}
				found, err := s.inventoriesOf(ctx, names)
				if len(found) == 0 && err != nil {
					return err
				}
				return errors.Join(a.print(found, func(w io.Writer, wide bool) error { return a.writeInventories(w, found, wide) }), err)
			})
		},
	}
}

func (a *app) writeInventories(w io.Writer, found []reports.Report, wide bool) error {
	t := table{wide: wide}
	t.head("SOURCE", "OUTCOME", "STARTED", "LISTED", "REPORTED", "DIFFERENCES", "REPAIRED", "OPEN", "MESSAGE", "+SINK", "+WORKFLOW")
	for _, r := range found {
		st := r.Status
		listed, reported, repaired := 0, 0, 0
		for _, s := range st.Streams {
			listed, reported = listed+s.Listed, reported+s.Reported
			for _, n := range s.Repaired {
				repaired += n
			}
		}
		outcome := string(st.Outcome)
		if outcome == "" {
			outcome = r.Step
		}
		t.row(r.Metadata.Name, outcome, a.ago(st.StartedAt), strconv.Itoa(listed), strconv.Itoa(reported), strconv.Itoa(st.Count), strconv.Itoa(repaired),
			strconv.Itoa(st.Count-repaired), st.Message, r.Spec.Sink, r.WorkflowID)
	}
	return t.write(w)
}

func (a *app) inventoryGetCmd() *cobra.Command {
	return &cobra.Command{
		Use: "get SOURCE...", Aliases: []string{"show", "describe"}, Short: "Show the latest report of sources",
		Example:     "  tollgate inventory get hcloud\n  tollgate inventory get hcloud -o json",
		Annotations: temporalLines("temporal workflow list --query \"WorkflowType = '" + workflows.TypeInventory + "' AND TollgateSource = 'hcloud'\" --limit 1"),
		Args:        atLeastOne("SOURCE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.connected(cmd, callTimeout, func(ctx context.Context, s *session) error {
				found, err := s.inventoriesOf(ctx, args)
				if err == nil && len(found) < len(args) {
					for _, n := range args {
						if !slices.ContainsFunc(found, func(r reports.Report) bool { return r.Metadata.Name == n }) {
							err = errors.Join(err, fail(ExitNotFound, "make one with: tollgate inventory run "+n, "source %q has had no inventory", n))
						}
					}
				}
				if len(found) == 0 {
					return err
				}
				return errors.Join(a.print(found, func(w io.Writer, wide bool) error { return a.writeReports(w, found, wide) }), err)
			})
		},
	}
}

// inventoryFlags are the settings of an inventory that differ from the schedule's.
type inventoryFlags struct {
	dryRun       bool
	confirmAfter time.Duration
	maxEnds      int
}

func (a *app) inventoryRunCmd() *cobra.Command {
	var f inventoryFlags
	wait := true
	c := &cobra.Command{
		Use: "run [SOURCE...]", Short: "Make an inventory now",
		Long: "Makes an inventory of the named sources, or of all, now, with the settings of their\n" +
			"schedules unless flags say otherwise, and prints the report. A difference must be seen\n" +
			"twice, so an inventory that finds something takes at least --confirm-after.\n\n" +
			fmt.Sprintf("The exit code is %d when an inventory could not do its work: the source or the sink was\n", ExitUnhealthy) +
			"unreadable, a repair was not delivered, or suspiciously much would have ended.",
		Example: "  tollgate inventory run --dry-run\n  tollgate inventory run hcloud --max-ends 500",
		Annotations: temporalLines(
			"temporal workflow start --type "+workflows.TypeInventory+" --task-queue "+workflows.TaskQueue+" --workflow-id inventory/hcloud/by-hand \\\n"+
				"    --input '{\"source\":\"hcloud\",\"dryRun\":true}'",
			"temporal schedule trigger --schedule-id inventory/hcloud"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := (api.InventoryInput{Source: "any", ConfirmAfter: api.Duration(f.confirmAfter), MaxEnds: f.maxEnds}).Validate(); err != nil {
				return usageErr(err)
			}
			return a.connected(cmd, a.limit(wait), func(ctx context.Context, s *session) error {
				return a.inventoryRun(ctx, s, cmd, args, f, wait)
			})
		},
	}
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "do everything but deliver")
	c.Flags().DurationVar(&f.confirmAfter, "confirm-after", 0, "time between the two looks (default the schedule's)")
	c.Flags().IntVar(&f.maxEnds, "max-ends", 0, "with more ends than this, and more than half of a stream, none (default the schedule's)")
	c.Flags().BoolVarP(&wait, "wait", "w", true, "wait for the report")
	return c
}

func (a *app) inventoryRun(ctx context.Context, s *session, cmd *cobra.Command, names []string, f inventoryFlags, wait bool) error {
	if len(names) == 0 {
		var err error
		if names, err = s.sources(ctx); err != nil {
			return err
		}
		if len(names) == 0 {
			return fail(ExitNotFound, "name one: tollgate inventory run SOURCE", "no sources: no worker with one in its configuration ever ran in this Temporal namespace")
		}
	}
	made := make([]*reports.Report, len(names))
	out := a.progress(len(names))
	err := eachIndex(ctx, len(names), func(ctx context.Context, i int) error {
		in, err := s.inventoryInput(ctx, names[i], cmd, f)
		if err != nil {
			return err
		}
		run, err := s.startInventory(ctx, in, a.env.Now())
		if err != nil {
			return err
		}
		made[i] = &reports.Report{WorkflowID: run.GetID()}
		made[i].APIVersion, made[i].Kind, made[i].Metadata.Name, made[i].Spec = api.APIVersion, api.KindInventory, names[i], in
		if !wait {
			return nil
		}
		return s.awaitInventory(ctx, run, made[i], out)
	})
	out.done()
	started := []reports.Report{}
	for _, r := range made {
		if r != nil {
			started = append(started, *r)
		}
	}
	if len(started) == 0 {
		return err
	}
	return errors.Join(a.print(started, func(w io.Writer, wide bool) error { return a.writeReports(w, started, wide) }), err)
}

// inventoryInput takes the schedule's settings, and the flags over them.
func (s *session) inventoryInput(ctx context.Context, source string, cmd *cobra.Command, f inventoryFlags) (api.InventoryInput, error) {
	in := api.InventoryInput{Source: source}
	id := workflows.InventorySchedule(source)
	d, err := s.conn.Client.ScheduleClient().GetHandle(ctx, id).Describe(ctx)
	switch {
	case isNotFound(err):
		all, err := s.sources(ctx)
		if err != nil {
			return in, err
		}
		if !slices.Contains(all, source) {
			return in, fail(ExitNotFound, "look with: tollgate cursor list", "source %q is not known: no worker with it in its configuration ever ran", source)
		}
	case err != nil:
		return in, s.translate(ctx, "schedule "+id, err)
	default:
		if in, err = schedules.InventoryInput(d.Schedule, s.conn.Converter); err != nil {
			return in, s.translate(ctx, "schedule "+id, err)
		}
		in.Source = source
	}
	in.DryRun = f.dryRun
	if cmd.Flags().Changed("confirm-after") {
		in.ConfirmAfter = api.Duration(f.confirmAfter)
	}
	if cmd.Flags().Changed("max-ends") {
		in.MaxEnds = f.maxEnds
	}
	return in, usageErr(in.Validate())
}

func (s *session) startInventory(ctx context.Context, in api.InventoryInput, now time.Time) (client.WorkflowRun, error) {
	run, err := s.conn.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                       workflows.InventoryID(in.Source) + "/" + now.UTC().Format("20060102T150405.000Z"),
		TaskQueue:                workflows.TaskQueue,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		TypedSearchAttributes:    temporal.NewSearchAttributes(workflows.AttrSource.ValueSet(in.Source)),
		StaticSummary:            "inventory of source " + in.Source + ", asked for by hand",
	}, workflows.TypeInventory, in)
	return run, s.translate(ctx, "inventory of "+in.Source, err)
}

// awaitInventory waits for the report.
func (s *session) awaitInventory(ctx context.Context, run client.WorkflowRun, r *reports.Report, out *progress) error {
	out.line(object{"inventory", r.Metadata.Name}, "the second look follows after "+r.Spec.WithDefaults().ConfirmAfter.String()+" if there is a difference")
	err := s.answered(ctx, func(ctx context.Context) error { return run.Get(ctx, &r.Status) })
	if err != nil {
		err = s.translate(ctx, "inventory of "+r.Metadata.Name, err)
		var e *Error
		if errors.As(err, &e) && (e.Code == ExitInterrupted || e.Code == ExitTimeout) {
			e.Hint = "it goes on; look with: tollgate inventory get " + r.Metadata.Name
		}
		return err
	}
	r.Step = api.InventoryDone
	switch r.Status.Outcome {
	case api.InventoryUnreadable, api.InventoryHeld, api.InventoryIncomplete, api.InventoryCanceled:
		return fail(ExitUnhealthy, "", "inventory of %s: %s: %s", r.Metadata.Name, r.Status.Outcome, r.Status.Message)
	}
	return nil
}

func (a *app) writeReports(w io.Writer, found []reports.Report, wide bool) error {
	for i, r := range found {
		if i > 0 {
			fmt.Fprintln(w)
		}
		st := r.Status
		if st.Outcome == "" {
			step := r.Step
			if step == "" {
				step = "started"
			}
			fmt.Fprintf(w, "inventory of %s: %s, workflow %s\n", r.Metadata.Name, strings.ToLower(step), r.WorkflowID)
			continue
		}
		fmt.Fprintf(w, "inventory of %s: %s: %s\n", r.Metadata.Name, st.Outcome, st.Message)
		for _, s := range st.Streams {
			fmt.Fprintf(w, "  %s\n", oneLine(s.Text()))
		}
		if len(st.Differences) == 0 {
			continue
		}
		t := table{wide: wide}
		t.head("STREAM", "DIFFERENCE", "RESOURCE", "NAME", "REPORTED", "EXISTS", "ACTION", "MESSAGE", "+FIRST SEEN", "+EVENT", "+EVENT TIME")
		for _, d := range st.Differences {
			t.row(d.Stream, string(d.Kind), string(d.Resource.Type)+"/"+d.Resource.ID, d.Resource.Name, d.Reported, d.Listed, string(d.Action), d.Message,
				formatTime(d.FirstSeen), d.EventID, formatTime(d.EventTime))
		}
		if more := st.Count - len(st.Differences); more > 0 {
			t.row("", strconv.Itoa(more)+" more", "", "", "", "", "", "", "", "", "")
		}
		if err := t.write(w); err != nil {
			return err
		}
	}
	return nil
}
