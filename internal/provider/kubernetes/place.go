package kubernetes

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Placements implements provider.Placer. A Pod without a machine type has the
// configured resources, which have no name.
func (p *Provider) Placements(pl provider.Placement) []provider.Placement {
	pl.Region = cmp.Or(pl.Region, p.opt.NodeSelector[corev1.LabelTopologyRegion])
	pl.Zone = cmp.Or(pl.Zone, p.opt.NodeSelector[corev1.LabelTopologyZone])
	pl.Image = cmp.Or(pl.Image, p.opt.Image)
	return []provider.Placement{pl}
}

var _ provider.Placer = (*Provider)(nil)
