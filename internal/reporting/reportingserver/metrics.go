package reportingserver

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tollgate-dev/tollgate/internal/reporting/reportingserver/store"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
)

// metrics are what the server says of itself at /metrics.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	events   *prometheus.CounterVec
}

var (
	descProjects  = prometheus.NewDesc("tollgate_reporting_projects", "Projects stored, those that only events name included.", nil, nil)
	descResources = prometheus.NewDesc("tollgate_reporting_resources", "Resources that any stored event is about.", nil, nil)
	descEvents    = prometheus.NewDesc("tollgate_reporting_stored_events", "Events stored.", nil, nil)
	descReplaced  = prometheus.NewDesc("tollgate_reporting_replaced_events", "Events kept aside because one with the same id came that knows more.", nil, nil)
	descStale     = prometheus.NewDesc("tollgate_reporting_stale_resources", "Resources about which something came in that usage has not taken up yet.", nil, nil)
	descBytes     = prometheus.NewDesc("tollgate_reporting_database_size_bytes", "Size of the database without its write-ahead log.", nil, nil)
)

func newMetrics(st *store.Store) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tollgate_reporting_requests_total", Help: "Requests by route and status code."}, []string{"route", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tollgate_reporting_request_duration_seconds", Help: "Time to answer requests, by route.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}}, []string{"route"}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tollgate_reporting_events_total", Help: "Events that were delivered, by what became of them: accepted, duplicate or rejected."}, []string{"outcome"}),
	}
	for _, o := range []sink.Outcome{sink.Accepted, sink.Duplicate, sink.Rejected} {
		m.events.WithLabelValues(string(o))
	}
	m.registry.MustRegister(m.requests, m.duration, m.events, stats{st},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// took counts a request. What no route takes is one route: paths are for anybody to
// make up.
func (m *metrics) took(route string, code int, d time.Duration) {
	if route == "" || route == "/api/" {
		route = "other"
	}
	m.requests.WithLabelValues(route, strconv.Itoa(code)).Inc()
	m.duration.WithLabelValues(route).Observe(d.Seconds())
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry, EnableOpenMetrics: true})
}

// stats collects what the database holds.
type stats struct{ store *store.Store }

// Describe implements prometheus.Collector.
func (stats) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descProjects, descResources, descEvents, descReplaced, descStale, descBytes} {
		ch <- d
	}
}

// scrapeLimit is how long a scrape may wait for the database.
const scrapeLimit = 5 * time.Second

// Collect implements prometheus.Collector.
func (s stats) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeLimit)
	defer cancel()
	st, err := s.store.Stats(ctx)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(descEvents, err)
		return
	}
	for desc, v := range map[*prometheus.Desc]int64{descProjects: st.Projects, descResources: st.Resources, descEvents: st.Events,
		descReplaced: st.Replaced, descStale: st.Stale, descBytes: st.Bytes} {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(v))
	}
}
