// Package all is the list of provider types. It is the one place, besides a
// type's own package and page, that adding a type touches.
package all

import (
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner"
	"github.com/tollgate-dev/tollgate/internal/provider/kubernetes"
	"github.com/tollgate-dev/tollgate/internal/provider/local"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack"
)

// Types lists every provider type that this build knows, in the order of the
// documentation. provider.NewRegistry refuses a list that names a type twice.
func Types() []provider.Type {
	return []provider.Type{
		local.Type(),
		hetzner.Type(),
		kubernetes.Type(),
		openstack.Type(),
	}
}
