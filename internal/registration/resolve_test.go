package registration_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/registration"
	"github.com/tollgate-dev/tollgate/internal/registration/registrationtest"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

const sentinel = "sentinel-7f3a"

var (
	created  = time.Date(2026, 11, 2, 10, 0, 0, 0, time.UTC)
	known    = api.ShootFacts{Source: "garden", Project: "dev", Name: "web", UID: "uid-1"}
	binding  = api.ShootBinding{Kind: api.CredentialsBinding, Name: "cloud"}
	password = map[string]string{"domainName": "Default", "tenantName": "tenant-a", "username": "u", "password": sentinel, "authURL": "https://keystone.example.com:5000/v3"}
	appCred  = map[string]string{"applicationCredentialID": "id", "applicationCredentialSecret": sentinel, "authURL": "https://keystone.example.com:5000/v3"}
	keystone = registration.Keystone{URL: "https://keystone.example.com:5000/v3/"}
)

// the is a shoot on an infrastructure, with a Secret in another namespace.
func the(infrastructure string, secret map[string]string) *registrationtest.Garden {
	g := &registrationtest.Garden{}
	f := known
	f.Namespace, f.CreatedAt, f.Infrastructure, f.Binding, f.CloudProfile = "garden-dev", created, infrastructure, &binding, "profile"
	g.SetShoot(f)
	g.SetBinding("garden-dev", binding, registration.CredentialsRef{Kind: registration.KindSecret, Namespace: "garden-shared", Name: "cloud"})
	g.SetSecret("garden-shared", "cloud", "1", secret)
	g.SetKeystones("profile", keystone)
	return g
}

