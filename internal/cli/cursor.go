package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

func (a *app) cursorCmd() *cobra.Command {
	c := group("cursor", "Show and steer the reading of event sources",
		"A cursor reads one stream of an event source, SOURCE/STREAM, and delivers what\n"+
			"happened to a sink. It moves when the sink has everything before it. Where SOURCE\n"+
			"alone is given, all its streams are meant.",
		a.cursorListCmd(), a.cursorGetCmd(), a.cursorStartCmd(), a.cursorPauseCmd(), a.cursorResumeCmd(),
		a.cursorRewindCmd(), a.cursorBackfillCmd(), a.cursorRedriveCmd())
	c.Aliases = []string{"cursors"}
	return c
}

// cursorNames finds the running cursors, as source/stream.
func (s *session) cursorNames(ctx context.Context) ([]string, error) {
	var names []string
	req := &workflowservice.ListWorkflowExecutionsRequest{
		PageSize: pageSize, Query: fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running'", workflows.TypeEventCursor),
	}
	for {
		r, err := s.conn.Client.ListWorkflow(ctx, req)
		if err != nil {
			return nil, s.translate(ctx, "cursors", err)
		}
		for _, e := range r.GetExecutions() {
			if src, stream, err := workflows.ParseCursorID(e.GetExecution().GetWorkflowId()); err == nil {
				names = append(names, src+"/"+stream)
			}
		}
		if req.NextPageToken = r.GetNextPageToken(); len(req.NextPageToken) == 0 {
			slices.Sort(names)
			return slices.Compact(names), nil
		}
	}
}

// cursorsNamed turns arguments into cursors: all without any, all of a source for
// its name.
func (s *session) cursorsNamed(ctx context.Context, args []string) ([]string, error) {
	var all []string
	if len(args) == 0 || slices.ContainsFunc(args, func(n string) bool { return !strings.Contains(n, "/") }) {
		var err error
		if all, err = s.cursorNames(ctx); err != nil {
			return nil, err
		}
	}
	if len(args) == 0 {
		return all, nil
	}
	var out []string
	for _, n := range args {
		if strings.Contains(n, "/") {
			if _, _, err := workflows.ParseCursorID("cursor/" + n); err != nil {
				return nil, usage("%q is no cursor: use SOURCE/STREAM, or SOURCE for all its streams", n)
			}
			out = append(out, n)
			continue
		}
		found := slices.DeleteFunc(slices.Clone(all), func(c string) bool { return !strings.HasPrefix(c, n+"/") })
		if len(found) == 0 {
			return nil, fail(ExitNotFound, "look with: tollgate cursor list", "source %q has no cursor", n)
		}
		out = append(out, found...)
	}
	return out, nil
}

func cursorWorkflow(name string) string { return "cursor/" + name }

// readCursors asks each cursor for its status.
func (s *session) readCursors(ctx context.Context, names []string) ([]api.Cursor, error) {
	found := make([]*api.Cursor, len(names))
	err := eachIndex(ctx, len(names), func(ctx context.Context, i int) error {
		var c api.Cursor
		err := s.query(ctx, cursorWorkflow(names[i]), workflows.QueryStatus, &c)
		if err != nil {
			return s.cursorErr(ctx, names[i], err)
		}
		found[i] = &c
		return nil
	})
	out := []api.Cursor{}
	for _, c := range found {
		if c != nil {
			out = append(out, *c)
		}
	}
	return out, err
}

func eachIndex(ctx context.Context, n int, f func(context.Context, int) error) error {
	index := make([]int, n)
	for i := range index {
		index[i] = i
	}
	return each(ctx, index, f)
}

func (s *session) cursorErr(ctx context.Context, name string, err error) error {
	var closed *closedError
	if isNotFound(err) || errors.As(err, &closed) {
		return fail(ExitNotFound, "look with: tollgate cursor list", "cursor %s does not run", name)
	}
	return s.translate(ctx, "cursor "+name, err)
}

func (a *app) cursorListCmd() *cobra.Command {
	return &cobra.Command{
		Use: "list [SOURCE[/STREAM]...]", Aliases: []string{"ls"}, Short: "List cursors with their lag",
		Example:     "  tollgate cursor list\n  tollgate cursor list hcloud -o wide",
		Annotations: temporalLines("temporal workflow list --query \"WorkflowType = '" + workflows.TypeEventCursor + "' AND ExecutionStatus = 'Running'\""),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.connected(cmd, callTimeout, func(ctx context.Context, s *session) error {
				names, err := s.cursorsNamed(ctx, args)
				if err != nil {
					return err
				}
				cursors, err := s.readCursors(ctx, names)
				if len(cursors) == 0 && err != nil {
					return err
				}
				return errors.Join(a.print(cursors, func(w io.Writer, wide bool) error { return a.writeCursors(w, cursors, wide) }), err)
			})
		},
	}
}

