package openstack_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacktest"
)

// What a placement leaves open is filled in as the instance then is.
func TestPlacementsAreWhereInstancesAre(t *testing.T) {
	t.Parallel()
	b := openstacktest.NewBackend(t, openstacksim.Options{Regions: []string{"RegionOne", "RegionTwo"}})
	p := open(t, b, func(o *openstack.Options) { o.Regions = []string{"RegionTwo", "RegionOne"} })
	for name, pl := range map[string]provider.Placement{
		"open":    {},
		"decided": {Region: "RegionOne", MachineType: "m1.small"},
	} {
		req := request("p-" + name)
		req.Placement = pl
		in, err := p.Get(t.Context(), create(t, p, req))
		if err != nil {
			t.Fatal(err)
		}
		places := p.Placements(pl)
		if len(places) != 1 {
			t.Fatalf("%s: placements %+v, want one", name, places)
		}
		// Which zone it is only the cloud decides, and the image is not listed.
		got := provider.Placement{Region: places[0].Region, MachineType: places[0].MachineType}
		want := provider.Placement{Region: in.Placement.Region, MachineType: in.Placement.MachineType}
		if diff := cmp.Diff(got, want); diff != "" {
			t.Errorf("%s: placement (-said +is):\n%s", name, diff)
		}
	}
}
