package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/tollgate-dev/tollgate/internal/schedules"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

func (a *app) gcCmd() *cobra.Command {
	return group("gc", "Sweep instances that nobody owns",
		"A sweep lists what exists at a provider and deletes what carries our marks and whose\n"+
			"owner is gone for certain. Schedules do this; here it is done now.",
		a.gcRunCmd())
}

// gcFlags are the settings of a sweep that differ from the schedule's.
type gcFlags struct {
	dryRun               bool
	minAge, confirmAfter time.Duration
	cap                  int
}

func (a *app) gcRunCmd() *cobra.Command {
	var f gcFlags
	wait := true
	c := &cobra.Command{
		Use: "run [PROVIDER...]", Short: "Sweep now",
		Long: "Sweeps the named providers, or all, now, with the settings of their schedules unless\n" +
			"flags say otherwise, and prints the report. An instance must be seen twice, so a\n" +
			"sweep that finds something takes at least --confirm-after.\n\n" +
			fmt.Sprintf("The exit code is %d when a sweep could not do its work: the provider or an owner was\n", ExitUnhealthy) +
			"unreadable, there were more orphans than the cap, or a delete failed.",
		Example: "  tollgate gc run --dry-run\n" +
			"  tollgate gc run local --min-age 1m --confirm-after 5s",
		Annotations: temporalLines(
			"temporal workflow start --type "+workflows.TypeOrphanGC+" --task-queue "+workflows.TaskQueue+" --workflow-id gc/local/by-hand \\\n"+
				"    --input '{\"provider\":\"local\",\"dryRun\":true}'",
			"temporal schedule trigger --schedule-id gc/local"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.connected(cmd, a.limit(wait), func(ctx context.Context, s *session) error {
				return a.gcRun(ctx, s, cmd, args, f, wait)
			})
		},
	}
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "do everything but delete")
	c.Flags().DurationVar(&f.minAge, "min-age", 0, "touch nothing younger (default the schedule's)")
	c.Flags().DurationVar(&f.confirmAfter, "confirm-after", 0, "time between the two sightings (default the schedule's)")
	c.Flags().IntVar(&f.cap, "cap", 0, "with more orphans than this, delete none (default the schedule's)")
	c.Flags().BoolVarP(&wait, "wait", "w", true, "wait for the report")
	return c
}

// sweep is a sweep and its report.
type sweep struct {
	Provider   string             `json:"provider"`
	WorkflowID string             `json:"workflowID"`
	Report     api.OrphanGCResult `json:"report,omitzero"`
}

func (a *app) gcRun(ctx context.Context, s *session, cmd *cobra.Command, names []string, f gcFlags, wait bool) error {
	if len(names) == 0 {
		var err error
		if names, err = s.providers(ctx); err != nil {
			return err
		}
		if len(names) == 0 {
			return fail(ExitNotFound, "name one: tollgate gc run PROVIDER", "no providers: no worker with a configuration ever ran in this Temporal namespace")
		}
	}
	sweeps := make([]*sweep, len(names))
	index := make([]int, len(names))
	for i := range index {
		index[i] = i
	}
	out := a.progress(len(names))
	err := each(ctx, index, func(ctx context.Context, i int) error {
		in, err := s.sweepInput(ctx, names[i], cmd, f)
		if err != nil {
			return err
		}
		run, err := s.startSweep(ctx, in, a.env.Now())
		if err != nil {
			return err
		}
		sweeps[i] = &sweep{Provider: names[i], WorkflowID: run.GetID()}
		if !wait {
			return nil
		}
		return s.awaitSweep(ctx, run, sweeps[i], out)
	})
	out.done()
	started := []sweep{}
	for _, x := range sweeps {
		if x != nil {
			started = append(started, *x)
		}
	}
	if len(started) == 0 {
		return err
	}
	return errors.Join(a.print(started, func(w io.Writer, _ bool) error { return a.writeSweeps(w, started) }), err)
}

