package shoot

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

func clock(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

func (s *state) view() api.ShootRegistration {
	st := s.Status
	st.Relations, st.Conditions = slices.Clone(st.Relations), slices.Clone(st.Conditions)
	return api.ShootRegistration{
		APIVersion: api.APIVersion, Kind: api.KindShootRegistration,
		Metadata: api.Metadata{Name: s.Facts.Name, Namespace: s.Facts.Project, UID: s.Facts.UID, CreationTimestamp: s.StartedAt},
		Spec:     s.Facts, Status: st,
	}
}

// phase sets the phase and says why.
func (s *state) phase(now time.Time, p api.ShootPhase, reason, message string) {
	if s.Status.Phase != p {
		s.Status.Since = now
	}
	s.Status.Phase, s.Status.Reason, s.Status.Message = p, reason, message
}

// judge sets the phase and the conditions to what is.
func (s *state) judge(now time.Time) {
	st := &s.Status
	if st.Phase == api.ShootEnded {
		return
	}
	do, i, _ := s.next(now)
	var reason, message string
	if s.Trouble != nil && s.TroubleWith == string(do) {
		reason, message = s.Trouble.Reason, s.Trouble.Message
	}
	stuck := reason != ""
	switch {
	case do == stepResolve && stuck:
		s.phase(now, api.ShootUnresolved, reason, message)
	case s.ended(now):
		s.phase(now, api.ShootEnding, reason, message)
	case do == stepSettle && !st.Relations[i].Settled(), do == stepRecall && stuck:
		s.phase(now, api.ShootRegistering, reason, message)
	case len(st.Relations) == 0:
		s.phase(now, api.ShootPending, reason, message)
	case !stuck && st.End != nil:
		s.phase(now, api.ShootRegistered, api.ReasonWaitingForEnd,
			fmt.Sprintf("the shoot was missing at %s; that end counts from %s on, unless somebody saw another one", clock(st.End.At), clock(s.CloseBy)))
	default:
		s.phase(now, api.ShootRegistered, reason, message)
	}
	switch {
	case st.Phase == api.ShootUnresolved:
		s.condition(now, api.CondTenantResolved, api.False, reason, message)
	case st.Tenant != nil:
		s.condition(now, api.CondTenantResolved, api.True, "Resolved", st.Tenant.String()+", by "+st.ResolvedBy)
	default:
		s.condition(now, api.CondTenantResolved, api.Unknown, api.ReasonPending, "")
	}
	switch unsettled := slices.ContainsFunc(st.Relations, func(r api.ShootRelation) bool { return !r.Settled() }); {
	case len(st.Relations) > 0 && !unsettled:
		s.condition(now, api.CondRegistered, api.True, "Written", "")
	case stuck && do != stepResolve:
		s.condition(now, api.CondRegistered, api.False, reason, message)
	default:
		s.condition(now, api.CondRegistered, api.False, api.ReasonPending, "")
	}
}

func (s *state) condition(now time.Time, typ string, status api.ConditionStatus, reason, message string) {
	c := api.Condition{Type: typ, Status: status, Reason: reason, Message: message, LastTransitionTime: now}
	i := slices.IndexFunc(s.Status.Conditions, func(o api.Condition) bool { return o.Type == typ })
	if i < 0 {
		s.Status.Conditions = append(s.Status.Conditions, c)
		return
	}
	if o := s.Status.Conditions[i]; o.Status == status {
		c.LastTransitionTime = o.LastTransitionTime
	}
	s.Status.Conditions[i] = c
}

// shown is what the search attributes say.
type shown struct {
	phase          api.ShootPhase
	reason, tenant string
}

func shownOf(s api.CarriedShoot) shown {
	out := shown{phase: s.Status.Phase, reason: s.Status.Reason}
	if s.Status.Tenant != nil {
		out.tenant = s.Status.Tenant.String()
	}
	return out
}

// show keeps what people see up to date.
func (r *registration) show() {
	r.judge(workflow.Now(r.ctx))
	workflow.SetCurrentDetails(r.ctx, details(r.view()))
	now := shownOf(r.CarriedShoot)
	if now == r.shown {
		return
	}
	r.shown = now
	set := []temporal.SearchAttributeUpdate{
		workflows.AttrPhase.ValueSet(string(now.phase)), workflows.AttrReason.ValueSet(now.reason),
		workflows.AttrHealthy.ValueSet(now.reason == "" && now.phase != api.ShootUnresolved),
	}
	if now.tenant != "" {
		set = append(set, workflows.AttrTenant.ValueSet(now.tenant))
	}
	if err := workflow.UpsertTypedSearchAttributes(r.ctx, set...); err != nil {
		r.log.Warn("search attributes not set", "error", err)
	}
}

// details is the summary of the run for the Temporal UI, in Markdown.
func details(v api.ShootRegistration) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	s := v.Status
	line("**Shoot %s/%s** of `%s`: %s since %s", v.Metadata.Namespace, v.Metadata.Name, v.Spec.Source, s.Phase, clock(s.Since))
	line("")
	if s.Message != "" {
		line("> **%s.** %s", s.Reason, s.Message)
		line("")
	}
	if s.Tenant != nil {
		line("- runs in `%s`, by %s", s.Tenant, s.ResolvedBy)
	}
	if s.End != nil {
		line("- gone at %s", clock(s.End.At))
	}
	if s.Dropped > 0 {
		line("- %d older relations", s.Dropped)
	}
	for _, r := range s.Relations {
		text := fmt.Sprintf("- `%s` from %s", r.Tenant, clock(r.ValidFrom))
		if !r.ValidTo.IsZero() {
			text += " to " + clock(r.ValidTo)
		}
		switch {
		case r.ID == "":
			text += ", **not written yet**"
		case !r.Settled():
			text += fmt.Sprintf(", relation `%s`, **not closed yet**", r.ID)
		default:
			text += fmt.Sprintf(", relation `%s`", r.ID)
		}
		line("%s", text)
	}
	return b.String()
}
