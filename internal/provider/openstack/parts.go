package openstack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloud"
	"github.com/tollgate-dev/tollgate/internal/provider"
)

func mapKeys[K comparable, V any](m map[K]V) iter.Seq[K] { return maps.Keys(m) }

// made is what was made beside a server.
type made struct{ port, floating, volume string }

// port is what we read of a port.
type port struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
	Device      string `json:"device_id"`
	Created     string `json:"created_at"`
	Network     string `json:"network_id"`
	Fixed       []struct {
		Subnet string `json:"subnet_id"`
	} `json:"fixed_ips"`
	Groups []string `json:"security_groups"`
}

// fits reports whether a port is where the configuration says, and guarded by it.
func (p port) fits(pl place) bool {
	// The network service may add addresses of other subnets, those of IPv6.
	there := pl.subnet == ""
	for _, f := range p.Fixed {
		there = there || f.Subnet == pl.subnet
	}
	return there && p.Network == pl.network && (len(pl.groups) == 0 ||
		slices.Equal(slices.Sorted(slices.Values(p.Groups)), slices.Sorted(slices.Values(pl.groups))))
}

func (p port) label() label { l, _ := parseLabel(p.Description); return l }

// floatingIP is what we read of a floating IP.
type floatingIP struct {
	ID          string `json:"id"`
	Description string `json:"description"`
	Port        string `json:"port_id"`
	Address     string `json:"floating_ip_address"`
	Created     string `json:"created_at"`
}

func (f floatingIP) label() label { l, _ := parseLabel(f.Description); return l }

// volume is what we read of a volume.
type volume struct {
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	Status      string            `json:"status"`
	Metadata    map[string]string `json:"metadata"`
	Created     string            `json:"created_at"`
	Attachments []struct {
		Server string `json:"server_id"`
	} `json:"attachments"`
}

func (v volume) label() label { return label{v.Metadata[metaInstance], marksOf(v.Metadata)} }

func (v volume) server() string {
	for _, a := range v.Attachments {
		if a.Server != "" {
			return a.Server
		}
	}
	return ""
}

// portsOf lists the ports of an instance, the one that stays first.
func (p *Provider) portsOf(ctx context.Context, r *region, instance string) ([]port, error) {
	all, err := cloud.List[port](ctx, r.Network, "ports", "ports", r.own(url.Values{"name": {namePort(instance)}}), 0)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(x port) bool { return x.label().instance != instance })
	slices.SortFunc(all, func(a, b port) int {
		return cmp.Or(-boolCompare(a.Device != "", b.Device != ""), cmp.Compare(a.Created, b.Created), cmp.Compare(a.ID, b.ID))
	})
	return all, nil
}

// addresses lists floating IPs: none where the network service has no routers and
// does not know the word.
func (p *Provider) addresses(ctx context.Context, r *region, q url.Values) ([]floatingIP, error) {
	all, err := cloud.List[floatingIP](ctx, r.Network, "floatingips", "floatingips", r.own(q), 0)
	if cloud.TypeOf(err) == cloud.TypeNoResource && cloud.NotThere(err) {
		return nil, nil
	}
	return all, err
}

// floatingOf lists the floating IPs of an instance. They have no name.
func (p *Provider) floatingOf(ctx context.Context, r *region, q url.Values, instance string) ([]floatingIP, error) {
	all, err := p.addresses(ctx, r, q)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(x floatingIP) bool { return x.label().instance != instance })
	slices.SortFunc(all, func(a, b floatingIP) int {
		return cmp.Or(-boolCompare(a.Port != "", b.Port != ""), cmp.Compare(a.Created, b.Created), cmp.Compare(a.ID, b.ID))
	})
	return all, nil
}

func (p *Provider) volumesOf(ctx context.Context, r *region, instance string) ([]volume, error) {
	all, err := cloud.List[volume](ctx, r.Volume, "volumes/detail", "volumes", url.Values{"name": {nameVolume(instance)}}, p.opt.PageSize)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(x volume) bool { return x.label().instance != instance })
	slices.SortFunc(all, func(a, b volume) int {
		return cmp.Or(-boolCompare(a.server() != "", b.server() != ""), cmp.Compare(a.Created, b.Created), cmp.Compare(a.ID, b.ID))
	})
	return all, nil
}

func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// order is one attempt to make a server.
type order struct {
	req   provider.CreateRequest
	place place
	parts parts
}

func (o order) label() label { return label{o.req.Name, o.req.Marks} }

// ensureParts makes what a server needs beside it, or finds what an earlier
// attempt has made. m grows with each step, so that what was made before an
// error is known. holder is the server that uses the port already: then there
// is one of this name, whether it is listed or not.
func (p *Provider) ensureParts(ctx context.Context, r *region, o order, m *made) (holder string, err error) {
	if m.port == "" {
		if holder, err = p.ensurePort(ctx, r, o, m); err != nil || holder != "" {
			return holder, err
		}
	}
	if o.parts.floating && m.floating == "" {
		if err := p.ensureFloating(ctx, r, o, m); err != nil {
			return "", err
		}
	}
	if o.parts.volume {
		return p.ensureVolume(ctx, r, o, m)
	}
	return "", nil
}

