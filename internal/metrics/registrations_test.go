package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tollgate-dev/tollgate/internal/registration/census"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

func TestRegistrations(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	m := NewRegistrations(reg)
	clock := time.Unix(1000, 0)
	m.counted.now = func() time.Time { return clock }
	names := []string{"tollgate_shoot_registrations", "tollgate_shoot_count_failures_total"}
	m.Counted("garden", map[census.Group]int{{Phase: api.ShootRegistered}: 7, {Phase: api.ShootUnresolved, Reason: api.ReasonNotMapped}: 2}, time.Minute)
	m.Counted("other", map[census.Group]int{{Phase: api.ShootRegistered}: 1}, time.Hour)
	expect := func(what string, want ...string) {
		t.Helper()
		if got := gather(t, reg, names...); got != strings.Join(want, "\n") {
			t.Errorf("%s:\n%s\nwant:\n%s", what, got, strings.Join(want, "\n"))
		}
	}
	expect("counted",
		"tollgate_shoot_count_failures_total{source=garden} 0", "tollgate_shoot_count_failures_total{source=other} 0",
		"tollgate_shoot_registrations{phase=Registered,reason=,source=garden} 7", "tollgate_shoot_registrations{phase=Registered,reason=,source=other} 1",
		"tollgate_shoot_registrations{phase=Unresolved,reason=NotMapped,source=garden} 2")
	// A group in which there is none any more goes, and a count that fails leaves
	// what was counted until that is too old.
	m.Counted("garden", map[census.Group]int{{Phase: api.ShootRegistered}: 9}, time.Minute)
	m.Failed("garden")
	expect("counted again, and not",
		"tollgate_shoot_count_failures_total{source=garden} 1", "tollgate_shoot_count_failures_total{source=other} 0",
		"tollgate_shoot_registrations{phase=Registered,reason=,source=garden} 9", "tollgate_shoot_registrations{phase=Registered,reason=,source=other} 1")
	clock = clock.Add(time.Minute + 1)
	expect("too old", "tollgate_shoot_count_failures_total{source=garden} 1", "tollgate_shoot_count_failures_total{source=other} 0",
		"tollgate_shoot_registrations{phase=Registered,reason=,source=other} 1")
	m.Forget("other")
	expect("forgotten", "tollgate_shoot_count_failures_total{source=garden} 1")

	var none *Registrations
	none.Counted("x", nil, time.Minute)
	none.Failed("x")
	none.Forget("x")
}
