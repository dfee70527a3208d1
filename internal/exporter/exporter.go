// Package exporter shows the latest snapshots of the inventory as Prometheus
// series. A scrape reads what is in memory and calls nobody: it is as fast when a
// platform hangs as when it does not, and says how old its figures are.
//
// What a platform's series are is said by its source type (source.Export); the
// package knows no platform.
package exporter

import (
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tollgate-dev/tollgate/internal/inventory"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
)

const (
	// DefaultMaxSeries is the most series of resources that a stream gets unless
	// Options say otherwise: 5,000 servers of ten series each.
	DefaultMaxSeries = 50_000
	// KeepIntervals is for how many intervals a snapshot is shown after it was
	// taken. Then another worker has a later one, or nobody has.
	KeepIntervals = 3
	// maxLabel is the most bytes of a label's value.
	maxLabel = 256
)

// Stream is a stream that is listed.
type Stream struct {
	inventory.StreamKey
	// Interval is the time from one listing to the next.
	Interval time.Duration
}

// Options configure an Exporter.
type Options struct {
	// Store has the snapshots.
	Store *inventory.Store
	// Types describe the series.
	Types []source.Type
	// Streams are those that are listed at present; others have no series.
	Streams func() []Stream
	// MaxSeries bounds the series of a stream's resources. Resources beyond it are
	// counted. Default: DefaultMaxSeries.
	MaxSeries int
	// Now is the clock. Default: time.Now.
	Now    func() time.Time
	Logger *slog.Logger
}

// Exporter is a prometheus.Collector. It is safe for concurrent use.
type Exporter struct {
	o     Options
	kinds map[kindKey]kind

	mu    sync.Mutex
	built map[inventory.StreamKey]built
}

type kindKey struct {
	platform event.Platform
	typ      event.ResourceType
}

// kind is an export with the descriptions of its families.
type kind struct {
	export source.Export
	names  []string
	descs  []*prometheus.Desc
}

// built are the series of a snapshot, which stay the same as long as it does.
type built struct {
	at      time.Time
	metrics []prometheus.Metric
}

var (
	streamLabels = []string{source.LabelSource, source.LabelStream}

	descAt = prometheus.NewDesc("tollgate_inventory_snapshot_timestamp_seconds",
		"Unix time at which the listing began whose figures are shown.", streamLabels, nil)
	descAge = prometheus.NewDesc("tollgate_inventory_snapshot_age_seconds",
		"Age of the figures that are shown, at the time of the scrape.", streamLabels, nil)
	descTook = prometheus.NewDesc("tollgate_inventory_snapshot_duration_seconds",
		"How long the listing took whose figures are shown.", streamLabels, nil)
	descInterval = prometheus.NewDesc("tollgate_inventory_interval_seconds",
		"Time from one listing of the stream to the next.", streamLabels, nil)
	descResources = prometheus.NewDesc("tollgate_inventory_resources",
		"Resources in the snapshot by type.", append(slices.Clone(streamLabels), "type"), nil)
	descHidden = prometheus.NewDesc("tollgate_inventory_unexported_resources",
		"Resources in the snapshot that have no series of their own: there are too many, or their type has none.", streamLabels, nil)
	descOdd = prometheus.NewDesc("tollgate_inventory_unreadable_entries",
		"Entries of the listing of which nothing could be read, not even what they are.", streamLabels, nil)
	descUnknown = prometheus.NewDesc("tollgate_inventory_unknown_values",
		"Resources whose value of a metric is not known, so that they have no series of it.", append(slices.Clone(streamLabels), "metric"), nil)
)

// New returns an Exporter for a registry. The types' exports must be valid.
func New(o Options) *Exporter {
	if o.MaxSeries <= 0 {
		o.MaxSeries = DefaultMaxSeries
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	e := &Exporter{o: o, kinds: map[kindKey]kind{}, built: map[inventory.StreamKey]built{}}
	for _, t := range o.Types {
		for _, x := range t.Exports {
			k := kind{export: x}
			for _, f := range x.Families {
				name := t.PrefixOf(x) + "_" + f.Name
				k.names = append(k.names, name)
				k.descs = append(k.descs, prometheus.NewDesc(name, f.Help, x.LabelsOf(f), nil))
			}
			e.kinds[kindKey{t.Platform(), x.Type}] = k
		}
	}
	return e
}

// Describe implements prometheus.Collector.
func (e *Exporter) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descAt, descAge, descTook, descInterval, descResources, descHidden, descOdd, descUnknown} {
		ch <- d
	}
	for _, k := range e.kinds {
		for _, d := range k.descs {
			ch <- d
		}
	}
}

// Collect implements prometheus.Collector.
func (e *Exporter) Collect(ch chan<- prometheus.Metric) {
	now, listed := e.o.Now(), map[inventory.StreamKey]inventory.Listed{}
	for _, l := range e.o.Store.All() {
		listed[l.StreamKey] = l
	}
	shown := map[inventory.StreamKey]bool{}
	for _, s := range e.o.Streams() {
		gauge := func(d *prometheus.Desc, v float64) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, clean(s.Source), clean(s.Stream))
		}
		gauge(descInterval, s.Interval.Seconds())
		l, ok := listed[s.StreamKey]
		age := now.Sub(l.Snapshot.At)
		if !ok || age-l.Took > KeepIntervals*s.Interval {
			continue
		}
		shown[s.StreamKey] = true
		gauge(descAt, float64(l.Snapshot.At.UnixMilli())/1000)
		gauge(descAge, max(0, age.Seconds()))
		gauge(descTook, l.Took.Seconds())
		for _, m := range e.series(l) {
			ch <- m
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for k := range e.built {
		if !shown[k] {
			delete(e.built, k)
		}
	}
}

