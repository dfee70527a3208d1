package decorators

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// resultOK is the result of a call that succeeded, in spans and metrics.
const resultOK = "OK"

func result(err error) string {
	if err == nil {
		return resultOK
	}
	return string(provider.ClassOf(err))
}

// WithTracing makes one client span per call, "provider.create" and so on, with
// the attributes provider.name, provider.id, provider.result (OK or the error's
// class) and provider.reason. A failure sets the status and the error's text,
// except NotFound of Get and Find, which is an answer. Without a span in the
// context there is none: background work starts no traces.
func WithTracing(p provider.Provider, name string, tp trace.TracerProvider) provider.Provider {
	tracer := tp.Tracer("github.com/tollgate-dev/tollgate/internal/provider/decorators")
	return intercept(p, func(ctx context.Context, c *call, do func(context.Context) error) error {
		if !trace.SpanContextFromContext(ctx).IsValid() {
			return do(ctx)
		}
		ctx, span := tracer.Start(ctx, "provider."+string(c.op), trace.WithSpanKind(trace.SpanKindClient),
			trace.WithAttributes(attribute.String("provider.name", name)))
		defer span.End()
		err := do(ctx)
		span.SetAttributes(attribute.String("provider.result", result(err)))
		if c.id != "" {
			span.SetAttributes(attribute.String("provider.id", c.id))
		}
		if reason := provider.ReasonOf(err); reason != "" {
			span.SetAttributes(attribute.String("provider.reason", reason))
		}
		if err != nil && !isAnswer(c.op, err) {
			span.SetStatus(codes.Error, err.Error())
		}
		return err
	})
}

// isAnswer reports whether the error is what the caller asked about.
func isAnswer(op provider.Op, err error) bool {
	return (op == provider.OpGet || op == provider.OpFind) && provider.ClassOf(err) == provider.NotFound
}
