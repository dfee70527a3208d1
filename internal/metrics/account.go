package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// account holds the metrics of what a provider's fleet costs and of its reapers.
type account struct {
	cost, unpriced, cap *prometheus.GaugeVec
	refused             *prometheus.CounterVec
	reaps, reaped       *prometheus.CounterVec
}

func newAccount(reg prometheus.Registerer) account {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"provider"})
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	a := account{
		cost:     gauge("tollgate_fleet_cost_eur_per_hour", "What this installation's instances in the latest complete listing cost per hour, in euros, net."),
		unpriced: gauge("tollgate_fleet_unpriced_instances", "Instances in the latest complete listing whose price is not known; the cost lacks them."),
		cap:      gauge("tollgate_fleet_spend_cap_eur_per_hour", "The configured most that the provider's instances may cost per hour, in euros. No series without a cap."),
		refused:  counter("tollgate_fleet_spend_refusals_total", "Creates that were refused because of the spend cap.", "provider"),
		reaps:    counter("tollgate_reaper_runs_total", "Runs of reapers by outcome.", "provider", "outcome"),
		reaped:   counter("tollgate_reaper_deleted_total", "Instances that reapers have deleted.", "provider"),
	}
	reg.MustRegister(a.cost, a.unpriced, a.cap, a.refused, a.reaps, a.reaped)
	return a
}

func (a account) declare(name string) {
	a.refused.WithLabelValues(name)
	a.reaped.WithLabelValues(name)
	for _, o := range api.ReapOutcomes() {
		a.reaps.WithLabelValues(name, string(o))
	}
}

func (a account) forget(l prometheus.Labels) {
	for _, v := range []interface {
		DeletePartialMatch(prometheus.Labels) int
	}{a.cost, a.unpriced, a.cap, a.refused, a.reaps, a.reaped} {
		v.DeletePartialMatch(l)
	}
}

// eur is an amount in the unit of the metrics, for people; decisions are made
// with the exact one.
func eur(m provider.MicroEUR) float64 { return float64(m) / 1e6 }

// Cost records what the instances of a complete listing cost.
func (m *Metrics) Cost(providerName string, perHour provider.MicroEUR, unpriced int) {
	if m == nil {
		return
	}
	m.account.cost.WithLabelValues(providerName).Set(eur(perHour))
	m.account.unpriced.WithLabelValues(providerName).Set(float64(unpriced))
}

// SpendCap records the configured cap; 0 means that there is none.
func (m *Metrics) SpendCap(providerName string, perHour provider.MicroEUR) {
	if m == nil {
		return
	}
	if perHour == 0 {
		m.account.cap.DeleteLabelValues(providerName)
		return
	}
	m.account.cap.WithLabelValues(providerName).Set(eur(perHour))
}

// SpendRefused counts a create that the cap refused.
func (m *Metrics) SpendRefused(providerName string) {
	if m == nil {
		return
	}
	m.account.refused.WithLabelValues(providerName).Inc()
}

// Reaped records the end of a reaper's run.
func (m *Metrics) Reaped(providerName string, outcome api.ReapOutcome, deleted int) {
	if m == nil {
		return
	}
	m.account.reaps.WithLabelValues(providerName, string(outcome)).Inc()
	m.account.reaped.WithLabelValues(providerName).Add(float64(deleted))
}
