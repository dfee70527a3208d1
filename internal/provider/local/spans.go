package local

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// startSpan opens a span for one step under the operation's span. Without one
// there is nothing to belong to, and no span.
func startSpan(ctx context.Context, name string) (context.Context, func(error)) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, func(error) {}
	}
	ctx, span := otel.Tracer("github.com/tollgate-dev/tollgate/internal/provider/local").Start(ctx, name)
	return ctx, func(err error) {
		if err != nil {
			class, _ := classify(err)
			span.SetStatus(codes.Error, string(class))
		}
		span.End()
	}
}
