package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"

	"github.com/tollgate-dev/tollgate/internal/telemetry"
)

func TestParseLevel(t *testing.T) {
	t.Parallel()
	tests := map[string]slog.Level{
		"": slog.LevelInfo, "trace": telemetry.LevelTrace, "TRACE": telemetry.LevelTrace, "debug": slog.LevelDebug,
		"Info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
	}
	for in, want := range tests {
		if got, err := telemetry.ParseLevel(in); got != want || err != nil {
			t.Errorf("ParseLevel(%q) = %v, %v, want %v", in, got, err, want)
		}
	}
	_, err := telemetry.ParseLevel("loud")
	if err == nil || err.Error() != `log.level: "loud" is not a level: use trace, debug, info, warn or error` {
		t.Errorf("error is %v", err)
	}
}

func spanContext(sampled bool) context.Context {
	return trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{0: 1, 15: 2}, SpanID: trace.SpanID{0: 3}, TraceFlags: trace.TraceFlags(0).WithSampled(sampled),
	}))
}

// lines decodes JSON log lines without their times.
func lines(t *testing.T, out string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for line := range strings.Lines(out) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		delete(m, "time")
		all = append(all, m)
	}
	return all
}

func TestJSONLines(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	var level slog.LevelVar
	level.Set(slog.LevelInfo)
	l, err := telemetry.NewLogger(&out, "json", &level)
	if err != nil {
		t.Fatal(err)
	}
	c := telemetry.Component(l, "fleet").With("provider", "local").WithGroup("g")
	c.Debug("not shown")
	c.InfoContext(spanContext(true), "in a trace", "n", 1)
	c.InfoContext(spanContext(false), "not recorded")
	level.Set(telemetry.LevelTrace)
	l.Log(t.Context(), telemetry.LevelTrace, "detail")
	l.Debug("call")
	want := []map[string]any{
		{"level": "INFO", "msg": "in a trace", "component": "fleet", "provider": "local",
			"g": map[string]any{"n": 1.0, "trace_id": "01000000000000000000000000000002", "span_id": "0300000000000000"}},
		{"level": "INFO", "msg": "not recorded", "component": "fleet", "provider": "local"},
		{"level": "TRACE", "msg": "detail"},
		{"level": "DEBUG", "msg": "call"},
	}
	if diff := cmp.Diff(want, lines(t, out.String())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTextLines(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"", "text", "Text"} {
		var out bytes.Buffer
		l, err := telemetry.NewLogger(&out, format, slog.LevelInfo)
		if err != nil {
			t.Fatal(err)
		}
		l.InfoContext(spanContext(true), "hello", "key", "a b")
		if got, want := out.String(), `level=INFO msg=hello key="a b" trace_id=01000000000000000000000000000002 span_id=0300000000000000`; !strings.Contains(got, want) {
			t.Errorf("format %q: line %q, want %q", format, got, want)
		}
	}
	if _, err := telemetry.NewLogger(&bytes.Buffer{}, "xml", slog.LevelInfo); err == nil || err.Error() != `log.format: "xml" is not a format: use text or json` {
		t.Errorf("error is %v", err)
	}
}

func TestSDKLoggerSpeaksSnakeCase(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l, err := telemetry.NewLogger(&out, "json", slog.LevelDebug)
	if err != nil {
		t.Fatal(err)
	}
	sdk := telemetry.SDKLogger(l)
	sdk.Info("Started Worker", "Namespace", "default", "TaskQueue", "tollgate", "WorkerID", "1@host", "RunID", "r", "already_snake", 1,
		"HTTPStatusCode", 200, "temporal-key", "x", "Error", errors.New("boom"))
	want := []map[string]any{{"level": "INFO", "msg": "Started Worker", "namespace": "default", "task_queue": "tollgate", "worker_id": "1@host",
		"run_id": "r", "already_snake": 1.0, "http_status_code": 200.0, "temporal_key": "x", "error": "boom"}}
	if diff := cmp.Diff(want, lines(t, out.String())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
