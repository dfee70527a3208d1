package simcloud_test

import (
	"context"
	"log/slog"
	"net/netip"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/devserver/simcloud"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacktest"
)

// Servers of a simulated OpenStack cloud are proxies at the addresses of their
// ports, and are not when they are off or gone.
func TestOpenStackServersAreProxies(t *testing.T) {
	t.Parallel()
	machines := simcloud.NewOpenStackMachines(netip.MustParsePrefix("127.81.0.0/29"), slog.New(slog.DiscardHandler))
	defer machines.Close()
	cloud := openstacktest.NewBackend(t, openstacksim.Options{Backend: machines})
	p := cloud.Open(t, provider.Config{Name: "cloud", Installation: "acme", Secret: func(context.Context, string) (provider.Sensitive, error) {
		return provider.NewSensitive([]byte("any")), nil
	}}, nil)
	const port = simcloud.DefaultPort
	one, two := create(t, p, "one", port), create(t, p, "two", port)
	if one.IP == two.IP {
		t.Errorf("both are at %s", one.IP)
	}
	for _, in := range []provider.Instance{one, two} {
		if err := through(t, in, port); err != nil {
			t.Errorf("through %s: %v", in.Name, err)
		}
	}
	cloud.Stop(t, "one")
	if err := through(t, one, port); err == nil {
		t.Error("the proxy of a server that is off answers")
	}
	if three := create(t, p, "three", port); three.IP == one.IP {
		t.Error("the address of a server that is off was given to another one")
	}
	for range 3 { // more than the network has addresses
		in := create(t, p, "again", port)
		if err := p.Delete(t.Context(), in.ID); err != nil {
			t.Fatal(err)
		}
		if err := through(t, in, port); err == nil {
			t.Error("the proxy of a deleted server answers")
		}
	}
}
