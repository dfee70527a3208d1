package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ClassDone is the label value of a listing that succeeded; the others are the
// classes of provider errors.
const ClassDone = "OK"

// Inventory counts listings and what came of comparing them. It is safe for
// concurrent use; a nil *Inventory counts nothing.
type Inventory struct {
	listings *prometheus.CounterVec
	repairs  *prometheus.CounterVec
	compared *snapshots
}

var (
	descDifferences = prometheus.NewDesc("tollgate_inventory_differences",
		"Differences that the latest comparison found, by kind.", []string{"source", "stream", "kind"}, nil)
	descOpen = prometheus.NewDesc("tollgate_inventory_open_differences",
		"Differences that the latest comparison found and did not repair.", []string{"source", "stream"}, nil)
	descComparedAt = prometheus.NewDesc("tollgate_inventory_last_comparison_timestamp_seconds",
		"Unix time of the latest comparison of what exists with what was reported.", []string{"source", "stream"}, nil)
)

// NewInventory registers the metrics with reg.
func NewInventory(reg prometheus.Registerer) *Inventory {
	m := &Inventory{
		listings: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tollgate_inventory_listings_total", Help: "Listings of what exists, by OK or the class of the error. Nothing is concluded from one that failed.",
		}, []string{"source", "stream", "class"}),
		repairs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tollgate_inventory_repairs_total", Help: "Events delivered because a comparison found a difference, by its kind.",
		}, []string{"source", "stream", "kind"}),
		compared: newSnapshots(),
	}
	reg.MustRegister(m.listings, m.repairs, m.compared)
	return m
}

// Listed counts a listing; class is ClassDone or the class of its error.
func (m *Inventory) Listed(source, stream, class string) {
	if m == nil {
		return
	}
	m.listings.WithLabelValues(source, stream, class).Inc()
}

// Comparison is what came of one.
type Comparison struct {
	At time.Time
	// Found and Repaired are numbers of differences by kind, Open is the number of
	// those that are not repaired.
	Found, Repaired map[string]int
	Open            int
}

// Compared replaces what is known of a stream's latest comparison; it is shown for
// ttl, unless another follows.
func (m *Inventory) Compared(source, stream string, c Comparison, ttl time.Duration) {
	if m == nil {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
		return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{source, stream}, labels...)...)
	}
	ms := []prometheus.Metric{gauge(descOpen, float64(c.Open)), gauge(descComparedAt, float64(c.At.UnixMilli())/1000)}
	for kind, n := range c.Found {
		ms = append(ms, gauge(descDifferences, float64(n), kind))
	}
	for kind, n := range c.Repaired {
		m.repairs.WithLabelValues(source, stream, kind).Add(float64(n))
	}
	m.compared.set(source, stream, ms, ttl)
}

// Forget drops everything about a source that is no longer configured.
func (m *Inventory) Forget(source string) {
	if m == nil {
		return
	}
	l := prometheus.Labels{"source": source}
	m.listings.DeletePartialMatch(l)
	m.repairs.DeletePartialMatch(l)
	m.compared.forget(source)
}
