package discovery

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	reads    *prometheus.CounterVec
	readTime *prometheus.HistogramVec
	listed   *prometheus.GaugeVec
	waiters  prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tollgate_discovery_requests_total",
			Help: "Requests to the discovery API by route and status code.",
		}, []string{"route", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "tollgate_discovery_request_duration_seconds",
			Help:    "Time to answer requests to the discovery API, without the waits of long polls.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}, []string{"route"}),
		reads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tollgate_discovery_table_reads_total",
			Help: "Readings of a provider's fleet table by result (success, failure).",
		}, []string{"provider", "result"}),
		readTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "tollgate_discovery_table_read_duration_seconds",
			Help:    "Time to read all shards of a provider's fleet table.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}, []string{"provider"}),
		listed: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tollgate_discovery_proxies",
			Help: "Healthy proxies of a provider at the last reading of its fleet table.",
		}, []string{"provider"}),
		waiters: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tollgate_discovery_long_polls",
			Help: "Long polls that are waiting just now.",
		}),
	}
	if reg != nil {
		reg.MustRegister(m.requests, m.duration, m.reads, m.readTime, m.listed, m.waiters)
	}
	return m
}

func (m *metrics) request(route string, code int, took time.Duration) {
	m.requests.WithLabelValues(route, strconv.Itoa(code)).Inc()
	m.duration.WithLabelValues(route).Observe(took.Seconds())
}

func (m *metrics) read(provider string, s *state, took time.Duration) {
	m.readTime.WithLabelValues(provider).Observe(took.Seconds())
	if s.err != nil {
		m.reads.WithLabelValues(provider, "failure").Inc()
		m.listed.DeleteLabelValues(provider)
		return
	}
	m.reads.WithLabelValues(provider, "success").Inc()
	m.listed.WithLabelValues(provider).Set(float64(len(s.proxies)))
}

// forget drops the series of a provider that is no longer configured.
func (m *metrics) forget(provider string) {
	l := prometheus.Labels{"provider": provider}
	m.reads.DeletePartialMatch(l)
	m.readTime.DeletePartialMatch(l)
	m.listed.DeletePartialMatch(l)
}
