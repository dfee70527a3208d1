package telemetry

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// TracingOptions are what NewTracing needs to know beyond the environment.
type TracingOptions struct {
	// Service is the service.name unless OTEL_SERVICE_NAME or
	// OTEL_RESOURCE_ATTRIBUTES says otherwise.
	Service string
	Version string
	Logger  *slog.Logger // where export failures go; nil discards them
	// Getenv replaces os.Getenv. It does not reach the exporter's own variables.
	Getenv func(string) string
	// Processors get the spans besides (or, without an exporter, instead of) the
	// OTLP exporter. Tests record with one.
	Processors []sdktrace.SpanProcessor
}

// Tracing is a process's tracing. With no exporter configured it does nothing
// but hand the trace contexts of others on.
type Tracing struct {
	provider trace.TracerProvider
	sdk      *sdktrace.TracerProvider // nil without tracing
	tracer   trace.Tracer
	logger   *slog.Logger
}

// NewTracing sets tracing up from the standard OTEL_* variables. Spans are
// exported by OTLP over gRPC when OTEL_EXPORTER_OTLP_ENDPOINT or
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set or OTEL_TRACES_EXPORTER is otlp, and
// not when OTEL_SDK_DISABLED is true or OTEL_TRACES_EXPORTER is none.
// OTEL_TRACES_SAMPLER chooses among operations; background work is never a root.
//
// The exporter connects in the background: an unreachable collector delays
// nothing.
func NewTracing(ctx context.Context, o TracingOptions) (*Tracing, error) {
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	export, err := exportWanted(o.Getenv)
	if err != nil {
		return nil, err
	}
	operations, err := operationSampler(o.Getenv)
	if err != nil {
		return nil, err
	}
	processors := o.Processors
	if export {
		exporter, err := otlptracegrpc.New(ctx)
		if err != nil {
			return nil, fmt.Errorf("trace exporter: %w", err)
		}
		processors = append(processors, sdktrace.NewBatchSpanProcessor(exporter))
	}
	if len(processors) == 0 {
		return newTracing(noop.NewTracerProvider(), nil, o.Logger), nil
	}
	res, err := resource.New(ctx,
		resource.WithTelemetrySDK(), resource.WithHost(),
		resource.WithAttributes(attribute.String("service.name", o.Service), attribute.String("service.version", o.Version)),
		resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	opts := []sdktrace.TracerProviderOption{
		sdktrace.WithResource(res),
		sdktrace.WithIDGenerator(idGenerator{}),
		sdktrace.WithSampler(NewSampler(operations)),
	}
	for _, p := range processors {
		opts = append(opts, sdktrace.WithSpanProcessor(p))
	}
	tp := sdktrace.NewTracerProvider(opts...)
	return newTracing(tp, tp, o.Logger), nil
}

func newTracing(tp trace.TracerProvider, sdk *sdktrace.TracerProvider, logger *slog.Logger) *Tracing {
	return &Tracing{provider: tp, sdk: sdk, tracer: tp.Tracer("github.com/tollgate-dev/tollgate"), logger: logger}
}

// Install makes this OpenTelemetry's global tracing, for libraries that look
// there, and logs what goes wrong inside OpenTelemetry. Call it once, in main.
func (t *Tracing) Install() {
	otel.SetTextMapPropagator(Propagator())
	otel.SetTracerProvider(t.provider)
	otel.SetErrorHandler(errorLogger(t.logger))
}

// Propagator is how trace contexts cross HTTP: W3C tracecontext, no baggage.
func Propagator() propagation.TextMapPropagator { return propagation.TraceContext{} }

// TracerProvider is never nil.
func (t *Tracing) TracerProvider() trace.TracerProvider { return t.provider }

// Enabled reports whether spans go anywhere.
func (t *Tracing) Enabled() bool { return t.sdk != nil }

// Shutdown exports what is left, until ctx ends.
func (t *Tracing) Shutdown(ctx context.Context) error {
	if t.sdk == nil {
		return nil
	}
	if err := t.sdk.Shutdown(ctx); err != nil {
		return fmt.Errorf("shut tracing down: %w", err)
	}
	return nil
}

// StartOperation begins the span of an operation that somebody asked for, and
// with it a trace unless ctx is in one already. End the span with EndOperation.
func (t *Tracing) StartOperation(ctx context.Context, name string, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	return t.tracer.Start(ctx, name, trace.WithAttributes(append(attrs, operationRoot)...))
}

// EndOperation ends a span with the outcome of its operation. The text of err
// becomes part of the span; our errors hold no secrets.
func EndOperation(s trace.Span, err error) {
	if err != nil {
		s.RecordError(err)
		s.SetStatus(codes.Error, err.Error())
	}
	s.End()
}

// exportWanted reads which exporter the environment asks for.
func exportWanted(getenv func(string) string) (bool, error) {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	switch v := getenv("OTEL_TRACES_EXPORTER"); v {
	case "none":
		return false, nil
	case "otlp":
	case "":
		if getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
			return false, nil
		}
	default:
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER: %q is not supported: use otlp or none", v)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if v := getenv(name); v == "grpc" {
			break
		} else if v != "" {
			return false, fmt.Errorf("%s: %q is not supported: use grpc", name, v)
		}
	}
	return true, nil
}

// errorLogger logs what goes wrong inside OpenTelemetry, at most once a minute:
// an absent collector fails every few seconds.
func errorLogger(l *slog.Logger) otel.ErrorHandler {
	var last atomic.Int64
	return otel.ErrorHandlerFunc(func(err error) {
		now, before := time.Now().UnixNano(), last.Load()
		if now-before > int64(time.Minute) && last.CompareAndSwap(before, now) {
			l.Warn("telemetry not delivered", "error", err)
		}
	})
}

// idGenerator makes random ids, except where withSpanID asks for one.
type idGenerator struct{}

type spanIDKey struct{}

func withSpanID(ctx context.Context, id trace.SpanID) context.Context {
	return context.WithValue(ctx, spanIDKey{}, id)
}

func (idGenerator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	var id trace.TraceID
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:8], rand.Uint64())
		binary.NativeEndian.PutUint64(id[8:], rand.Uint64())
	}
	return id, idGenerator{}.NewSpanID(ctx, id)
}

func (idGenerator) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if id, ok := ctx.Value(spanIDKey{}).(trace.SpanID); ok && id.IsValid() {
		return id
	}
	var id trace.SpanID
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:], rand.Uint64())
	}
	return id
}
