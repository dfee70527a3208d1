package registration

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Bounds of what is asked of a Keystone, and kept.
const (
	keystoneTimeout = 15 * time.Second
	identityTTL     = time.Hour
	maxIdentities   = 4096
)

// OpIdentify names the question of which project credentials are, in errors.
const OpIdentify provider.Op = "identify"

// Identities asks Keystones of which project credentials are. It keeps the answer
// for an hour as long as the Secret is the same. It is safe for concurrent use.
type Identities struct {
	mu   sync.Mutex
	kept map[string]keptIdentity
	// Now is time.Now if nil.
	Now func() time.Time
}

type keptIdentity struct {
	Identity
	until time.Time
}

func (i *Identities) now() time.Time {
	if i.Now != nil {
		return i.Now()
	}
	return time.Now()
}

// Identify implements Resolver.Identify. Its errors hold nothing of the Secret and
// nothing of the answer.
func (i *Identities) Identify(ctx context.Context, k Keystone, s Secret) (Identity, error) {
	key := k.URL + "\n" + s.Version
	i.mu.Lock()
	had, ok := i.kept[key]
	i.mu.Unlock()
	if ok && s.Version != "" && i.now().Before(had.until) {
		return had.Identity, nil
	}
	id, err := identify(ctx, k, s)
	if err != nil {
		return Identity{}, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.kept == nil || len(i.kept) >= maxIdentities {
		i.kept = map[string]keptIdentity{}
	}
	i.kept[key] = keptIdentity{id, i.now().Add(identityTTL)}
	return id, nil
}

func identify(ctx context.Context, k Keystone, s Secret) (Identity, error) {
	fail := func(class provider.Class, format string, args ...any) (Identity, error) {
		return Identity{}, provider.Wrap(class, OpIdentify, "", "", fmt.Errorf("keystone %s: "+format, append([]any{k.URL}, args...)...))
	}
	roots := (*x509.CertPool)(nil)
	if len(k.CA) > 0 {
		roots = x509.NewCertPool()
		if !roots.AppendCertsFromPEM(k.CA) {
			return fail(provider.Permanent, "its CA is no PEM certificate")
		}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	defer transport.CloseIdleConnections()
	hc := http.Client{Transport: transport, Timeout: keystoneTimeout, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // credentials go where they were sent, and nowhere else
	}}
	client := &gophercloud.ServiceClient{
		ProviderClient: &gophercloud.ProviderClient{HTTPClient: hc},
		Endpoint:       strings.TrimSuffix(strings.TrimRight(k.URL, "/"), "/v3") + "/v3/",
	}
	project, err := tokens.Create(ctx, client, authOptions(s)).ExtractProject()
	var code gophercloud.ErrUnexpectedResponseCode
	var transfer *url.Error
	switch {
	case err == nil && project != nil && project.ID != "":
		return Identity{ID: project.ID, Name: project.Name, Domain: project.Domain.Name}, nil
	case err == nil:
		return Identity{}, fmt.Errorf("%w: they are of no project", ErrRefused)
	case errors.As(err, &code) && (code.Actual == http.StatusUnauthorized || code.Actual == http.StatusForbidden):
		return Identity{}, ErrRefused
	case errors.As(err, &code) && (code.Actual >= 500 || code.Actual == http.StatusTooManyRequests):
		return fail(provider.Transient, "answers with status %d", code.Actual)
	case errors.As(err, &code):
		return fail(provider.Permanent, "answers with status %d", code.Actual)
	case errors.As(err, &transfer):
		return fail(provider.Transient, "%w", transfer.Err)
	case ctx.Err() != nil:
		return fail(provider.Transient, "%w", ctx.Err())
	}
	return fail(provider.Permanent, "its answer is none of a Keystone")
}

func authOptions(s Secret) *tokens.AuthOptions {
	o := &tokens.AuthOptions{}
	if s.text(keyAppSecret) != "" {
		o.ApplicationCredentialSecret = s.text(keyAppSecret)
		if o.ApplicationCredentialID = s.text(keyAppID); o.ApplicationCredentialID == "" {
			o.ApplicationCredentialName, o.Username, o.DomainName = s.text(keyAppName), s.text(keyUser), s.text(keyDomain)
		}
		return o
	}
	o.Username, o.Password, o.DomainName = s.text(keyUser), s.text(keyPassword), s.text(keyDomain)
	o.Scope = tokens.Scope{ProjectName: s.text(keyTenant), DomainName: s.text(keyDomain)}
	return o
}
