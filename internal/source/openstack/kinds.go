package openstack

import "github.com/tollgate-dev/tollgate/internal/source"

func specs() []spec { return []spec{servers(), volumes(), floatingIPs()} }

func kinds() (out []source.Kind) {
	for _, k := range specs() {
		out = append(out, k.Kind)
	}
	return out
}
