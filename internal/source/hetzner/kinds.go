package hetzner

import (
	"context"
	"encoding/json"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// Verbs beyond those of every life.
const (
	verbUpgrade   = "upgrade"
	verbDowngrade = "downgrade"
	// verbResize is a change of size; of a server, one whose direction is not
	// known.
	verbResize       = source.VerbResize
	verbPowerOn      = source.VerbPowerOn
	verbPowerOff     = source.VerbPowerOff
	verbAddTarget    = "add_target"
	verbRemoveTarget = "remove_target"
)

// state is a resource as it is.
type state struct {
	name, region string
	size         event.Size
}

// spec is one kind of resource.
type spec struct {
	source.Kind
	// verbs are what the vendor's commands mean. All others mean nothing to usage:
	// a reboot, an attachment, a new password. A shutdown is asked of the guest,
	// and the vendor has no action for the moment at which it obeys.
	verbs map[string]string
	// silent resources begin without an action.
	silent bool

	list    func(ctx context.Context, c *hcloud.Client, o hcloud.ActionListOpts) ([]*hcloud.Action, *hcloud.Response, error)
	listFor func(ctx context.Context, c *hcloud.Client, id int64, o hcloud.ActionListOpts) ([]*hcloud.Action, *hcloud.Response, error)
	// get reads one resource, nil when there is none.
	get func(ctx context.Context, c *hcloud.Client, id int64) (*state, error)
	// all reads one page of all resources.
	all func(ctx context.Context, c *hcloud.Client, o hcloud.ListOpts) (map[int64]state, *hcloud.Response, error)
	// existing reads an entry of the list.
	existing func(raw json.RawMessage) source.Existing
}

// sized reports whether a verb changes the size of what exists.
func sized(verb string) bool {
	switch verb {
	case verbResize, verbAddTarget, verbRemoveTarget:
		return true
	}
	return false
}

func specs() []spec { return []spec{servers(), volumes(), floatingIPs(), balancers()} }

func servers() spec {
	return spec{
		Kind: source.Kind{Type: event.Server, Verbs: []string{
			source.VerbCreate, source.VerbDelete, verbUpgrade, verbDowngrade, verbResize, verbPowerOn, verbPowerOff}},
		verbs: map[string]string{
			"create_server": source.VerbCreate, "delete_server": source.VerbDelete, "change_server_type": verbResize,
			"start_server": verbPowerOn, "stop_server": verbPowerOff, "shutdown_server": verbPowerOff,
		},
		existing: existingServer,
		list: func(ctx context.Context, c *hcloud.Client, o hcloud.ActionListOpts) ([]*hcloud.Action, *hcloud.Response, error) {
			return c.Server.Action.List(ctx, o)
		},
		listFor: func(ctx context.Context, c *hcloud.Client, id int64, o hcloud.ActionListOpts) ([]*hcloud.Action, *hcloud.Response, error) {
			return c.Server.Action.ListFor(ctx, &hcloud.Server{ID: id}, o)
		},
		get: func(ctx context.Context, c *hcloud.Client, id int64) (*state, error) {
			v, _, err := c.Server.GetByID(ctx, id)
			if err != nil || v == nil {
				return nil, err
			}
			st := serverState(v)
			return &st, nil
		},
		all: func(ctx context.Context, c *hcloud.Client, o hcloud.ListOpts) (map[int64]state, *hcloud.Response, error) {
			list, resp, err := c.Server.List(ctx, hcloud.ServerListOpts{ListOpts: o, Sort: []string{"id:asc"}})
			return states(list, func(v *hcloud.Server) (int64, state) { return v.ID, serverState(v) }), resp, err
		},
	}
}

// serverState leaves out what the vendor left out: no field is taken for zero.
func serverState(v *hcloud.Server) state {
	st := state{name: v.Name, size: event.Size{}}
	if v.Location != nil {
		st.region = v.Location.Name
	}
	if t := v.ServerType; t != nil {
		if t.Cores > 0 {
			st.size[event.VCPUs] = event.Int(t.Cores)
		}
		if t.Memory > 0 {
			st.size[event.RAMGB] = event.Float(t.Memory)
		}
		if t.Name != "" {
			st.size[event.ServerType] = event.Text(t.Name)
		}
		if t.Disk > 0 {
			st.size[event.DiskGB] = event.Int(t.Disk)
		}
	}
	// A server keeps its disk when its type is changed without the disk.
	if v.PrimaryDiskSize > 0 {
		st.size[event.DiskGB] = event.Int(v.PrimaryDiskSize)
	}
	return st
}

func volumes() spec {
	return spec{
		Kind:     source.Kind{Type: event.Volume, Verbs: []string{source.VerbCreate, source.VerbDelete, verbResize}, Silent: []string{source.VerbDelete}},
		verbs:    map[string]string{"create_volume": source.VerbCreate, "resize_volume": verbResize},
		existing: existingVolume,
		list: func(ctx context.Context, c *hcloud.Client, o hcloud.ActionListOpts) ([]*hcloud.Action, *hcloud.Response, error) {
			return c.Volume.Action.List(ctx, o)
		},
		listFor: func(ctx context.Context, c *hcloud.Client, id int64, o hcloud.ActionListOpts) ([]*hcloud.Action, *hcloud.Response, error) {
			return c.Volume.Action.ListFor(ctx, &hcloud.Volume{ID: id}, o)
		},
		get: func(ctx context.Context, c *hcloud.Client, id int64) (*state, error) {
			v, _, err := c.Volume.GetByID(ctx, id)
			if err != nil || v == nil {
				return nil, err
			}
			st := volumeState(v)
			return &st, nil
		},
		all: func(ctx context.Context, c *hcloud.Client, o hcloud.ListOpts) (map[int64]state, *hcloud.Response, error) {
			list, resp, err := c.Volume.List(ctx, hcloud.VolumeListOpts{ListOpts: o, Sort: []string{"id:asc"}})
			return states(list, func(v *hcloud.Volume) (int64, state) { return v.ID, volumeState(v) }), resp, err
		},
	}
}

func volumeState(v *hcloud.Volume) state {
	st := state{name: v.Name, size: event.Size{}}
	if v.Location != nil {
		st.region = v.Location.Name
	}
	if v.Size > 0 {
		st.size[event.SizeGB] = event.Int(v.Size)
	}
	return st
}

func floatingIPs() spec {
	return spec{
		Kind:     source.Kind{Type: event.FloatingIP, Verbs: []string{source.VerbCreate, source.VerbDelete}, Silent: []string{source.VerbDelete}},
		silent:   true,
		existing: existingFloating,
		list: func(ctx context.Context, c *hcloud.Client, o hcloud.ActionListOpts) ([]*hcloud.Action, *hcloud.Response, error) {
			return c.FloatingIP.Action.List(ctx, o)
		},
		listFor: func(ctx context.Context, c *hcloud.Client, id int64, o hcloud.ActionListOpts) ([]*hcloud.Action, *hcloud.Response, error) {
			return c.FloatingIP.Action.ListFor(ctx, &hcloud.FloatingIP{ID: id}, o)
		},
		get: func(ctx context.Context, c *hcloud.Client, id int64) (*state, error) {
			v, _, err := c.FloatingIP.GetByID(ctx, id)
			if err != nil || v == nil {
				return nil, err
			}
			st := floatingState(v)
			return &st, nil
		},
		all: func(ctx context.Context, c *hcloud.Client, o hcloud.ListOpts) (map[int64]state, *hcloud.Response, error) {
			list, resp, err := c.FloatingIP.List(ctx, hcloud.FloatingIPListOpts{ListOpts: o, Sort: []string{"id:asc"}})
			return states(list, func(v *hcloud.FloatingIP) (int64, state) { return v.ID, floatingState(v) }), resp, err
		},
	}
}

// floatingState has the IP version as the word "4" or "6", and the vendor's own
// word as the type.
func floatingState(v *hcloud.FloatingIP) state {
	st := state{name: v.Name, size: event.Size{}}
	if v.HomeLocation != nil {
		st.region = v.HomeLocation.Name
	}
	if v.Type != "" {
		st.size[event.Kind] = event.Text(string(v.Type))
	}
	switch v.Type {
	case hcloud.FloatingIPTypeIPv4:
		st.size[event.IPVersion] = event.Text("4")
	case hcloud.FloatingIPTypeIPv6:
		st.size[event.IPVersion] = event.Text("6")
	}
	return st
}

func balancers() spec {
	return spec{
		Kind: source.Kind{Type: event.LoadBalancer, Verbs: []string{
			source.VerbCreate, source.VerbDelete, verbAddTarget, verbRemoveTarget, verbResize}},
		verbs: map[string]string{
			"create_load_balancer": source.VerbCreate, "delete_load_balancer": source.VerbDelete, "change_load_balancer_type": verbResize,
			"add_target": verbAddTarget, "remove_target": verbRemoveTarget,
		},
		existing: existingBalancer,
		list: func(ctx context.Context, c *hcloud.Client, o hcloud.ActionListOpts) ([]*hcloud.Action, *hcloud.Response, error) {
			return c.LoadBalancer.Action.List(ctx, o)
		},
		listFor: func(ctx context.Context, c *hcloud.Client, id int64, o hcloud.ActionListOpts) ([]*hcloud.Action, *hcloud.Response, error) {
			return c.LoadBalancer.Action.ListFor(ctx, &hcloud.LoadBalancer{ID: id}, o)
		},
		get: func(ctx context.Context, c *hcloud.Client, id int64) (*state, error) {
			v, _, err := c.LoadBalancer.GetByID(ctx, id)
			if err != nil || v == nil {
				return nil, err
			}
			st := balancerState(v)
			return &st, nil
		},
		all: func(ctx context.Context, c *hcloud.Client, o hcloud.ListOpts) (map[int64]state, *hcloud.Response, error) {
			list, resp, err := c.LoadBalancer.List(ctx, hcloud.LoadBalancerListOpts{ListOpts: o, Sort: []string{"id:asc"}})
			return states(list, func(v *hcloud.LoadBalancer) (int64, state) { return v.ID, balancerState(v) }), resp, err
		},
	}
}

func balancerState(v *hcloud.LoadBalancer) state {
	st := state{name: v.Name, size: event.Size{event.Targets: event.Int(len(v.Targets))}}
	if v.Location != nil {
		st.region = v.Location.Name
	}
	if v.LoadBalancerType != nil && v.LoadBalancerType.Name != "" {
		st.size[event.Kind] = event.Text(v.LoadBalancerType.Name)
	}
	return st
}

func states[T any](list []T, of func(T) (int64, state)) map[int64]state {
	out := make(map[int64]state, len(list))
	for _, v := range list {
		id, st := of(v)
		out[id] = st
	}
	return out
}