// series are those of a snapshot's resources, built once for each snapshot.
func (e *Exporter) series(l inventory.Listed) []prometheus.Metric {
	e.mu.Lock()
	defer e.mu.Unlock()
	if b, ok := e.built[l.StreamKey]; ok && b.at.Equal(l.Snapshot.At) {
		return b.metrics
	}
	b := built{at: l.Snapshot.At, metrics: e.build(l)}
	e.built[l.StreamKey] = b
	return b.metrics
}

func (e *Exporter) build(l inventory.Listed) []prometheus.Metric {
	// In an order of their own, the same resources are shown each time when there
	// are too many.
	resources := slices.Clone(l.Snapshot.Resources)
	slices.SortFunc(resources, func(a, b source.Existing) int {
		return strings.Compare(key(a), key(b))
	})
	r := &round{
		log: e.o.Logger.With("source", l.Source, "stream", l.Stream), stream: []string{clean(l.Source), clean(l.Stream)},
		counts: map[event.ResourceType]int{}, unknown: map[string]int{}, seen: map[string]bool{}, limit: e.o.MaxSeries,
	}
	// A stream that is named after a type has a count when there is none left, too.
	if t := event.ResourceType(l.Stream); e.has(l.Platform, t) {
		r.counts[t] = 0
	}
	for _, x := range resources {
		r.counts[x.Resource.Type]++
		k, ok := e.kinds[kindKey{l.Platform, x.Resource.Type}]
		if !ok {
			r.hidden++
			continue
		}
		r.resource(k, x)
	}
	return r.finish(len(l.Snapshot.Unreadable))
}

func (e *Exporter) has(p event.Platform, t event.ResourceType) bool {
	_, ok := e.kinds[kindKey{p, t}]
	return ok
}

func key(x source.Existing) string {
	return string(x.Resource.Type) + "\x00" + x.Account + "\x00" + x.Resource.ID
}

// round is the building of a stream's series.
type round struct {
	log     *slog.Logger
	stream  []string
	metrics []prometheus.Metric
	counts  map[event.ResourceType]int
	unknown map[string]int // by metric
	seen    map[string]bool
	hidden  int
	limit   int
	full    bool
	said    bool
}

// resource adds the series of a resource: all of them, or none when there is no
// room.
func (r *round) resource(k kind, x source.Existing) {
	var out []prometheus.Metric
	identity := slices.Clone(r.stream)
	for _, l := range k.export.IdentityOf() {
		identity = append(identity, clean(x.Word(l)))
	}
	keys := make([]string, 0, len(k.export.Families))
	var unknown []string
	for i, f := range k.export.Families {
		known := false
		for _, s := range r.read(f, x, k.names[i]) {
			values := slices.Clone(identity)
			for _, v := range s.Labels {
				values = append(values, clean(v))
			}
			id := k.names[i] + "\xff" + strings.Join(values, "\xff")
			if r.seen[id] || slices.Contains(keys, id) || math.IsNaN(s.Value) || math.IsInf(s.Value, 0) {
				continue
			}
			m, err := prometheus.NewConstMetric(k.descs[i], prometheus.GaugeValue, s.Value, values...)
			if err != nil {
				r.complain(k.names[i], x, err)
				continue
			}
			known, out, keys = true, append(out, m), append(keys, id)
		}
		if !known && !f.Optional {
			unknown = append(unknown, k.names[i])
		}
	}
	if r.full = r.full || len(r.metrics)+len(out) > r.limit; r.full {
		r.hidden++
		return
	}
	r.metrics = append(r.metrics, out...)
	for _, name := range unknown {
		r.unknown[name]++
	}
	for _, id := range keys {
		r.seen[id] = true
	}
}

// read keeps a mistake in one family from costing all others.
func (r *round) read(f source.Family, x source.Existing, name string) (out []source.Sample) {
	defer func() {
		if p := recover(); p != nil {
			out = nil
			r.complain(name, x, p)
		}
	}()
	return f.Read(x)
}

func (r *round) complain(name string, x source.Existing, what any) {
	if !r.said {
		r.said = true
		r.log.Error("a metric of a resource cannot be shown; more of them may follow without a word",
			"metric", name, "resource", x.Resource.ID, "error", what)
	}
}

func (r *round) finish(unreadable int) []prometheus.Metric {
	gauge := func(d *prometheus.Desc, v int, labels ...string) {
		r.metrics = append(r.metrics, prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), append(slices.Clone(r.stream), labels...)...))
	}
	for t, n := range r.counts {
		gauge(descResources, n, clean(string(t)))
	}
	for name, n := range r.unknown {
		gauge(descUnknown, n, name)
	}
	gauge(descHidden, r.hidden)
	gauge(descOdd, unreadable)
	if r.full {
		r.log.Warn("too many resources for a series of each", "unexported", r.hidden, "max_series", r.limit)
	}
	return r.metrics
}

// clean is a word that a label can hold.
func clean(v string) string {
	if len(v) > maxLabel {
		v = v[:maxLabel]
	}
	return strings.ToValidUTF8(v, "")
}
