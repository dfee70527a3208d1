package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

func (a *app) cursorStartCmd() *cobra.Command {
	var sink, from string
	var interval time.Duration
	c := &cobra.Command{
		Use: "start SOURCE/STREAM", Short: "Start a cursor by hand",
		Long: "Starts the cursor of a stream. Workers do so by themselves for every source in their\n" +
			"configuration; by hand it is for one that was ended, or that is to begin elsewhere.",
		Example: "  tollgate cursor start hcloud/server --sink billing --from 2026-11-01T00:00:00Z",
		Annotations: temporalLines("temporal workflow start --type " + workflows.TypeEventCursor + " --task-queue " + workflows.TaskQueue + " --workflow-id cursor/hcloud/server \\\n" +
			"    --input '{\"source\":\"hcloud\",\"stream\":\"server\",\"config\":{\"sink\":\"billing\"}}'"),
		Args: exactly("SOURCE/STREAM"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := required(cmd, "sink"); err != nil {
				return err
			}
			src, stream, err := workflows.ParseCursorID(cursorWorkflow(args[0]))
			if err != nil {
				return usage("%q is no cursor: use SOURCE/STREAM", args[0])
			}
			in := api.EventCursorInput{Source: src, Stream: stream, Config: api.CursorConfig{Sink: sink, Interval: api.Duration(interval)}}
			if from != "" {
				t, err := a.parseTime("from", from)
				if err != nil {
					return err
				}
				in.From = &t
			}
			return a.connected(cmd, callTimeout, func(ctx context.Context, s *session) error {
				_, err := s.conn.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
					ID: cursorWorkflow(args[0]), TaskQueue: workflows.TaskQueue, WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
					WorkflowExecutionErrorWhenAlreadyStarted: true,
					TypedSearchAttributes:                    temporal.NewSearchAttributes(workflows.AttrSource.ValueSet(src)),
					StaticSummary:                            "Reads " + stream + " of " + src,
				}, workflows.TypeEventCursor, in)
				if temporal.IsWorkflowExecutionAlreadyStartedError(err) {
					return fail(ExitConflict, "move it with: tollgate cursor rewind "+args[0]+" --to TIME", "cursor %s runs already", args[0])
				}
				if err != nil {
					return s.translate(ctx, "cursor "+args[0], err)
				}
				a.say("cursor %s started", args[0])
				return nil
			})
		},
	}
	c.Flags().StringVar(&sink, "sink", "", "configured name of the sink")
	c.Flags().StringVar(&from, "from", "", "where to begin: a time such as 2026-11-01T00:00:00Z, or a duration such as 24h before now (default as far back as there is)")
	c.Flags().DurationVar(&interval, "interval", 0, "time between two reads with nothing new (default 1m)")
	return c
}

// parseTime reads a time, or a duration before now.
func (a *app) parseTime(flag, text string) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return a.env.Now().Add(-d).UTC(), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, usage("--%s: %q is no time: use one such as 2026-11-01T00:00:00Z (UTC), 2026-11-01, or a duration before now such as 24h", flag, text)
}

// cursorUpdate sends an update to the named cursors.
func cursorUpdate[T any](a *app, cmd *cobra.Command, args []string, timeout time.Duration, name string, in any, done func(cursor string, out T)) error {
	return a.connected(cmd, timeout, func(ctx context.Context, s *session) error {
		names, err := s.cursorsNamed(ctx, args)
		if err != nil {
			return err
		}
		outs := make([]*T, len(names))
		err = eachIndex(ctx, len(names), func(ctx context.Context, i int) error {
			var out T
			if err := s.update(ctx, cursorWorkflow(names[i]), newUpdateID(), name, in, &out); err != nil {
				return s.cursorErr(ctx, names[i], err)
			}
			outs[i] = &out
			return nil
		})
		for i, out := range outs {
			if out != nil {
				done(names[i], *out)
			}
		}
		return err
	})
}

func (a *app) cursorPauseCmd() *cobra.Command {
	return &cobra.Command{
		Use: "pause SOURCE[/STREAM]...", Short: "Stop reading and delivering",
		Long:        "Stops cursors where they are until they are resumed. Nothing is lost, as long as the\nplatform keeps what happens meanwhile.",
		Example:     "  tollgate cursor pause hcloud",
		Annotations: temporalLines("temporal workflow signal --workflow-id cursor/hcloud/server --name " + workflows.SignalPause),
		Args:        atLeastOne("SOURCE[/STREAM]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return cursorUpdate(a, cmd, args, callTimeout, workflows.UpdatePause, nil, func(name string, _ api.Cursor) { a.say("cursor %s paused", name) })
		},
	}
}

