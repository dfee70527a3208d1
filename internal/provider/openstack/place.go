package openstack

import (
	"cmp"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Placements implements provider.Placer. The region of a placement without one is
// that of the configuration; what clouds.yaml or the environment says is not known
// here.
func (p *Provider) Placements(pl provider.Placement) []provider.Placement {
	if len(p.opt.Regions) > 0 {
		pl.Region = cmp.Or(pl.Region, p.opt.Regions[0])
	}
	pl.Zone, pl.MachineType, pl.Image = cmp.Or(pl.Zone, p.opt.Zone), cmp.Or(pl.MachineType, p.opt.Flavor), cmp.Or(pl.Image, p.opt.Image)
	return []provider.Placement{pl}
}

var _ provider.Placer = (*Provider)(nil)