// sweepInput takes the schedule's settings, and the flags over them.
func (s *session) sweepInput(ctx context.Context, provider string, cmd *cobra.Command, f gcFlags) (api.OrphanGCInput, error) {
	in := api.OrphanGCInput{Provider: provider}
	d, err := s.conn.Client.ScheduleClient().GetHandle(ctx, workflows.OrphanGCSchedule(provider)).Describe(ctx)
	switch {
	case isNotFound(err):
		if err := s.mustKnow(ctx, provider); err != nil {
			return in, err
		}
	case err != nil:
		return in, s.translate(ctx, "schedule "+workflows.OrphanGCSchedule(provider), err)
	default:
		if in, err = schedules.Input(d.Schedule, s.conn.Converter); err != nil {
			return in, s.translate(ctx, "schedule "+workflows.OrphanGCSchedule(provider), err)
		}
		in.Provider = provider
	}
	in.DryRun = f.dryRun
	if cmd.Flags().Changed("min-age") {
		in.MinAge = api.Duration(f.minAge)
	}
	if cmd.Flags().Changed("confirm-after") {
		in.ConfirmAfter = api.Duration(f.confirmAfter)
	}
	if cmd.Flags().Changed("cap") {
		in.Cap = f.cap
	}
	return in, usageErr(in.Validate())
}

// mustKnow refuses a provider that no worker ever announced: nobody would serve
// its sweep. A fleet proves nothing, since proxies of an unknown provider have
// one, too.
func (s *session) mustKnow(ctx context.Context, provider string) error {
	_, err := s.conn.Client.DescribeWorkflowExecution(ctx, workflows.ProviderHealthID(provider), "")
	switch {
	case err == nil:
		return nil
	case !isNotFound(err):
		return s.translate(ctx, "provider "+provider, err)
	}
	return fail(ExitNotFound, "look with: tollgate providers list", "provider %q is not known: no worker with it in its configuration ever ran", provider)
}

func (s *session) startSweep(ctx context.Context, in api.OrphanGCInput, now time.Time) (client.WorkflowRun, error) {
	run, err := s.conn.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                       workflows.OrphanGCID(in.Provider) + "/" + now.UTC().Format("20060102T150405.000Z"),
		TaskQueue:                workflows.TaskQueue,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		TypedSearchAttributes:    temporal.NewSearchAttributes(workflows.AttrProvider.ValueSet(in.Provider)),
		StaticSummary:            "sweep of provider " + in.Provider + ", asked for by hand",
	}, workflows.TypeOrphanGC, in)
	return run, s.translate(ctx, "sweep of "+in.Provider, err)
}

// awaitSweep waits for the report and shows the steps.
func (s *session) awaitSweep(ctx context.Context, run client.WorkflowRun, x *sweep, out *progress) error {
	o := object{"gc", x.Provider}
	watch, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(s.pollEvery)
		defer tick.Stop()
		for {
			var st api.OrphanSweep
			if s.query(watch, x.WorkflowID, workflows.QueryStatus, &st) == nil {
				out.line(o, st.Step+": "+orDash(st.Status.Message))
			}
			select {
			case <-watch.Done():
				return
			case <-tick.C:
			}
		}
	}()
	err := s.answered(ctx, func(ctx context.Context) error { return run.Get(ctx, &x.Report) })
	stop()
	<-ended
	if err != nil {
		err = s.translate(ctx, "sweep of "+x.Provider, err)
		var e *Error
		if errors.As(err, &e) && (e.Code == ExitInterrupted || e.Code == ExitTimeout) {
			e.Hint = "the sweep goes on; look with: temporal workflow result --workflow-id " + x.WorkflowID
		}
		return err
	}
	switch x.Report.Outcome {
	case api.SweepUnreadable, api.SweepOverCap, api.SweepIncomplete, api.SweepCanceled:
		return fail(ExitUnhealthy, "", "sweep of %s: %s: %s", x.Provider, x.Report.Outcome, x.Report.Message)
	}
	return nil
}

func (a *app) writeSweeps(w io.Writer, sweeps []sweep) error {
	var t table
	t.head("KIND", "ID", "NAME", "OWNER", "AGE", "REASON", "ACTION", "MESSAGE")
	for _, x := range sweeps {
		r := x.Report
		if r.Outcome == "" {
			fmt.Fprintf(w, "sweep of %s: started, workflow %s\n", x.Provider, x.WorkflowID)
			continue
		}
		fmt.Fprintf(w, "sweep of %s: %s: %s (%d instances, %d companions, %d orphans)\n",
			x.Provider, r.Outcome, r.Message, r.Instances, r.Companions, r.OrphanCount)
		for _, o := range r.Orphans {
			t.row(o.Kind, o.ID, o.Name, o.Namespace+"/"+o.Proxy, a.since(o.CreatedAt), o.Reason, string(o.Action), o.Message)
		}
		if more := r.OrphanCount - len(r.Orphans); more > 0 {
			t.row("", strconv.Itoa(more)+" more", "", "", "", "", "", "")
		}
	}
	if len(t.rows) == 0 {
		return nil
	}
	return t.write(w)
}
