package fleetwatch

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Bounds that keep the carried state well below the 2 MB that a payload may
// have, whatever is reported: 1.2 MB of rows, 0.25 MB of counters, 0.4 MB of
// observations, and little else.
const (
	maxRowBytes   = 2 << 10
	maxTableBytes = 1_200_000
	maxReason     = 200
	maxOutbox     = 1000
	maxEnded      = 1000
	// endedFor is how long a proxy that is gone is remembered: longer than a
	// report can be under way.
	endedFor = 10 * time.Minute
)

// state is all that a FleetWatch workflow knows. Its methods are pure: they take
// the time and make no calls.
type state struct {
	shard    int
	config   *api.FleetConfig
	rows     map[string]api.FleetRow
	sizes    map[string]int
	bytes    int
	changes  int64
	ended    map[string]api.FleetEnd
	counters []api.ProbeCounter
	brake    api.FleetBrake
	outbox   []api.FleetObservation

	nextDrift, nextProbe    time.Time
	driftAfter, ownersAfter string
	drift                   api.DriftState
	probe                   api.ProbeState
	refused                 api.RefusedState
	rebuild, retry, forward bool
	spend                   api.SpendState
}

func newState(in api.FleetWatchInput) *state {
	s := &state{shard: in.Shard, rows: map[string]api.FleetRow{}, sizes: map[string]int{}, ended: map[string]api.FleetEnd{}, rebuild: in.Carried == nil}
	c := in.Carried
	if c == nil {
		return s
	}
	for _, r := range c.Rows {
		s.put(r, size(r))
	}
	for _, e := range c.Ended {
		s.ended[e.UID] = e
	}
	s.config, s.changes, s.counters, s.brake, s.outbox = c.Config, c.Changes, c.Counters, c.Brake, c.Outbox
	s.nextDrift, s.nextProbe, s.driftAfter, s.ownersAfter = c.NextDrift, c.NextProbe, c.DriftAfter, c.OwnersAfter
	s.drift, s.probe, s.refused = c.Drift, c.Probe, c.Refused
	s.rebuild, s.retry, s.forward = c.Rebuild, c.Retry, c.Forward
	s.spend = c.Spend
	return s
}

func (s *state) carried() *api.CarriedFleet {
	ended := slices.SortedFunc(maps.Values(s.ended), func(a, b api.FleetEnd) int { return cmp.Compare(a.UID, b.UID) })
	return &api.CarriedFleet{
		Config: s.config, Rows: s.sortedRows(), Changes: s.changes, Ended: ended, Counters: s.counters, Brake: s.brake, Outbox: s.outbox,
		NextDrift: s.nextDrift, NextProbe: s.nextProbe, DriftAfter: s.driftAfter, OwnersAfter: s.ownersAfter,
		Drift: s.drift, Probe: s.probe, Refused: s.refused, Rebuild: s.rebuild, Retry: s.retry, Forward: s.forward,
		Spend: s.spend,
	}
}

