package activities

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/tollgate-dev/tollgate/internal/inventory"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/registration"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// ShootRelations compares the shoots of a source with the relations that are open:
// one that is missing is written, one that is left open is closed, and one that
// leads to another tenant than the shoot's, because its credentials were rotated,
// gives way. It tells the registrations concerned, which look for themselves. It
// implements inventory.Extra.
type ShootRelations struct {
	Temporal client.Client
	Settings func(source string) (s ShootSettings, ok bool)
	Resolver *registration.Resolver
}

var _ inventory.Extra = (*ShootRelations)(nil)

// Name implements inventory.Extra.
func (*ShootRelations) Name() string { return "relations" }

// Compare implements inventory.Extra.
func (a *ShootRelations) Compare(ctx context.Context, in inventory.ExtraInput) (inventory.ExtraResult, error) {
	set, ok := a.Settings(in.Source)
	switch {
	case !ok:
		return inventory.ExtraResult{}, fmt.Errorf("source %q registers no shoots", in.Source)
	case set.Garden == nil:
		return inventory.ExtraResult{}, errors.New("the garden cluster cannot be read")
	}
	open, err := openRelations(ctx, set)
	if err != nil {
		return inventory.ExtraResult{}, err
	}
	shoots, err := set.Garden.Shoots(ctx)
	if err != nil {
		return inventory.ExtraResult{}, err
	}
	// A shoot is not read again, and a Secret that many of them use is read once.
	set.Garden = newRemembering(set.Garden, shoots)
	var failed error
	ds := registration.Compare(shoots, open, func(f api.ShootFacts) *api.Tenant {
		if failed != nil || ctx.Err() != nil {
			return nil
		}
		f.Source = in.Source
		r, err := a.Resolver.Resolve(ctx, set.Settings, set.Garden, f)
		if err != nil && provider.ClassOf(err) != provider.Transient {
			return nil // it is the registration's to show
		}
		failed = err
		return r.Tenant
	})
	if err := errors.Join(failed, ctx.Err()); err != nil {
		return inventory.ExtraResult{}, err
	}
	out := inventory.ExtraResult{Listed: len(shoots), Reported: len(open)}
	held := registration.TooManyEnds(ds, len(open), api.DefaultInventoryMaxEnds)
	for _, d := range ds {
		d.Shoot.Source = in.Source
		x := api.Difference{Kind: d.Kind, Account: registration.ProjectID(set.Account, d.Shoot.Project), FirstSeen: in.Now,
			Resource: event.Resource{Type: event.Shoot, ID: d.Shoot.UID, Name: d.Shoot.Name}}
		if d.Relation != nil {
			x.Reported = d.Relation.Tenant.String()
		}
		if d.Tenant != nil {
			x.Listed = d.Tenant.String()
		}
		switch {
		case d.Kind == registration.RelationLeftOpen && held:
			x.Action, x.Message = api.DifferenceHeld, "suspiciously many shoots would be gone at once: look at them"
		case in.DryRun:
			x.Action = api.DifferenceWouldRepair
		default:
			a.repair(ctx, in, set, d, &x)
		}
		out.Differences = append(out.Differences, x)
	}
	return out, nil
}

// repair tells the registration concerned.
func (a *ShootRelations) repair(ctx context.Context, in inventory.ExtraInput, set ShootSettings, d registration.Difference, x *api.Difference) {
	var err error
	x.Action, x.Message = api.DifferenceWaits, "its registration is told"
	f := d.Shoot
	switch d.Kind {
	case registration.RelationMissing:
		var phase, reason string
		var running bool
		if running, phase, reason, err = a.running(ctx, f); err != nil {
			break
		}
		switch {
		case !running:
			err = TellShoot(ctx, a.Temporal, f, workflows.SignalShootCreated, f)
		case phase == string(api.ShootRegistered):
			err = TellShoot(ctx, a.Temporal, f, workflows.SignalRetry, nil)
		case reason != "":
			x.Action, x.Message = api.DifferenceNone, "its registration is "+phase+": "+reason
		default:
			x.Message = "its registration is " + phase
		}
	case registration.RelationDiffers:
		err = TellShoot(ctx, a.Temporal, f, workflows.SignalShootRotated, api.ShootRotation{At: in.Now})
	case registration.RelationLeftOpen:
		f.CreatedAt = d.Relation.ValidFrom
		var running bool
		if running, _, _, err = a.running(ctx, f); err != nil {
			break
		}
		if done, ok := a.complete(ctx, f); !running && ok {
			// Its registration is over, so that nobody else closes it.
			if _, err = set.Reporting.CloseRelation(ctx, d.Relation.ProjectID, d.Relation.ID, later(done.Status.End.At, d.Relation.ValidFrom)); err == nil {
				x.Action, x.Message = api.DifferenceRepaired, "closed at the end that its registration knew"
			}
			break
		}
		err = TellShoot(ctx, a.Temporal, f, workflows.SignalShootEnded, api.ShootEnd{At: in.Now, Concluded: true})
	}
	if err != nil {
		x.Action, x.Message = api.DifferenceFailed, sink.Reason(err.Error())
	}
}

