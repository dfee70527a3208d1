package cloud

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/utils"

	"github.com/tollgate-dev/tollgate/internal/gate"
	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Session is a login: the cloud's services as its catalogue has them.
type Session struct {
	// Order are the regions of the configuration, the default first.
	Order []string
	// Known are all of the catalogue, sorted.
	Known []string
	// Project is the id of the project that the login is for.
	Project string

	regions map[string]*Region
	missing map[string]error // of Order: why the catalogue is not enough for it
	made    time.Time
	secrets []provider.Sensitive
}

// Region holds the clients of one region.
type Region struct {
	Name string
	// Compute and the others are the clients of its services; those but Compute are
	// nil where the cloud has none.
	Compute, Network, Volume, Image *gophercloud.ServiceClient

	micro *micro
}

func (r *Region) has(service string) bool {
	switch service {
	case Network:
		return r.Network != nil
	case Volume:
		return r.Volume != nil
	case Image:
		return r.Image != nil
	}
	return false
}

// newSession picks the services of the configured regions from the catalogue. It
// fails when there is enough for none of them: one that is mistyped, or that the
// cloud takes out for a while, is the trouble of those who ask for it.
func (c *Cloud) newSession(a login, cat *tokens.ServiceCatalog, secrets []provider.Sensitive) (*Session, error) {
	s := &Session{regions: map[string]*Region{}, missing: map[string]error{}, made: time.Now(), secrets: secrets}
	for _, e := range cat.Entries {
		if e.Type != "compute" {
			continue
		}
		for _, ep := range e.Endpoints {
			if ep.Interface == a.endpoint && !slices.Contains(s.Known, regionOf(ep)) {
				s.Known = append(s.Known, regionOf(ep))
			}
		}
	}
	slices.Sort(s.Known)
	switch s.Order = c.target.Regions; {
	case len(s.Order) > 0:
	case a.region != "":
		s.Order = []string{a.region}
	case len(s.Known) == 1:
		s.Order = s.Known
	default:
		return nil, BadConfig("regions: is required: the cloud has %s", strings.Join(s.Known, ", "))
	}
	old := c.session.Load()
	for _, name := range s.Known { // those of instances from before a change of the configuration, too
		r := &Region{Name: name, micro: &micro{}}
		if old != nil && old.regions[name] != nil {
			r.micro = old.regions[name].micro
		}
		r.Compute = c.service(cat, a.endpoint, name, "v2.1", "compute")
		r.Network = c.service(cat, a.endpoint, name, "v2.0", "network")
		r.Image = c.service(cat, a.endpoint, name, "v2", "image")
		r.Volume = c.service(cat, a.endpoint, name, "v3", "block-storage", "volumev3")
		s.regions[name] = r
	}
	for _, name := range s.Order {
		if err := c.complete(s, name, a.endpoint); err != nil {
			s.missing[name] = err
		}
	}
	if len(s.missing) == len(s.Order) {
		return nil, s.missing[s.Order[0]]
	}
	return s, nil
}

// complete reports what the catalogue lacks of a configured region.
func (c *Cloud) complete(s *Session, name, endpoint string) error {
	r := s.regions[name]
	if r == nil {
		return BadConfig("regions: %q is not one of the cloud: want one of %s", name, strings.Join(s.Known, ", "))
	}
	for _, need := range c.needs {
		if !r.has(need) {
			return BadConfig("interface: region %q has no %s service with interface %q", name, need, endpoint)
		}
	}
	return nil
}

func regionOf(e tokens.Endpoint) string {
	if e.RegionID != "" {
		return e.RegionID
	}
	return e.Region
}

// service is the client of the first of these types that the catalogue has.
func (c *Cloud) service(cat *tokens.ServiceCatalog, iface, region, version string, types ...string) *gophercloud.ServiceClient {
	for _, typ := range types {
		for _, e := range cat.Entries {
			if e.Type != typ {
				continue
			}
			for _, ep := range e.Endpoints {
				if ep.Interface == iface && regionOf(ep) == region && ep.URL != "" {
					return &gophercloud.ServiceClient{ProviderClient: c.client, Endpoint: versioned(ep.URL, version), Type: types[0]}
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

// At returns the clients of a region, "" being the default.
func (c *Cloud) At(ctx context.Context, name string) (*Region, error) {
	s, err := c.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if name == "" {
		name = s.Order[0]
	}
	if s.missing[name] != nil {
		if s, err = c.lookAgain(ctx, s); err != nil {
			return nil, err
		}
	}
	if err := s.missing[name]; err != nil {
		return nil, &MissingError{err.Error()}
	}
	r := s.regions[name]
	if r == nil {
		return nil, &PlaceError{"region", name, "want one of " + strings.Join(s.Known, ", ")}
	}
	return r, nil
}

// lookAgain logs in again if the catalogue is not a recent one: what it lacked may
// be there by now.
func (c *Cloud) lookAgain(ctx context.Context, s *Session) (*Session, error) {
	if err := c.login.Lock(ctx); err != nil {
		return nil, err
	}
	defer c.login.Unlock()
	if now := c.session.Load(); now != s || time.Since(s.made) < c.catalogAge {
		return now, nil
	}
	return c.logIn(ctx)
}

// Speaking returns the region with the compute service's microversion agreed on:
// the newest of these, best first, that the service speaks, or 2.1, which all do.
// The newest that a service has is never asked for: what a later one means is not
// known here.
func (r *Region) Speaking(ctx context.Context, versions ...string) (*Region, error) {
	newest, err := r.micro.newest(ctx, r.Compute)
	if err != nil {
		return nil, err
	}
	with, compute := *r, *r.Compute
	compute.Microversion = MicroBase
	for _, v := range versions {
		if !older(newest, v) {
			compute.Microversion = v
			break
		}
	}
	with.Compute = &compute
	return &with, nil
}

// MicroBase is the microversion of the compute API that every cloud speaks.
const MicroBase = "2.1"

// older reports whether a microversion is before another. One that cannot be read
// is before all.
func older(a, b string) bool {
	amajor, aminor, err := utils.ParseMicroversion(a)
	if err != nil {
		return true
	}
	bmajor, bminor, err := utils.ParseMicroversion(b)
	return err == nil && (amajor < bmajor || amajor == bmajor && aminor < bminor)
}

// micro is the newest microversion of a region's compute service, read once.
type micro struct {
	gate gate.Gate
	max  string
}

func (m *micro) newest(ctx context.Context, compute *gophercloud.ServiceClient) (string, error) {
	if err := m.gate.Lock(ctx); err != nil {
		return "", err
	}
	defer m.gate.Unlock()
	if m.max != "" {
		return m.max, nil
	}
	base, err := utils.BaseVersionedEndpoint(compute.Endpoint)
	if err != nil {
		return "", err
	}
	var doc struct {
		Version *struct {
			Max string `json:"version"`
		} `json:"version"`
	}
	if _, err := compute.Get(ctx, base, &doc, nil); err != nil {
		return "", err
	}
	if doc.Version == nil {
		return "", ErrAnswer
	}
	if m.max = doc.Version.Max; m.max == "" {
		m.max = MicroBase
	}
	return m.max, nil
}
