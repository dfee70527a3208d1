package openstack

import (
	"context"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloud"
)

// region holds the clients of one region and what was looked up there.
type region struct {
	*cloud.Region
	tags    bool // servers can be tagged by the call that makes them
	catalog *catalog
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
	known, _ := p.catalogs.LoadOrStore(r.Name, &catalog{})
	return &region{Region: r, tags: r.Compute.Microversion == microTags, catalog: known.(*catalog)}, nil
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
