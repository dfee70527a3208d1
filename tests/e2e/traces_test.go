//go:build e2e

package e2e

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// tracer is a collector of traces. It keeps each span and all bytes of the
// exports.
type tracer struct {
	collector.UnimplementedTraceServiceServer
	endpoint string

	mu    sync.Mutex
	spans []span
	raw   []byte
}

type span struct {
	service, name     string
	trace, id, parent string
	operation         bool // somebody asked for it, so it may begin a trace
}

func newTracer(t testing.TB) *tracer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &tracer{endpoint: "http://" + l.Addr().String()}
	s := grpc.NewServer(grpc.MaxRecvMsgSize(64 << 20))
	collector.RegisterTraceServiceServer(s, c)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return c
}

// env makes a program export to the collector without delay.
func (c *tracer) env() []string {
	return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.endpoint, "OTEL_BSP_SCHEDULE_DELAY=100"}
}

// Export takes spans in.
func (c *tracer) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	raw, err := proto.Marshal(r)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw = append(c.raw, raw...)
	for _, rs := range r.GetResourceSpans() {
		service := ""
		for _, a := range rs.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				service = a.GetValue().GetStringValue()
			}
		}
		for _, ss := range rs.GetScopeSpans() {
			for _, s := range ss.GetSpans() {
				out := span{service: service, name: s.GetName(), trace: hex.EncodeToString(s.GetTraceId()),
					id: hex.EncodeToString(s.GetSpanId()), parent: hex.EncodeToString(s.GetParentSpanId())}
				for _, a := range s.GetAttributes() {
					out.operation = out.operation || a.GetKey() == "tollgate.operation" && a.GetValue().GetBoolValue()
				}
				c.spans = append(c.spans, out)
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func (c *tracer) all() []span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

func (c *tracer) bytes() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.raw)
}

// trace is the trace that begins with the span of that name; there must be one.
func (c *tracer) trace(t testing.TB, root string) (in []span) {
	t.Helper()
	all := c.all()
	var id string
	for _, s := range all {
		if s.parent == "" && s.name == root {
			if id != "" {
				t.Fatalf("two traces begin with %q", root)
			}
			id = s.trace
		}
	}
	for _, s := range all {
		if s.trace == id {
			in = append(in, s)
		}
	}
	return in
}

// path are the names from the root of the trace to its first span of that name.
func path(trace []span, name string) []string {
	byID := map[string]span{}
	for _, s := range trace {
		byID[s.id] = s
	}
	i := slices.IndexFunc(trace, func(s span) bool { return s.name == name })
	if i < 0 {
		return nil
	}
	var names []string
	for s, ok := trace[i], true; ok && len(names) < 100; s, ok = byID[s.parent] {
		names = append(names, s.service+" "+s.name)
	}
	slices.Reverse(names)
	return names
}

// wantOneTrace has the whole of a create in one trace, from the command line to
// the provider.
func (c *tracer) wantOneTrace(t testing.TB) {
	t.Helper()
	want := []string{
		"tollgate-cli tollgate proxy create", "tollgate-cli StartWorkflow:Proxy", "tollgate-worker RunWorkflow:Proxy",
		"tollgate-worker StartActivity:CreateInstance", "tollgate-worker RunActivity:CreateInstance", "tollgate-worker provider.create",
	}
	poll(t, 20*time.Second, func() string {
		trace := c.trace(t, "tollgate proxy create")
		if got := path(trace, "provider.create"); !slices.Equal(got, want) {
			return fmt.Sprintf("the provider's span is reached by\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		for _, name := range []string{"RunActivity:WaitRunning", "provider.get", "RunActivity:Prove"} {
			if path(trace, name) == nil {
				return "the trace lacks " + name
			}
		}
		return ""
	})
	trace := c.trace(t, "tollgate proxy create")
	ids := map[string]bool{}
	roots := 0
	for _, s := range trace {
		ids[s.id] = true
		if s.parent == "" {
			roots++
		}
	}
	if roots != 1 {
		t.Errorf("the trace has %d roots", roots)
	}
	for _, s := range trace {
		if s.parent != "" && !ids[s.parent] {
			t.Errorf("the parent of %s of %s is missing", s.name, s.service)
		}
	}
}

// wantNoBackground has every trace begin with something that somebody asked for,
// and the rounds of the fleets in none.
func (c *tracer) wantNoBackground(t testing.TB) {
	t.Helper()
	begun := map[string]bool{}
	for _, s := range c.all() {
		if s.parent == "" {
			begun[s.trace] = true
			if !s.operation || !strings.HasPrefix(s.name, "tollgate ") && s.name != "discovery" {
				t.Errorf("a trace begins with %s of %s, which nobody asked for", s.name, s.service)
			}
		}
	}
	for _, s := range c.all() {
		if !begun[s.trace] {
			t.Errorf("%s of %s is in a trace without a beginning", s.name, s.service)
		}
		for _, round := range []string{"ProbeFleet", "CompareFleet", "provider.list"} {
			if strings.Contains(s.name, round) {
				t.Errorf("%s of %s, a part of a round, is in a trace", s.name, s.service)
			}
		}
	}
}
