// Package metrics holds the Prometheus metrics of the watching workflows:
// probes, fleets, sweeps and provider health. The activities report, because
// workflow code may not; a gauge therefore says what one worker saw last, and
// vanishes when that is too old, since another worker may have gone on.
package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tollgate-dev/tollgate/internal/probe"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// ClassOK is the label value of a probe that succeeded; the others are those of
// probe.Class.
const ClassOK = "ok"

// Metrics is safe for concurrent use; a nil *Metrics counts nothing.
type Metrics struct {
	probes      *prometheus.CounterVec
	probeTime   *prometheus.HistogramVec
	observed    *prometheus.CounterVec
	listed      *prometheus.GaugeVec
	instances   *prometheus.GaugeVec
	listFailed  *prometheus.CounterVec
	sweeps      *prometheus.CounterVec
	sweepAt     *prometheus.GaugeVec
	listEvery   *prometheus.GaugeVec
	sweepEvery  *prometheus.GaugeVec
	orphans     *prometheus.GaugeVec
	orphansGone *prometheus.CounterVec
	fleets      *snapshots
	checks      *snapshots
	account     account
}

// New registers the metrics with reg.
func New(reg prometheus.Registerer) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	}
	m := &Metrics{
		probes: counter("tollgate_probe_results_total", "CONNECT probes of proxies by result: ok, or the probe class of the failure.", "provider", "class"),
		probeTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tollgate_probe_duration_seconds", Help: "Duration of successful CONNECT probes.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"provider"}),
		observed:    counter("tollgate_fleet_observations_total", "Observations made for proxies by kind.", "provider", "kind"),
		listed:      gauge("tollgate_fleet_last_listing_timestamp_seconds", "Unix time of the start of the latest complete listing of the provider.", "provider"),
		instances:   gauge("tollgate_fleet_listed_instances", "Instances of this installation in the latest complete listing.", "provider"),
		listFailed:  counter("tollgate_fleet_listing_failures_total", "Listings for the fleet that failed, by error class. Nothing is concluded from them.", "provider", "class"),
		sweeps:      counter("tollgate_gc_sweeps_total", "Sweeps for orphans by outcome.", "provider", "outcome"),
		sweepAt:     gauge("tollgate_gc_last_sweep_timestamp_seconds", "Unix time of the end of the latest sweep that could read everything.", "provider"),
		listEvery:   gauge("tollgate_fleet_listing_interval_seconds", "Configured time between two listings of the provider.", "provider"),
		sweepEvery:  gauge("tollgate_gc_interval_seconds", "Configured time between two sweeps for orphans.", "provider"),
		orphans:     gauge("tollgate_gc_orphans", "Confirmed orphans of the latest sweep, before it deleted any.", "provider"),
		orphansGone: counter("tollgate_gc_orphans_deleted_total", "Orphans that were deleted and are gone.", "provider", "kind"),
		fleets:      newSnapshots(),
		checks:      newSnapshots(),
		account:     newAccount(reg),
	}
	reg.MustRegister(m.probes, m.probeTime, m.observed, m.listed, m.instances, m.listFailed,
		m.sweeps, m.sweepAt, m.listEvery, m.sweepEvery, m.orphans, m.orphansGone, m.fleets, m.checks)
	return m
}

// Declare makes the counters of a provider exist with the value 0, so that rates
// and alerts work from the first scrape on.
func (m *Metrics) Declare(providerName string) {
	if m == nil {
		return
	}
	m.probes.WithLabelValues(providerName, ClassOK)
	for _, c := range probe.Classes() {
		m.probes.WithLabelValues(providerName, string(c))
	}
	for _, o := range api.SweepOutcomes() {
		m.sweeps.WithLabelValues(providerName, string(o))
	}
	m.account.declare(providerName)
}

// Intervals says how often a provider is listed and swept, by which alerts measure
// what is late.
func (m *Metrics) Intervals(providerName string, listing, sweep time.Duration) {
	if m == nil {
		return
	}
	m.listEvery.WithLabelValues(providerName).Set(listing.Seconds())
	m.sweepEvery.WithLabelValues(providerName).Set(sweep.Seconds())
}

// Forget drops everything about a provider that is no longer configured.
func (m *Metrics) Forget(providerName string) {
	if m == nil {
		return
	}
	l := prometheus.Labels{"provider": providerName}
	for _, v := range []interface {
		DeletePartialMatch(prometheus.Labels) int
	}{m.probes, m.probeTime, m.observed, m.listed, m.instances, m.listFailed,
		m.sweeps, m.sweepAt, m.listEvery, m.sweepEvery, m.orphans, m.orphansGone} {
		v.DeletePartialMatch(l)
	}
	m.account.forget(l)
	m.fleets.forget(providerName)
	m.checks.forget(providerName)
}

// ProbeResult counts one probe. class is empty for a success.
func (m *Metrics) ProbeResult(providerName, class string, took time.Duration) {
	if m == nil {
		return
	}
	if class == "" {
		class = ClassOK
		m.probeTime.WithLabelValues(providerName).Observe(took.Seconds())
	}
	m.probes.WithLabelValues(providerName, class).Inc()
}

// Observed counts the observations of a round by kind.
func (m *Metrics) Observed(providerName string, kinds map[string]int) {
	if m == nil {
		return
	}
	for k, n := range kinds {
		m.observed.WithLabelValues(providerName, k).Add(float64(n))
	}
}

// Listed records a complete listing.
func (m *Metrics) Listed(providerName string, at time.Time, instances int) {
	if m == nil {
		return
	}
	m.listed.WithLabelValues(providerName).Set(float64(at.UnixMilli()) / 1000)
	m.instances.WithLabelValues(providerName).Set(float64(instances))
}

