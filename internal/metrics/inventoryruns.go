package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tollgate-dev/tollgate/workflows/api"
)

// InventoryRuns counts inventories. It is safe for concurrent use; a nil
// *InventoryRuns counts nothing.
type InventoryRuns struct {
	runs    *prometheus.CounterVec
	success *prometheus.GaugeVec
}

// NewInventoryRuns registers the metrics with reg.
func NewInventoryRuns(reg prometheus.Registerer) *InventoryRuns {
	m := &InventoryRuns{
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tollgate_inventory_runs_total", Help: "Inventories by outcome.",
		}, []string{"source", "outcome"}),
		success: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tollgate_inventory_last_success_timestamp_seconds",
			Help: "Unix time of the latest inventory that this worker ended and that could compare and repair everything.",
		}, []string{"source"}),
	}
	reg.MustRegister(m.runs, m.success)
	return m
}

// Declare makes the counters of a source, so that the first inventory is seen as
// an increase.
func (m *InventoryRuns) Declare(source string) {
	if m == nil {
		return
	}
	for _, o := range api.InventoryOutcomes() {
		m.runs.WithLabelValues(source, string(o))
	}
}

// Done counts an inventory.
func (m *InventoryRuns) Done(source, outcome string) {
	if m == nil {
		return
	}
	m.runs.WithLabelValues(source, outcome).Inc()
	switch api.InventoryOutcome(outcome) {
	case api.InventoryClean, api.InventoryRepaired, api.InventoryDiffers:
		m.success.WithLabelValues(source).Set(float64(time.Now().UnixMilli()) / 1000)
	}
}

// Forget drops everything about a source that is no longer configured.
func (m *InventoryRuns) Forget(source string) {
	if m == nil {
		return
	}
	l := prometheus.Labels{"source": source}
	m.runs.DeletePartialMatch(l)
	m.success.DeletePartialMatch(l)
}
