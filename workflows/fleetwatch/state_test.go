package fleetwatch

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func row(n int, edit ...func(*api.FleetRow)) api.FleetRow {
	uid := fmt.Sprintf("0190a000-0000-7000-8000-%012d", n)
	r := api.FleetRow{UID: uid, Namespace: "default", Name: fmt.Sprintf("p%04d", n), Seq: 1, Phase: api.PhaseRunning,
		InstanceID: provider.InstanceID(fmt.Sprint("id-", n)), InstanceName: provider.InstanceName(uid, 0),
		IP: "10.0.0.1", Port: 3128, Own: []string{provider.InstanceName(uid, 0)}, Healthy: true, Since: now, CreatedAt: now}
	for _, e := range edit {
		e(&r)
	}
	return r
}

func seq(n int64) func(*api.FleetRow) { return func(r *api.FleetRow) { r.Seq = n } }

func phase(p api.Phase) func(*api.FleetRow) {
	return func(r *api.FleetRow) { r.Phase, r.Healthy = p, p == api.PhaseRunning }
}

func TestReportsAreTakenInOrder(t *testing.T) {
	t.Parallel()
	up := api.FleetReport{Row: row(1, seq(5))}
	for name, tc := range map[string]struct {
		reports []api.FleetReport
		after   time.Duration // before the last report
		want    api.Phase     // "" means no row
		changes int64
	}{
		"one":                    {[]api.FleetReport{up}, 0, api.PhaseRunning, 1},
		"the same again":         {[]api.FleetReport{up, up}, 0, api.PhaseRunning, 1},
		"a later one":            {[]api.FleetReport{up, {Row: row(1, seq(6), phase(api.PhaseDeleting))}}, 0, api.PhaseDeleting, 2},
		"an earlier one":         {[]api.FleetReport{up, {Row: row(1, seq(4), phase(api.PhasePending))}}, 0, api.PhaseRunning, 1},
		"gone":                   {[]api.FleetReport{up, {Row: row(1, seq(6)), Gone: true}}, 0, "", 2},
		"gone, of the same time": {[]api.FleetReport{up, {Row: row(1, seq(5)), Gone: true}}, 0, "", 2},
		"gone, late":             {[]api.FleetReport{up, {Row: row(1, seq(4)), Gone: true}}, 0, api.PhaseRunning, 1},
		"gone before it came":    {[]api.FleetReport{{Row: row(1, seq(6)), Gone: true}, up}, 0, "", 0},
		"late after gone":        {[]api.FleetReport{up, {Row: row(1, seq(6)), Gone: true}, up}, time.Minute, "", 2},
		"back after gone":        {[]api.FleetReport{up, {Row: row(1, seq(6)), Gone: true}, {Row: row(1, seq(7))}}, 0, api.PhaseRunning, 3},
		"long after gone":        {[]api.FleetReport{up, {Row: row(1, seq(6)), Gone: true}, up}, endedFor, api.PhaseRunning, 3},
		"no uid":                 {[]api.FleetReport{{Row: row(1, func(r *api.FleetRow) { r.UID = "" })}}, 0, "", 0},
		"no name":                {[]api.FleetReport{{Row: row(1, func(r *api.FleetRow) { r.Name = "" })}}, 0, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newState(api.FleetWatchInput{Provider: "local"})
			at := now
			for i, r := range tc.reports {
				if i == len(tc.reports)-1 {
					at = at.Add(tc.after)
				}
				s.report(at, r)
			}
			if got := s.rows[up.Row.UID].Phase; got != tc.want {
				t.Errorf("phase %q, want %q", got, tc.want)
			}
			if s.changes != tc.changes {
				t.Errorf("%d changes, want %d", s.changes, tc.changes)
			}
		})
	}
}

func TestRoom(t *testing.T) {
	t.Parallel()
	s := newState(api.FleetWatchInput{Provider: "local"})
	for n := range api.MaxFleetRows {
		s.report(now, api.FleetReport{Row: row(n)})
	}
	if len(s.rows) != api.MaxFleetRows || s.refused.Count != 0 {
		t.Fatalf("%d rows, %+v refused: want room for %d", len(s.rows), s.refused, api.MaxFleetRows)
	}
	s.report(now, api.FleetReport{Row: row(api.MaxFleetRows)})
	if len(s.rows) != api.MaxFleetRows || s.refused.Count != 1 || !strings.Contains(s.refused.Last, "default/p2000: the shard has 2000 rows") {
		t.Errorf("%d rows, %+v refused: want the one too many refused by name", len(s.rows), s.refused)
	}
	s.report(now, api.FleetReport{Row: row(3, seq(2), phase(api.PhaseDeleting))})
	if s.rows[row(3).UID].Phase != api.PhaseDeleting {
		t.Error("a known proxy's report was refused")
	}
	s.report(now, api.FleetReport{Row: row(3, seq(3)), Gone: true})
	s.report(now, api.FleetReport{Row: row(api.MaxFleetRows)})
	if _, ok := s.rows[row(api.MaxFleetRows).UID]; !ok {
		t.Error("there is room again, and the report was refused")
	}
}

