package openstack_test

import (
	"strings"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacktest"
)

// A cloud with several zones, which refuses disks from another zone than the
// server's: the volume is made in the server's, whatever the default is.
func TestVolumeInTheServersZone(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		volumes        []string
		apart          bool
		zone, explicit string
	}{
		"the same zones":             {volumes: []string{"az1", "az2"}, apart: true, zone: "az2"},
		"the default zone":           {volumes: []string{"az1", "az2"}, apart: true},
		"volumes have other zones":   {volumes: []string{"ceph"}, zone: "az2"},
		"a zone of the volume's own": {volumes: []string{"ceph", "ssd"}, zone: "az2", explicit: "ssd"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := openstacktest.NewBackend(t, openstacksim.Options{Zones: []string{"az1", "az2"}, VolumeZones: tc.volumes, ZonesApart: tc.apart})
			p := open(t, b, func(o *openstack.Options) { everything(o); o.Volume.Boot, o.Volume.Zone = true, tc.explicit })
			req := request("proxy-a")
			req.Placement.Zone = tc.zone
			id := create(t, p, req)
			if in := waitRunning(t, p, id); tc.zone != "" && in.Placement.Zone != tc.zone {
				t.Errorf("it is in %s", in.Placement.Zone)
			}
		})
	}
}

// What the configuration names of zones and keys is checked before anything is made.
func TestUnknownZonesAndKeys(t *testing.T) {
	t.Parallel()
	b := openstacktest.NewBackend(t, openstacksim.Options{Keys: []string{"ours"}})
	for want, change := range map[string]func(*openstack.Options){
		`volume.zone: "mars": the volume service has no such availability zone: want one of nova`: func(o *openstack.Options) { everything(o); o.Volume.Zone = "mars" },
		`keyName: "theirs": this user has no such key pair`:                                       func(o *openstack.Options) { o.KeyName = "theirs" },
	} {
		_, err := open(t, b, change).Create(t.Context(), request("proxy-a"))
		if provider.ReasonOf(err) != provider.ReasonInvalidSpec || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s: %v", want, err)
		}
	}
	if got := b.Requests(); count(b) != "" {
		t.Errorf("%s was made with %d requests", count(b), got)
	}
	create(t, open(t, b, func(o *openstack.Options) { o.KeyName = "ours" }), request("proxy-b"))
}

// A group that the configuration has twice is one: the port of an attempt that was cut
// off is as it should be, and stays.
func TestGroupTwice(t *testing.T) {
	t.Parallel()
	b := openstacktest.NewBackend(t, quick())
	twice := func(o *openstack.Options) { o.SecurityGroups = []string{"default", "default"} }
	down := b.Add(openstacksim.Fault{Kind: openstacksim.FaultAnswer, Method: "POST", Path: "/servers", Status: 500, Message: "Unexpected API Error."})
	if _, err := open(t, b, twice).Create(t.Context(), request("proxy-a")); provider.ClassOf(err) != provider.Transient {
		t.Fatal(err)
	}
	down()
	port := ids(b, "port")[0]
	create(t, open(t, b, twice), request("proxy-a"))
	if got := ids(b, "port"); len(got) != 1 || got[0] != port {
		t.Errorf("the ports are %v, want %s", got, port)
	}
}

// How many requests a whole create makes in a new process: the tests that break off
// each of them know how many there are.
func TestRequestsOfACreate(t *testing.T) {
	t.Parallel()
	b := openstacktest.NewBackend(t, quick())
	before := b.Requests()
	create(t, open(t, b, everything), request("proxy-a"))
	if n := b.Requests() - before; n > mostRequests {
		t.Errorf("a create makes %d requests: TestEveryRequestMayFail breaks off %d", n, mostRequests)
	}
}
