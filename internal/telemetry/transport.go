package telemetry

import (
	"context"
	"net/http"
	"net/url"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Transport wraps the HTTP transport of a driver: one client span per request
// made inside a recorded span, none otherwise, so that token refreshes and
// polling begin no traces. A span holds method, host, path and status; never the
// query, user info, headers or bodies. The trace context is not sent to the
// backend. A nil base is http.DefaultTransport.
func Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return &transport{base: base, traced: otelhttp.NewTransport(restoreURL{base},
		otelhttp.WithMeterProvider(metricnoop.NewMeterProvider()),
		otelhttp.WithPropagators(propagation.NewCompositeTextMapPropagator()),
		otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string { return "HTTP " + r.Method }),
	)}
}

type transport struct{ base, traced http.RoundTripper }

// RoundTrip shows the instrumentation a request whose URL holds no query, and
// sends the real one.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !trace.SpanFromContext(r.Context()).IsRecording() {
		return t.base.RoundTrip(r)
	}
	shown := r.Clone(context.WithValue(r.Context(), realURLKey{}, r.URL))
	shown.URL.RawQuery, shown.URL.ForceQuery = "", false
	shown.URL.User = nil
	shown.URL.Fragment, shown.URL.RawFragment = "", ""
	return t.traced.RoundTrip(shown)
}

type realURLKey struct{}

type restoreURL struct{ base http.RoundTripper }

func (t restoreURL) RoundTrip(r *http.Request) (*http.Response, error) {
	if u, ok := r.Context().Value(realURLKey{}).(*url.URL); ok {
		r.URL = u // r is the instrumentation's own copy
	}
	return t.base.RoundTrip(r)
}

// Middleware makes each request to h an operation: a trace of its own, or a part
// of the caller's.
func (t *Tracing) Middleware(operation string, h http.Handler) http.Handler {
	if !t.Enabled() {
		return h
	}
	return otelhttp.NewHandler(h, operation,
		otelhttp.WithTracerProvider(t.provider),
		otelhttp.WithMeterProvider(metricnoop.NewMeterProvider()),
		otelhttp.WithPropagators(Propagator()),
		otelhttp.WithSpanOptions(trace.WithAttributes(operationRoot)),
		otelhttp.WithSpanNameFormatter(func(operation string, _ *http.Request) string { return operation }),
	)
}
