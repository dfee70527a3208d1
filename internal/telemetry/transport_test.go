package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/tollgate-dev/tollgate/internal/telemetry"
)

const sentinel = "SENTINEL-c0ffee-must-stay-secret"

// record returns tracing whose spans end up in a recorder.
func record(t testing.TB, env map[string]string) (*telemetry.Tracing, *tracetest.SpanRecorder) {
	t.Helper()
	rec := tracetest.NewSpanRecorder()
	tr, err := telemetry.NewTracing(t.Context(), telemetry.TracingOptions{
		Service: "test", Getenv: func(k string) string { return env[k] }, Processors: []sdktrace.SpanProcessor{rec},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tr.Shutdown(context.Background()) })
	return tr, rec
}

// dump is all that a span says.
func dump(s sdktrace.ReadOnlySpan) string {
	return fmt.Sprintf("%s %v %v %v", s.Name(), s.Attributes(), s.Events(), s.Status())
}

func names(spans []sdktrace.ReadOnlySpan) []string {
	out := []string{}
	for _, s := range spans {
		out = append(out, s.Name())
	}
	return out
}

func get(t *testing.T, ctx context.Context, c *http.Client, url string) error {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("body "+sentinel))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+sentinel)
	req.Header.Set("User-Agent", "agent "+sentinel)
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.Body.Close()
}

func TestTransportMakesChildrenOnly(t *testing.T) {
	t.Parallel()
	tr, rec := record(t, nil)
	var seen []*http.Request
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if string(b) != "body "+sentinel {
			t.Errorf("body is %q", b)
		}
		seen = append(seen, r)
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "/v1/servers?page=2&token="+sentinel, http.StatusTemporaryRedirect)
			return
		}
		_, _ = w.Write([]byte(sentinel))
	}))
	t.Cleanup(backend.Close)
	c := &http.Client{Transport: telemetry.Transport(nil)}
	withUser := strings.Replace(backend.URL, "http://", "http://user:"+sentinel+"@", 1)

	// Background: no span.
	if err := get(t, t.Context(), c, withUser+"/v1/servers?token="+sentinel); err != nil {
		t.Fatal(err)
	}
	// In the span of something that is not recorded: no span.
	ctx, bg := tr.TracerProvider().Tracer("x").Start(t.Context(), "refresh")
	if err := get(t, ctx, c, withUser+"/v1/servers?token="+sentinel); err != nil {
		t.Fatal(err)
	}
	bg.End()
	if got := rec.Ended(); len(got) != 0 {
		t.Fatalf("background requests made spans %v", names(got))
	}

	ctx, op := tr.StartOperation(t.Context(), "create")
	for _, path := range []string{"/v1/servers?token=" + sentinel + "#" + sentinel, "/moved?" + sentinel} {
		if err := get(t, ctx, c, withUser+path); err != nil {
			t.Fatal(err)
		}
	}
	op.End()
	spans := rec.Ended()
	if diff := cmp.Diff([]string{"HTTP POST", "HTTP POST", "HTTP POST", "create"}, names(spans)); diff != "" {
		t.Fatalf("spans (-want +got):\n%s", diff)
	}
	for _, s := range spans[:3] {
		if s.Parent().SpanID() != op.SpanContext().SpanID() || s.SpanContext().TraceID() != op.SpanContext().TraceID() {
			t.Errorf("span %s is no child of the operation", s.Name())
		}
		if s.SpanKind() != trace.SpanKindClient {
			t.Errorf("kind is %v, want client", s.SpanKind())
		}
		if text := dump(s); strings.Contains(text, sentinel) {
			t.Errorf("the span shows a secret: %s", text)
		}
	}
	if text := dump(spans[0]); !strings.Contains(text, backend.URL+"/v1/servers") || !strings.Contains(text, "200") {
		t.Errorf("span %s lacks path or status", text)
	}
	// The backend got what was sent, and no trace context.
	for i, r := range seen {
		if r.URL.RawQuery == "" || r.Header.Get("Authorization") == "" || r.Header.Get("Traceparent") != "" {
			t.Errorf("request %d: query %q, headers %v", i, r.URL.RawQuery, r.Header)
		}
	}
}

type brokenTransport struct{ err error }

func (b brokenTransport) RoundTrip(*http.Request) (*http.Response, error) { return nil, b.err }

func TestTransportRecordsFailures(t *testing.T) {
	t.Parallel()
	tr, rec := record(t, nil)
	closed := httptest.NewServer(nil)
	closed.Close()
	ctx, op := tr.StartOperation(t.Context(), "op")
	boom := errors.New("boom")
	if err := get(t, ctx, &http.Client{Transport: telemetry.Transport(brokenTransport{boom})}, "http://backend.invalid/x?token="+sentinel); !errors.Is(err, boom) {
		t.Errorf("error is %v, want the base's", err)
	}
	if err := get(t, ctx, &http.Client{Transport: telemetry.Transport(http.DefaultTransport)}, closed.URL+"/x?token="+sentinel); err == nil {
		t.Error("a request to a closed port succeeded")
	}
	op.End()
	spans := rec.Ended()
	if len(spans) != 3 {
		t.Fatalf("spans %v, want two requests and the operation", names(spans))
	}
	for _, s := range spans[:2] {
		if s.Status().Code != codes.Error || strings.Contains(dump(s), sentinel) {
			t.Errorf("span %s: want an error without the secret", dump(s))
		}
	}
}

func TestMiddleware(t *testing.T) {
	t.Parallel()
	tr, rec := record(t, nil)
	h := tr.Middleware("discovery.list", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, child := trace.SpanFromContext(r.Context()).TracerProvider().Tracer("x").Start(r.Context(), "child")
		child.End()
	}))
	ask := func(header ...string) {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/proxies?token="+sentinel, nil)
		r.Header.Set("Authorization", "Bearer "+sentinel)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	ask()
	own := rec.Ended()
	if diff := cmp.Diff([]string{"child", "discovery.list"}, names(own)); diff != "" {
		t.Fatalf("spans (-want +got):\n%s", diff)
	}
	const caller = "4bf92f3577b34da6a3ce929d0e0e4736"
	ask("Traceparent", "00-"+caller+"-00f067aa0ba902b7-01")
	if got := rec.Ended()[3].SpanContext().TraceID().String(); got != caller {
		t.Errorf("trace is %s, want the caller's %s", got, caller)
	}
	ask("Traceparent", "00-"+caller+"-00f067aa0ba902b7-00")
	if got := rec.Ended(); len(got) != 4 {
		t.Errorf("a caller that does not record made spans %v", names(got[4:]))
	}
	for _, s := range rec.Ended() {
		if strings.Contains(dump(s), sentinel) {
			t.Errorf("the span shows a secret: %s", dump(s))
		}
	}
}
