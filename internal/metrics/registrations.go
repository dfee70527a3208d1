package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tollgate-dev/tollgate/internal/registration/census"
)

// Registrations shows how the registrations of shoots are. It is safe for
// concurrent use; a nil *Registrations shows nothing.
type Registrations struct {
	counted  *snapshots
	failures *prometheus.CounterVec
}

var descRegistrations = prometheus.NewDesc("tollgate_shoot_registrations",
	"Registrations of shoots that are not over, by phase, and by reason where there is one.", []string{"source", "phase", "reason"}, nil)

// NewRegistrations registers the metrics with reg.
func NewRegistrations(reg prometheus.Registerer) *Registrations {
	m := &Registrations{counted: newSnapshots(), failures: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tollgate_shoot_count_failures_total", Help: "Counts of the registrations of shoots that failed.",
	}, []string{"source"})}
	reg.MustRegister(m.counted, m.failures)
	return m
}

// Counted replaces what is known of a source's registrations; it vanishes after
// ttl. Every worker counts all of them.
func (m *Registrations) Counted(source string, groups map[census.Group]int, ttl time.Duration) {
	if m == nil {
		return
	}
	m.failures.WithLabelValues(source)
	ms := make([]prometheus.Metric, 0, len(groups))
	for g, n := range groups {
		ms = append(ms, prometheus.MustNewConstMetric(descRegistrations, prometheus.GaugeValue, float64(n), source, string(g.Phase), g.Reason))
	}
	m.counted.set(source, "", ms, ttl)
}

// Failed counts a count that failed. What was counted before stays until it is too
// old.
func (m *Registrations) Failed(source string) {
	if m == nil {
		return
	}
	m.failures.WithLabelValues(source).Inc()
}

// Forget drops everything about a source whose shoots are not registered.
func (m *Registrations) Forget(source string) {
	if m == nil {
		return
	}
	m.failures.DeleteLabelValues(source)
	m.counted.forget(source)
}
