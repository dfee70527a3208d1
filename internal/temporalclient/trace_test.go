package temporalclient_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"

	"github.com/tollgate-dev/tollgate/internal/codec"
	"github.com/tollgate-dev/tollgate/internal/devserver/devservertest"
	"github.com/tollgate-dev/tollgate/internal/telemetry"
	"github.com/tollgate-dev/tollgate/internal/temporalclient"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/spans"
)

const sentinel = "SENTINEL-c0ffee-must-stay-secret"

// rig is a worker with tracing, a client and a backend behind its activities.
type rig struct {
	*temporalclient.Connection
	tracing *telemetry.Tracing
	spans   *tracetest.SpanRecorder
	log     *syncBuffer
	queue   string
}

// activities call the backend as a driver does.
type testActivities struct {
	backend string
	http    *http.Client
	tracer  trace.Tracer
	client  client.Client
	queue   string
}

// Work makes one provider call of one request.
func (a *testActivities) Work(ctx context.Context, _ string) error {
	activity.GetLogger(ctx).Info("working")
	ctx, span := a.tracer.Start(ctx, "provider.create")
	defer span.End()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.backend+"/v1/servers?token="+sentinel, nil)
	if err != nil {
		return err
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// Poll is not ready at its first attempts.
func (a *testActivities) Poll(ctx context.Context) error {
	if activity.GetInfo(ctx).Attempt < 2 {
		return temporal.NewApplicationErrorWithOptions("not ready yet", "NotReady", temporal.ApplicationErrorOptions{Category: temporal.ApplicationErrorCategoryBenign})
	}
	return errors.New("gone with " + sentinel)
}

// Report starts the background workflow, as a proxy does.
func (a *testActivities) Report(ctx context.Context) error {
	_, err := a.client.SignalWithStartWorkflow(ctx, "fleet/x", workflows.SignalReport, "row",
		client.StartWorkflowOptions{ID: "fleet/x", TaskQueue: a.queue}, workflows.TypeFleetWatch)
	return err
}

func options(max int32) workflow.ActivityOptions {
	return workflow.ActivityOptions{StartToCloseTimeout: 20 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Millisecond, MaximumAttempts: max}}
}

var acts *testActivities

func operation(ctx workflow.Context, secret string) (string, error) {
	workflow.GetLogger(ctx).Info("operating")
	ctx = workflow.WithActivityOptions(ctx, options(3))
	return secret, workflow.ExecuteActivity(ctx, acts.Work, secret).Get(ctx, nil)
}

func failing(ctx workflow.Context) error {
	ctx = workflow.WithActivityOptions(ctx, options(2))
	return workflow.ExecuteActivity(ctx, acts.Poll).Get(ctx, nil)
}

// entity works once, then does what signals and updates ask: a signal's work is
// nobody's operation, an update's work belongs to the update.
func entity(ctx workflow.Context) error {
	first := workflow.WithActivityOptions(ctx, options(3))
	if err := workflow.ExecuteActivity(first, acts.Report).Get(first, nil); err != nil {
		return err
	}
	ctx = spans.Detach(first)
	done := 0
	if err := workflow.SetQueryHandler(ctx, "done", func() (int, error) { return done, nil }); err != nil {
		return err
	}
	requests := workflow.NewBufferedChannel(ctx, 16)
	if err := workflow.SetUpdateHandler(ctx, "replace", func(uctx workflow.Context) error {
		before := done
		requests.Send(uctx, spans.Adopt(ctx, uctx))
		return workflow.Await(uctx, func() bool { return done > before })
	}); err != nil {
		return err
	}
	for done < 10 {
		var work workflow.Context
		sel := workflow.NewSelector(ctx)
		sel.AddReceive(requests, func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, &work) })
		sel.AddReceive(workflow.GetSignalChannel(ctx, "drift"), func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, nil); work = ctx })
		sel.AddReceive(workflow.GetSignalChannel(ctx, "first"), func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, nil); work = first })
		sel.Select(ctx)
		if err := workflow.ExecuteActivity(work, acts.Work, "").Get(ctx, nil); err != nil {
			return err
		}
		done++
	}
	return nil
}

// fleet works on its own after every report.
func fleet(ctx workflow.Context) error {
	ctx = workflow.WithActivityOptions(ctx, options(3))
	workflow.GetSignalChannel(ctx, workflows.SignalReport).Receive(ctx, nil)
	return workflow.ExecuteActivity(ctx, acts.Work, "").Get(ctx, nil)
}

func newRig(t *testing.T, o temporalclient.Options) *rig {
	t.Helper()
	server := devservertest.Start(t)
	r := &rig{spans: tracetest.NewSpanRecorder(), log: &syncBuffer{}, queue: "traced"}
	logger, err := telemetry.NewLogger(r.log, "json", telemetry.LevelTrace)
	if err != nil {
		t.Fatal(err)
	}
	r.tracing, err = telemetry.NewTracing(t.Context(), telemetry.TracingOptions{
		Service: "test", Getenv: func(string) string { return "" }, Processors: []sdktrace.SpanProcessor{r.spans},
	})
	if err != nil {
		t.Fatal(err)
	}
	o.Address, o.TracerProvider, o.Logger = server.HostPort(), r.tracing.TracerProvider(), logger
	r.Connection = dial(t, o)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	t.Cleanup(backend.Close)
	r.startWorker(t, backend.URL)
	return r
}

func (r *rig) startWorker(t *testing.T, backend string) {
	t.Helper()
	w := worker.New(r.Client, r.queue, worker.Options{})
	w.RegisterWorkflowWithOptions(operation, workflow.RegisterOptions{Name: "Operation"})
	w.RegisterWorkflowWithOptions(failing, workflow.RegisterOptions{Name: "Failing"})
	w.RegisterWorkflowWithOptions(entity, workflow.RegisterOptions{Name: "Entity"})
	w.RegisterWorkflowWithOptions(fleet, workflow.RegisterOptions{Name: workflows.TypeFleetWatch})
	w.RegisterActivity(&testActivities{backend: backend, http: &http.Client{Transport: telemetry.Transport(nil)},
		tracer: r.tracing.TracerProvider().Tracer("test"), client: r.Client, queue: r.queue})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
}

func (r *rig) start(t *testing.T, ctx context.Context, id, typ string, args ...any) client.WorkflowRun {
	t.Helper()
	run, err := r.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: r.queue}, typ, args...)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

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
	if err := r.Client.GetWorkflow(ctx, "fleet/x", "").Get(ctx, nil); err != nil {
		// The fleet may not be started yet: its trace is awaited below.
		t.Logf("fleet: %v", err)
	}
	await(t, r, create.SpanContext().TraceID(), created)
	if err := r.Client.GetWorkflow(ctx, "fleet/x", "").Get(ctx, nil); err != nil {
		t.Fatal(err)
	}

	// What happens later on its own is in no trace.
	if err := r.Client.SignalWorkflow(ctx, "entity", "", "drift", nil); err != nil {
		t.Fatal(err)
	}
	doing(1)
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
	doing(3)
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

// syncBuffer is a buffer that a logger and a test share.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// has reports whether one line has all the parts.
func (s *syncBuffer) has(parts ...string) bool {
	for line := range strings.Lines(s.String()) {
		all := true
		for _, p := range parts {
			all = all && strings.Contains(line, p)
		}
		if all {
			return true
		}
	}
	return false
}
