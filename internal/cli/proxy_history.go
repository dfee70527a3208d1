package cli

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
)

// proxyHistory is a proxy's life.
type proxyHistory struct {
	Namespace string  `json:"namespace"`
	Name      string  `json:"name"`
	UID       string  `json:"uid"`
	Entries   []entry `json:"entries"`
	// Now is what is under way.
	Now []string `json:"now,omitempty"`
	// Incomplete: earlier runs are no longer retained.
	Incomplete bool `json:"incomplete,omitempty"`
}

func (a *app) proxyHistoryCmd() *cobra.Command {
	var all bool
	var limit int
	c := &cobra.Command{
		Use: "history NAME", Short: "Show a proxy's life",
		Long: "Shows what happened to a proxy and why, oldest first: who asked for what, each change\n" +
			"of its state, the steps with their attempts, the failures, and what is under way now.\n" +
			"It works for deleted proxies as long as Temporal retains their workflows.",
		Example: "  tollgate proxy history demo\n  tollgate proxy history demo --all --limit 0\n  tollgate proxy history demo -o json | jq '.entries[] | select(.kind == \"failure\")'",
		Annotations: temporalLines("temporal workflow show --workflow-id proxy/default/demo",
			"temporal workflow describe --workflow-id proxy/default/demo"),
		Args: exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := a.objectArg(args[0])
			if err != nil {
				return err
			}
			if limit < 0 {
				return usage("--limit: %d is negative: use 0 for no limit", limit)
			}
			return a.connected(cmd, callTimeout, func(ctx context.Context, s *session) error {
				h, err := s.history(ctx, o)
				if err != nil {
					return err
				}
				if !all {
					h.Entries = slices.DeleteFunc(h.Entries, func(e entry) bool { return e.Kind == entryDetail })
				}
				left := 0
				if limit > 0 && len(h.Entries) > limit {
					left = len(h.Entries) - limit
					h.Entries = h.Entries[left:]
				}
				return a.print(h, func(w io.Writer, wide bool) error { return writeHistory(w, h, left, wide) })
			})
		},
	}
	c.Flags().BoolVar(&all, "all", false, "also reports to the fleet, markers and runs")
	c.Flags().IntVar(&limit, "limit", 100, "show so many of the latest entries, 0 for all")
	return c
}

// history reads the runs of a proxy back to its start, as far as they are
// retained.
func (s *session) history(ctx context.Context, o object) (proxyHistory, error) {
	h := proxyHistory{Namespace: o.namespace, Name: o.name, Entries: []entry{}}
	d, err := s.conn.Client.DescribeWorkflowExecution(ctx, o.id(), "")
	if err != nil {
		return h, s.translate(ctx, o.String(), err)
	}
	info := d.GetWorkflowExecutionInfo()
	h.UID = info.GetFirstRunId()
	type run struct {
		id     string
		events []*historypb.HistoryEvent
	}
	var runs []run
	for id := info.GetExecution().GetRunId(); id != ""; {
		events, err := s.events(ctx, o, id)
		if isNotFound(err) && len(runs) > 0 {
			h.Incomplete = true
			break
		}
		if err != nil {
			return h, s.translate(ctx, o.String(), err)
		}
		runs = append(runs, run{id, events})
		id = ""
		if len(events) > 0 {
			// A reset run repeats the events of the one it continues.
			id = events[0].GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId()
		}
	}
	t := newTimeline(s.conn.Converter, s.conn.Failures)
	for _, r := range slices.Backward(runs) {
		t.add(r.id, r.events)
	}
	h.Now = t.now(d)
	h.Entries = append(h.Entries, t.entries...)
	if t.unusable > 0 {
		hint := "give the workers' key file with --codec-key-file or " + envKeyFile
		if s.conn.Encrypted {
			hint = "the key file lacks the key that encrypted them: tollgate keys list"
		}
		fmt.Fprintf(s.env.Stderr, "tollgate: %d details are encrypted and left out\n  %s\n", t.unusable, hint)
	}
	return h, nil
}

func (s *session) events(ctx context.Context, o object, runID string) ([]*historypb.HistoryEvent, error) {
	it := s.conn.Client.GetWorkflowHistory(ctx, o.id(), runID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	var out []*historypb.HistoryEvent
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// now tells what is under way: the pending activities with their latest failure,
// and the waits.
func (t *timeline) now(d *workflowservice.DescribeWorkflowExecutionResponse) []string {
	if d.GetWorkflowExecutionInfo().GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return nil // timers that still ran ended with the workflow
	}
	var out []string
	for _, p := range d.GetPendingActivities() {
		line := fmt.Sprintf("%s: attempt %d", p.GetActivityType().GetName(), p.GetAttempt())
		if next := p.GetNextAttemptScheduleTime(); next != nil && p.GetState() == enumspb.PENDING_ACTIVITY_STATE_SCHEDULED {
			line += ", next at " + formatTime(next.AsTime())
		}
		if f := p.GetLastFailure(); f != nil {
			line += "; last failure: " + t.failure(f)
		}
		out = append(out, line)
	}
	for _, w := range t.timers {
		e := &t.entries[w.entry]
		e.Kind = entryWait
		out = append(out, "waits until "+formatTime(w.ends)+": "+orDash(e.Detail))
	}
	slices.Sort(out)
	if w := d.GetPendingWorkflowTask(); w.GetAttempt() > 1 {
		out = append(out, fmt.Sprintf("the workflow task is at attempt %d: the workers' log says why", w.GetAttempt()))
	}
	if len(out) == 0 {
		out = append(out, "nothing is under way")
	}
	return out
}

func writeHistory(w io.Writer, h proxyHistory, left int, wide bool) error {
	fmt.Fprintf(w, "proxy %s/%s, uid %s\n", h.Namespace, h.Name, h.UID)
	if h.Incomplete {
		fmt.Fprintln(w, "earlier runs are no longer retained by Temporal")
	}
	if left > 0 {
		fmt.Fprintf(w, "%d earlier entries left out (--limit 0 shows all)\n", left)
	}
	fmt.Fprintln(w)
	t := table{wide: wide}
	t.head("TIME", "KIND", "WHAT", "DETAIL", "BY", "+EVENT", "+RUN")
	for _, e := range h.Entries {
		t.row(e.Time.UTC().Format("2006-01-02 15:04:05"), e.Kind, e.What, e.Detail, e.By, fmt.Sprint(e.EventID), e.RunID)
	}
	if err := t.write(w); err != nil {
		return err
	}
	for i, line := range h.Now {
		if i == 0 {
			fmt.Fprint(w, "\nNow: ")
		} else {
			fmt.Fprint(w, "     ")
		}
		fmt.Fprintln(w, oneLine(line))
	}
	return nil
}
