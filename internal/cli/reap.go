package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// reapFlags are the command line of "reap".
type reapFlags struct {
	provider  string
	selector  []string
	olderThan time.Duration
	all       bool
	dryRun    bool
	wait      bool
}

func (a *app) reapCmd() *cobra.Command {
	f := reapFlags{wait: true}
	c := &cobra.Command{
		Use: "reap --provider P --selector KEY=VALUE --older-than AGE", Short: "Delete instances that are old, whoever owns them",
		Long: "Deletes the instances of a provider that match the selector and are older than the age,\n" +
			"and tells the proxies that own them to go: the cost safety net for throw-away fleets.\n" +
			"Only instances of this installation are looked at. An instance whose creation time the\n" +
			"backend does not say is left alone.\n\n" +
			fmt.Sprintf("The exit code is %d when the provider could not be listed or a delete failed.", ExitUnhealthy),
		Example: "  tollgate reap --provider hetzner --selector namespace=ci --older-than 6h --dry-run\n" +
			"  tollgate reap --provider hetzner --selector namespace=ci --selector proxy=nightly --older-than 1h",
		Annotations: temporalLines("temporal workflow start --type " + workflows.TypeReaper + " --task-queue " + workflows.TaskQueue +
			" --workflow-id reap/hetzner/by-hand \\\n    --input '{\"provider\":\"hetzner\",\"selector\":{\"namespace\":\"ci\"},\"olderThan\":\"6h\",\"dryRun\":true}'"),
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := required(cmd, "provider", "older-than"); err != nil {
				return err
			}
			in, err := f.input()
			if err != nil {
				return err
			}
			return a.connected(cmd, a.limit(f.wait), func(ctx context.Context, s *session) error { return a.reap(ctx, s, in, f.wait) })
		},
	}
	c.Flags().StringVarP(&f.provider, "provider", "p", "", "provider whose instances are deleted")
	c.Flags().StringArrayVarP(&f.selector, "selector", "l", nil, "only instances of `key=value`: namespace, proxy or uid; may be repeated")
	c.Flags().DurationVar(&f.olderThan, "older-than", 0, "age from which on instances are deleted, at least 1m")
	c.Flags().BoolVar(&f.all, "all", false, "all instances of the installation, instead of a selector")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "do everything but delete")
	c.Flags().BoolVarP(&f.wait, "wait", "w", true, "wait for the report")
	return c
}

func (f reapFlags) input() (api.ReaperInput, error) {
	in := api.ReaperInput{Provider: f.provider, OlderThan: api.Duration(f.olderThan), All: f.all, DryRun: f.dryRun}
	for _, term := range f.selector {
		key, value, ok := strings.Cut(term, "=")
		fields := map[string]*string{"namespace": &in.Selector.Namespace, "proxy": &in.Selector.Proxy, "uid": &in.Selector.UID}
		field := fields[key]
		switch {
		case !ok || value == "":
			return in, usage("--selector: %q is not key=value, such as namespace=ci", term)
		case field == nil:
			return in, usage("--selector: %q is not known: use namespace, proxy or uid", key)
		case *field != "":
			return in, usage("--selector: %s is given twice", key)
		}
		*field = value
	}
	switch empty := in.Selector == (provider.Selector{}); {
	case empty && !in.All:
		return in, usage("--selector: is required: key=value of namespace, proxy or uid, or --all for all instances of the installation")
	case !empty && in.All:
		return in, usage("--all: is given beside --selector: use one of them")
	case in.OlderThan.Std() < api.MinReapAge:
		return in, usage("--older-than: %s is out of range: use at least %s", f.olderThan, api.MinReapAge)
	}
	return in, usageErr(in.Validate())
}

// reaping is a run of the reaper and its report.
type reaping struct {
	Provider   string           `json:"provider"`
	WorkflowID string           `json:"workflowID"`
	Report     api.ReaperResult `json:"report,omitzero"`
}

func (a *app) reap(ctx context.Context, s *session, in api.ReaperInput, wait bool) error {
	if err := s.mustKnow(ctx, in.Provider); err != nil {
		return err
	}
	what := "reaper of " + in.Provider
	run, err := s.conn.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                       workflows.ReaperID(in.Provider, in.Selector) + "/" + a.env.Now().UTC().Format("20060102T150405.000Z"),
		TaskQueue:                workflows.TaskQueue,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		TypedSearchAttributes:    temporal.NewSearchAttributes(workflows.AttrProvider.ValueSet(in.Provider)),
		StaticSummary:            what + ", asked for by hand",
	}, workflows.TypeReaper, in)
	if err != nil {
		return s.translate(ctx, what, err)
	}
	x := reaping{Provider: in.Provider, WorkflowID: run.GetID()}
	if wait {
		err = s.answered(ctx, func(ctx context.Context) error { return run.Get(ctx, &x.Report) })
		err = s.translate(ctx, what, err)
		var e *Error
		if errors.As(err, &e) && (e.Code == ExitInterrupted || e.Code == ExitTimeout) {
			e.Hint = "it goes on; look with: temporal workflow result --workflow-id " + x.WorkflowID
		}
		if err != nil {
			return err
		}
		switch x.Report.Outcome {
		case api.ReapUnreadable, api.ReapIncomplete, api.ReapCanceled:
			err = fail(ExitUnhealthy, "", "%s: %s: %s", what, x.Report.Outcome, x.Report.Message)
		}
	}
	return errors.Join(a.print(x, func(w io.Writer, _ bool) error { return a.writeReaping(w, x) }), err)
}

func (a *app) writeReaping(w io.Writer, x reaping) error {
	r := x.Report
	if r.Outcome == "" {
		fmt.Fprintf(w, "reaper of %s: started, workflow %s\n", x.Provider, x.WorkflowID)
		return nil
	}
	fmt.Fprintf(w, "reaper of %s: %s: %s (%d of %d instances)\n", x.Provider, r.Outcome, r.Message, r.Count, r.Matched)
	if len(r.Reaped) == 0 {
		return nil
	}
	var t table
	t.head("ID", "NAME", "PROXY", "AGE", "ITS PROXY RUNS", "ACTION", "MESSAGE")
	for _, i := range r.Reaped {
		t.row(string(i.ID), i.Name, i.Namespace+"/"+i.Proxy, a.since(i.CreatedAt), yesNo(i.Owned), string(i.Action), i.Message)
	}
	if more := r.Count - len(r.Reaped); more > 0 {
		t.row(strconv.Itoa(more)+" more", "", "", "", "", "", "")
	}
	return t.write(w)
}