func (p *Provider) ensurePort(ctx context.Context, r *region, o order, m *made) (holder string, err error) {
	there, err := p.portsOf(ctx, r, o.req.Name)
	if err != nil {
		return "", err
	}
	for _, x := range there {
		switch {
		case !x.label().marks.SameOwner(o.req.Marks):
		case x.Device != "" || x.fits(o.place):
			m.port = x.ID
			return x.Device, nil
		default: // of an attempt before the configuration was changed
			if err := p.dropPort(ctx, r, x.ID); err != nil {
				return "", err
			}
		}
	}
	opts := ports.CreateOpts{NetworkID: o.place.network, Name: namePort(o.req.Name), Description: o.label().String()}
	if o.place.subnet != "" {
		opts.FixedIPs = []ports.IP{{SubnetID: o.place.subnet}}
	}
	if len(o.place.groups) > 0 {
		opts.SecurityGroups = &o.place.groups
	}
	var x port
	if err := ports.Create(ctx, r.Network, opts).ExtractInto(&x); err != nil {
		return "", err
	}
	if x.ID == "" {
		return "", cloud.ErrAnswer
	}
	m.port = x.ID
	return "", nil
}

// ensureFloating makes a floating IP that is the port's from the start: there is
// none without a port, however often a create breaks off.
func (p *Provider) ensureFloating(ctx context.Context, r *region, o order, m *made) error {
	mine := url.Values{"description": {o.label().String()}}
	there, err := p.floatingOf(ctx, r, mine, o.req.Name)
	if err != nil {
		return err
	}
	// One on another port belongs to a create at the same time, whose server it is
	// the address of, and stays there.
	for _, free := range []string{m.port, ""} {
		if i := slices.IndexFunc(there, func(f floatingIP) bool { return f.Port == free }); i >= 0 {
			return p.associate(ctx, r, there[i], m)
		}
	}
	var x floatingIP
	err = floatingips.Create(ctx, r.Network, floatingips.CreateOpts{
		FloatingNetworkID: o.place.floating, PortID: m.port, Description: o.label().String(),
	}).ExtractInto(&x)
	if cloud.TypeOf(err) == cloud.TypeHasFloating {
		// An answer was lost, or somebody makes the same instance beside us.
		if there, lerr := p.floatingOf(ctx, r, url.Values{"port_id": {m.port}}, o.req.Name); lerr != nil {
			return lerr
		} else if len(there) > 0 {
			return p.associate(ctx, r, there[0], m)
		}
	}
	if err != nil {
		return err
	}
	if x.ID == "" {
		return cloud.ErrAnswer
	}
	m.floating = x.ID
	return nil
}

// associate gives a floating IP of the instance to its port, if it is not yet.
func (p *Provider) associate(ctx context.Context, r *region, f floatingIP, m *made) error {
	if f.Port != m.port {
		if err := floatingips.Update(ctx, r.Network, f.ID, floatingips.UpdateOpts{PortID: &m.port}).Err; err != nil {
			return err
		}
	}
	m.floating = f.ID
	return nil
}

// errVolume is a volume that its service could not make.
var errVolume = errors.New("the volume ended in error: no storage has room for it")

func (p *Provider) ensureVolume(ctx context.Context, r *region, o order, m *made) (holder string, err error) {
	var v *volume
	if m.volume == "" {
		there, err := p.volumesOf(ctx, r, o.req.Name)
		if err != nil {
			return "", err
		}
		for _, x := range there {
			// One whose delete failed is the operator's to see to.
			if x.label().marks.SameOwner(o.req.Marks) && x.Status != "deleting" && !strings.HasPrefix(x.Status, "error_") {
				v = &x
				break
			}
		}
	} else if v, err = p.volume(ctx, r, m.volume); err != nil {
		return "", err
	}
	if v == nil {
		labels := o.req.Marks.Labels()
		labels[metaInstance] = o.req.Name
		opts := volumes.CreateOpts{Size: p.opt.Volume.SizeGB, Name: nameVolume(o.req.Name), VolumeType: p.opt.Volume.Type,
			AvailabilityZone: o.place.volume, Metadata: labels}
		if p.opt.Volume.Boot {
			opts.ImageID = o.place.image
		}
		var x volume
		if err := volumes.Create(ctx, r.Volume, opts, nil).ExtractInto(&x); err != nil {
			return "", err
		}
		if x.ID == "" {
			return "", cloud.ErrAnswer
		}
		v = &x
	}
	m.volume = v.ID
	ctx, cancel := p.limited(ctx)
	defer cancel()
	for {
		switch v.Status {
		case "available":
			return "", nil
		case "in-use", "attaching", "reserved":
			if s := v.server(); s != "" {
				return s, nil
			}
		case "error":
			id := m.volume
			m.volume = ""
			return "", errors.Join(errVolume, p.deleteVolume(ctx, r, volume{ID: id, Status: "error"}))
		}
		status := v.Status
		if err = p.pause(ctx); err == nil {
			v, err = p.volume(ctx, r, m.volume)
		}
		if err != nil {
			return "", slow(err, "volume", m.volume, status)
		}
		if v == nil {
			m.volume = ""
			return "", fmt.Errorf("volume of %s: vanished while it was made", o.req.Name)
		}
	}
}
