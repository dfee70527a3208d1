package budget

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Metrics are the metrics of all accounts of a process. A nil *Metrics counts
// nothing.
type Metrics struct {
	reg      prometheus.Registerer
	requests *prometheus.CounterVec
	refusals *prometheus.CounterVec
	waits    *prometheus.HistogramVec
}

// NewMetrics registers the metrics. It panics when they are registered already:
// a process has one.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		reg: reg,
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tollgate_provider_requests_total",
			Help: "HTTP requests to backends by operation and status code; error when there was no answer.",
		}, []string{"provider", "op", "code"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tollgate_provider_requests_refused_total",
			Help: "HTTP requests that were not sent because the account's budget had no room in time.",
		}, []string{"provider", "op"}),
		waits: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "tollgate_provider_request_wait_seconds",
			Help:    "Time that HTTP requests waited for the account's budget before they were sent.",
			Buckets: []float64{.001, .01, .1, .5, 1, 2.5, 5, 10, 15},
		}, []string{"provider", "op"}),
	}
	reg.MustRegister(m.requests, m.refusals, m.waits)
	return m
}

func opLabel(op provider.Op) string {
	if op == "" {
		return "other"
	}
	return string(op)
}

func (m *Metrics) made(name string, op provider.Op, resp *http.Response, err error) {
	if m == nil {
		return
	}
	code := "error"
	if err == nil {
		code = strconv.Itoa(resp.StatusCode)
	}
	m.requests.WithLabelValues(name, opLabel(op), code).Inc()
}

func (m *Metrics) refused(name string, op provider.Op) {
	if m != nil {
		m.refusals.WithLabelValues(name, opLabel(op)).Inc()
	}
}

func (m *Metrics) waited(name string, op provider.Op, d time.Duration) {
	if m != nil {
		m.waits.WithLabelValues(name, opLabel(op)).Observe(d.Seconds())
	}
}

func (m *Metrics) forget(name string) {
	if m == nil {
		return
	}
	of := prometheus.Labels{"provider": name}
	m.requests.DeletePartialMatch(of)
	m.refusals.DeletePartialMatch(of)
	m.waits.DeletePartialMatch(of)
}

// show registers the gauges, which are read from the accounts when they are
// scraped.
func (m *Metrics) show(a *Accounts) { m.reg.MustRegister(gauges{a}) }

type gauges struct{ accounts *Accounts }

var (
	descLimit = prometheus.NewDesc("tollgate_provider_requests_limit",
		"Requests per hour that the backend allows the provider's account, by its latest answer to this worker.", []string{"provider"}, nil)
	descLeft = prometheus.NewDesc("tollgate_provider_requests_remaining",
		"Requests that the provider's account has left, whoever uses it, by the backend's latest answer and the refill since.", []string{"provider"}, nil)
	descThrottled = prometheus.NewDesc("tollgate_provider_throttled",
		"1 while requests to the provider's account are held back or refused by its budget.", []string{"provider"}, nil)
)

// Describe implements prometheus.Collector.
func (gauges) Describe(ch chan<- *prometheus.Desc) {
	ch <- descLimit
	ch <- descLeft
	ch <- descThrottled
}

// Collect implements prometheus.Collector.
func (g gauges) Collect(ch chan<- prometheus.Metric) {
	now := time.Now()
	for _, name := range g.accounts.names() {
		acc := g.accounts.current(name)
		if acc == nil {
			continue
		}
		gauge := func(d *prometheus.Desc, v float64) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, name)
		}
		if limit, left, known := acc.standing(now); known {
			gauge(descLimit, float64(limit))
			gauge(descLeft, left)
		}
		v := 0.0
		if acc.throttle(now).Throttled {
			v = 1
		}
		gauge(descThrottled, v)
	}
}