func TestResolve(t *testing.T) {
	t.Parallel()
	byName := registration.Settings{OpenStack: registration.OpenStackSettings{ByName: true}}
	mapped := func(ms ...registration.Mapping) registration.Settings { return registration.Settings{Tenants: ms} }
	acme := api.Tenant{ExternalID: "acme"}
	word := known
	word.Tenant, word.CreatedAt = &api.Tenant{Platform: "hetzner", ExternalID: "acme"}, created
	for name, tc := range map[string]struct {
		facts    api.ShootFacts
		settings registration.Settings
		garden   *registrationtest.Garden
		change   func(*registrationtest.Garden)
		none     bool // no garden cluster
		want     string
		by       string
		reason   string
		calls    int // -1: any
	}{
		"somebody's word":             {facts: word, garden: the("openstack", nil), want: "hetzner/acme", by: api.ResolvedByInput},
		"a word without a cluster":    {facts: word, none: true, want: "hetzner/acme", by: api.ResolvedByInput},
		"map":                         {settings: mapped(registration.Mapping{Project: "dev", Tenant: api.Tenant{Platform: "ionos", ExternalID: "31337"}}), garden: the("ionos", nil), want: "ionos/31337", by: api.ResolvedByMap, calls: 1},
		"map by infrastructure":       {settings: mapped(registration.Mapping{Infrastructure: "aws", Tenant: acme}, registration.Mapping{Infrastructure: "hcloud", Tenant: acme}), garden: the("hcloud", nil), want: "hetzner/acme", by: api.ResolvedByMap, calls: 1},
		"map by binding":              {settings: mapped(registration.Mapping{Credentials: "cloud", Tenant: acme}), garden: the("hcloud", nil), want: "hetzner/acme", by: api.ResolvedByMap, calls: 1},
		"map by Secret":               {settings: mapped(registration.Mapping{Secret: "garden-shared/cloud", Tenant: acme}), garden: the("hcloud", nil), want: "hetzner/acme", by: api.ResolvedByMap, calls: 2},
		"the first entry that fits":   {settings: mapped(registration.Mapping{Secret: "garden-shared/other", Tenant: api.Tenant{ExternalID: "no"}}, registration.Mapping{Project: "dev", Tenant: acme}), garden: the("hcloud", nil), want: "hetzner/acme", by: api.ResolvedByMap, calls: 2},
		"map of others":               {settings: mapped(registration.Mapping{Project: "prod", Tenant: acme}, registration.Mapping{Project: "dev", Shoot: "db", Tenant: acme}), garden: the("hcloud", nil), reason: api.ReasonNotMapped, calls: 1},
		"hetzner":                     {garden: the("hcloud", map[string]string{"hcloudToken": sentinel}), reason: api.ReasonNotMapped, calls: 1},
		"ionos":                       {garden: the("ionos", map[string]string{"password": sentinel}), reason: api.ReasonNotMapped, calls: 1},
		"stackit":                     {garden: the("stackit", map[string]string{"project-id": "6f1c", "serviceaccount.json": sentinel}), want: "stackit/6f1c", by: api.ResolvedBySecret, calls: 3},
		"stackit without":             {garden: the("stackit", map[string]string{"serviceaccount.json": sentinel}), reason: api.ReasonSecretIncomplete, calls: 3},
		"openstack by name":           {settings: byName, garden: the("openstack", password), want: "openstack/Default/tenant-a", by: api.ResolvedBySecret, calls: 3},
		"openstack by name without":   {settings: byName, garden: the("openstack", appCred), reason: api.ReasonSecretIncomplete, calls: 3},
		"openstack by keystone":       {garden: the("openstack", password), want: "openstack/p-1", by: api.ResolvedByKeystone, calls: 4},
		"openstack by app credential": {garden: the("openstack", appCred), want: "openstack/p-1", by: api.ResolvedByKeystone, calls: 4},
		"the profile's keystone":      {garden: the("openstack", map[string]string{"applicationCredentialID": "id", "applicationCredentialSecret": sentinel}), want: "openstack/p-1", by: api.ResolvedByKeystone, calls: 4},
		"an operator's keystone":      {settings: registration.Settings{OpenStack: registration.OpenStackSettings{Keystones: []registration.Keystone{{URL: "https://KEYSTONE.example.com:5000"}}}}, garden: the("openstack", appCred), change: func(g *registrationtest.Garden) { g.SetKeystones("profile") }, want: "openstack/p-1", by: api.ResolvedByKeystone, calls: 4},
		"somebody else's keystone":    {garden: the("openstack", map[string]string{"applicationCredentialID": "id", "applicationCredentialSecret": sentinel, "authURL": "http://169.254.169.254/v3"}), reason: api.ReasonKeystoneNotAllowed, calls: 4},
		"another port":                {garden: the("openstack", map[string]string{"applicationCredentialID": "id", "applicationCredentialSecret": sentinel, "authURL": "https://keystone.example.com/v3"}), reason: api.ReasonKeystoneNotAllowed, calls: 4},
		"another host by user":        {garden: the("openstack", map[string]string{"applicationCredentialID": "id", "applicationCredentialSecret": sentinel, "authURL": "https://keystone.example.com:5000@evil/v3"}), reason: api.ReasonKeystoneNotAllowed, calls: 4},
		"credentials refused":         {garden: the("openstack", map[string]string{"applicationCredentialID": "bad", "applicationCredentialSecret": sentinel}), reason: api.ReasonCredentialsRefused, calls: 4},
		"incomplete":                  {garden: the("openstack", map[string]string{"username": "u", "password": sentinel}), reason: api.ReasonSecretIncomplete, calls: 4},
		"a tenant that is no name":    {settings: byName, garden: the("openstack", map[string]string{"domainName": "Default", "tenantName": "a\nb" + sentinel}), reason: api.ReasonSecretIncomplete, calls: 3},
		"no binding": {garden: the("openstack", password), change: func(g *registrationtest.Garden) {
			f := known
			f.Namespace, f.CreatedAt, f.Infrastructure = "garden-dev", created, "openstack"
			g.SetShoot(f)
		}, reason: api.ReasonBindingMissing, calls: 1},
		"a binding that is not there": {garden: the("openstack", password), change: func(g *registrationtest.Garden) {
			f := known
			f.Namespace, f.CreatedAt, f.Infrastructure, f.Binding = "garden-dev", created, "openstack", &api.ShootBinding{Kind: api.SecretBinding, Name: "cloud"}
			g.SetShoot(f)
		}, reason: api.ReasonBindingMissing, calls: 2},
		"a Secret that is not there": {garden: the("openstack", password), change: func(g *registrationtest.Garden) {
			g.SetBinding("garden-dev", binding, registration.CredentialsRef{Kind: registration.KindSecret, Namespace: "garden-gone", Name: "cloud"})
		}, reason: api.ReasonSecretMissing, calls: 3},
		"a workload identity": {garden: the("openstack", password), change: func(g *registrationtest.Garden) {
			g.SetBinding("garden-dev", binding, registration.CredentialsRef{Kind: "WorkloadIdentity", Namespace: "garden-dev", Name: "cloud"})
		}, reason: api.ReasonNoSecret, calls: 2},
		"gone, nothing known":          {garden: &registrationtest.Garden{}, reason: api.ReasonCreationUnknown, calls: 1},
		"gone, reported":               {facts: api.ShootFacts{Source: "garden", Project: "dev", Name: "web", UID: "uid-1", ReportedAt: created}, garden: &registrationtest.Garden{}, reason: api.ReasonShootGone, calls: 1},
		"gone, its credentials known":  {settings: byName, facts: api.ShootFacts{Source: "garden", Project: "dev", Name: "web", UID: "uid-1", Namespace: "garden-dev", CreatedAt: created, Infrastructure: "openstack", Binding: &binding}, garden: the("openstack", password), change: func(g *registrationtest.Garden) { g.DeleteShoot("dev", "web") }, want: "openstack/Default/tenant-a", by: api.ResolvedBySecret, calls: 3},
		"made again under its name":    {facts: api.ShootFacts{Source: "garden", Project: "dev", Name: "web", UID: "uid-0", CreatedAt: created}, garden: the("openstack", password), reason: api.ReasonShootGone, calls: 1},
		"no cluster and no word of it": {facts: api.ShootFacts{Source: "garden", Project: "dev", Name: "web", UID: "uid-1", CreatedAt: created}, none: true, reason: api.ReasonNotMapped},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := ""
			r := &registration.Resolver{Identify: func(_ context.Context, k registration.Keystone, s registration.Secret) (registration.Identity, error) {
				asked = k.URL
				if id := s.Data["applicationCredentialID"]; string(id.Reveal()) == "bad" {
					return registration.Identity{}, fmt.Errorf("no: %w", registration.ErrRefused)
				}
				return registration.Identity{ID: "p-1", Name: "tenant-a", Domain: "Default"}, nil
			}}
			f := tc.facts
			if f.UID == "" {
				f = known
			}
			if tc.change != nil {
				tc.change(tc.garden)
			}
			var garden registration.Garden
			if !tc.none {
				garden = tc.garden
			}
			got, err := r.Resolve(t.Context(), tc.settings, garden, f)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(fmt.Sprintf("%+v %+v %+v", got, got.Tenant, got.Problem), sentinel) {
				t.Errorf("%+v tells a secret", got)
			}
			switch {
			case tc.reason != "":
				if got.Tenant != nil || got.Problem == nil || got.Problem.Reason != tc.reason || got.Problem.Message == "" {
					t.Errorf("%+v (%+v), want the problem %s", got, got.Problem, tc.reason)
				}
			case got.Tenant == nil || got.Tenant.String() != tc.want || got.By != tc.by || got.Problem != nil:
				t.Errorf("%+v (%v, %+v), want %s by %s", got, got.Tenant, got.Problem, tc.want, tc.by)
			}
			if !tc.none && tc.garden.Calls() != tc.calls {
				t.Errorf("%d calls to the garden cluster, want %d", tc.garden.Calls(), tc.calls)
			}
			if asked != "" && !strings.EqualFold(strings.TrimSuffix(strings.TrimSuffix(asked, "/"), "/v3"), "https://keystone.example.com:5000") {
				t.Errorf("asked %s", asked)
			}
		})
	}
}

// What cannot be read now is no answer.
func TestAClusterThatIsAwayIsAnError(t *testing.T) {
	t.Parallel()
	g := the("openstack", password)
	g.SetDown(errors.New("connection refused"))
	got, err := (&registration.Resolver{}).Resolve(t.Context(), registration.Settings{}, g, known)
	if provider.ClassOf(err) != provider.Transient || got.Tenant != nil || got.Problem != nil {
		t.Errorf("%+v, %v: want an error", got, err)
	}
}
