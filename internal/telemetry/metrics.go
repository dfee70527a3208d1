package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/otlptranslator"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.temporal.io/sdk/client"
	temporalotel "go.temporal.io/sdk/contrib/opentelemetry"
	"google.golang.org/protobuf/proto"
)

// latencyBuckets are the bounds, in seconds, of the SDK's timers: from a local
// activity to a workflow that takes hours.
var latencyBuckets = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200}

// Metrics is a process's registry of metrics.
type Metrics struct {
	registry *prometheus.Registry
	provider *sdkmetric.MeterProvider
	temporal client.MetricsHandler
	logger   *slog.Logger
}

// NewMetrics returns a registry with the metrics of the Go runtime, the process
// and the build (tollgate_build_info). Use one per process.
func NewMetrics(build BuildInfo, logger *slog.Logger) (*Metrics, error) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	m := &Metrics{registry: prometheus.NewRegistry(), logger: logger}
	info := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tollgate_build_info",
		Help: "Always 1; the labels say what is running.",
		ConstLabels: prometheus.Labels{
			"version": build.Version, "revision": build.Revision, "goversion": build.GoVersion,
		},
	}, func() float64 { return 1 })
	m.registry.MustRegister(info, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	exporter, err := otelprom.New(
		otelprom.WithRegisterer(m.registry),
		otelprom.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes),
		otelprom.WithoutTargetInfo(),
		otelprom.WithoutScopeInfo(),
	)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	m.provider = sdkmetric.NewMeterProvider(
		sdkmetric.WithReader(exporter),
		sdkmetric.WithResource(resource.Empty()),
		sdkmetric.WithView(sdkmetric.NewView(
			sdkmetric.Instrument{Kind: sdkmetric.InstrumentKindHistogram, Unit: "s"},
			sdkmetric.Stream{Aggregation: sdkmetric.AggregationExplicitBucketHistogram{Boundaries: latencyBuckets, NoMinMax: true}},
		)),
	)
	m.temporal = temporalotel.NewMetricsHandler(temporalotel.MetricsHandlerOptions{
		Meter:                m.provider.Meter("temporal-sdk-go"),
		UseMonotonicCounters: true,
		OnError:              func(err error) { logger.Warn("metric not recorded", "error", err) },
	})
	return m, nil
}

// Registry is where the other parts of Tollgate register their metrics, whose
// names begin with tollgate_.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// Temporal is the metrics handler for clients and workers of Temporal's SDK.
// Counters end in _total, timers are histograms in seconds:
// temporal_request_total, temporal_workflow_task_execution_latency_seconds.
// Metrics that workflow code makes come out here, too.
func (m *Metrics) Temporal() client.MetricsHandler { return m.temporal }

// Handler serves the registry in the Prometheus and OpenMetrics formats. One
// collector's failure is logged and does not hide the others' metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(prometheus.GathererFunc(m.gather), promhttp.HandlerOpts{
		EnableOpenMetrics: true,
		ErrorHandling:     promhttp.ContinueOnError,
		ErrorLog:          slog.NewLogLogger(m.logger.Handler(), slog.LevelError),
	})
}

// sdkHelp stands for the descriptions that the metrics of Temporal's SDK lack.
const sdkHelp = "Metric of Temporal's SDK: see https://docs.temporal.io/references/sdk-metrics."

func (m *Metrics) gather() ([]*dto.MetricFamily, error) {
	families, err := m.registry.Gather()
	for _, f := range families {
		if f.GetHelp() == "" && strings.HasPrefix(f.GetName(), "temporal_") {
			f.Help = proto.String(sdkHelp)
		}
	}
	return families, err
}

// Shutdown stops collecting.
func (m *Metrics) Shutdown(ctx context.Context) error { return m.provider.Shutdown(ctx) }

// BuildInfo says what is running.
type BuildInfo struct {
	Version   string
	Revision  string // commit, with "-dirty" when the tree was changed
	GoVersion string
}

// ReadBuildInfo completes a version with what the linker knows. An empty version
// is taken from the module.
func ReadBuildInfo(version string) BuildInfo {
	b := BuildInfo{Version: version, GoVersion: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if b.Version == "" {
		b.Version = info.Main.Version
	}
	dirty := false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			dirty = s.Value == "true"
		}
	}
	if dirty && b.Revision != "" {
		b.Revision += "-dirty"
	}
	return b
}
