package registration

import (
	"context"
	"fmt"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Resolution is what is known of the tenant of a shoot. Either Tenant or Problem
// is set.
type Resolution struct {
	// Facts are those that were given and those that were found.
	Facts    api.ShootFacts
	Presence api.ShootPresence
	Tenant   *api.Tenant
	// By says how the tenant was resolved.
	By      string
	Problem *api.ShootProblem
}

// Resolver resolves tenants. It is safe for concurrent use.
type Resolver struct {
	// Identify asks a Keystone of which project credentials are.
	Identify func(ctx context.Context, k Keystone, s Secret) (Identity, error)
}

// Identity is the project of credentials at an OpenStack.
type Identity struct {
	ID, Name, Domain string
}

// Resolve finds the tenant of a shoot: by what somebody said, by the operator's
// map, and by the shoot's credentials, in this order. garden is nil when the
// garden cluster cannot be read. What nobody knows is a Problem; what could not be
// read now is an error.
func (r *Resolver) Resolve(ctx context.Context, s Settings, garden Garden, f api.ShootFacts) (Resolution, error) {
	q := &question{r: r, s: s, garden: garden, out: Resolution{Facts: f}}
	err := q.answer(ctx)
	return q.out, err
}

// question is one resolution under way.
type question struct {
	r      *Resolver
	s      Settings
	garden Garden
	out    Resolution
}

func (q *question) problem(reason, format string, args ...any) error {
	q.out.Problem = &api.ShootProblem{Reason: reason, Message: fmt.Sprintf(format, args...)}
	return nil
}

func (q *question) is(t api.Tenant, by string) error {
	q.out.Tenant, q.out.By = &t, by
	return nil
}

func (q *question) answer(ctx context.Context) error {
	f := &q.out.Facts
	if f.Tenant != nil && !f.CreatedAt.IsZero() {
		return q.is(*f.Tenant, api.ResolvedByInput)
	}
	if t, ok, clear := q.s.lookup(*f, ""); ok && clear && !f.CreatedAt.IsZero() {
		return q.is(t, api.ResolvedByMap)
	}
	if err := q.look(ctx); err != nil || q.out.Problem != nil {
		return err
	}
	if f.CreatedAt.IsZero() {
		f.CreatedAt = f.ReportedAt
	}
	if f.CreatedAt.IsZero() {
		return q.problem(api.ReasonCreationUnknown,
			"the shoot is gone and no event says when it was created: tollgate shoot register %s/%s --uid %s --created TIME", f.Project, f.Name, f.UID)
	}
	if f.Tenant != nil {
		return q.is(*f.Tenant, api.ResolvedByInput)
	}
	// Entries that ask for a Secret are clear once the binding is read.
	if t, ok, clear := q.s.lookup(*f, ""); ok && clear {
		return q.is(t, api.ResolvedByMap)
	}
	return q.byCredentials(ctx)
}

// look reads the shoot.
func (q *question) look(ctx context.Context) error {
	f := &q.out.Facts
	if q.garden == nil {
		return nil
	}
	found, err := q.garden.Shoot(ctx, f.Project, f.Name)
	switch {
	case provider.ClassOf(err) == provider.NotFound:
		q.out.Presence = api.ShootGone
	case err != nil:
		return err
	case found.UID != f.UID:
		q.out.Presence = api.ShootGone // it was made again under its name
	default:
		q.out.Presence = api.ShootPresent
		*f = f.Merge(found)
		f.CreatedAt = found.CreatedAt.UTC() // the shoot itself knows best
	}
	return nil
}

func (q *question) byCredentials(ctx context.Context) error {
	f := q.out.Facts
	hint := fmt.Sprintf("name it in registration.tenants of source %s, or: tollgate shoot register %s/%s --uid %s --tenant PLATFORM:ACCOUNT", f.Source, f.Project, f.Name, f.UID)
	switch {
	case q.out.Presence == api.ShootGone && (f.Binding == nil || f.Namespace == ""):
		return q.problem(api.ReasonShootGone, "the shoot is gone and nothing names its credentials: %s", hint)
	case q.garden == nil:
		return q.problem(api.ReasonNotMapped, "no entry of registration.tenants fits, and the garden cluster is not read: %s", hint)
	case f.Binding == nil || f.Namespace == "":
		return q.problem(api.ReasonBindingMissing, "the shoot names no credentials: %s", hint)
	}
	// Without a need for the binding, it is not read.
	if f.Infrastructure != OpenStack && f.Infrastructure != STACKIT && !q.s.needsSecret(f) {
		return q.notMapped(hint)
	}
	ref, err := q.garden.Credentials(ctx, f.Namespace, *f.Binding)
	if provider.ClassOf(err) == provider.NotFound {
		return q.problem(api.ReasonBindingMissing, "%s %s/%s is not there: %s", f.Binding.Kind, f.Namespace, f.Binding.Name, hint)
	} else if err != nil {
		return err
	}
	name := ""
	if ref.Kind == KindSecret {
		name = ref.String()
	}
	if t, ok, _ := q.s.lookup(f, name); ok {
		return q.is(t, api.ResolvedByMap)
	}
	switch {
	case f.Infrastructure != OpenStack && f.Infrastructure != STACKIT:
		return q.notMapped(hint)
	case ref.Kind != KindSecret:
		return q.problem(api.ReasonNoSecret, "%s %s/%s names a %s, which names no tenant: %s", f.Binding.Kind, f.Namespace, f.Binding.Name, ref.Kind, hint)
	}
	secret, err := q.garden.Secret(ctx, ref.Namespace, ref.Name)
	if provider.ClassOf(err) == provider.NotFound {
		return q.problem(api.ReasonSecretMissing, "Secret %s is not there: %s", ref, hint)
	} else if err != nil {
		return err
	}
	if f.Infrastructure == STACKIT {
		return q.stackit(ref, secret, hint)
	}
	return q.openstack(ctx, ref, secret, hint)
}

func (q *question) notMapped(hint string) error {
	why := "its credentials do not tell the account"
	switch q.out.Facts.Infrastructure {
	case Hetzner:
		why = "a token of Hetzner Cloud does not tell which project it is of"
	case IONOS:
		why = "credentials of IONOS do not tell the account of its events"
	}
	return q.problem(api.ReasonNotMapped, "%s: %s", why, hint)
}

// keySTACKITProject is where the STACKIT extension of Gardener has the project.
const keySTACKITProject = "project-id"

func (q *question) stackit(ref CredentialsRef, s Secret, hint string) error {
	id := s.text(keySTACKITProject)
	if id == "" {
		return q.problem(api.ReasonSecretIncomplete, "Secret %s has no %s: %s", ref, keySTACKITProject, hint)
	}
	return q.tenant(api.Tenant{Platform: STACKIT, ExternalID: id}, api.ResolvedBySecret, ref)
}

// tenant takes a tenant that somebody's Secret names. What is no name is refused,
// so that nothing else of a Secret gets out.
func (q *question) tenant(t api.Tenant, by string, ref CredentialsRef) error {
	if t.Validate("tenant") != nil {
		return q.problem(api.ReasonSecretIncomplete, "what Secret %s has as its tenant is no name", ref)
	}
	return q.is(t, by)
}
