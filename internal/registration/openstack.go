package registration

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Keys of the Secrets of Gardener's OpenStack extension.
const (
	keyAuthURL   = "authURL"
	keyDomain    = "domainName"
	keyTenant    = "tenantName"
	keyUser      = "username"
	keyPassword  = "password"
	keyAppID     = "applicationCredentialID"
	keyAppName   = "applicationCredentialName"
	keyAppSecret = "applicationCredentialSecret"
)

// ErrRefused: a Keystone does not accept credentials.
var ErrRefused = errors.New("keystone does not accept the credentials")

func (q *question) openstack(ctx context.Context, ref CredentialsRef, s Secret, hint string) error {
	if q.s.OpenStack.ByName {
		domain, tenant := s.text(keyDomain), s.text(keyTenant)
		if domain == "" || tenant == "" {
			return q.problem(api.ReasonSecretIncomplete, "Secret %s lacks %s or %s, which registration.openstack.tenant: name needs: %s", ref, keyDomain, keyTenant, hint)
		}
		return q.tenant(api.Tenant{Platform: OpenStack, ExternalID: domain + "/" + tenant, Name: domain + "/" + tenant}, api.ResolvedBySecret, ref)
	}
	k, err := q.keystone(ctx, s.text(keyAuthURL))
	if err != nil {
		return err
	}
	if k.URL == "" {
		return q.problem(api.ReasonKeystoneNotAllowed,
			"the Keystone of Secret %s is neither that of cloud profile %s nor in registration.openstack.keystones: add its URL there, or %s", ref, q.out.Facts.CloudProfile, hint)
	}
	password, app := s.text(keyUser) != "" && s.text(keyPassword) != "" && s.text(keyDomain) != "" && s.text(keyTenant) != "",
		s.text(keyAppSecret) != "" && (s.text(keyAppID) != "" || s.text(keyAppName) != "")
	if !password && !app {
		return q.problem(api.ReasonSecretIncomplete, "Secret %s has neither an application credential nor a user with password, domain and tenant: %s", ref, hint)
	}
	id, err := q.r.Identify(ctx, k, s)
	switch {
	case errors.Is(err, ErrRefused):
		return q.problem(api.ReasonCredentialsRefused, "Keystone %s does not accept the credentials of Secret %s: %s", k.URL, ref, hint)
	case err != nil:
		return err
	}
	name := id.Name
	if id.Domain != "" {
		name = id.Domain + "/" + id.Name
	}
	return q.tenant(api.Tenant{Platform: OpenStack, ExternalID: id.ID, Name: name}, api.ResolvedByKeystone, ref)
}

// keystone chooses the one to ask. A Secret can be written by any member of a
// project: what it names is asked only if an operator has named it too, and no
// request goes anywhere else. The zero Keystone means that it is not allowed.
func (q *question) keystone(ctx context.Context, named string) (Keystone, error) {
	allowed := q.s.OpenStack.Keystones
	if q.out.Facts.CloudProfile != "" {
		of, err := q.garden.Keystones(ctx, q.out.Facts.CloudProfile)
		if err != nil && provider.ClassOf(err) != provider.NotFound {
			return Keystone{}, err
		}
		if named == "" && len(of) == 1 {
			return of[0], nil
		}
		allowed = append(append([]Keystone{}, allowed...), of...)
	}
	if named == "" {
		return Keystone{}, nil
	}
	for _, k := range allowed {
		if sameService(k.URL, named) {
			return k, nil
		}
	}
	return Keystone{}, nil
}

// sameService compares scheme, host and port, and the path without its version.
func sameService(a, b string) bool {
	x, errX := url.Parse(a)
	y, errY := url.Parse(b)
	if errX != nil || errY != nil || x.Host == "" || x.User != nil || y.User != nil {
		return false
	}
	return strings.EqualFold(x.Scheme, y.Scheme) && strings.EqualFold(authority(x), authority(y)) && basePath(x) == basePath(y)
}

func authority(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
	}
	return u.Hostname() + ":" + port
}

func basePath(u *url.URL) string {
	return strings.TrimRight(strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/v3"), "/")
}