// ListingFailed counts a listing that failed.
func (m *Metrics) ListingFailed(providerName string, class provider.Class) {
	if m == nil {
		return
	}
	m.listFailed.WithLabelValues(providerName, string(class)).Inc()
}

// Swept records the end of a sweep with the orphans that it confirmed. A sweep
// that could not read everything leaves their number as it was.
func (m *Metrics) Swept(providerName string, outcome api.SweepOutcome, orphans int) {
	if m == nil {
		return
	}
	m.sweeps.WithLabelValues(providerName, string(outcome)).Inc()
	if outcome == api.SweepUnreadable || outcome == api.SweepCanceled {
		return
	}
	m.sweepAt.WithLabelValues(providerName).SetToCurrentTime()
	m.orphans.WithLabelValues(providerName).Set(float64(orphans))
}

// OrphanDeleted counts an orphan that is gone.
func (m *Metrics) OrphanDeleted(providerName, kind string) {
	if m == nil {
		return
	}
	m.orphansGone.WithLabelValues(providerName, kind).Inc()
}

// Fleet is what a probe round of one shard knows.
type Fleet struct {
	// At is when the round began.
	At      time.Time
	Rows    []api.FleetRow
	Brake   api.FleetBrake
	Failing int
	// Refused counts the reports that the shard had no room for.
	Refused int64
}

var (
	descProxies = prometheus.NewDesc("tollgate_fleet_proxies", "Proxies of a shard of the fleet table by phase.", []string{"provider", "shard", "phase"}, nil)
	descHealthy = prometheus.NewDesc("tollgate_fleet_healthy_proxies", "Proxies that are proven and serve.", []string{"provider", "shard"}, nil)
	descLatched = prometheus.NewDesc("tollgate_fleet_latched_proxies", "Proxies that wait until the spec or the provider's configuration changes.", []string{"provider", "shard"}, nil)
	descFailing = prometheus.NewDesc("tollgate_fleet_failing_probes", "Probes that failed in the latest round.", []string{"provider", "shard"}, nil)
	descBraked  = prometheus.NewDesc("tollgate_fleet_braked", "1 while probe failures are not believed, by reason.", []string{"provider", "shard", "reason"}, nil)
	descProbed  = prometheus.NewDesc("tollgate_fleet_probed_timestamp_seconds", "Unix time of the start of the latest probe round of a shard, of which its gauges are.", []string{"provider", "shard"}, nil)
	descRefused = prometheus.NewDesc("tollgate_fleet_refused_reports", "Reports that the shard had no room for. More shards make room.", []string{"provider", "shard"}, nil)
	descUp      = prometheus.NewDesc("tollgate_provider_target_up", "1 when the latest check found the target ready.", []string{"provider", "target"}, nil)
	descLatency = prometheus.NewDesc("tollgate_provider_target_latency_seconds", "Latency of the target at the latest check.", []string{"provider", "target"}, nil)
	descTook    = prometheus.NewDesc("tollgate_provider_check_duration_seconds", "Duration of the latest check of all targets.", []string{"provider"}, nil)
	descChecked = prometheus.NewDesc("tollgate_provider_check_timestamp_seconds", "Unix time of the latest check.", []string{"provider"}, nil)
)

// phases are those that a row can have.
var phases = []api.Phase{api.PhasePending, api.PhaseProvisioning, api.PhaseRunning, api.PhaseReplacing, api.PhaseDeleting}

// FleetRound replaces what is known of a shard; it vanishes after ttl.
func (m *Metrics) FleetRound(providerName string, shard int, f Fleet, ttl time.Duration) {
	if m == nil {
		return
	}
	byPhase := map[api.Phase]int{}
	healthy, latched := 0, 0
	for _, r := range f.Rows {
		byPhase[r.Phase]++
		if r.Healthy {
			healthy++
		}
		if r.Latched {
			latched++
		}
	}
	s := strconv.Itoa(shard)
	var ms []prometheus.Metric
	add := func(d *prometheus.Desc, v float64, labels ...string) {
		ms = append(ms, prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{providerName, s}, labels...)...))
	}
	for _, p := range phases {
		add(descProxies, float64(byPhase[p]), string(p))
	}
	add(descProbed, float64(f.At.UnixMilli())/1000)
	add(descHealthy, float64(healthy))
	add(descLatched, float64(latched))
	add(descFailing, float64(f.Failing))
	add(descRefused, float64(f.Refused))
	for _, reason := range []string{api.ReasonManyFailing, api.ReasonControlFailed} {
		add(descBraked, boolean(f.Brake.On && f.Brake.Reason == reason), reason)
	}
	m.fleets.set(providerName, s, ms, ttl)
}

// Checked replaces what is known of a provider's targets; it vanishes after ttl.
func (m *Metrics) Checked(providerName string, targets []provider.TargetStatus, at time.Time, took, ttl time.Duration) {
	if m == nil {
		return
	}
	ms := []prometheus.Metric{
		prometheus.MustNewConstMetric(descTook, prometheus.GaugeValue, took.Seconds(), providerName),
		prometheus.MustNewConstMetric(descChecked, prometheus.GaugeValue, float64(at.UnixMilli())/1000, providerName),
	}
	seen := map[string]bool{}
	for _, t := range targets {
		// Two series of one name would fail the whole scrape.
		if seen[t.Target] {
			continue
		}
		seen[t.Target] = true
		ms = append(ms, prometheus.MustNewConstMetric(descUp, prometheus.GaugeValue, boolean(t.Ready), providerName, t.Target))
		if t.Latency > 0 {
			ms = append(ms, prometheus.MustNewConstMetric(descLatency, prometheus.GaugeValue, t.Latency.Seconds(), providerName, t.Target))
		}
	}
	m.checks.set(providerName, "", ms, ttl)
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
