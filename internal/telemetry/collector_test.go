package telemetry_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"

	"github.com/tollgate-dev/tollgate/internal/telemetry"
)

// fakeCollector keeps the names of the spans that it is sent, by service.
type fakeCollector struct {
	collector.UnimplementedTraceServiceServer
	mu  sync.Mutex
	got map[string][]string
}

func (c *fakeCollector) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rs := range r.ResourceSpans {
		service := ""
		for _, a := range rs.Resource.Attributes {
			if a.Key == "service.name" {
				service = a.Value.GetStringValue()
			}
		}
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				c.got[service] = append(c.got[service], s.Name)
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func TestSpansReachTheCollector(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &fakeCollector{got: map[string][]string{}}
	s := grpc.NewServer()
	collector.RegisterTraceServiceServer(s, c)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)

	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+l.Addr().String())
	tr, err := telemetry.NewTracing(t.Context(), telemetry.TracingOptions{Service: "tollgate-worker", Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	_, background := tr.TracerProvider().Tracer("x").Start(t.Context(), "probe round")
	background.End()
	_, op := tr.StartOperation(t.Context(), "proxy create")
	op.End()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := tr.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if diff := cmp.Diff(map[string][]string{"tollgate-worker": {"proxy create"}}, c.got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestUnreachableCollectorDelaysNothing: a worker starts, works and stops.
func TestUnreachableCollectorDelaysNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+l.Addr().String())
	start := time.Now()
	tr, err := telemetry.NewTracing(t.Context(), telemetry.TracingOptions{Service: "s"})
	if err != nil {
		t.Fatal(err)
	}
	_, op := tr.StartOperation(t.Context(), "op")
	op.End()
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("starting took %s", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := tr.Shutdown(ctx); err == nil || !strings.Contains(err.Error(), "shut tracing down") {
		t.Errorf("shutdown: %v, want to hear of the lost spans", err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("stopping took %s", took)
	}
}
