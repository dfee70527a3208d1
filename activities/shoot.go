package activities

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/registration"
	"github.com/tollgate-dev/tollgate/internal/reporting/api"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/fault"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
	objects "github.com/tollgate-dev/tollgate/workflows/api"
)

// Shoots registers Gardener shoots at the Reporting API. Every activity may be
// made any number of times, by any process.
type Shoots struct {
	// Settings finds how the shoots of a source are registered; ok is false when
	// they are not.
	Settings func(source string) (s ShootSettings, ok bool)
	Resolver *registration.Resolver
}

// Bounds of the wait between two tries.
const (
	firstShootRetry = 5 * time.Second
	lastShootRetry  = 5 * time.Minute
)

// trouble is why a step does not get on, and when it makes sense to try again.
type trouble struct {
	objects.ShootProblem
	after time.Duration
}

// wait ends a step in trouble: trouble that the workflow knows is tried again,
// other trouble is for the workflow to show.
func (s ShootStep) wait(ctx context.Context, t trouble) (*objects.ShootProblem, error) {
	if t.Reason != s.Known {
		return &t.ShootProblem, nil
	}
	tries := s.Failures
	if activity.IsActivity(ctx) {
		tries += int(activity.GetInfo(ctx).Attempt)
	}
	backoff := min(lastShootRetry, firstShootRetry<<min(max(tries-1, 0), 10))
	return nil, again(ErrShootWaits, max(backoff, t.after), t.Reason+": "+t.Message)
}

// settings are those of the facts' source.
func (a *Shoots) settings(s ShootStep) (ShootSettings, *trouble) {
	set, ok := a.Settings(s.Facts.Source)
	if !ok {
		return ShootSettings{}, &trouble{ShootProblem: objects.ShootProblem{Reason: objects.ReasonNotConfigured,
			Message: fmt.Sprintf("source %q has no registration in this worker's configuration", s.Facts.Source)}}
	}
	return set, nil
}

// reportingTrouble is what the Reporting API's failure means.
func reportingTrouble(err error) trouble {
	t := trouble{ShootProblem: objects.ShootProblem{Reason: objects.ReasonReportingUnavailable, Message: sink.Reason(err.Error())}, after: fault.RetryAfter(err)}
	if fault.ClassOf(err) != fault.Retryable {
		// Nothing changes until a person changes it.
		t.Reason, t.after = objects.ReasonReportingRefuses, lastShootRetry
	}
	return t
}

// RecallShoot reads what the Reporting API knows of a shoot, by its uid.
func (a *Shoots) RecallShoot(ctx context.Context, in ShootStep) (out RecallShootResult, err error) {
	defer heartbeat(ctx).stop()
	set, no := a.settings(in)
	if no != nil {
		out.Problem, err = in.wait(ctx, *no)
		return out, err
	}
	err = func() error {
		p, ok, err := set.Reporting.FindProject(ctx, string(event.Gardener), registration.ProjectID(set.Account, in.Facts.Project))
		if err != nil || !ok {
			return err
		}
		out.ProjectID = p.ID
		all, err := relationsFrom(ctx, set.Reporting, p.ID, &in.Facts.UID)
		if err != nil {
			return err
		}
		tenants := map[string]objects.Tenant{}
		for _, r := range all {
			if _, had := tenants[r.TargetID]; had || !registration.Of(r, in.Facts.UID) {
				continue
			}
			t, err := set.Reporting.Project(ctx, r.TargetID)
			if err != nil {
				return err
			}
			tenants[r.TargetID] = objects.Tenant{Platform: t.Platform, ExternalID: t.ExternalID, Name: t.Name}
		}
		out.Relations = registration.Recall(all, in.Facts.UID, tenants)
		return nil
	}()
	if err != nil {
		if ctx.Err() != nil {
			return RecallShootResult{}, toTemporal(ctx, ctx.Err())
		}
		out = RecallShootResult{}
		out.Problem, err = in.wait(ctx, reportingTrouble(err))
	}
	return out, err
}

// relationsFrom lists the relations of a Gardener project to tenants: all, or those
// with a key.
func relationsFrom(ctx context.Context, w RelationWriter, projectID string, key *string) ([]api.Relation, error) {
	direction, kind := api.From, registration.RelationType
	return w.Relations(ctx, projectID, api.ListRelationsParams{Direction: &direction, RelationType: &kind, Key: key})
}