func TestLargeRows(t *testing.T) {
	t.Parallel()
	many := map[string]string{}
	for i := range 100 {
		many[fmt.Sprint("label-", i)] = strings.Repeat("v", 60)
	}
	labels := func(r *api.FleetRow) { r.Labels = many }
	huge := func(r *api.FleetRow) { r.Placement.Image = strings.Repeat("i", 5000) }

	s := newState(api.FleetWatchInput{Provider: "local"})
	s.report(now, api.FleetReport{Row: row(1, labels)})
	if got, ok := s.rows[row(1).UID]; !ok || got.Labels != nil || !got.Healthy || s.refused.Count != 1 || !strings.Contains(s.refused.Last, "labels of default/p0001") {
		t.Errorf("row %+v, refused %+v: want it without its labels, and said so", got, s.refused)
	}
	s.report(now, api.FleetReport{Row: row(2, huge)})
	if _, ok := s.rows[row(2).UID]; ok || s.refused.Count != 2 {
		t.Errorf("a row of 5 KB was taken; refused %+v", s.refused)
	}
	s.report(now, api.FleetReport{Row: row(1, seq(2), huge, phase(api.PhaseReplacing))})
	if got := s.rows[row(1).UID]; got.Phase != api.PhaseReplacing || got.Healthy || got.Seq != 2 || got.Placement.Image != "" {
		t.Errorf("row %+v: want the known proxy's new phase, and nothing large", got)
	}
	s.report(now, api.FleetReport{Row: row(4, func(r *api.FleetRow) { r.Reason = strings.Repeat("r", 9999) })})
	if got := s.rows[row(4).UID]; len(got.Reason) != maxReason {
		t.Errorf("a reason of %d bytes", len(got.Reason))
	}
}

// TestCarriedStateFitsAPayload fills everything that is bounded to its bound.
func TestCarriedStateFitsAPayload(t *testing.T) {
	t.Parallel()
	s := newState(api.FleetWatchInput{Provider: "local"})
	s.configure(now, api.FleetConfig{Shards: 1})
	wide := func(r *api.FleetRow) {
		r.Labels = map[string]string{}
		for i := range 10 {
			r.Labels[fmt.Sprint("label-", i)] = strings.Repeat("v", 60)
		}
	}
	for n := range api.MaxFleetRows + 500 {
		s.report(now, api.FleetReport{Row: row(n, wide)})
		s.counters = append(s.counters, api.ProbeCounter{UID: row(n).UID, Instance: row(n).InstanceID, Fails: 999999, Down: true, Class: "target_down"})
	}
	s.counters = s.counters[:api.MaxFleetRows]
	var items []api.FleetObservation
	for n := range 2 * maxOutbox {
		items = append(items, api.FleetObservation{UID: row(n).UID, Namespace: "default", Name: row(n).Name, Observation: api.Observation{
			Kind: api.ObservedUnhealthy, InstanceID: row(n).InstanceID, InstanceName: row(n).InstanceName, Reason: "target_down", At: now,
			Message: "12 probes in a row failed, the latest: the proxy does not reach the target: it answered CONNECT with 502 Bad Gateway"}})
	}
	s.send(items)
	for n := range 2 * maxEnded {
		s.end(now, fmt.Sprintf("%s-%d", row(n).UID, n), 1)
	}
	b, err := json.Marshal(s.carried())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d rows, %d bytes of rows, %d bytes in all", len(s.rows), s.bytes, len(b))
	if limit := 2 << 20; len(b) >= limit {
		t.Errorf("the carried state takes %d bytes, and a payload may have %d", len(b), limit)
	}
	if s.refused.Count == 0 {
		t.Error("nothing was refused")
	}
}