// running reports whether a registration runs, and what its search attributes
// say.
func (a *ShootRelations) running(ctx context.Context, f api.ShootFacts) (running bool, phase, reason string, err error) {
	d, err := a.Temporal.DescribeWorkflow(ctx, workflows.ShootID(f.Project, f.Name, f.UID), "")
	if gone := new(serviceerror.NotFound); errors.As(err, &gone) {
		return false, "", "", nil
	}
	if err != nil {
		return false, "", "", err
	}
	info := d.RawResponse.GetWorkflowExecutionInfo()
	for name, into := range map[string]*string{workflows.AttrPhase.GetName(): &phase, workflows.AttrReason.GetName(): &reason} {
		if p, ok := info.GetSearchAttributes().GetIndexedFields()[name]; ok {
			_ = converter.GetDefaultDataConverter().FromPayload(p, into) // for people
		}
	}
	return info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, phase, reason, nil
}

// complete is what a registration that is over has done.
func (a *ShootRelations) complete(ctx context.Context, f api.ShootFacts) (out api.ShootRegistration, ok bool) {
	running, _, _, err := a.running(ctx, f)
	if err != nil || running {
		return out, false
	}
	err = a.Temporal.GetWorkflow(ctx, workflows.ShootID(f.Project, f.Name, f.UID), "").Get(ctx, &out)
	return out, err == nil && out.Status.End != nil
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// openRelations reads the relations of shoots that are open.
func openRelations(ctx context.Context, set ShootSettings) ([]registration.OpenRelation, error) {
	projects, err := set.Reporting.Projects(ctx, "")
	if err != nil {
		return nil, err
	}
	tenants := map[string]api.Tenant{}
	for _, p := range projects {
		tenants[p.ID] = api.Tenant{Platform: p.Platform, ExternalID: p.ExternalID, Name: p.Name}
	}
	var out []registration.OpenRelation
	for _, p := range projects {
		project, ok := registration.ProjectOf(set.Account, p.ExternalID)
		if p.Platform != string(event.Gardener) || !ok {
			continue
		}
		all, err := relationsFrom(ctx, set.Reporting, p.ID, nil)
		if err != nil {
			return nil, err
		}
		for _, r := range all {
			uid, name := r.Metadata[registration.MetaShootUID], r.Metadata[registration.MetaShootName]
			if r.ValidTo != nil || uid == "" || name == "" {
				continue
			}
			out = append(out, registration.OpenRelation{ProjectID: p.ID, ID: r.ID, Tenant: tenants[r.TargetID], ValidFrom: r.ValidFrom,
				Shoot: api.ShootFacts{Project: project, Name: name, UID: uid}})
		}
	}
	return out, nil
}

// remembering is a garden that reads everything once.
type remembering struct {
	registration.Garden
	shoots      map[string]api.ShootFacts
	mu          sync.Mutex
	credentials map[string]remembered[registration.CredentialsRef]
	secrets     map[string]remembered[registration.Secret]
	keystones   map[string]remembered[[]registration.Keystone]
}

type remembered[T any] struct {
	v   T
	err error
}

func newRemembering(g registration.Garden, shoots []api.ShootFacts) *remembering {
	r := &remembering{Garden: g, shoots: make(map[string]api.ShootFacts, len(shoots))}
	for _, f := range shoots {
		r.shoots[f.Project+"/"+f.Name] = f
	}
	return r
}

// Shoot implements registration.Garden.
func (r *remembering) Shoot(_ context.Context, project, name string) (api.ShootFacts, error) {
	f, ok := r.shoots[project+"/"+name]
	if !ok {
		return f, provider.Wrap(provider.NotFound, "get shoot", "", project+"/"+name, errors.New("was not listed"))
	}
	return f, nil
}

// once reads what was not read yet. What failed for the moment fails again.
func once[T any](mu *sync.Mutex, m *map[string]remembered[T], key string, read func() (T, error)) (T, error) {
	mu.Lock()
	defer mu.Unlock()
	if r, ok := (*m)[key]; ok {
		return r.v, r.err
	}
	v, err := read()
	if *m == nil {
		*m = map[string]remembered[T]{}
	}
	(*m)[key] = remembered[T]{v, err}
	return v, err
}

// Credentials implements registration.Garden.
func (r *remembering) Credentials(ctx context.Context, namespace string, b api.ShootBinding) (registration.CredentialsRef, error) {
	return once(&r.mu, &r.credentials, b.Kind+" "+namespace+"/"+b.Name, func() (registration.CredentialsRef, error) {
		return r.Garden.Credentials(ctx, namespace, b)
	})
}

// Secret implements registration.Garden.
func (r *remembering) Secret(ctx context.Context, namespace, name string) (registration.Secret, error) {
	return once(&r.mu, &r.secrets, namespace+"/"+name, func() (registration.Secret, error) { return r.Garden.Secret(ctx, namespace, name) })
}

// Keystones implements registration.Garden.
func (r *remembering) Keystones(ctx context.Context, profile string) ([]registration.Keystone, error) {
	return once(&r.mu, &r.keystones, profile, func() ([]registration.Keystone, error) { return r.Garden.Keystones(ctx, profile) })
}
