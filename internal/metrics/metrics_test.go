package metrics

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

func gather(t *testing.T, reg *prometheus.Registry, names ...string) string {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := make([]string, len(m.GetLabel()))
			for i, l := range m.GetLabel() {
				labels[i] = l.GetName() + "=" + l.GetValue()
			}
			for _, n := range names {
				if n == f.GetName() {
					v := m.GetGauge().GetValue() + m.GetCounter().GetValue()
					lines = append(lines, f.GetName()+"{"+strings.Join(labels, ",")+"} "+strconv.FormatFloat(v, 'g', -1, 64))
				}
			}
		}
	}
	return strings.Join(lines, "\n")
}

func TestCounters(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	m := New(reg)
	m.ProbeResult("local", "", 20*time.Millisecond)
	m.ProbeResult("local", "timeout", time.Second)
	m.ProbeResult("local", "timeout", time.Second)
	m.Observed("local", map[string]int{"Missing": 2})
	m.ListingFailed("local", provider.RateLimited)
	m.Swept("local", api.SweepOverCap, 12)
	m.Swept("local", api.SweepUnreadable, 0)
	m.OrphanDeleted("local", "instance")
	m.Listed("local", time.Unix(1700000000, 0), 7)
	m.Intervals("local", 2*time.Minute, 10*time.Minute)

	for _, tc := range []struct {
		c    prometheus.Collector
		want float64
	}{
		{m.probes.WithLabelValues("local", "ok"), 1},
		{m.probes.WithLabelValues("local", "timeout"), 2},
		{m.observed.WithLabelValues("local", "Missing"), 2},
		{m.listFailed.WithLabelValues("local", "RateLimited"), 1},
		{m.sweeps.WithLabelValues("local", "OverCap"), 1},
		{m.sweeps.WithLabelValues("local", "Unreadable"), 1},
		{m.orphans.WithLabelValues("local"), 12},
		{m.orphansGone.WithLabelValues("local", "instance"), 1},
		{m.listed.WithLabelValues("local"), 1700000000},
		{m.listEvery.WithLabelValues("local"), 120},
		{m.sweepEvery.WithLabelValues("local"), 600},
		{m.instances.WithLabelValues("local"), 7},
	} {
		if got := testutil.ToFloat64(tc.c); got != tc.want {
			t.Errorf("%v = %v, want %v", tc.c, got, tc.want)
		}
	}
	if n := testutil.CollectAndCount(m.probeTime); n != 1 {
		t.Errorf("%d histograms, want the one of the success", n)
	}
}

func TestDeclareAndForget(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	m := New(reg)
	m.Declare("local")
	if got := testutil.CollectAndCount(m.probes); got != 7 {
		t.Errorf("%d probe series declared, want 7", got)
	}
	if got := testutil.CollectAndCount(m.sweeps); got != len(api.SweepOutcomes()) {
		t.Errorf("%d sweep series declared, want %d", got, len(api.SweepOutcomes()))
	}
	m.Declare("other")
	m.Intervals("local", time.Minute, time.Minute)
	m.FleetRound("local", 0, Fleet{}, time.Hour)
	m.Checked("local", nil, time.Now(), time.Second, time.Hour)
	m.Forget("local")
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, s := range f.GetMetric() {
			for _, l := range s.GetLabel() {
				if l.GetName() == "provider" && l.GetValue() != "other" {
					t.Errorf("%s still has a series of %s", f.GetName(), l.GetValue())
				}
			}
		}
	}
}

func TestFleetRound(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	m := New(reg)
	m.FleetRound("local", 1, Fleet{At: time.UnixMilli(1700000000500), Rows: []api.FleetRow{
		{Phase: api.PhaseRunning, Healthy: true}, {Phase: api.PhaseRunning}, {Phase: api.PhasePending, Latched: true},
	}, Brake: api.FleetBrake{On: true, Reason: api.ReasonManyFailing}, Failing: 1, Refused: 4}, time.Hour)
	got := gather(t, reg, "tollgate_fleet_proxies", "tollgate_fleet_healthy_proxies", "tollgate_fleet_latched_proxies",
		"tollgate_fleet_braked", "tollgate_fleet_failing_probes", "tollgate_fleet_refused_reports", "tollgate_fleet_probed_timestamp_seconds")
	for _, want := range []string{
		"tollgate_fleet_proxies{phase=Running,provider=local,shard=1} 2",
		"tollgate_fleet_proxies{phase=Pending,provider=local,shard=1} 1",
		"tollgate_fleet_proxies{phase=Deleting,provider=local,shard=1} 0",
		"tollgate_fleet_healthy_proxies{provider=local,shard=1} 1",
		"tollgate_fleet_latched_proxies{provider=local,shard=1} 1",
		"tollgate_fleet_braked{provider=local,reason=ManyFailing,shard=1} 1",
		"tollgate_fleet_braked{provider=local,reason=ControlFailed,shard=1} 0",
		"tollgate_fleet_failing_probes{provider=local,shard=1} 1",
		"tollgate_fleet_refused_reports{provider=local,shard=1} 4",
		"tollgate_fleet_probed_timestamp_seconds{provider=local,shard=1} 1.7000000005e+09",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the metrics lack %q:\n%s", want, got)
		}
	}
}

func TestSnapshotsVanish(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	m := New(reg)
	clock := time.Unix(1000, 0)
	m.checks.now = func() time.Time { return clock }
	targets := []provider.TargetStatus{{Target: "api", Ready: true, Latency: time.Second}, {Target: "api"}, {Target: "zone b"}}
	m.Checked("local", targets, clock, 2*time.Second, time.Minute)
	got := gather(t, reg, "tollgate_provider_target_up", "tollgate_provider_check_duration_seconds")
	for _, want := range []string{
		"tollgate_provider_target_up{provider=local,target=api} 1",
		"tollgate_provider_target_up{provider=local,target=zone b} 0",
		"tollgate_provider_check_duration_seconds{provider=local} 2",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the metrics lack %q:\n%s", want, got)
		}
	}
	clock = clock.Add(time.Minute + 1)
	if got := gather(t, reg, "tollgate_provider_target_up"); got != "" {
		t.Errorf("old gauges are still there:\n%s", got)
	}
}

func TestNilCountsNothing(t *testing.T) {
	t.Parallel()
	var m *Metrics
	m.Declare("x")
	m.Intervals("x", time.Minute, time.Minute)
	m.Forget("x")
	m.ProbeResult("x", "", 0)
	m.Observed("x", map[string]int{"Missing": 1})
	m.Listed("x", time.Now(), 1)
	m.ListingFailed("x", provider.Transient)
	m.Swept("x", api.SweepClean, 0)
	m.OrphanDeleted("x", "instance")
	m.FleetRound("x", 0, Fleet{}, 0)
	m.Checked("x", nil, time.Now(), 0, 0)
}
