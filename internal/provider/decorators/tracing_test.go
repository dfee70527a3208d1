package decorators_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/decorators"
	"github.com/tollgate-dev/tollgate/internal/provider/memory"
)

type span struct {
	Name   string
	Status codes.Code
	Attrs  map[string]string
}

func TestTracing(t *testing.T) {
	t.Parallel()
	p, b := driver(t)
	rec := tracetest.NewSpanRecorder()
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(rec))
	chain := decorators.WithTracing(p, name, tp)

	// Nobody asked: no span.
	if _, err := chain.List(t.Context(), provider.Selector{}); err != nil {
		t.Fatal(err)
	}
	if n := len(rec.Started()); n != 0 {
		t.Fatalf("%d spans without a parent, want none", n)
	}

	ctx, parent := tp.Tracer("test").Start(t.Context(), "operation")
	id, err := chain.Create(ctx, request("u1"))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = chain.Get(ctx, "memory/99/x")
	_, _ = chain.Find(ctx, "absent", provider.Marks{UID: "u1", Installation: installation})
	_, _ = chain.Get(ctx, "nonsense")
	heal := b.Inject(memory.Fault{Err: &memory.APIError{Status: 401, Code: "unauthorized", Message: "who are you?"}})
	_, _ = chain.List(ctx, provider.Selector{})
	heal()
	_ = chain.Delete(ctx, id)
	parent.End()

	var got []span
	for _, s := range rec.Ended() {
		if s.Name() == "operation" {
			continue
		}
		if s.SpanKind() != trace.SpanKindClient || s.Parent().SpanID() != parent.SpanContext().SpanID() {
			t.Errorf("span %s: kind %v, parent %v; want a client span under the operation", s.Name(), s.SpanKind(), s.Parent().SpanID())
		}
		attrs := map[string]string{}
		for _, a := range s.Attributes() {
			attrs[string(a.Key)] = a.Value.AsString()
		}
		got = append(got, span{s.Name(), s.Status().Code, attrs})
	}
	want := []span{
		{"provider.create", codes.Unset, map[string]string{"provider.name": name, "provider.id": string(id), "provider.result": "OK"}},
		{"provider.get", codes.Unset, map[string]string{"provider.name": name, "provider.id": "memory/99/x", "provider.result": "NotFound"}},
		{"provider.find", codes.Unset, map[string]string{"provider.name": name, "provider.id": "absent", "provider.result": "NotFound"}},
		{"provider.get", codes.Error, map[string]string{"provider.name": name, "provider.id": "nonsense", "provider.result": "Permanent", "provider.reason": "MalformedInstanceID"}},
		{"provider.list", codes.Error, map[string]string{"provider.name": name, "provider.result": "Permanent", "provider.reason": "Unauthorized"}},
		{"provider.delete", codes.Unset, map[string]string{"provider.name": name, "provider.id": string(id), "provider.result": "OK"}},
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("spans (-got +want):\n%s", diff)
	}
}
