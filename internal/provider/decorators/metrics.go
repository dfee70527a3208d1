package decorators

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Metrics are the metrics of all providers of a process. All methods are safe
// for concurrent use.
type Metrics struct {
	calls    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight *prometheus.GaugeVec
	unknown  *prometheus.GaugeVec

	waited  *prometheus.HistogramVec
	refused *prometheus.CounterVec
	paused  *prometheus.GaugeVec
}

// NewMetrics registers the metrics. It panics when they are registered already:
// a process has one.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tollgate_provider_calls_total",
			Help: "Calls of provider drivers by operation and class of the outcome (OK or the class of the error).",
		}, []string{"provider", "op", "class"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "tollgate_provider_call_duration_seconds",
			Help:    "Time that provider drivers took, without the wait for the request budget.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120},
		}, []string{"provider", "op"}),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tollgate_provider_calls_in_flight",
			Help: "Calls of provider drivers that have not returned.",
		}, []string{"provider", "op"}),
		unknown: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tollgate_provider_unknown_state",
			Help: "1 for each word for an instance's state that the backend used and the driver does not know.",
		}, []string{"provider", "state"}),
		waited: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "tollgate_provider_budget_wait_seconds",
			Help:    "Time that calls waited for the provider's request budget before they were made.",
			Buckets: []float64{.001, .01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"provider", "op"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tollgate_provider_budget_refusals_total",
			Help: "Calls that were not made because the request budget had no room in time.",
		}, []string{"provider", "op"}),
		paused: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tollgate_provider_paused_until_timestamp_seconds",
			Help: "End of the latest pause that the backend asked for, as a Unix time.",
		}, []string{"provider"}),
	}
	reg.MustRegister(m.calls, m.duration, m.inFlight, m.unknown, m.waited, m.refused, m.paused)
	return m
}

// Wrap counts and times the calls of p under the provider's configured name.
func (m *Metrics) Wrap(p provider.Provider, name string) provider.Provider {
	states, _ := provider.As[provider.UnknownStater](p)
	return intercept(p, func(ctx context.Context, c *call, do func(context.Context) error) error {
		flying := m.inFlight.WithLabelValues(name, string(c.op))
		flying.Inc()
		defer flying.Dec()
		start := time.Now()
		err := do(ctx)
		m.duration.WithLabelValues(name, string(c.op)).Observe(time.Since(start).Seconds())
		m.calls.WithLabelValues(name, string(c.op), result(err)).Inc()
		if states != nil {
			for _, s := range states.UnknownStates() {
				m.unknown.WithLabelValues(name, s).Set(1)
			}
		}
		return err
	})
}

// Forget drops the series of a provider that is no longer configured.
func (m *Metrics) Forget(name string) {
	of := prometheus.Labels{"provider": name}
	m.calls.DeletePartialMatch(of)
	m.duration.DeletePartialMatch(of)
	m.inFlight.DeletePartialMatch(of)
	m.unknown.DeletePartialMatch(of)
	m.waited.DeletePartialMatch(of)
	m.refused.DeletePartialMatch(of)
	m.paused.DeletePartialMatch(of)
}
