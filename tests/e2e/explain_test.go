//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
)

// explain says what a workflow waits for and what it did last, for a test that has
// failed.
func (w *world) explain(id string) string {
	const lastEvents = 25
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second) // the test's own has ended
	defer cancel()
	described, err := w.client.DescribeWorkflow(ctx, id, "")
	if err != nil {
		return fmt.Sprintf("%s: %v\n", id, err)
	}
	d := described.RawResponse
	var b strings.Builder
	i := d.WorkflowExecutionInfo
	fmt.Fprintf(&b, "%s: run %s, %s, %d events\n", id, i.Execution.RunId, i.Status, i.HistoryLength)
	if p := d.PendingWorkflowTask; p != nil {
		fmt.Fprintf(&b, "  workflow task %s, attempt %d, scheduled %s, started %s\n", p.State, p.Attempt, p.ScheduledTime.AsTime(), p.StartedTime.AsTime())
	}
	for _, p := range d.PendingActivities {
		fmt.Fprintf(&b, "  activity %s %s, attempt %d, scheduled %s, started %s, next %s, heartbeat %s, by %s, last failure %q\n", p.ActivityId, p.State, p.Attempt,
			p.ScheduledTime.AsTime(), p.LastStartedTime.AsTime(), p.NextAttemptScheduleTime.AsTime(), p.LastHeartbeatTime.AsTime(), p.LastWorkerIdentity,
			p.LastFailure.GetMessage())
	}
	var events []*historypb.HistoryEvent
	for h := w.client.GetWorkflowHistory(ctx, id, i.Execution.RunId, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); h.HasNext(); {
		e, err := h.Next()
		if err != nil {
			fmt.Fprintf(&b, "  history: %v\n", err)
			break
		}
		events = append(events, e)
	}
	for _, e := range events[max(0, len(events)-lastEvents):] {
		fmt.Fprintf(&b, "  %4d %s %s", e.EventId, e.EventTime.AsTime().Format("15:04:05.000"), e.EventType)
		if f := e.GetActivityTaskTimedOutEventAttributes().GetFailure(); f != nil {
			fmt.Fprintf(&b, ": %s", f.Message)
		}
		if a := e.GetWorkflowTaskStartedEventAttributes(); a != nil {
			fmt.Fprintf(&b, " by %s", a.Identity)
		}
		if a := e.GetActivityTaskStartedEventAttributes(); a != nil {
			fmt.Fprintf(&b, " by %s, attempt %d", a.Identity, a.Attempt)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
