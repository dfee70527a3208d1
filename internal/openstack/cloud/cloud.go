package cloud

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/tollgate-dev/tollgate/internal/gate"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/telemetry"
)

// Config is what New gets beside the target.
type Config struct {
	// Secret reads the value behind a reference of the configuration.
	Secret func(ctx context.Context, name string) (provider.Sensitive, error)
	// Wrap, if set, wraps the connection below what adds the token.
	Wrap func(base http.RoundTripper) http.RoundTripper
	// Needs are the services, as Region names them, that each configured region has
	// to have besides compute.
	Needs []string
}

// Services that Config.Needs may name.
const (
	Network = "network"
	Volume  = "volume"
	Image   = "image"
)

// Cloud is one login to an OpenStack cloud. It is safe for concurrent use.
type Cloud struct {
	target Target
	secret func(ctx context.Context, name string) (provider.Sensitive, error)
	needs  []string

	client  *gophercloud.ProviderClient // with the token
	login   gate.Gate                   // held while a login is made that no token's end asks for
	session atomic.Pointer[Session]

	catalogAge time.Duration
}

// renewBefore is how long before its end a token is replaced.
const renewBefore = 30 * time.Second

// catalogAge is how old a catalogue is that lacks a region before it is read again.
const catalogAge = time.Minute

// New makes no request.
func New(t Target, cfg Config) *Cloud {
	c := &Cloud{target: t, secret: cfg.Secret, needs: cfg.Needs, catalogAge: catalogAge}
	c.client = c.newClient(cfg)
	return c
}

// newClient builds the vendor's client without retries and without backing off.
//
// From the outside in: the token; spans, which see no header; the request
// budget; the connection.
func (c *Cloud) newClient(cfg Config) *gophercloud.ProviderClient {
	var base http.RoundTripper = &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:       c.target.tls,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: c.target.CallTimeout,
	}
	if cfg.Wrap != nil {
		base = cfg.Wrap(base)
	}
	client, _ := openstack.NewClient(c.target.auth.IdentityEndpoint) // it only fails on a URL, and that was checked
	client.HTTPClient = http.Client{Timeout: c.target.CallTimeout, Transport: telemetry.Transport(base), CheckRedirect: stayThere}
	client.UserAgent.Prepend("tollgate")
	client.UseTokenLock()
	client.ReauthFunc = func(ctx context.Context) error { _, err := c.logIn(ctx); return err }
	client.ReauthBeforeTokenExpiration = renewBefore
	return client
}

// stayThere follows redirects within a service only: elsewhere they would carry the
// token, or the credentials of a login.
func stayThere(r *http.Request, via []*http.Request) error {
	if from := via[len(via)-1].URL; len(via) >= 5 || r.URL.Host != from.Host || r.URL.Scheme != from.Scheme {
		return http.ErrUseLastResponse
	}
	return nil
}

// Connect returns the session, and logs in first if there is none.
func (c *Cloud) Connect(ctx context.Context) (*Session, error) {
	if s := c.session.Load(); s != nil {
		return s, nil
	}
	if err := c.login.Lock(ctx); err != nil {
		return nil, err
	}
	defer c.login.Unlock()
	if s := c.session.Load(); s != nil {
		return s, nil
	}
	return c.logIn(ctx)
}

// logIn gets a token and reads the catalogue that comes with it. What was
// looked up in a region stays known.
func (c *Cloud) logIn(ctx context.Context) (*Session, error) {
	a, secrets, err := c.credentials(ctx)
	if err != nil {
		return nil, err
	}
	identity := &gophercloud.ServiceClient{
		ProviderClient: &gophercloud.ProviderClient{HTTPClient: c.client.HTTPClient, UserAgent: c.client.UserAgent, Throwaway: true},
		Endpoint:       versioned(a.auth.IdentityEndpoint, "v3"), Type: "identity",
	}
	res := tokens.Create(ctx, identity, &a.auth)
	if res.Err != nil {
		return nil, &LoginError{provider.RedactError(Stable(res.Err), secrets...), res.Err}
	}
	cat, err := res.ExtractServiceCatalog()
	if err != nil {
		return nil, &LoginError{ErrAnswer, err}
	}
	if token, err := res.ExtractTokenID(); err != nil || token == "" {
		return nil, &LoginError{ErrAnswer, ErrAnswer}
	}
	s, err := c.newSession(a, cat, secrets)
	if err != nil {
		return nil, err
	}
	if project, err := res.ExtractProject(); err == nil && project != nil {
		s.Project = project.ID
	}
	if err := c.client.SetTokenAndAuthResult(res); err != nil {
		return nil, &LoginError{ErrAnswer, err}
	}
	c.session.Store(s)
	return s, nil
}

// Secrets are the credentials as they are now and as they were at the login, and
// the token: what must not be in any text.
func (c *Cloud) Secrets(ctx context.Context) (out []provider.Sensitive) {
	if _, now, err := c.credentials(context.WithoutCancel(ctx)); err == nil {
		out = append(out, now...)
	}
	if s := c.session.Load(); s != nil {
		out = append(out, s.secrets...)
	}
	if token := c.client.Token(); token != "" {
		out = append(out, provider.NewSensitive([]byte(token)))
	}
	return out
}
