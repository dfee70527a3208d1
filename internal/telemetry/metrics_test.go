package telemetry_test

import (
	"errors"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/tollgate-dev/tollgate/internal/telemetry"
)

func newMetrics(t *testing.T) *telemetry.Metrics {
	t.Helper()
	m, err := telemetry.NewMetrics(telemetry.BuildInfo{Version: "v1.2.3", Revision: "abc", GoVersion: "go1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Shutdown(t.Context()) })
	return m
}

func scrape(t *testing.T, m *telemetry.Metrics, accept string) (int, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// samples returns the lines that begin with a prefix, without comments.
func samples(out, prefix string) []string {
	var found []string
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, prefix) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

func TestTemporalMetrics(t *testing.T) {
	t.Parallel()
	m := newMetrics(t)
	h := m.Temporal().WithTags(map[string]string{"namespace": "default"})
	h.Counter("temporal_request").Inc(2)
	h.WithTags(map[string]string{"operation": "PollWorkflowTaskQueue"}).Counter("temporal_request").Inc(1)
	h.WithTags(map[string]string{"namespace": "other"}).Counter("temporal_request").Inc(1) // a later tag wins
	h.Gauge("temporal_worker_task_slots_available").Update(7.5)
	h.Timer("temporal_request_latency").Record(30 * time.Millisecond)
	h.Timer("temporal_request_latency").Record(3 * time.Hour)
	_, out := scrape(t, m, "")
	want := map[string][]string{
		"temporal_request_total": {
			`temporal_request_total{namespace="default"} 2`,
			`temporal_request_total{namespace="other"} 1`,
			`temporal_request_total{namespace="default",operation="PollWorkflowTaskQueue"} 1`,
		},
		"temporal_worker_task_slots_available": {`temporal_worker_task_slots_available{namespace="default"} 7.5`},
		"temporal_request_latency_seconds_bucket{namespace=\"default\",le=\"0.0": {
			`temporal_request_latency_seconds_bucket{namespace="default",le="0.001"} 0`,
			`temporal_request_latency_seconds_bucket{namespace="default",le="0.0025"} 0`,
			`temporal_request_latency_seconds_bucket{namespace="default",le="0.005"} 0`,
			`temporal_request_latency_seconds_bucket{namespace="default",le="0.01"} 0`,
			`temporal_request_latency_seconds_bucket{namespace="default",le="0.025"} 0`,
			`temporal_request_latency_seconds_bucket{namespace="default",le="0.05"} 1`,
		},
		"temporal_request_latency_seconds_count": {`temporal_request_latency_seconds_count{namespace="default"} 2`},
		"tollgate_build_info":                    {`tollgate_build_info{goversion="go1",revision="abc",version="v1.2.3"} 1`},
	}
	for prefix, lines := range want {
		if diff := cmp.Diff(lines, samples(out, prefix)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", prefix, diff)
		}
	}
	for _, name := range []string{"go_goroutines", "process_start_time_seconds"} {
		if runtime.GOOS == "linux" && len(samples(out, name)) == 0 {
			t.Errorf("no %s", name)
		}
	}
	for _, none := range []string{"target_info", "otel_scope"} {
		if strings.Contains(out, none) {
			t.Errorf("%s is noise", none)
		}
	}
	if _, om := scrape(t, m, "application/openmetrics-text"); !strings.HasSuffix(om, "# EOF\n") {
		t.Error("no OpenMetrics for who asks for it")
	}
}

func TestMetricNamesFollowConventions(t *testing.T) {
	t.Parallel()
	m := newMetrics(t)
	m.Temporal().Counter("temporal_request").Inc(1)
	m.Temporal().Timer("temporal_request_latency").Record(time.Second)
	_, out := scrape(t, m, "")
	problems, err := promlint.New(strings.NewReader(out)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestMetricsConcurrently(t *testing.T) {
	t.Parallel()
	m := newMetrics(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				h := m.Temporal().WithTags(map[string]string{"operation": "x"})
				h.Counter("temporal_request").Inc(1)
				h.Timer("temporal_request_latency").Record(time.Millisecond)
			}
			scrape(t, m, "")
		})
	}
	wg.Wait()
	_, out := scrape(t, m, "")
	if diff := cmp.Diff([]string{`temporal_request_total{operation="x"} 1600`}, samples(out, "temporal_request_total")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// brokenCollector fails at every scrape.
type brokenCollector struct{ desc *prometheus.Desc }

func (b brokenCollector) Describe(ch chan<- *prometheus.Desc) { ch <- b.desc }
func (b brokenCollector) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.NewInvalidMetric(b.desc, errors.New("broken"))
}

func TestOneBrokenCollectorHidesNothing(t *testing.T) {
	t.Parallel()
	m := newMetrics(t)
	m.Registry().MustRegister(brokenCollector{prometheus.NewDesc("tollgate_broken", "Broken.", nil, nil)})
	code, out := scrape(t, m, "")
	if code != 200 || len(samples(out, "tollgate_build_info")) != 1 {
		t.Errorf("status %d, want 200 with what works", code)
	}
}

func TestReadBuildInfo(t *testing.T) {
	t.Parallel()
	if b := telemetry.ReadBuildInfo("v9"); b.Version != "v9" || b.GoVersion != runtime.Version() {
		t.Errorf("build is %+v", b)
	}
}