// ResolveTenant finds the tenant of a shoot.
func (a *Shoots) ResolveTenant(ctx context.Context, in ShootStep) (out ResolveTenantResult, err error) {
	defer heartbeat(ctx).stop()
	out.Facts = in.Facts
	set, no := a.settings(in)
	if no != nil {
		out.Problem, err = in.wait(ctx, *no)
		return out, err
	}
	r, err := a.Resolver.Resolve(ctx, set.Settings, set.Garden, in.Facts)
	out = ResolveTenantResult{Facts: r.Facts, Presence: r.Presence, Tenant: r.Tenant, By: r.By}
	switch {
	case ctx.Err() != nil:
		return ResolveTenantResult{}, toTemporal(ctx, ctx.Err())
	case err != nil:
		class := provider.ClassOf(err)
		t := trouble{objects.ShootProblem{Reason: string(class), Message: sink.Reason(err.Error())}, provider.RetryAfterOf(err)}
		if provider.RuleFor(class).NonRetryable {
			t.after = lastShootRetry
		}
		out.Problem, err = in.wait(ctx, t)
	case r.Problem != nil:
		out.Problem, err = in.wait(ctx, trouble{ShootProblem: *r.Problem})
	}
	return out, err
}

// SettleRelation has both projects and the relation written as it is wanted, its
// end included. It returns the relation as it is, which may have been there
// before, or been closed by somebody else.
func (a *Shoots) SettleRelation(ctx context.Context, in SettleRelationInput) (out SettleRelationResult, err error) {
	defer heartbeat(ctx).stop()
	out.Relation = in.Relation
	set, no := a.settings(in.ShootStep)
	if no != nil {
		out.Problem, err = in.wait(ctx, *no)
		return out, err
	}
	if out.ProjectID, out.Relation, err = settle(ctx, set, in.Facts, in.Relation); err != nil {
		if ctx.Err() != nil {
			return SettleRelationResult{}, toTemporal(ctx, ctx.Err())
		}
		out = SettleRelationResult{Relation: in.Relation}
		out.Problem, err = in.wait(ctx, reportingTrouble(err))
	}
	return out, err
}

func settle(ctx context.Context, set ShootSettings, f objects.ShootFacts, want objects.ShootRelation) (projectID string, is objects.ShootRelation, err error) {
	w := set.Reporting
	project, err := w.EnsureProject(ctx, api.ProjectCreate{
		Platform: string(event.Gardener), ExternalID: registration.ProjectID(set.Account, f.Project), Name: "Gardener project " + f.Project})
	if err != nil {
		return "", is, err
	}
	name := want.Tenant.Name
	if name == "" {
		name = "Infrastructure tenant of " + f.Project + "/" + f.Name
	}
	tenant, err := w.EnsureProject(ctx, api.ProjectCreate{Platform: want.Tenant.Platform, ExternalID: want.Tenant.ExternalID, Name: name})
	if err != nil {
		return "", is, err
	}
	// Its own first, and then those that somebody wrote without a key: a project may
	// have thousands of others.
	var r api.Relation
	var adopted, ok bool
	for _, key := range []string{f.UID, ""} {
		some, err := relationsFrom(ctx, w, project.ID, &key)
		if err != nil {
			return "", is, err
		}
		if r, adopted, ok = registration.Find(some, f, want, tenant.ID); ok {
			break
		}
	}
	if !ok {
		createdBy := set.CreatedBy
		if createdBy == "" {
			createdBy = registration.DefaultCreatedBy
		}
		if r, err = w.EnsureRelation(ctx, project.ID, registration.Create(f, want, tenant.ID, createdBy)); err != nil {
			return "", is, err
		}
	}
	if r.ValidTo == nil && !want.ValidTo.IsZero() {
		// One that somebody wrote may begin later than the shoot, and even later
		// than its end.
		to := want.ValidTo
		if to.Before(r.ValidFrom) {
			to = r.ValidFrom
		}
		if r, err = w.CloseRelation(ctx, project.ID, r.ID, to); err != nil {
			return "", is, err
		}
	}
	is = want
	is.ID, is.ValidFrom, is.Adopted, is.Closed = r.ID, r.ValidFrom.UTC(), adopted, r.ValidTo != nil
	if r.ValidTo != nil {
		is.ValidTo = r.ValidTo.UTC()
	}
	return project.ID, is, nil
}
