package telemetry_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/tollgate-dev/tollgate/internal/telemetry"
)

func TestOnlyOperationsBeginTraces(t *testing.T) {
	t.Parallel()
	tr, rec := record(t, nil)
	tracer := tr.TracerProvider().Tracer("x")

	ctx, bg := tracer.Start(t.Context(), "background")
	_, child := tracer.Start(ctx, "child of background")
	child.End()
	bg.End()
	if bg.IsRecording() || len(rec.Ended()) != 0 {
		t.Errorf("background work made spans %v", names(rec.Ended()))
	}

	ctx, op := tr.StartOperation(t.Context(), "proxy.create", attribute.String("proxy", "demo"))
	_, child = tracer.Start(ctx, "child")
	child.End()
	telemetry.EndOperation(op, errors.New("no capacity"))
	got := rec.Ended()
	if diff := cmp.Diff([]string{"child", "proxy.create"}, names(got)); diff != "" {
		t.Fatalf("spans (-want +got):\n%s", diff)
	}
	if got[0].Parent().SpanID() != op.SpanContext().SpanID() {
		t.Error("the child has another parent")
	}
	if s := got[1].Status(); s.Code != codes.Error || s.Description != "no capacity" {
		t.Errorf("status is %v", s)
	}
	_, ok := tr.StartOperation(t.Context(), "fine")
	telemetry.EndOperation(ok, nil)
	if s := rec.Ended()[2].Status(); s.Code != codes.Unset {
		t.Errorf("status is %v, want unset", s)
	}
}

func TestSamplerOfOperations(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		env      map[string]string
		min, max int // recorded of 400 operations
	}{
		"default":                 {nil, 400, 400},
		"always on":               {map[string]string{"OTEL_TRACES_SAMPLER": "always_on"}, 400, 400},
		"parent based always on":  {map[string]string{"OTEL_TRACES_SAMPLER": "parentbased_always_on"}, 400, 400},
		"always off":              {map[string]string{"OTEL_TRACES_SAMPLER": "parentbased_always_off"}, 0, 0},
		"ratio":                   {map[string]string{"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.5"}, 100, 300},
		"ratio without argument":  {map[string]string{"OTEL_TRACES_SAMPLER": "parentbased_traceidratio"}, 400, 400},
		"ratio with argument 0.0": {map[string]string{"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.0"}, 0, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr, rec := record(t, tt.env)
			for range 400 {
				_, s := tr.StartOperation(t.Context(), "op")
				s.End()
				_, s = tr.TracerProvider().Tracer("x").Start(t.Context(), "background", trace.WithAttributes(attribute.String("provider", "local")))
				s.End()
			}
			if n := len(rec.Ended()); n < tt.min || n > tt.max {
				t.Errorf("recorded %d, want %d to %d", n, tt.min, tt.max)
			}
		})
	}
}

func TestTracingEnvironment(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		env     map[string]string
		enabled bool
		err     string
	}{
		"nothing":              {nil, false, ""},
		"endpoint":             {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, true, ""},
		"traces endpoint":      {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1"}, true, ""},
		"exporter named":       {map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true, ""},
		"exporter none":        {map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, false, ""},
		"disabled":             {map[string]string{"OTEL_SDK_DISABLED": "TRUE", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, false, ""},
		"exporter unknown":     {map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, false, `OTEL_TRACES_EXPORTER: "zipkin" is not supported: use otlp or none`},
		"protocol unknown":     {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, false, `OTEL_EXPORTER_OTLP_PROTOCOL: "http/json" is not supported`},
		"traces protocol wins": {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"}, true, ""},
		"sampler unknown":      {map[string]string{"OTEL_TRACES_SAMPLER": "jaeger_remote"}, false, `OTEL_TRACES_SAMPLER: "jaeger_remote" is not supported`},
		"ratio not a number":   {map[string]string{"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "half"}, false, `OTEL_TRACES_SAMPLER_ARG: "half" is not a ratio`},
		"ratio too large":      {map[string]string{"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "2"}, false, `use a number from 0 to 1`},
		"ratio not finite":     {map[string]string{"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "NaN"}, false, `is not a ratio`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr, err := telemetry.NewTracing(t.Context(), telemetry.TracingOptions{Service: "s", Getenv: func(k string) string { return tt.env[k] }})
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error is %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if tr.Enabled() != tt.enabled {
				t.Errorf("enabled is %v, want %v", tr.Enabled(), tt.enabled)
			}
			if err := tr.Shutdown(context.Background()); err != nil {
				t.Errorf("shutdown: %v", err)
			}
		})
	}
}

// TestDisabledTracingHandsContextsOn: a process without an exporter must not cut
// the traces of others.
func TestDisabledTracingHandsContextsOn(t *testing.T) {
	t.Parallel()
	tr, err := telemetry.NewTracing(t.Context(), telemetry.TracingOptions{Service: "s", Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, s := tr.StartOperation(spanContext(true), "op")
	defer s.End()
	if got, want := trace.SpanContextFromContext(ctx), trace.SpanContextFromContext(spanContext(true)); !got.Equal(want) {
		t.Errorf("context is %v, want the caller's %v", got, want)
	}
	h := http.NotFoundHandler()
	if got := tr.Middleware("x", h); got == nil {
		t.Error("middleware gave no handler")
	}
	if _, s := tr.StartOperation(t.Context(), "op"); s.SpanContext().IsValid() {
		t.Error("a disabled tracing made a trace")
	}
}

func TestResource(t *testing.T) {
	t.Setenv("OTEL_SERVICE_NAME", "named-by-env")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
	tr, rec := record(t, nil)
	_, s := tr.StartOperation(t.Context(), "op")
	s.End()
	got := map[string]string{}
	for _, a := range rec.Ended()[0].Resource().Attributes() {
		got[string(a.Key)] = a.Value.String()
	}
	if got["service.name"] != "named-by-env" || got["deployment.environment"] != "test" || got["host.name"] == "" {
		t.Errorf("resource is %v", got)
	}
}
