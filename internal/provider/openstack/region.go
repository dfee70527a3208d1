package openstack

import (
	"context"
	"net/url"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloud"
)

// region holds the clients of one region and what was looked up there.
type region struct {
	*cloud.Region
	tags    bool // servers can be tagged by the call that makes them
	catalog *catalog
	project string // id, "" if the login does not say
}

// own narrows a listing of the network service down to the project: an admin sees
// all of them there.
func (r *region) own(q url.Values) url.Values {
	if r.project == "" {
		return q
	}
	out := url.Values{"project_id": {r.project}}
	for k, v := range q {
		out[k] = v
	}
	return out
}

// at returns the clients of a region, "" being the default, with the compute
// service's microversion agreed on.
func (p *Provider) at(ctx context.Context, name string) (*region, error) {
	r, err := p.cloud.At(ctx, name)
	if err != nil {
		return nil, err
	}
	if r, err = r.Speaking(ctx, microTags); err != nil {
		return nil, err
	}
	s, err := p.cloud.Connect(ctx)
	if err != nil {
		return nil, err
	}
	known, _ := p.catalogs.LoadOrStore(r.Name, &catalog{})
	return &region{Region: r, tags: r.Compute.Microversion == microTags, catalog: known.(*catalog), project: s.Project}, nil
}

// everywhere returns all configured regions.
func (p *Provider) everywhere(ctx context.Context) ([]*region, error) {
	s, err := p.cloud.Connect(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]*region, 0, len(s.Order))
	for _, name := range s.Order {
		r, err := p.at(ctx, name)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}