// sortedRows returns the rows by namespace, name and uid.
func (s *state) sortedRows() []api.FleetRow {
	return slices.SortedFunc(maps.Values(s.rows), func(a, b api.FleetRow) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
}

func size(r api.FleetRow) int {
	b, err := json.Marshal(r)
	if err != nil {
		return maxTableBytes + 1 // never fits; no row that was decoded gets here
	}
	return len(b) + 1
}

func (s *state) put(r api.FleetRow, bytes int) {
	s.bytes += bytes - s.sizes[r.UID]
	s.rows[r.UID], s.sizes[r.UID] = r, bytes
	s.changes++
}

func (s *state) drop(uid string) {
	if _, ok := s.rows[uid]; !ok {
		return
	}
	s.bytes -= s.sizes[uid]
	delete(s.rows, uid)
	delete(s.sizes, uid)
	s.counters = slices.DeleteFunc(s.counters, func(c api.ProbeCounter) bool { return c.UID == uid })
	s.changes++
}

// report takes a proxy's report. Late and repeated ones change nothing.
func (s *state) report(now time.Time, rep api.FleetReport) {
	r := rep.Row
	if r.UID == "" {
		return
	}
	old, known := s.rows[r.UID]
	if end, gone := s.ended[r.UID]; gone && r.Seq <= end.Seq && now.Sub(end.At) < endedFor {
		return
	}
	if rep.Gone {
		if !known || r.Seq >= old.Seq {
			s.end(now, r.UID, r.Seq)
		}
		return
	}
	if known && r.Seq <= old.Seq {
		return
	}
	if r.Namespace == "" || r.Name == "" {
		return
	}
	s.take(now, old, known, r)
	if s.config != nil && workflows.ShardOf(r.UID, s.config.Shards) != s.shard {
		s.forward = true
	}
}

// take puts a row into the table as far as there is room for it. A known proxy
// is never left with an old phase: what does not fit is cut off.
func (s *state) take(now time.Time, old api.FleetRow, known bool, r api.FleetRow) {
	if len(r.Reason) > maxReason {
		r.Reason = r.Reason[:maxReason]
	}
	fits := func(n int) bool { return n <= maxRowBytes && s.bytes-s.sizes[r.UID]+n <= maxTableBytes }
	n := size(r)
	if !known {
		switch {
		case len(s.rows) >= api.MaxFleetRows:
			s.refuse(now, "%s/%s: the shard has %d rows, which is the most; use more shards", r.Namespace, r.Name, len(s.rows))
			return
		case n <= maxRowBytes && !fits(n):
			s.refuse(now, "%s/%s: the shard's rows take %d bytes; use more shards or fewer labels", r.Namespace, r.Name, s.bytes)
			return
		}
	}
	if fits(n) {
		s.put(r, n)
		return
	}
	lean := r
	lean.Labels = nil
	if n := size(lean); fits(n) {
		s.refuse(now, "the labels of %s/%s: the row would take %d bytes", r.Namespace, r.Name, size(r))
		s.put(lean, n)
		return
	}
	s.refuse(now, "%s/%s: the row would take %d bytes, and %d is the most", r.Namespace, r.Name, size(r), maxRowBytes)
	if known {
		old.Seq, old.Phase, old.Healthy, old.Latched, old.Since = r.Seq, r.Phase, false, r.Latched, r.Since
		s.put(old, size(old))
	}
}

func (s *state) refuse(now time.Time, format string, args ...any) {
	s.refused = api.RefusedState{Count: s.refused.Count + 1, Last: fmt.Sprintf(format, args...), At: now}
}

// end drops a row for good.
func (s *state) end(now time.Time, uid string, seq int64) {
	s.drop(uid)
	maps.DeleteFunc(s.ended, func(_ string, e api.FleetEnd) bool { return now.Sub(e.At) >= endedFor })
	if len(s.ended) < maxEnded {
		s.ended[uid] = api.FleetEnd{UID: uid, Seq: seq, At: now}
	}
}

// configure takes the fleet's configuration.
func (s *state) configure(now time.Time, c api.FleetConfig) {
	c = withDefaults(c)
	first := s.config == nil
	changed := first || s.config.ConfigHash != c.ConfigHash
	if first || s.config.DriftInterval != c.DriftInterval || changed {
		s.nextDrift = now
	}
	if first || s.config.ProbeInterval != c.ProbeInterval {
		s.nextProbe = now
	}
	var was provider.MicroEUR
	if !first {
		was = s.config.SpendCap
	}
	s.capChanged(now, first, was, c.SpendCap)
	s.config = &c
	s.retry = s.retry || changed
	for _, r := range s.rows {
		if workflows.ShardOf(r.UID, c.Shards) != s.shard {
			s.forward = true
		}
	}
}

func withDefaults(c api.FleetConfig) api.FleetConfig {
	c.Shards = max(c.Shards, 1)
	if c.DriftInterval.Std() < time.Second {
		c.DriftInterval = api.Duration(2 * time.Minute)
	}
	if c.ProbeInterval.Std() < time.Second {
		c.ProbeInterval = api.Duration(30 * time.Second)
	}
	c.UnhealthyAfter, c.HealthyAfter = max(c.UnhealthyAfter, 1), max(c.HealthyAfter, 1)
	return c
}

// release takes the brake off and has the proxies probed at once.
func (s *state) release(now time.Time) {
	if s.brake.On || s.brake.Released {
		s.brake = api.FleetBrake{Released: true}
		s.nextProbe = now
	}
}

// send puts observations into the outbox, each once.
func (s *state) send(items []api.FleetObservation) {
	type key struct {
		uid, instance string
		kind          api.ObservationKind
	}
	of := func(o api.FleetObservation) key {
		return key{o.UID, string(o.Observation.InstanceID), o.Observation.Kind}
	}
	have := map[key]bool{}
	for _, o := range s.outbox {
		have[of(o)] = true
	}
	for _, o := range items {
		if !have[of(o)] && len(s.outbox) < maxOutbox {
			have[of(o)] = true
			s.outbox = append(s.outbox, o)
		}
	}
}

// idle reports whether nobody needs the shard: it is empty, and beyond the shards
// that there are, or its provider is served by no worker, or never was. The next
// report or configuration starts it again.
func (s *state) idle() bool {
	if len(s.rows) > 0 || len(s.outbox) > 0 {
		return false
	}
	if s.config == nil {
		return s.changes > 0
	}
	return s.shard >= s.config.Shards || s.drift.Class == classNoWorker
}