// TestCarriedStateIsWhole makes random histories and checks that what is carried
// over makes the same state again, byte for byte.
func TestCarriedStateIsWhole(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 4))
		s := newState(api.FleetWatchInput{Provider: "local"})
		at := now
		for range 200 {
			at = at.Add(time.Duration(rng.IntN(60)) * time.Second)
			n := rng.IntN(40)
			switch rng.IntN(8) {
			case 0:
				s.configure(at, api.FleetConfig{ConfigHash: fmt.Sprint(rng.IntN(3)), Shards: 1 + rng.IntN(3)})
			case 1:
				s.report(at, api.FleetReport{Row: row(n, seq(rng.Int64N(50))), Gone: true})
			case 2:
				s.send([]api.FleetObservation{{UID: row(n).UID, Observation: api.Observation{Kind: api.ObservedMissing, At: at}}})
			case 3:
				s.brake = api.FleetBrake{On: rng.IntN(2) == 0, Reason: api.ReasonManyFailing, Since: at}
				s.release(at)
			case 4:
				s.counters = append(s.counters, api.ProbeCounter{UID: row(n).UID, Fails: 1})
			default:
				s.report(at, api.FleetReport{Row: row(n, seq(rng.Int64N(50)), phase(api.PhaseReplacing))})
			}
		}
		before, err := json.Marshal(s.carried())
		if err != nil {
			t.Fatal(err)
		}
		var c api.CarriedFleet
		if err := json.Unmarshal(before, &c); err != nil {
			t.Fatal(err)
		}
		again := newState(api.FleetWatchInput{Provider: "local", Carried: &c})
		after, err := json.Marshal(again.carried())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(before), string(after)); diff != "" {
			t.Fatalf("seed %d: the state changes by being carried over (-before +after):\n%s", seed, diff)
		}
		if again.bytes != s.bytes {
			t.Errorf("seed %d: %d bytes of rows became %d", seed, s.bytes, again.bytes)
		}
	}
}

func TestConfigure(t *testing.T) {
	t.Parallel()
	two := api.FleetConfig{ConfigHash: "a", Shards: 2, DriftInterval: api.Duration(time.Minute), ProbeInterval: api.Duration(10 * time.Second)}
	s := newState(api.FleetWatchInput{Provider: "local", Shard: 0})
	mine, other := 0, 0
	for ; workflows.ShardOf(row(mine).UID, 2) != 0; mine++ {
	}
	for ; workflows.ShardOf(row(other).UID, 2) == 0; other++ {
	}
	s.report(now, api.FleetReport{Row: row(mine)})
	s.configure(now, two)
	if !s.retry || s.forward || s.nextDrift != now || s.nextProbe != now {
		t.Errorf("first configuration: retry %v, forward %v, drift %s, probe %s", s.retry, s.forward, s.nextDrift, s.nextProbe)
	}
	s.retry, s.nextDrift, s.nextProbe = false, now.Add(time.Hour), now.Add(time.Hour)
	s.configure(now, two)
	if s.retry || s.nextDrift == now || s.nextProbe == now {
		t.Error("the same configuration again has effects")
	}
	s.report(now, api.FleetReport{Row: row(other)})
	if !s.forward {
		t.Error("a row of another shard is kept")
	}
	changed := two
	changed.ConfigHash = "b"
	s.configure(now, changed)
	if !s.retry || s.nextDrift != now || s.nextProbe == now {
		t.Error("another provider configuration: want latched proxies told and a listing, no probes")
	}
	s.configure(now, api.FleetConfig{})
	if s.config.Shards != 1 || s.config.DriftInterval.Std() != 2*time.Minute || s.config.ProbeInterval.Std() != 30*time.Second || s.config.UnhealthyAfter != 1 {
		t.Errorf("defaults: %+v", s.config)
	}
}

func TestOutboxHoldsEachObservationOnce(t *testing.T) {
	t.Parallel()
	s := newState(api.FleetWatchInput{Provider: "local"})
	o := func(uid string, k api.ObservationKind, id provider.InstanceID) api.FleetObservation {
		return api.FleetObservation{UID: uid, Observation: api.Observation{Kind: k, InstanceID: id}}
	}
	s.send([]api.FleetObservation{o("a", api.ObservedMissing, "1"), o("a", api.ObservedMissing, "1"), o("a", api.ObservedExtra, "2")})
	s.send([]api.FleetObservation{o("a", api.ObservedMissing, "1"), o("b", api.ObservedMissing, "1"), o("a", api.ObservedMissing, "3")})
	if len(s.outbox) != 4 {
		t.Errorf("%d observations in the outbox, want 4", len(s.outbox))
	}
}

func TestNext(t *testing.T) {
	t.Parallel()
	at := func(s int) time.Time { return now.Add(time.Duration(s) * time.Second) }
	for name, tc := range map[string]struct {
		start, now     int
		every, atLeast time.Duration
		want           int
	}{
		"on time":              {0, 3, 30 * time.Second, 0, 30},
		"the round was long":   {0, 45, 30 * time.Second, 0, 45},
		"the backend asks for": {0, 3, 30 * time.Second, 5 * time.Minute, 300},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := next(at(tc.start), at(tc.now), tc.every, tc.atLeast); !got.Equal(at(tc.want)) {
				t.Errorf("next = %s, want %s", got, at(tc.want))
			}
		})
	}
}
