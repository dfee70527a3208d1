package proxy

import (
	"fmt"
	"net"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
	"github.com/tollgate-dev/tollgate/workflows/spans"
)

func (p *proxy) condition(kind string) api.Condition {
	for _, c := range p.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return api.Condition{Type: kind, Status: api.Unknown}
}

func (p *proxy) setCondition(now time.Time, kind string, status api.ConditionStatus, reason, message string) {
	c := api.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: now, ObservedGeneration: p.ObservedGeneration}
	for i, old := range p.Conditions {
		if old.Type != kind {
			continue
		}
		if old.Status == status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		p.Conditions[i] = c
		return
	}
	p.Conditions = append(p.Conditions, c)
}

// unprovisioned says why there is no instance of the wanted spec. An instance of
// the old spec may serve on meanwhile.
func (p *proxy) unprovisioned(now time.Time, next bool, f failure) {
	message := f.message
	if next {
		message = "successor: " + message
	}
	p.setCondition(now, api.CondProvisioned, api.False, f.reason, message)
}

// unhealthy says why the instance is not proven. A successor says it in the
// other condition: the instance that serves is not the worse for it.
func (p *proxy) unhealthy(now time.Time, next bool, status api.ConditionStatus, reason, message string) {
	if next {
		p.unprovisioned(now, next, failure{reason: reason, message: message})
		return
	}
	p.setCondition(now, api.CondHealthy, status, reason, message)
}

// unready says how far the current instance is; a successor's progress leaves
// the conditions of the serving one alone.
func (p *proxy) unready(next bool, reason, message string) {
	if next {
		return
	}
	now := p.now()
	if reason == api.ReasonProving {
		p.setCondition(now, api.CondProvisioned, api.True, api.ReasonRunning, "")
	} else {
		p.setCondition(now, api.CondProvisioned, api.False, reason, message)
	}
	p.setCondition(now, api.CondHealthy, api.Unknown, reason, "")
}

// ready says that the current instance serves.
func (p *proxy) ready(now time.Time) {
	if p.Generation == p.ObservedGeneration && p.Current.SpecHash == p.SpecHash {
		p.setCondition(now, api.CondProvisioned, api.True, api.ReasonRunning, "")
	}
	p.setCondition(now, api.CondHealthy, api.True, api.ReasonProven, "a CONNECT went through")
}

func (p *proxy) phase() api.Phase {
	switch {
	case p.finished || p.gone:
		return api.PhaseDeleted
	case p.DeleteReason != "":
		return api.PhaseDeleting
	case p.Next != nil || p.ReplaceReason != "":
		return api.PhaseReplacing
	case p.Current != nil && p.Current.Proven:
		return api.PhaseRunning
	case p.Proofs > 0 || len(p.Retiring) > 0:
		return api.PhaseReplacing
	case p.Current != nil && p.Current.Tried:
		return api.PhaseProvisioning
	}
	return api.PhasePending
}

func (p *proxy) view() api.Proxy {
	v := api.Proxy{
		APIVersion: api.APIVersion, Kind: api.KindProxy,
		Metadata: api.Metadata{Name: p.name, Namespace: p.namespace, Labels: p.Labels, UID: p.uid, Generation: p.Generation, CreationTimestamp: p.CreatedAt},
		Spec:     p.Spec.Redact(),
		Status: api.ProxyStatus{
			Phase: p.phase(), ObservedGeneration: p.ObservedGeneration, SpecHash: p.SpecHash, Conditions: p.Conditions,
			Latched: p.Latched, Replacements: p.Replacements, LastReplacement: p.LastReplacement,
		},
	}
	if c := p.Current; c != nil {
		v.Status.IP, v.Status.Port, v.Status.InstanceID, v.Status.InstanceName = c.IP, c.Port, c.ID, c.Name
		if c.Price != nil {
			v.Status.EURPerHour = c.Price.String()
		}
	}
	v.Status.NextRetry = p.nextRetry()
	return v
}

func (p *proxy) nextRetry() time.Time {
	if p.RetryAt.After(p.CreateAt) {
		return p.RetryAt
	}
	return p.CreateAt
}

// row is what the fleet should know. Healthy is what discovery goes by: true
// from the proof to the first intent that ends the instance. A successor under
// way does not end it; its promotion does.
func (p *proxy) row() api.FleetRow {
	r := api.FleetRow{
		UID: p.uid, Namespace: p.namespace, Name: p.name, Phase: p.phase(), Own: p.ownNames(),
		Latched: p.Latched || !p.RetryAt.IsZero(), Placement: p.Spec.Placement, Labels: p.Labels, CreatedAt: p.CreatedAt,
	}
	healthy := p.condition(api.CondHealthy)
	r.Reason, r.Since = healthy.Reason, healthy.LastTransitionTime
	if prov := p.condition(api.CondProvisioned); prov.Status != api.True {
		r.Reason = prov.Reason
	}
	if p.Spec.Auth != nil {
		r.AuthRef = p.Spec.Auth.SecretRef
	}
	if c := p.Current; c != nil {
		r.InstanceID, r.InstanceName, r.IP, r.Port, r.Price = c.ID, c.Name, c.IP, c.Port, c.Price
		leaving := p.DeleteReason != "" || p.ReplaceReason != "" && !p.surging()
		r.Healthy = c.Proven && !leaving && healthy.Status == api.True
		if r.Healthy {
			r.Phase = api.PhaseRunning
		}
	}
	return r
}

