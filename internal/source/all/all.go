// Package all is the list of source types. It is the one place, besides a type's
// own package and page, that adding a type touches.
package all

import (
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/gardener"
	"github.com/tollgate-dev/tollgate/internal/source/hetzner"
	"github.com/tollgate-dev/tollgate/internal/source/openstack"
)

// Types lists every source type that this build knows, in the order of the
// documentation. source.NewRegistry refuses a list that names a type twice.
func Types() []source.Type {
	return []source.Type{
		hetzner.Type(),
		gardener.Type(),
		openstack.Type(),
	}
}
