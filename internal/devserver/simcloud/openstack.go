package simcloud

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"

	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
)

// OpenStackMachines are Machines behind the servers of an OpenStack cloud,
// simulated or one whose hypervisor only pretends. There an address belongs to a
// port and stays with it while no server runs. It is safe for concurrent use.
type OpenStackMachines struct {
	m *Machines

	mu  sync.Mutex
	ids map[string]int64 // of servers, by the cloud's id
}

var _ openstacksim.Backend = (*OpenStackMachines)(nil)

// NewOpenStackMachines returns machines with addresses of a network in
// 127.0.0.0/8.
func NewOpenStackMachines(network netip.Prefix, log *slog.Logger) *OpenStackMachines {
	return &OpenStackMachines{m: NewMachines(network, log), ids: map[string]int64{}}
}

func (o *OpenStackMachines) machine(id, name string, address netip.Addr) hetznersim.Machine {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ids[id] == 0 {
		o.ids[id] = int64(len(o.ids) + 1)
	}
	return hetznersim.Machine{ID: o.ids[id], Name: name, Address: address}
}

// Address implements openstacksim.Backend.
func (o *OpenStackMachines) Address(ctx context.Context) (netip.Addr, error) {
	return o.m.Address(ctx, hetznersim.Machine{})
}

// Start implements openstacksim.Backend: a proxy listens at DefaultPort.
func (o *OpenStackMachines) Start(ctx context.Context, id, name string, address netip.Addr) error {
	return o.m.Start(ctx, o.machine(id, name, address))
}

// Stop implements openstacksim.Backend. The address stays taken.
func (o *OpenStackMachines) Stop(ctx context.Context, id string, address netip.Addr) error {
	err := o.m.Stop(ctx, o.machine(id, "", address))
	if address.IsValid() {
		o.m.mu.Lock()
		defer o.m.mu.Unlock()
		o.m.taken[address] = 0
	}
	return err
}

// Keep implements openstacksim.Backend.
func (o *OpenStackMachines) Keep(address netip.Addr) {
	o.m.mu.Lock()
	defer o.m.mu.Unlock()
	o.m.taken[address] = 0
}

// Release implements openstacksim.Backend.
func (o *OpenStackMachines) Release(address netip.Addr) {
	o.m.mu.Lock()
	defer o.m.mu.Unlock()
	delete(o.m.taken, address)
}

// Close stops all machines.
func (o *OpenStackMachines) Close() { o.m.Close() }
