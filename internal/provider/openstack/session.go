package openstack

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/telemetry"
)

// session is a login: the cloud's services as its catalogue has them.
type session struct {
	regions map[string]*region
	order   []string // of the configuration, the default first
	known   []string // all of the catalogue, sorted
	secrets []provider.Sensitive
}

// region holds the clients of one region and what was looked up there.
type region struct {
	name                            string
	compute, network, volume, image *gophercloud.ServiceClient // volume is nil where the cloud has none
	tags                            bool                       // servers can be tagged by the call that makes them
	catalog                         *catalog
}

// renewBefore is how long before its end a token is replaced.
const renewBefore = 30 * time.Second

// newClient builds the vendor's client without retries and without backing off.
//
// From the outside in: the token; spans, which see no header; the request
// budget; the connection.
func (p *Provider) newClient(cfg provider.Config) *gophercloud.ProviderClient {
	base := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:       p.opt.tls,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: p.opt.CallTimeout,
	}
	c, _ := openstack.NewClient(p.opt.auth.IdentityEndpoint) // it only fails on a URL, and that was checked
	c.HTTPClient = http.Client{Timeout: p.opt.CallTimeout, Transport: telemetry.Transport(cfg.WithBudget(base, p.opt.account))}
	c.UserAgent.Prepend("tollgate")
	c.UseTokenLock()
	c.ReauthFunc = func(ctx context.Context) error { _, err := p.logIn(ctx); return err }
	c.ReauthBeforeTokenExpiration = renewBefore
	return c
}

// connect returns the session, and logs in first if there is none.
func (p *Provider) connect(ctx context.Context) (*session, error) {
	if s := p.session.Load(); s != nil {
		return s, nil
	}
	if err := p.login.lock(ctx); err != nil {
		return nil, err
	}
	defer p.login.unlock()
	if s := p.session.Load(); s != nil {
		return s, nil
	}
	return p.logIn(ctx)
}

// logIn gets a token and reads the catalogue that comes with it. What was
// looked up in a region stays known.
func (p *Provider) logIn(ctx context.Context) (*session, error) {
	a, secrets, err := p.credentials(ctx)
	if err != nil {
		return nil, err
	}
	identity := &gophercloud.ServiceClient{
		ProviderClient: &gophercloud.ProviderClient{HTTPClient: p.client.HTTPClient, UserAgent: p.client.UserAgent, Throwaway: true},
		Endpoint:       versioned(a.auth.IdentityEndpoint, "v3"), Type: "identity",
	}
	res := tokens.Create(ctx, identity, &a.auth)
	if res.Err != nil {
		return nil, &errLogin{provider.RedactError(stable(res.Err), secrets...), res.Err}
	}
	cat, err := res.ExtractServiceCatalog()
	if err != nil {
		return nil, &errLogin{errAnswer, err}
	}
	if token, err := res.ExtractTokenID(); err != nil || token == "" {
		return nil, &errLogin{errAnswer, errAnswer}
	}
	s, err := p.newSession(a, cat, secrets)
	if err != nil {
		return nil, err
	}
	if err := p.client.SetTokenAndAuthResult(res); err != nil {
		return nil, &errLogin{errAnswer, err}
	}
	p.session.Store(s)
	return s, nil
}

// newSession picks the services of the configured regions from the catalogue.
func (p *Provider) newSession(a access, cat *tokens.ServiceCatalog, secrets []provider.Sensitive) (*session, error) {
	s := &session{regions: map[string]*region{}, secrets: secrets}
	for _, e := range cat.Entries {
		if e.Type != "compute" {
			continue
		}
		for _, ep := range e.Endpoints {
			if ep.Interface == a.endpoint && !slices.Contains(s.known, regionOf(ep)) {
				s.known = append(s.known, regionOf(ep))
			}
		}
	}
	slices.Sort(s.known)
	switch s.order = p.opt.Regions; {
	case len(s.order) > 0:
	case a.region != "":
		s.order = []string{a.region}
	case len(s.known) == 1:
		s.order = s.known
	default:
		return nil, p.badConfig("regions: is required: the cloud has %s", strings.Join(s.known, ", "))
	}
	old := p.session.Load()
	for _, name := range s.known { // those of instances from before a change of the configuration, too
		r := &region{name: name, catalog: &catalog{}}
		if old != nil && old.regions[name] != nil {
			r.catalog = old.regions[name].catalog
		}
		r.compute = p.service(cat, a.endpoint, name, "v2.1", "compute")
		r.network = p.service(cat, a.endpoint, name, "v2.0", "network")
		r.image = p.service(cat, a.endpoint, name, "v2", "image")
		r.volume = p.service(cat, a.endpoint, name, "v3", "block-storage", "volumev3")
		s.regions[name] = r
	}
	for _, name := range s.order {
		switch r := s.regions[name]; {
		case r == nil:
			return nil, p.badConfig("regions: %q is not one of the cloud: want one of %s", name, strings.Join(s.known, ", "))
		case r.network == nil || r.image == nil:
			return nil, p.badConfig("interface: region %q has no network or no image service with interface %q", name, a.endpoint)
		case r.volume == nil && p.opt.Volume.SizeGB > 0:
			return nil, p.badConfig("volume: region %q has no volume service", name)
		}
	}
	return s, nil
}

func regionOf(e tokens.Endpoint) string {
	if e.RegionID != "" {
		return e.RegionID
	}
	return e.Region
}

// service is the client of the first of these types that the catalogue has.
func (p *Provider) service(cat *tokens.ServiceCatalog, iface, region, version string, types ...string) *gophercloud.ServiceClient {
	for _, typ := range types {
		for _, e := range cat.Entries {
			if e.Type != typ {
				continue
			}
			for _, ep := range e.Endpoints {
				if ep.Interface == iface && regionOf(ep) == region && ep.URL != "" {
					return &gophercloud.ServiceClient{ProviderClient: p.client, Endpoint: versioned(ep.URL, version), Type: types[0]}
				}
			}
		}
	}
	return nil
}

// versioned is a service's URL with its version, which catalogues have or leave
// out, and a slash at the end.
func versioned(endpoint, version string) string {
	u := strings.TrimRight(endpoint, "/")
	all := strings.Split(u, "/")
	for _, part := range all[min(3, len(all)):] { // behind scheme and host
		if len(part) > 1 && part[0] == 'v' && part[1] >= '1' && part[1] <= '9' {
			return u + "/"
		}
	}
	return u + "/" + version + "/"
}

// at returns the clients of a region, "" being the default, with the compute
// service's microversion agreed on.
func (p *Provider) at(ctx context.Context, name string) (*region, error) {
	s, err := p.connect(ctx)
	if err != nil {
		return nil, err
	}
	if name == "" {
		name = s.order[0]
	}
	r := s.regions[name]
	if r == nil {
		return nil, &errPlace{"region", name, "want one of " + strings.Join(s.known, ", ")}
	}
	micro, err := r.catalog.negotiate(ctx, r.compute)
	if err != nil {
		return nil, err
	}
	with, compute := *r, *r.compute
	compute.Microversion = micro
	with.compute, with.tags = &compute, micro == microTags
	return &with, nil
}

// everywhere returns all configured regions.
func (p *Provider) everywhere(ctx context.Context) ([]*region, error) {
	s, err := p.connect(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]*region, 0, len(s.order))
	for _, name := range s.order {
		r, err := p.at(ctx, name)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}