func (p *proxy) reportDue() bool {
	if p.gone {
		return !p.goneReported
	}
	if p.ObservedGeneration == 0 && p.Reported.Seq == 0 && !p.Latched && p.RetryAt.IsZero() && p.DeleteReason == "" {
		return false // the first row has the first instance's name in it
	}
	return p.reporting || p.forceReport || !reflect.DeepEqual(material(p.row()), material(p.Reported))
}

// material leaves of a row what is worth a report. How far a new instance has
// come is not: it would triple the reports, and the status has it.
func material(r api.FleetRow) api.FleetRow {
	r.Seq, r.Since = 0, time.Time{}
	if !r.Latched {
		r.Reason = ""
	}
	if !r.Healthy {
		r.InstanceID, r.InstanceName, r.IP, r.Port = "", "", "", 0
	}
	return r
}

// reporter keeps the fleet's row up to date, one report at a time.
func (p *proxy) reporter(ctx workflow.Context) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: workflows.TaskQueue, StartToCloseTimeout: 10 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second},
		Summary:     "tell the fleet",
	})
	for {
		_ = workflow.Await(ctx, p.reportDue)
		p.reporting = true
		r := p.row()
		// The time orders the reports even if a reset takes the count back.
		r.Seq = max(p.Reported.Seq+1, p.now().UnixMilli())
		gone, forced := p.gone, p.forceReport
		p.forceReport = false
		err := workflow.ExecuteActivity(spans.Adopt(ctx, p.ctx), "ReportFleet", activities.ReportFleetInput{
			Provider: p.Spec.Provider, Report: api.FleetReport{Row: r, Gone: gone},
		}).Get(ctx, nil)
		if err != nil {
			// Unlimited retries: only a refusal gets here. The row is sent again
			// with the next change, and the fleet finds out by its listing.
			p.log.Warn("fleet refused the report", "error", err)
			p.forceReport = p.forceReport || forced
		}
		p.Reported = r
		p.goneReported = gone
		p.reporting = false
	}
}

// waitingFor names what the next try waits for, for the timer's summary.
func (p *proxy) waitingFor() string {
	c := p.condition(api.CondProvisioned)
	if c.Status == api.True {
		c = p.condition(api.CondHealthy)
	}
	return c.Reason
}

// shown is what the search attributes were last set to.
type shown struct {
	set      bool
	phase    api.Phase
	reason   string
	healthy  bool
	instance provider.InstanceID
	ip       string
}

// show puts the state where people look: the run's page and the lists.
func (p *proxy) show() {
	row := p.row()
	s := shown{set: true, phase: p.phase(), reason: row.Reason, healthy: row.Healthy, instance: row.InstanceID, ip: row.IP}
	if s != p.shown {
		p.shown = s
		attrs := []temporal.SearchAttributeUpdate{
			workflows.AttrProvider.ValueSet(p.Spec.Provider), workflows.AttrNamespace.ValueSet(p.namespace),
			workflows.AttrPhase.ValueSet(string(s.phase)), workflows.AttrReason.ValueSet(s.reason),
			workflows.AttrHealthy.ValueSet(s.healthy),
		}
		if s.instance != "" {
			attrs = append(attrs, workflows.AttrInstance.ValueSet(string(s.instance)))
		} else {
			attrs = append(attrs, workflows.AttrInstance.ValueUnset())
		}
		if s.ip != "" {
			attrs = append(attrs, workflows.AttrIP.ValueSet(s.ip))
		} else {
			attrs = append(attrs, workflows.AttrIP.ValueUnset())
		}
		if err := workflow.UpsertTypedSearchAttributes(p.ctx, attrs...); err != nil {
			p.log.Warn("search attributes not set", "error", err)
		}
	}
	workflow.SetCurrentDetails(p.ctx, p.details())
}

// endpoint is an address with its port, an IPv6 one in brackets.
func endpoint(ip string, port int) string { return net.JoinHostPort(ip, strconv.Itoa(port)) }

// details is the run's page in words.
func (p *proxy) details() string {
	var b strings.Builder
	v := p.view()
	fmt.Fprintf(&b, "### %s/%s: %s\n\n", p.namespace, p.name, v.Status.Phase)
	if v.Status.IP != "" {
		fmt.Fprintf(&b, "`http://%s` on **%s**, instance `%s`\n\n", endpoint(v.Status.IP, v.Status.Port), p.Spec.Provider, v.Status.InstanceID)
	} else {
		fmt.Fprintf(&b, "on **%s**\n\n", p.Spec.Provider)
	}
	for _, c := range v.Status.Conditions {
		fmt.Fprintf(&b, "- **%s** %s: %s", c.Type, c.Status, c.Reason)
		if c.Message != "" {
			fmt.Fprintf(&b, " (%s)", c.Message)
		}
		fmt.Fprintf(&b, ", since %s\n", c.LastTransitionTime.UTC().Format(time.RFC3339))
	}
	if p.Latched {
		b.WriteString("- **Latched**: nothing is tried until the spec or the provider's configuration changes, or signal `retry`\n")
	}
	if !v.Status.NextRetry.IsZero() {
		fmt.Fprintf(&b, "- next try at %s\n", v.Status.NextRetry.UTC().Format(time.RFC3339))
	}
	for _, i := range p.Retiring {
		fmt.Fprintf(&b, "- deleting `%s`\n", i.Name)
	}
	if p.Next != nil {
		fmt.Fprintf(&b, "- successor `%s` is on its way\n", p.Next.Name)
	}
	if p.LastReplacement != "" {
		fmt.Fprintf(&b, "- replaced %d times, last: %s\n", p.Replacements, p.LastReplacement)
	}
	fmt.Fprintf(&b, "- generation %d, seen %d\n", p.Generation, p.ObservedGeneration)
	return b.String()
}
