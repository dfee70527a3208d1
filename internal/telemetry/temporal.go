package telemetry

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/workflows/spans"
)

// traceHeader is the header that all Temporal SDKs use for a trace context. It
// is stored in histories in the clear, so it carries no baggage.
const traceHeader = "_tracer-data"

// Operations of the SDK that are treated specially.
const (
	opRunWorkflow    = "RunWorkflow"
	opCreateSchedule = "CreateSchedule"
)

// TemporalInterceptor traces clients, workflows and activities of Temporal. It
// never begins a trace: without a recorded parent there is neither a span nor a
// header in the history. background names the workflow types that are nobody's
// operation, whoever started them: their own steps are in no trace.
//
// The span of a workflow is ended when its first task is processed, since ours
// live for months and a trace whose middle is missing cannot be read. After a
// replay the later steps still name that span as their parent.
func TemporalInterceptor(tp trace.TracerProvider, background ...string) interceptor.Interceptor {
	_, off := tp.(noop.TracerProvider)
	t := temporalTracer{
		tracer:     tp.Tracer("github.com/tollgate-dev/tollgate/internal/telemetry"),
		recording:  !off,
		background: map[string]bool{},
	}
	for _, name := range background {
		t.background[name] = true
	}
	return &temporalInterceptor{Interceptor: interceptor.NewTracingInterceptor(&t), tracer: t}
}

// temporalInterceptor gives each workflow a tracer that knows whether the
// workflow is replaying.
type temporalInterceptor struct {
	interceptor.Interceptor
	tracer temporalTracer
}

func (i *temporalInterceptor) InterceptWorkflow(ctx workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	t := i.tracer
	t.replaying = func() bool { return workflow.IsReplaying(ctx) }
	return interceptor.NewTracingInterceptor(&t).InterceptWorkflow(ctx, next)
}

// temporalTracer is the OpenTelemetry side of the SDK's tracing interceptor.
type temporalTracer struct {
	interceptor.BaseTracer
	tracer     trace.Tracer
	recording  bool
	background map[string]bool
	replaying  func() bool // nil outside of workflows
}

var _ interceptor.Tracer = (*temporalTracer)(nil)

// span is what the SDK hands around. It holds a parent that came by header, too.
type span struct {
	trace.Span
	noHeader bool // the receiver does not belong to this trace
}

func (t *temporalTracer) Options() interceptor.TracerOptions {
	return interceptor.TracerOptions{SpanContextKey: spans.ContextKey, HeaderKey: traceHeader, AllowInvalidParentSpans: true}
}

func (t *temporalTracer) UnmarshalSpan(m map[string]string) (interceptor.TracerSpanRef, error) {
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier(m))
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return nil, nil // started by somebody who traces differently, or not at all
	}
	return &span{Span: trace.SpanFromContext(ctx)}, nil
}

func (t *temporalTracer) MarshalSpan(ts interceptor.TracerSpan) (map[string]string, error) {
	s, ok := ts.(*span)
	if !ok || s.noHeader || !s.SpanContext().IsSampled() {
		return nil, nil
	}
	m := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpan(context.Background(), s.Span), m)
	return m, nil
}

func (t *temporalTracer) SpanFromContext(ctx context.Context) interceptor.TracerSpan {
	s := trace.SpanFromContext(ctx)
	if !s.SpanContext().IsValid() {
		return nil
	}
	return &span{Span: s}
}

func (t *temporalTracer) ContextWithSpan(ctx context.Context, ts interceptor.TracerSpan) context.Context {
	if s, ok := ts.(*span); ok && s.SpanContext().IsValid() {
		return trace.ContextWithSpan(ctx, s.Span)
	}
	return ctx
}

func (t *temporalTracer) GetLogger(l log.Logger, ref interceptor.TracerSpanRef) log.Logger {
	s, ok := ref.(*span)
	if !ok || !s.SpanContext().IsSampled() {
		return l
	}
	return log.With(l, KeyTraceID, s.SpanContext().TraceID().String(), KeySpanID, s.SpanContext().SpanID().String())
}

func (t *temporalTracer) StartSpan(opts *interceptor.TracerStartSpanOptions) (interceptor.TracerSpan, error) {
	var parent trace.SpanContext
	if opts.Parent != nil {
		p, ok := opts.Parent.(*span)
		if !ok {
			return nil, fmt.Errorf("start span %s: parent is a %T", t.SpanName(opts), opts.Parent)
		}
		parent = p.SpanContext()
	}
	if opts.Operation == opRunWorkflow && t.background[opts.Name] {
		parent = trace.SpanContext{} // whoever started it
	}
	if !parent.IsSampled() {
		return &span{Span: unrecorded(parent)}, nil
	}
	if opts.Operation == opRunWorkflow {
		return &span{Span: t.runWorkflow(parent, opts)}, nil
	}
	return &span{Span: t.start(context.Background(), parent, opts), noHeader: opts.Operation == opCreateSchedule}, nil
}

func (t *temporalTracer) start(ctx context.Context, parent trace.SpanContext, opts *interceptor.TracerStartSpanOptions) trace.Span {
	kind := trace.SpanKindServer
	if opts.ToHeader {
		kind = trace.SpanKindClient
	}
	attrs := make([]attribute.KeyValue, 0, len(opts.Tags))
	for k, v := range opts.Tags {
		attrs = append(attrs, attribute.String(k, v))
	}
	start := []trace.SpanStartOption{trace.WithSpanKind(kind), trace.WithAttributes(attrs...)}
	if !opts.Time.IsZero() {
		start = append(start, trace.WithTimestamp(opts.Time))
	}
	_, s := t.tracer.Start(trace.ContextWithSpanContext(ctx, parent), t.SpanName(opts), start...)
	return s
}

// runWorkflow makes the span of a workflow, once: its id is a function of the
// run, so a replay on another worker needs no second one.
func (t *temporalTracer) runWorkflow(parent trace.SpanContext, opts *interceptor.TracerStartSpanOptions) trace.Span {
	if !t.recording || opts.IdempotencyKey == "" {
		return unrecorded(parent)
	}
	sum := sha256.Sum256([]byte(opts.IdempotencyKey))
	id := trace.SpanID(sum[:8])
	if t.replaying != nil && t.replaying() {
		return unrecorded(parent.WithSpanID(id))
	}
	s := t.start(withSpanID(context.Background(), id), parent, opts)
	s.End()
	return unrecorded(s.SpanContext())
}

// unrecorded is a span that only stands for its context.
func unrecorded(sc trace.SpanContext) trace.Span {
	return trace.SpanFromContext(trace.ContextWithSpanContext(context.Background(), sc))
}

// Finish ends the span. A benign failure, such as "not ready yet", is an event
// and no error.
func (s *span) Finish(opts *interceptor.TracerFinishSpanOptions) {
	if err := opts.Error; err != nil && s.IsRecording() {
		s.RecordError(err)
		if !benign(err) {
			s.SetStatus(codes.Error, err.Error())
		}
	}
	s.End()
}

func benign(err error) bool {
	var app *temporal.ApplicationError
	return errors.As(err, &app) && app.Category() == temporal.ApplicationErrorCategoryBenign
}
