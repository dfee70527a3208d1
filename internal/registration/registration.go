// Package registration decides which infrastructure tenant a Gardener shoot runs
// in, and which relation at the Reporting API says so. It reads what it is given:
// callers hand it the garden cluster, and write what it decides.
package registration

import (
	"context"
	"slices"
	"strings"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Infrastructures in Gardener's word whose credentials are understood.
const (
	OpenStack = "openstack"
	Hetzner   = "hcloud"
	STACKIT   = "stackit"
	IONOS     = "ionos"
)

// DefaultCreatedBy marks the relations that Tollgate writes.
const DefaultCreatedBy = "tollgate"

// PlatformOf is the platform, in the Reporting API's word, of an infrastructure in
// Gardener's word. One that is not known is taken as it is.
func PlatformOf(infrastructure string) string {
	if infrastructure == Hetzner {
		return string(event.Hetzner)
	}
	return infrastructure
}

// ProjectID is the external id of a Gardener project: the account of the events of
// its shoots.
func ProjectID(account, project string) string { return account + "/" + project }

// ProjectOf is the project of an account that ProjectID made. ok is false for the
// accounts of other Gardeners.
func ProjectOf(account, id string) (project string, ok bool) {
	project, ok = strings.CutPrefix(id, account+"/")
	return project, ok && project != "" && !strings.Contains(project, "/")
}

// Settings are how the shoots of one source are registered.
type Settings struct {
	// CreatedBy marks the relations.
	CreatedBy string
	// Tenants is the operator's map. The first entry that matches counts, before
	// anything else.
	Tenants   []Mapping
	OpenStack OpenStackSettings
}

// OpenStackSettings are how tenants of OpenStack are resolved.
type OpenStackSettings struct {
	// ByName takes <domain>/<tenant> from the Secret as the external id, without
	// asking Keystone. It is for one OpenStack whose tenants are never renamed.
	ByName bool
	// Keystones are those that may be asked, beside those of the cloud profiles.
	Keystones []Keystone
}

// Keystone is an identity service that may be given credentials.
type Keystone struct {
	URL string
	// CA are the certificates that it is trusted by, in PEM; empty means the
	// system's.
	CA []byte
}

// Mapping is one entry of the operator's map. Empty fields match everything.
type Mapping struct {
	Project        string
	Shoot          string
	Infrastructure string
	// Credentials is the name of the shoot's CredentialsBinding or SecretBinding.
	Credentials string
	// Secret is <namespace>/<name> of the Secret that the binding names.
	Secret string
	// Tenant is what it is mapped to. An empty platform is that of the shoot's
	// infrastructure.
	Tenant api.Tenant
}

// verdict is how an entry of the map fits.
type verdict int

const (
	differs verdict = iota
	unclear         // it depends on what is not known
	fits
)

func (m Mapping) match(f api.ShootFacts, secret string) verdict {
	binding := ""
	if f.Binding != nil {
		binding = f.Binding.Name
	}
	v := fits
	for _, p := range []struct{ want, is string }{
		{m.Project, f.Project}, {m.Shoot, f.Name}, {m.Infrastructure, f.Infrastructure}, {m.Credentials, binding}, {m.Secret, secret},
	} {
		switch {
		case p.want == "" || p.want == p.is:
		case p.is == "":
			v = unclear
		default:
			return differs
		}
	}
	if v == fits && m.Tenant.Platform == "" && f.Infrastructure == "" {
		v = unclear
	}
	return v
}

// lookup finds the tenant of a shoot in the map. clear is false when an entry
// before it, or itself, depends on what is not known of the shoot.
func (s Settings) lookup(f api.ShootFacts, secret string) (t api.Tenant, ok, clear bool) {
	clear = true
	for _, m := range s.Tenants {
		switch m.match(f, secret) {
		case fits:
			t := m.Tenant
			if t.Platform == "" {
				t.Platform = PlatformOf(f.Infrastructure)
			}
			return t, true, clear
		case unclear:
			clear = false
		}
	}
	return api.Tenant{}, false, clear
}

// needsSecret reports whether an entry that the shoot may fit asks for a Secret.
func (s Settings) needsSecret(f api.ShootFacts) bool {
	return slices.ContainsFunc(s.Tenants, func(m Mapping) bool { return m.Secret != "" && m.match(f, "") == unclear })
}

// Garden reads a garden cluster. Its errors are provider.Errors: NotFound when
// what is asked for is not there.
type Garden interface {
	// Shoot reads what there is to know of a shoot of a project. The result has no
	// Source and no Tenant.
	Shoot(ctx context.Context, project, name string) (api.ShootFacts, error)
	// Shoots lists all shoots, as Shoot reads them. One whose project is not known
	// has an empty one. It fails rather than leave a shoot out.
	Shoots(ctx context.Context) ([]api.ShootFacts, error)
	// Credentials reads what a binding in a namespace names.
	Credentials(ctx context.Context, namespace string, b api.ShootBinding) (CredentialsRef, error)
	// Secret reads a Secret.
	Secret(ctx context.Context, namespace, name string) (Secret, error)
	// Keystones are those that a cloud profile of OpenStack names, for a region or
	// for all.
	Keystones(ctx context.Context, cloudProfile string) ([]Keystone, error)
}

// CredentialsRef is what a binding names.
type CredentialsRef struct {
	// Kind is Secret or WorkloadIdentity.
	Kind      string
	Namespace string
	Name      string
}

// KindSecret is the kind of credentials that can be read.
const KindSecret = "Secret"

func (c CredentialsRef) String() string { return c.Namespace + "/" + c.Name }

// Secret is what a Secret holds.
type Secret struct {
	// Version changes with the contents: the uid and resource version.
	Version string
	Data    map[string]provider.Sensitive
}

func (s Secret) text(key string) string { return string(s.Data[key].Reveal()) }
