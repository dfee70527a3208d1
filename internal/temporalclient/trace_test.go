package temporalclient_test

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"google.golang.org/protobuf/proto"

	"github.com/tollgate-dev/tollgate/internal/codec"
	"github.com/tollgate-dev/tollgate/internal/telemetry"
	"github.com/tollgate-dev/tollgate/internal/temporalclient"
)

// chain lists a trace's spans, each as its path from the root. All parents must
// be known.
func chain(t *testing.T, ended []sdktrace.ReadOnlySpan, id trace.TraceID) []string {
	t.Helper()
	byID := map[trace.SpanID]sdktrace.ReadOnlySpan{}
	for _, s := range ended {
		if s.SpanContext().TraceID() == id {
			if _, twice := byID[s.SpanContext().SpanID()]; twice {
				t.Errorf("span %s ended twice", s.Name())
			}
			byID[s.SpanContext().SpanID()] = s
		}
	}
	paths := []string{}
	for _, s := range byID {
		path := s.Name()
		for p := s.Parent().SpanID(); p.IsValid(); {
			parent, ok := byID[p]
			if !ok {
				path = "(missing)/" + path
				break
			}
			path = parent.Name() + "/" + path
			p = parent.Parent().SpanID()
		}
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths
}

// await polls until the trace looks as wanted: spans end a moment after what
// they are about.
func await(t *testing.T, r *rig, id trace.TraceID, want []string) {
	t.Helper()
	slices.Sort(want)
	deadline := time.Now().Add(20 * time.Second)
	for {
		got := chain(t, r.spans.Ended(), id)
		diff := cmp.Diff(want, got)
		if diff == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("trace (-want +got):\n%s", diff)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// onlyTraces checks that all that was recorded belongs to these operations.
func onlyTraces(t *testing.T, r *rig, ids ...trace.TraceID) {
	t.Helper()
	for _, s := range r.spans.Ended() {
		if !slices.Contains(ids, s.SpanContext().TraceID()) {
			t.Errorf("span %s is in a trace of its own", s.Name())
		}
	}
}

func TestOneOperationIsOneTrace(t *testing.T) {
	t.Parallel()
	r := newRig(t, temporalclient.Options{})
	ctx, op := r.tracing.StartOperation(t.Context(), "proxy create")
	if err := r.start(t, ctx, "op", "Operation", "x").Get(ctx, nil); err != nil {
		t.Fatal(err)
	}
	telemetry.EndOperation(op, nil)
	await(t, r, op.SpanContext().TraceID(), []string{
		"proxy create",
		"proxy create/StartWorkflow:Operation",
		"proxy create/StartWorkflow:Operation/RunWorkflow:Operation",
		"proxy create/StartWorkflow:Operation/RunWorkflow:Operation/StartActivity:Work",
		"proxy create/StartWorkflow:Operation/RunWorkflow:Operation/StartActivity:Work/RunActivity:Work",
		"proxy create/StartWorkflow:Operation/RunWorkflow:Operation/StartActivity:Work/RunActivity:Work/provider.create",
		"proxy create/StartWorkflow:Operation/RunWorkflow:Operation/StartActivity:Work/RunActivity:Work/provider.create/HTTP GET",
	})
	onlyTraces(t, r, op.SpanContext().TraceID())
	for _, s := range r.spans.Ended() {
		if strings.Contains(fmt.Sprint(s.Attributes(), s.Events(), s.Status()), sentinel) {
			t.Errorf("span %s shows the query", s.Name())
		}
	}
	// The lines of workflow and activity carry the trace.
	for _, msg := range []string{"operating", "working"} {
		if !r.log.has(`"msg":"`+msg+`"`, `"trace_id":"`+op.SpanContext().TraceID().String()+`"`, `"workflow_id":"op"`) {
			t.Errorf("no line %q with the trace id:\n%s", msg, r.log)
		}
	}
	// The SDK's metrics of client and worker are in the registry, a moment later.
	missing := []string{
		`temporal_workflow_completed_total{activity_type="none",client_name="temporal_go",namespace="default",task_queue="traced",worker_type="none",workflow_type="Operation"} 1`,
		`operation="StartWorkflowExecution"`,
		`temporal_activity_execution_latency_seconds_count{activity_type="Work"`,
	}
	for deadline := time.Now().Add(20 * time.Second); len(missing) > 0; time.Sleep(20 * time.Millisecond) {
		w := httptest.NewRecorder()
		r.metrics.Handler().ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/metrics", nil))
		missing = slices.DeleteFunc(missing, func(s string) bool { return strings.Contains(w.Body.String(), s) })
		if time.Now().After(deadline) {
			t.Fatalf("metrics lack %q:\n%s", missing, w.Body.String())
		}
	}
}

func TestBackgroundMakesNoSpans(t *testing.T) {
	t.Parallel()
	r := newRig(t, temporalclient.Options{})
	ctx := t.Context()
	if err := r.start(t, ctx, "untraced", "Operation", "x").Get(ctx, nil); err != nil {
		t.Fatal(err)
	}
	// A schedule's runs are not part of the trace of whoever made the schedule.
	opCtx, op := r.tracing.StartOperation(ctx, "schedules apply")
	handle, err := r.Client.ScheduleClient().Create(opCtx, client.ScheduleOptions{
		ID: "gc/local", Spec: client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{{Every: 24 * time.Hour}}},
		Action: &client.ScheduleWorkflowAction{ID: "scheduled", Workflow: "Operation", Args: []any{"x"}, TaskQueue: r.queue},
	})
	if err != nil {
		t.Fatal(err)
	}
	op.End()
	if err := handle.Trigger(ctx, client.ScheduleTriggerOptions{}); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		d, err := handle.Describe(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Info.RecentActions) == 1 && d.Info.RecentActions[0].StartWorkflowResult != nil {
			res := d.Info.RecentActions[0].StartWorkflowResult
			if err := r.Client.GetWorkflow(ctx, res.WorkflowID, res.FirstExecutionRunID).Get(ctx, nil); err != nil {
				t.Fatal(err)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the schedule did not run within 20 s")
		}
		time.Sleep(20 * time.Millisecond)
	}
	await(t, r, op.SpanContext().TraceID(), []string{"schedules apply", "schedules apply/CreateSchedule:gc/local"})
	onlyTraces(t, r, op.SpanContext().TraceID())
	// Nothing about traces in histories that are in none.
	it := r.Client.GetWorkflowHistory(ctx, "untraced", "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			t.Fatal(err)
		}
		if b, _ := proto.Marshal(e); bytes.Contains(b, []byte("_tracer-data")) {
			t.Errorf("event %s has a trace header", e.GetEventType())
		}
	}
}

func TestTracesOfALongLife(t *testing.T) {
	t.Parallel()
	r := newRig(t, temporalclient.Options{})
	ctx := t.Context()
	doing := func(want int) {
		t.Helper()
		deadline := time.Now().Add(20 * time.Second)
		for got := 0; got != want; {
			v, err := r.Client.QueryWorkflow(ctx, "entity", "", "done")
			if err == nil {
				err = v.Get(&got)
			}
			if err != nil || time.Now().After(deadline) {
				t.Fatalf("done is %d, %v, want %d", got, err, want)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	createCtx, create := r.tracing.StartOperation(ctx, "create")
	r.start(t, createCtx, "entity", "Entity")
	create.End()
	const started = "create/StartWorkflow:Entity/RunWorkflow:Entity"
	const reported = started + "/StartActivity:Report/RunActivity:Report/SignalWithStartWorkflow:FleetWatch"
	created := []string{"create", "create/StartWorkflow:Entity", started, started + "/StartActivity:Report",
		started + "/StartActivity:Report/RunActivity:Report", reported, reported + "/HandleSignal:report"}
	await(t, r, create.SpanContext().TraceID(), created)
	if err := r.Client.GetWorkflow(ctx, "fleet/x", "").Get(ctx, nil); err != nil {
		t.Fatal(err)
	}

	// What happens later on its own is in no trace.
	if err := r.Client.SignalWorkflow(ctx, "entity", "", "drift", nil); err != nil {
		t.Fatal(err)
	}
	doing(1)
	untraced, err := r.Client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{WorkflowID: "entity", UpdateName: "replace", WaitForStage: client.WorkflowUpdateStageCompleted})
	if err == nil {
		err = untraced.Get(ctx, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	await(t, r, create.SpanContext().TraceID(), created)

	// An update's work is in the update's trace.
	replaceCtx, replace := r.tracing.StartOperation(ctx, "replace")
	h, err := r.Client.UpdateWorkflow(replaceCtx, client.UpdateWorkflowOptions{WorkflowID: "entity", UpdateName: "replace", WaitForStage: client.WorkflowUpdateStageCompleted})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Get(ctx, nil); err != nil {
		t.Fatal(err)
	}
	replace.End()
	const handled = "replace/UpdateWorkflow:replace/HandleUpdate:replace"
	await(t, r, replace.SpanContext().TraceID(), []string{
		"replace", "replace/UpdateWorkflow:replace", "replace/UpdateWorkflow:replace/ValidateUpdate:replace", handled, handled + "/StartActivity:Work",
		handled + "/StartActivity:Work/RunActivity:Work", handled + "/StartActivity:Work/RunActivity:Work/provider.create",
		handled + "/StartActivity:Work/RunActivity:Work/provider.create/HTTP GET",
	})

	// After a replay the first trace goes on below the same span, which is not
	// told again.
	worker.PurgeStickyWorkflowCache()
	if err := r.Client.SignalWorkflow(ctx, "entity", "", "first", nil); err != nil {
		t.Fatal(err)
	}
	doing(4)
	await(t, r, create.SpanContext().TraceID(), append(created, started+"/StartActivity:Work", started+"/StartActivity:Work/RunActivity:Work",
		started+"/StartActivity:Work/RunActivity:Work/provider.create", started+"/StartActivity:Work/RunActivity:Work/provider.create/HTTP GET"))
	onlyTraces(t, r, create.SpanContext().TraceID(), replace.SpanContext().TraceID())
}

// TestNothingSecretIsStored: the sentinel goes through input, result and failure
// of real runs and is in no event of their histories.
func TestNothingSecretIsStored(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/codec.json"
	keys, err := codec.OpenOrCreate(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, temporalclient.Options{Codec: codec.New(keys)})
	ctx, op := r.tracing.StartOperation(t.Context(), "op")
	var result string
	if err := r.start(t, ctx, "op", "Operation", sentinel).Get(ctx, &result); err != nil || result != sentinel {
		t.Fatalf("result %q, %v", result, err)
	}
	err = r.start(t, ctx, "fails", "Failing").Get(ctx, nil)
	if err == nil || !strings.Contains(err.Error(), sentinel) {
		t.Errorf("the holder of the key reads %v, want the failure's text", err)
	}
	op.End()
	for _, id := range []string{"op", "fails"} {
		it := r.Client.GetWorkflowHistory(ctx, id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		sealed := 0
		for it.HasNext() {
			e, err := it.Next()
			if err != nil {
				t.Fatal(err)
			}
			b, err := proto.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(b, []byte(sentinel)) {
				t.Errorf("%s: event %s shows the secret", id, e.GetEventType())
			}
			sealed += bytes.Count(b, []byte(codec.Encoding))
		}
		if sealed == 0 {
			t.Errorf("%s: nothing is sealed", id)
		}
	}
	// A benign failure is no error of its span, the last one is.
	var status []codes.Code
	for _, s := range r.spans.Ended() {
		if s.Name() == "RunActivity:Poll" {
			status = append(status, s.Status().Code)
		}
	}
	if diff := cmp.Diff([]codes.Code{codes.Unset, codes.Error}, status); diff != "" {
		t.Errorf("status of the attempts (-want +got):\n%s", diff)
	}
}
