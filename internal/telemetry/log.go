package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"go.opentelemetry.io/otel/trace"
)

// LevelTrace is the tier below Debug: details of requests and answers, without
// secrets.
const LevelTrace = slog.LevelDebug - 4

// Keys of the attributes that this package adds.
const (
	KeyTraceID   = "trace_id"
	KeySpanID    = "span_id"
	KeyComponent = "component"
)

// Formats of NewLogger.
const (
	FormatText = "text"
	FormatJSON = "json"
)

// ParseLevel reads a level of the configuration: trace, debug, info, warn or
// error, in any case. Empty is info.
func ParseLevel(s string) (slog.Level, error) {
	switch strings.ToLower(s) {
	case "trace":
		return LevelTrace, nil
	case "debug":
		return slog.LevelDebug, nil
	case "", "info":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, fmt.Errorf("log.level: %q is not a level: use trace, debug, info, warn or error", s)
}

// NewLogger returns a logger that writes lines of a format, text (or empty) or
// json, to w. A *slog.LevelVar as level can be changed while it runs. Lines
// logged with a context that carries a recorded span get trace_id and span_id.
func NewLogger(w io.Writer, format string, level slog.Leveler) (*slog.Logger, error) {
	opts := &slog.HandlerOptions{Level: level, ReplaceAttr: nameTrace}
	var h slog.Handler
	switch strings.ToLower(format) {
	case "", FormatText:
		h = slog.NewTextHandler(w, opts)
	case FormatJSON:
		h = slog.NewJSONHandler(w, opts)
	default:
		return nil, fmt.Errorf("log.format: %q is not a format: use %s or %s", format, FormatText, FormatJSON)
	}
	return slog.New(traceHandler{h}), nil
}

// Component returns a logger whose lines say which part of Tollgate speaks.
func Component(l *slog.Logger, name string) *slog.Logger { return l.With(KeyComponent, name) }

// nameTrace prints LevelTrace by its name.
func nameTrace(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.LevelKey {
		if l, ok := a.Value.Any().(slog.Level); ok && l == LevelTrace {
			a.Value = slog.StringValue("TRACE")
		}
	}
	return a
}

// traceHandler adds the ids of the span in a line's context. A span that is not
// recorded has ids too, but they lead nowhere.
type traceHandler struct{ slog.Handler }

func (h traceHandler) Handle(ctx context.Context, r slog.Record) error {
	if sc := trace.SpanContextFromContext(ctx); sc.IsSampled() {
		r = r.Clone()
		r.AddAttrs(slog.String(KeyTraceID, sc.TraceID().String()), slog.String(KeySpanID, sc.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

func (h traceHandler) WithAttrs(as []slog.Attr) slog.Handler {
	return traceHandler{h.Handler.WithAttrs(as)}
}
func (h traceHandler) WithGroup(name string) slog.Handler {
	return traceHandler{h.Handler.WithGroup(name)}
}
