//go:build openstack

package openstack_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacktest"
	"github.com/tollgate-dev/tollgate/internal/provider/providertest"
)

func sortThings(all []providertest.Thing) {
	slices.SortFunc(all, func(a, b providertest.Thing) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID)) })
}

// TestContractOnTheRealServices runs the conformance kit against the real control
// plane, with all that the driver makes beside a server. Each clause has a
// project of its own.
func TestContractOnTheRealServices(t *testing.T) {
	t.Parallel()
	providertest.Run(t, providertest.Harness{
		Profile:    openstack.Type().Profile,
		NewBackend: func(tb testing.TB) providertest.Backend { return newReal(tb) },
		Open: func(tb testing.TB, b providertest.Backend, o providertest.OpenOptions) provider.Provider {
			return b.(*realBackend).open(tb, o.Config(), string(o.Credential.Reveal()), func(o *openstack.Options) {
				o.FloatingNetwork, o.Volume = "public", openstack.Volume{SizeGB: 1}
			})
		},
		Hooks:   openstacktest.Hooks(),
		Checker: true, Companions: true,
		Placement:    provider.Placement{MachineType: "m1.tiny", Image: "cirros"},
		BadPlacement: provider.Placement{MachineType: "m1.gigantic", Image: "cirros"},
		Settle:       4 * time.Second, Poll: 500 * time.Millisecond, Patience: 4 * time.Minute, Prompt: 5 * time.Second,
	})
}
