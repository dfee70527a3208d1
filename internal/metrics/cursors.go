package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Cursors counts what cursors read and deliver. It is safe for concurrent use; a
// nil *Cursors counts nothing.
type Cursors struct {
	events   *prometheus.CounterVec
	unknown  *prometheus.CounterVec
	pages    *prometheus.CounterVec
	ignored  *prometheus.CounterVec
	gaps     *prometheus.CounterVec
	failures *prometheus.CounterVec
	delivery *prometheus.HistogramVec
	interval *prometheus.GaugeVec
	state    *snapshots
}

var (
	descCaughtUp = prometheus.NewDesc("tollgate_cursor_caught_up_timestamp_seconds", "Unix time up to which everything that was finished is delivered, dead letters and gaps excepted.", []string{"source", "stream"}, nil)
	descLag      = prometheus.NewDesc("tollgate_cursor_lag_seconds", "What the delivery lay behind at the latest read.", []string{"source", "stream"}, nil)
	descPending  = prometheus.NewDesc("tollgate_cursor_pending_changes", "Changes that have begun and not ended.", []string{"source", "stream"}, nil)
	descLetters  = prometheus.NewDesc("tollgate_cursor_dead_letters", "Entries and events that could not be delivered and wait to be driven again.", []string{"source", "stream"}, nil)
	descBroken   = prometheus.NewDesc("tollgate_cursor_part_broken", "1 for a part of the source, such as a region, that could not be read; the others are read and delivered.", []string{"source", "stream", "part"}, nil)
	descReadAt   = prometheus.NewDesc("tollgate_cursor_last_read_timestamp_seconds", "Unix time of the latest read of the source.", []string{"source", "stream"}, nil)
)

// cursorTTL is how long a worker's latest word on a cursor counts: longer than the
// longest interval between two reads.
const cursorTTL = 2 * time.Hour

// NewCursors registers the metrics with reg.
func NewCursors(reg prometheus.Registerer) *Cursors {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{"source", "stream"}, labels...))
	}
	m := &Cursors{
		events:   counter("tollgate_cursor_events_total", "Events by what became of them at the sink: accepted, duplicate or rejected.", "outcome"),
		unknown:  counter("tollgate_cursor_unknown_sizes_total", "Events delivered with a size that nobody can know."),
		pages:    counter("tollgate_cursor_pages_total", "Pages read from the source."),
		ignored:  counter("tollgate_cursor_ignored_entries_total", "Entries that mean nothing to usage."),
		gaps:     counter("tollgate_cursor_gaps_total", "Times of which the source no longer had all entries when it was read."),
		failures: counter("tollgate_cursor_failures_total", "Reads that stopped, by the class of the source's error, Sink and the class of the sink's, or Follower and the class of what acts on events beside the sink.", "class"),
		delivery: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tollgate_cursor_delivery_duration_seconds", Help: "Duration of deliveries to the sink.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"source", "stream"}),
		interval: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tollgate_cursor_interval_seconds", Help: "Time between two reads of the source when there is nothing new.",
		}, []string{"source", "stream"}),
		state: newSnapshots(),
	}
	reg.MustRegister(m.events, m.unknown, m.pages, m.ignored, m.gaps, m.failures, m.delivery, m.interval, m.state)
	return m
}

// CursorState is what a read knows of its cursor.
type CursorState struct {
	UpTo, ReadAt time.Time
	Pending      int
	DeadLetters  int
	// Broken are the parts of the source that could not be read.
	Broken []api.BrokenPart
}

// Declare makes the counters of a stream exist with the value 0.
func (m *Cursors) Declare(source, stream string) {
	if m == nil {
		return
	}
	for _, o := range []sink.Outcome{sink.Accepted, sink.Duplicate, sink.Rejected} {
		m.events.WithLabelValues(source, stream, string(o))
	}
	for _, v := range []*prometheus.CounterVec{m.unknown, m.pages, m.ignored, m.gaps} {
		v.WithLabelValues(source, stream)
	}
}

// Interval says how often a stream is read when there is nothing new.
func (m *Cursors) Interval(source, stream string, d time.Duration) {
	if m == nil {
		return
	}
	m.interval.WithLabelValues(source, stream).Set(d.Seconds())
}

// Forget drops everything about a source that is no longer configured.
func (m *Cursors) Forget(source string) {
	if m == nil {
		return
	}
	l := prometheus.Labels{"source": source}
	for _, v := range []interface {
		DeletePartialMatch(prometheus.Labels) int
	}{m.events, m.unknown, m.pages, m.ignored, m.gaps, m.failures, m.delivery, m.interval} {
		v.DeletePartialMatch(l)
	}
	m.state.forget(source)
}

// Page counts a page that was read and delivered.
func (m *Cursors) Page(source, stream string, c api.CursorCounts, gap bool) {
	if m == nil {
		return
	}
	m.pages.WithLabelValues(source, stream).Add(float64(c.Pages))
	m.ignored.WithLabelValues(source, stream).Add(float64(c.Ignored))
	m.unknown.WithLabelValues(source, stream).Add(float64(c.UnknownSizes))
	m.events.WithLabelValues(source, stream, string(sink.Accepted)).Add(float64(c.Delivered))
	m.events.WithLabelValues(source, stream, string(sink.Duplicate)).Add(float64(c.Duplicates))
	m.events.WithLabelValues(source, stream, string(sink.Rejected)).Add(float64(c.Rejected))
	if gap {
		m.gaps.WithLabelValues(source, stream).Inc()
	}
}

// State replaces what is known of a cursor.
func (m *Cursors) State(source, stream string, s CursorState) {
	if m == nil {
		return
	}
	gauge := func(d *prometheus.Desc, v float64) prometheus.Metric {
		return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, source, stream)
	}
	seconds := func(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
	ms := []prometheus.Metric{
		gauge(descPending, float64(s.Pending)), gauge(descLetters, float64(s.DeadLetters)), gauge(descReadAt, seconds(s.ReadAt)),
	}
	for _, b := range s.Broken {
		ms = append(ms, prometheus.MustNewConstMetric(descBroken, prometheus.GaugeValue, 1, source, stream, b.Part))
	}
	if !s.UpTo.IsZero() {
		ms = append(ms, gauge(descCaughtUp, seconds(s.UpTo)), gauge(descLag, max(0, s.ReadAt.Sub(s.UpTo).Seconds())))
	}
	m.state.set(source, stream, ms, cursorTTL)
}

// Failed counts a read that stopped.
func (m *Cursors) Failed(source, stream, class string) {
	if m == nil {
		return
	}
	m.failures.WithLabelValues(source, stream, class).Inc()
}

// Delivered records the duration of a delivery.
func (m *Cursors) Delivered(source, stream string, took time.Duration) {
	if m == nil {
		return
	}
	m.delivery.WithLabelValues(source, stream).Observe(took.Seconds())
}
