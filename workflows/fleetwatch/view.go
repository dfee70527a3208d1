package fleetwatch

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// maxFailing is how many failing proxies the status lists, and shownFailing how
// many of them the details do.
const (
	maxFailing   = 50
	shownFailing = 10
	// recently is how long a refusal is worth a condition.
	recently = 10 * time.Minute
)

func (f *fleet) tableVersion() string { return fmt.Sprintf("%s.%d", f.version, f.changes) }

// table answers the query of that name.
func (f *fleet) table() (api.FleetTable, error) {
	t := api.FleetTable{Provider: f.provider, Shard: f.shard, Version: f.tableVersion(), Rows: f.sortedRows()}
	t.Held = f.heldNames()
	if f.config != nil {
		t.Shards = f.config.Shards
	}
	return t, nil
}

// status answers the query of that name.
func (f *fleet) status() (api.Fleet, error) {
	v := api.Fleet{APIVersion: api.APIVersion, Kind: api.KindFleet, Metadata: api.Metadata{Name: fmt.Sprintf("%s/%d", f.provider, f.shard)}}
	if f.config != nil {
		v.Spec = *f.config
	}
	s := &v.Status
	s.Shard, s.Version, s.Rows, s.Phases = f.shard, f.tableVersion(), len(f.rows), map[api.Phase]int{}
	for _, r := range f.rows {
		s.Phases[r.Phase]++
		if r.Healthy {
			s.Healthy++
		}
		if r.Latched {
			s.Latched++
		}
	}
	s.Brake, s.Drift, s.Probe, s.Refused, s.Pending = f.brake, f.drift, f.probe, f.refused, len(f.outbox)
	s.NextDrift, s.NextProbe = f.nextDrift, f.nextProbe
	s.Failing = f.failing(maxFailing)
	s.Spend = f.spendStatus()
	s.Conditions = f.conditions()
	return v, nil
}

func (s *state) failing(most int) []api.FailingProxy {
	var out []api.FailingProxy
	for _, c := range s.counters {
		if row, ok := s.rows[c.UID]; ok && len(out) < most {
			out = append(out, api.FailingProxy{Namespace: row.Namespace, Name: row.Name, Class: c.Class, Fails: c.Fails, Told: c.Down})
		}
	}
	return out
}

// conditions are derived, so their times are those of the facts.
func (f *fleet) conditions() []api.Condition {
	cond := func(kind string, ok bool, reason, message string, at time.Time) api.Condition {
		status := api.True
		if !ok {
			status = api.False
		}
		return api.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: at}
	}
	var out []api.Condition
	if f.config == nil {
		return append(out, cond(api.CondConfigured, false, "Waiting", "no worker has configured this fleet yet, so no rounds are made", time.Time{}))
	}
	out = append(out, cond(api.CondConfigured, true, "Configured", "", time.Time{}))
	switch {
	case f.shard != 0:
	case f.drift.Failures > 0:
		out = append(out, cond(api.CondListed, false, f.drift.Class, f.drift.Error, f.drift.ListedAt))
	case !f.drift.ListedAt.IsZero():
		out = append(out, cond(api.CondListed, true, "Listed", "", f.drift.ListedAt))
	}
	switch {
	case f.brake.On:
		out = append(out, cond(api.CondProbesTrusted, false, f.brake.Reason, f.brake.Message, f.brake.Since))
	case f.probe.Failures > 0:
		out = append(out, cond(api.CondProbesTrusted, false, "NoRound", f.probe.Error, f.probe.At))
	case f.brake.Released:
		out = append(out, cond(api.CondProbesTrusted, true, "Released", "the brake was taken off by hand", f.probe.At))
	case !f.probe.At.IsZero():
		out = append(out, cond(api.CondProbesTrusted, true, "Trusted", "", f.probe.At))
	}
	room := f.refused.Count == 0 || workflow.Now(f.ctx).Sub(f.refused.At) > recently
	if room {
		return append(out, cond(api.CondRoom, true, "Room", "", f.refused.At))
	}
	return append(out, cond(api.CondRoom, false, "Full", "refused: "+f.refused.Last, f.refused.At))
}

// show keeps what people see up to date: the details of the run, and the search
// attribute by which braked fleets are found.
func (f *fleet) show() {
	workflow.SetCurrentDetails(f.ctx, f.details())
	reason := ""
	if f.brake.On {
		reason = f.brake.Reason
	}
	if reason == f.braked {
		return
	}
	f.braked = reason
	update := temporal.SearchAttributeUpdate(workflows.AttrReason.ValueUnset())
	if reason != "" {
		update = workflows.AttrReason.ValueSet(reason)
	}
	if err := workflow.UpsertTypedSearchAttributes(f.ctx, update); err != nil {
		f.log.Warn("search attributes not set", "error", err)
	}
}

// details is the summary of the run for the Temporal UI, in Markdown.
func (f *fleet) details() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	healthy, latched, phases := 0, 0, map[api.Phase]int{}
	for _, r := range f.rows {
		phases[r.Phase]++
		if r.Healthy {
			healthy++
		}
		if r.Latched {
			latched++
		}
	}
	line("**%s, shard %d**: %s, %d healthy", f.provider, f.shard, plural(len(f.rows), "proxy", "proxies"), healthy)
	line("")
	if f.config == nil {
		line("> No worker has configured this fleet yet, so no rounds are made.")
		line("")
	}
	if f.brake.On {
		line("> **Brake on** since %s: %s. No proxy is told that it is unhealthy.", clock(f.brake.Since), f.brake.Message)
		if f.brake.Reason == api.ReasonManyFailing {
			line("> To go on anyway: `temporal workflow signal --workflow-id %s --name %s`", workflows.FleetID(f.provider, f.shard), workflows.SignalRelease)
		}
		line("")
	}
	if f.brake.Released {
		line("> The brake was **released** by hand; it comes back once fewer proxies fail.")
		line("")
	}
	if f.refused.Count > 0 {
		line("> **%d refused**, the latest at %s: %s.", f.refused.Count, clock(f.refused.At), f.refused.Last)
		line("")
	}
	for _, p := range sortedCounts(phases) {
		line("- %s: %d", p, phases[p])
	}
	if latched > 0 {
		line("- waiting for a change: %d", latched)
	}
	if f.shard == 0 && !f.drift.ListedAt.IsZero() {
		line("- last listing: %s, %s%s", clock(f.drift.ListedAt), plural(f.drift.Instances, "instance", "instances"), counts(f.drift.Found))
	}
	if f.drift.Failures > 0 {
		line("- **no listing** for %s: %s: %s", plural(f.drift.Failures, "round", "rounds"), f.drift.Class, f.drift.Error)
	}
	if !f.probe.At.IsZero() {
		line("- last probes: %s, %d probed%s", clock(f.probe.At), f.probe.Probed, counts(f.probe.Failing))
	}
	if f.probe.Skipped > 0 {
		line("- not probed, because their secret cannot be read: %d", f.probe.Skipped)
	}
	if f.probe.Failures > 0 {
		line("- **no probes** for %s: %s", plural(f.probe.Failures, "round", "rounds"), f.probe.Error)
	}
	for _, p := range f.failing(shownFailing) {
		told := ""
		if p.Told {
			told = ", told"
		}
		line("- failing: `%s/%s` %s, %d in a row%s", p.Namespace, p.Name, p.Class, p.Fails, told)
	}
	return b.String()
}

func counts(m map[string]int) string {
	var b strings.Builder
	for _, k := range sortedCounts(m) {
		fmt.Fprintf(&b, ", %d %s", m[k], k)
	}
	return b.String()
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }
