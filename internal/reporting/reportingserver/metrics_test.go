package reportingserver

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	g := newRig(t, withToken("secret"))
	g.deliver(on(event.VolumeCreate, at("01:00"), "7", "create", gb(1)), on(event.VolumeCreate, at("01:00"), "8", "create", gb(1)))
	wrong := on(event.VolumeCreate, at("01:00"), "9", "create", gb(1))
	wrong.Subject = "volume/10"
	g.deliver(on(event.VolumeCreate, at("01:00"), "7", "create", gb(1)), wrong)
	g.get("/api/v1/projects/none", nil)
	g.get("/api/v1/projects/"+g.project("hetzner", "acme").ID+"/usage?from=2026-11-02T00:00:00Z&to=2026-11-03T00:00:00Z", nil)
	g.visit(g.browser(), "/made/up")
	want := `
# HELP tollgate_reporting_events_total Events that were delivered, by what became of them: accepted, duplicate or rejected.
# TYPE tollgate_reporting_events_total counter
tollgate_reporting_events_total{outcome="accepted"} 2
tollgate_reporting_events_total{outcome="duplicate"} 1
tollgate_reporting_events_total{outcome="rejected"} 1
# HELP tollgate_reporting_projects Projects stored, those that only events name included.
# TYPE tollgate_reporting_projects gauge
tollgate_reporting_projects 1
# HELP tollgate_reporting_requests_total Requests by route and status code.
# TYPE tollgate_reporting_requests_total counter
tollgate_reporting_requests_total{code="200",route="GET /api/v1/projects/{project_id}/usage"} 1
tollgate_reporting_requests_total{code="200",route="POST /api/v1/events"} 2
tollgate_reporting_requests_total{code="200",route="POST /api/v1/projects"} 1
tollgate_reporting_requests_total{code="404",route="GET /api/v1/projects/{project_id}"} 1
tollgate_reporting_requests_total{code="404",route="other"} 1
# HELP tollgate_reporting_resources Resources that any stored event is about.
# TYPE tollgate_reporting_resources gauge
tollgate_reporting_resources 2
# HELP tollgate_reporting_stale_resources Resources about which something came in that usage has not taken up yet.
# TYPE tollgate_reporting_stale_resources gauge
tollgate_reporting_stale_resources 0
# HELP tollgate_reporting_stored_events Events stored.
# TYPE tollgate_reporting_stored_events gauge
tollgate_reporting_stored_events 2
`
	if err := testutil.GatherAndCompare(g.metrics.registry, strings.NewReader(want), "tollgate_reporting_events_total", "tollgate_reporting_projects",
		"tollgate_reporting_requests_total", "tollgate_reporting_resources", "tollgate_reporting_stale_resources", "tollgate_reporting_stored_events"); err != nil {
		t.Error(err)
	}
	families, err := g.metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	// The page lists them all.
	page, err := os.ReadFile("../../../docs/how-to/reporting.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "tollgate_") {
			continue
		}
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append([]string{"`" + l.GetName() + "`"}, labels...)
		}
		row := fmt.Sprintf("| `%s` | %s | %s | %s |", f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(labels, ", "), f.GetHelp())
		if !strings.Contains(string(page), row) {
			t.Errorf("the page does not have the row\n%s", row)
		}
	}
}

func TestMetricsWantTheToken(t *testing.T) {
	t.Parallel()
	g := newRig(t, withToken("secret"))
	if code := g.get("/metrics", nil); code != http.StatusOK {
		t.Errorf("with the token: status %d", code)
	}
	g.token = "wrong"
	if code := g.get("/metrics", nil); code != http.StatusUnauthorized {
		t.Errorf("with a wrong token: status %d", code)
	}
}

// What comes in is taken up without anybody asking for usage.
func TestSpansAreMadeInTheBackground(t *testing.T) {
	t.Parallel()
	g := newRig(t, nil)
	if _, err := g.store.Ingest(t.Context(), lives(0, 300)); err != nil { // behind the server's back
		t.Fatal(err)
	}
	g.deliver(on(event.VolumeCreate, at("01:00"), "7", "create", gb(1)))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		st, err := g.store.Stats(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if st.Stale == 0 {
			return
		}
		<-tick.C
	}
}
