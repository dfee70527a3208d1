package temporalclient_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

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
	metrics *telemetry.Metrics
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
	if r.metrics, err = telemetry.NewMetrics(telemetry.BuildInfo{}, logger); err != nil {
		t.Fatal(err)
	}
	o.Metrics = r.metrics.Temporal()
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
