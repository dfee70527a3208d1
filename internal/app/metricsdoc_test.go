package app

import (
	"bytes"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/tollgate-dev/tollgate/internal/config"
	"github.com/tollgate-dev/tollgate/internal/discovery"
	"github.com/tollgate-dev/tollgate/internal/exporter"
	"github.com/tollgate-dev/tollgate/internal/inventory"
	"github.com/tollgate-dev/tollgate/internal/metrics"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/budget"
	"github.com/tollgate-dev/tollgate/internal/provider/decorators"
	"github.com/tollgate-dev/tollgate/internal/registration/census"
	"github.com/tollgate-dev/tollgate/internal/source/all"
	"github.com/tollgate-dev/tollgate/internal/telemetry"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

var update = flag.Bool("update", false, "write the generated parts of the documentation")

const metricsPage = "../../docs/reference/metrics.md"

// metric is one of Tollgate's own.
type metric struct{ name, kind, labels, help string }

// recorder is a Registerer that notes what is described to it.
type recorder struct {
	prometheus.Registerer
	all map[string]metric
}

var descPattern = regexp.MustCompile(`^Desc\{fqName: "([^"]+)", help: "((?:[^"\\]|\\.)*)", unit: "[^"]*", constLabels: \{.*\}, variableLabels: \{(.*)\}\}$`)

func (r *recorder) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		ch := make(chan *prometheus.Desc)
		go func() { defer close(ch); c.Describe(ch) }()
		for d := range ch {
			m := descPattern.FindStringSubmatch(d.String())
			r.all[m[1]] = metric{name: m[1], help: m[2], labels: strings.ReplaceAll(m[3], ",", ", "), kind: kindOf(c)}
		}
	}
	r.Registerer.MustRegister(cs...)
}

func kindOf(c prometheus.Collector) string {
	switch c.(type) {
	case prometheus.Gauge: // which has all the methods of a Counter
		return "gauge"
	case *prometheus.CounterVec, prometheus.Counter:
		return "counter"
	case *prometheus.HistogramVec, prometheus.Histogram:
		return "histogram"
	}
	return "gauge"
}

// own lists the metrics that Tollgate itself makes.
func own(t *testing.T) []metric {
	t.Helper()
	tm, err := telemetry.NewMetrics(telemetry.BuildInfo{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{Registerer: tm.Registry(), all: map[string]metric{}}
	config.NewMetrics(r)
	decorators.NewMetrics(r)
	budget.New(budget.NewMetrics(r))
	newUsable(r)
	cm := metrics.NewCursors(r)
	cm.State("s", "t", metrics.CursorState{UpTo: time.Now(), ReadAt: time.Now(), Broken: []api.BrokenPart{{Part: "p"}}})
	im := metrics.NewInventory(r)
	metrics.NewInventoryRuns(r)
	metrics.NewRegistrations(r).Counted("s", map[census.Group]int{{Phase: "Pending"}: 1}, time.Hour)
	im.Compared("s", "t", metrics.Comparison{At: time.Now(), Found: map[string]int{"k": 1}}, time.Hour)
	discovery.New(discovery.Options{Metrics: r})
	r.MustRegister(exporter.New(exporter.Options{
		Store: inventory.NewStore(), Types: all.Types(), Streams: func() []exporter.Stream { return nil }}))
	// These describe themselves by what they have seen.
	w := metrics.New(r)
	w.FleetRound("p", 0, metrics.Fleet{}, time.Hour)
	w.Checked("p", []provider.TargetStatus{{Target: "t", Ready: true, Latency: time.Second}}, time.Now(), time.Second, time.Hour)
	families, err := tm.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if _, known := r.all[f.GetName()]; !known && strings.HasPrefix(f.GetName(), "tollgate_") {
			r.all[f.GetName()] = metric{
				name: f.GetName(), help: f.GetHelp(), kind: strings.ToLower(f.GetType().String()), labels: labelsOf(f),
			}
		}
	}
	var out []metric
	for _, m := range r.all {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b metric) int { return strings.Compare(a.name, b.name) })
	return out
}

func labelsOf(f *dto.MetricFamily) string {
	var names []string
	for _, l := range f.GetMetric()[0].GetLabel() {
		names = append(names, l.GetName())
	}
	return strings.Join(names, ", ")
}

func TestMetricsReferenceIsFresh(t *testing.T) {
	t.Parallel()
	const begin, end = "<!-- begin generated -->\n", "<!-- end generated -->\n"
	page, err := os.ReadFile(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok1 := bytes.Cut(page, []byte(begin))
	_, tail, ok2 := bytes.Cut(rest, []byte(end))
	if !ok1 || !ok2 {
		t.Fatalf("%s lacks %q and %q", metricsPage, begin, end)
	}
	var b bytes.Buffer
	b.Write(head)
	b.WriteString(begin + "| Metric | Type | Labels | Meaning |\n| --- | --- | --- | --- |\n")
	for _, m := range own(t) {
		labels := ""
		if m.labels != "" {
			labels = "`" + strings.ReplaceAll(m.labels, ", ", "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.name, m.kind, labels, m.help)
	}
	b.WriteString(end)
	b.Write(tail)
	if *update {
		if err := os.WriteFile(metricsPage, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(page, b.Bytes()) {
		t.Errorf("%s is out of date: run go test ./internal/app -run MetricsReference -update", metricsPage)
	}
}

func TestMetricsHaveHelpAndUnits(t *testing.T) {
	t.Parallel()
	for _, m := range own(t) {
		if m.help == "" || !strings.HasSuffix(m.help, ".") {
			t.Errorf("%s: help %q is no sentence", m.name, m.help)
		}
		if got := strings.HasSuffix(m.name, "_total"); got != (m.kind == "counter") {
			t.Errorf("%s is a %s", m.name, m.kind)
		}
		if m.kind == "histogram" && !strings.HasSuffix(m.name, "_seconds") {
			t.Errorf("%s has no unit", m.name)
		}
	}
}

// documented are the metrics of another program, by the table on its page.
func documented(t *testing.T, page string) (out []metric) {
	t.Helper()
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([a-z]+) \\| (.*?) \\| (.*) \\|$").FindAllStringSubmatch(string(b), -1) {
		out = append(out, metric{name: m[1], kind: m[2], labels: strings.ReplaceAll(m[3], "`", ""), help: m[4]})
	}
	if len(out) == 0 {
		t.Fatalf("%s has no table of metrics", page)
	}
	return out
}