func (a *app) cursorResumeCmd() *cobra.Command {
	return &cobra.Command{
		Use: "resume SOURCE[/STREAM]...", Short: "Go on after a pause, or try at once after a failure",
		Example:     "  tollgate cursor resume hcloud",
		Annotations: temporalLines("temporal workflow signal --workflow-id cursor/hcloud/server --name " + workflows.SignalResume),
		Args:        atLeastOne("SOURCE[/STREAM]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return cursorUpdate(a, cmd, args, callTimeout, workflows.UpdateResume, nil, func(name string, _ api.Cursor) { a.say("cursor %s resumed", name) })
		},
	}
}

func (a *app) cursorRewindCmd() *cobra.Command {
	var to string
	c := &cobra.Command{
		Use: "rewind SOURCE[/STREAM]... --to TIME", Short: "Read everything again from a time on",
		Long: "Moves cursors back, or forward, to a time. Events that were delivered before are\n" +
			"delivered again with the same ids: the receiver knows them.",
		Example:     "  tollgate cursor rewind hcloud/server --to 2026-11-01T00:00:00Z\n  tollgate cursor rewind hcloud --to 24h",
		Annotations: temporalLines("temporal workflow update execute --workflow-id cursor/hcloud/server --name " + workflows.UpdateRewind + " --input '{\"to\":\"2026-11-01T00:00:00Z\"}'"),
		Args:        atLeastOne("SOURCE[/STREAM]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := required(cmd, "to"); err != nil {
				return err
			}
			t, err := a.parseTime("to", to)
			if err != nil {
				return err
			}
			return cursorUpdate(a, cmd, args, a.limit(true), workflows.UpdateRewind, api.RewindInput{To: t},
				func(name string, _ api.Cursor) { a.say("cursor %s stands at %s", name, formatTime(t)) })
		},
	}
	c.Flags().StringVar(&to, "to", "", "a time such as 2026-11-01T00:00:00Z, or a duration such as 24h before now")
	return c
}

func (a *app) cursorBackfillCmd() *cobra.Command {
	var from, to string
	c := &cobra.Command{
		Use: "backfill SOURCE[/STREAM]... --from TIME --to TIME", Short: "Deliver a range of time again",
		Long: "Delivers what finished from one time on and before another, beside the reading, which\n" +
			"stays where it is. The command returns when the backfill has begun.",
		Example:     "  tollgate cursor backfill hcloud/server --from 2026-11-01 --to 2026-11-02",
		Annotations: temporalLines("temporal workflow update execute --workflow-id cursor/hcloud/server --name " + workflows.UpdateBackfill + " \\\n    --input '{\"from\":\"2026-11-01T00:00:00Z\",\"to\":\"2026-11-02T00:00:00Z\"}'"),
		Args:        atLeastOne("SOURCE[/STREAM]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := required(cmd, "from", "to"); err != nil {
				return err
			}
			f, err1 := a.parseTime("from", from)
			t, err2 := a.parseTime("to", to)
			if err := errors.Join(err1, err2); err != nil {
				return err
			}
			if !f.Before(t) {
				return usage("--from: %s is not before --to, %s", formatTime(f), formatTime(t))
			}
			return cursorUpdate(a, cmd, args, callTimeout, workflows.UpdateBackfill, api.BackfillInput{From: f, To: t}, func(name string, _ api.Cursor) {
				a.say("cursor %s: backfill begun; look with: tollgate cursor get %s", name, name)
			})
		},
	}
	c.Flags().StringVar(&from, "from", "", "a time such as 2026-11-01T00:00:00Z, or a duration such as 24h before now")
	c.Flags().StringVar(&to, "to", "", "a time, or a duration before now")
	return c
}

func (a *app) cursorRedriveCmd() *cobra.Command {
	var refs []string
	c := &cobra.Command{
		Use: "redrive SOURCE[/STREAM]...", Short: "Try dead letters again",
		Long: "Derives the events of dead letters again from the source and delivers them: all, or\n" +
			fmt.Sprintf("those named by --ref. The exit code is %d when some are left.", ExitUnhealthy),
		Example:     "  tollgate cursor redrive hcloud/server\n  tollgate cursor redrive hcloud/server --ref action/1001",
		Annotations: temporalLines("temporal workflow update execute --workflow-id cursor/hcloud/server --name " + workflows.UpdateRedrive + " --input '{}'"),
		Args:        atLeastOne("SOURCE[/STREAM]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := api.RedriveInput{}
			for _, r := range refs {
				in.Refs = append(in.Refs, source.Ref(r))
			}
			var left []error
			err := cursorUpdate(a, cmd, args, a.limit(true), workflows.UpdateRedrive, in, func(name string, out api.RedriveResult) {
				a.say("cursor %s: %d delivered, %d gone, %d left", name, out.Delivered, out.Gone, len(out.Left))
				for _, l := range out.Left {
					left = append(left, fail(ExitUnhealthy, "", "cursor %s: dead letter %s: %s", name, l.Ref, l.Reason))
				}
			})
			return errors.Join(append(left, err)...)
		},
	}
	c.Flags().StringSliceVar(&refs, "ref", nil, "reference of a dead letter; may be repeated")
	return c
}