func (a *app) writeCursors(w io.Writer, cursors []api.Cursor, wide bool) error {
	t := table{wide: wide}
	t.head("NAME", "PHASE", "CAUGHT UP TO", "BEHIND", "DELIVERED", "PENDING", "DEAD LETTERS", "GAPS", "MESSAGE", "+SINK", "+DUPLICATES", "+UNKNOWN SIZES", "+READ", "+LAST EVENT")
	for _, c := range cursors {
		st := c.Status
		t.row(c.Metadata.Name, string(st.Phase), formatTime(st.CaughtUpTo), a.behind(c), strconv.FormatInt(st.Counts.Delivered, 10), strconv.Itoa(st.Pending),
			deadLetterCount(st), strconv.FormatInt(st.GapCount, 10), st.Message,
			c.Spec.Sink, strconv.FormatInt(st.Counts.Duplicates, 10), strconv.FormatInt(st.Counts.UnknownSizes, 10), a.ago(st.ReadAt), formatTime(st.LastEventAt))
	}
	return t.write(w)
}

// behind is how far a cursor is behind the present. One that is caught up reports
// every few minutes only: then it is what it was when it last read.
func (a *app) behind(c api.Cursor) string {
	st := c.Status
	switch {
	case st.CaughtUpTo.IsZero():
		return "unknown"
	case st.Phase == api.CursorCaughtUp:
		return st.Lag.String()
	}
	return a.since(st.CaughtUpTo)
}

func deadLetterCount(st api.CursorStatus) string {
	n := int64(len(st.DeadLetters))
	if st.Dropped != nil {
		n += st.Dropped.Count
	}
	return strconv.FormatInt(n, 10)
}

func (a *app) cursorGetCmd() *cobra.Command {
	return &cobra.Command{
		Use: "get SOURCE[/STREAM]...", Aliases: []string{"show", "describe"}, Short: "Show cursors with gaps and dead letters",
		Example:     "  tollgate cursor get hcloud/server\n  tollgate cursor get hcloud/server -o yaml",
		Annotations: temporalLines("temporal workflow query --workflow-id cursor/hcloud/server --name " + workflows.QueryStatus),
		Args:        atLeastOne("SOURCE[/STREAM]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.connected(cmd, callTimeout, func(ctx context.Context, s *session) error {
				names, err := s.cursorsNamed(ctx, args)
				if err != nil {
					return err
				}
				cursors, err := s.readCursors(ctx, names)
				if len(cursors) == 0 && err != nil {
					return err
				}
				return errors.Join(a.print(cursors, func(w io.Writer, _ bool) error { return a.writeCursorDetails(w, cursors) }), err)
			})
		},
	}
}

func (a *app) writeCursorDetails(w io.Writer, cursors []api.Cursor) error {
	for i, c := range cursors {
		if i > 0 {
			fmt.Fprintln(w)
		}
		st := c.Status
		line := func(key, format string, args ...any) {
			fmt.Fprintf(w, "%-14s %s\n", key+":", fmt.Sprintf(format, args...))
		}
		line("Cursor", "%s to sink %s", c.Metadata.Name, c.Spec.Sink)
		line("Phase", "%s since %s", st.Phase, formatTime(st.Since))
		if st.Message != "" {
			line("Reason", "%s: %s", orDash(st.Reason), st.Message)
		}
		line("Caught up to", "%s, read %s", orDash(formatTime(st.CaughtUpTo)), a.ago(st.ReadAt))
		line("Behind", "%s", a.behind(c))
		n := st.Counts
		line("Delivered", "%d, duplicates %d, rejected %d, of unknown size %d", n.Delivered, n.Duplicates, n.Rejected, n.UnknownSizes)
		line("Read", "%d pages, %d entries that mean nothing to usage, %d changes pending", n.Pages, n.Ignored, st.Pending)
		for _, g := range st.Gaps {
			line("Gap", "from %s to %s: the source no longer had everything", formatTime(g.From), formatTime(g.To))
		}
		if b := st.Backfill; b != nil {
			how := "under way, up to " + orDash(formatTime(b.UpTo))
			if !b.Done.IsZero() {
				how = "done at " + formatTime(b.Done)
			}
			line("Backfill", "from %s to %s: %s, delivered %d, duplicates %d %s", formatTime(b.From), formatTime(b.To), how, b.Counts.Delivered, b.Counts.Duplicates, b.Message)
		}
		if d := st.Dropped; d != nil {
			line("Dead letters", "%d more of %s to %s: backfill that time", d.Count, formatTime(d.From), formatTime(d.To))
		}
		if len(st.DeadLetters) == 0 {
			continue
		}
		t := table{}
		t.head("DEAD LETTER", "EVENT", "AT", "TRIES", "REASON")
		for _, l := range st.DeadLetters {
			t.row(string(l.Ref), orDash(l.EventID), formatTime(l.At), strconv.Itoa(l.Tries), l.Reason)
		}
		if err := t.write(w); err != nil {
			return err
		}
	}
	return nil
}
