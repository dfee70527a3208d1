package hetzner

import (
	"context"
	"errors"
	"fmt"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// made is what exists beside a server that is about to be created. The fresh
// fields say what this create has made itself, and may remove again.
type made struct {
	at            Candidate
	v4, v6        *hcloud.PrimaryIP
	freshIPs      []int64
	volume        *hcloud.Volume
	usable        bool // the volume's own actions have ended
	freshVolume   bool
	firewalls     []int64
	freshFirewall bool
}

// makeParts makes what the order needs beside the server, or finds what an
// earlier attempt has made. With an error it says what there is by then.
func (p *Provider) makeParts(ctx context.Context, o order) (m made, err error) {
	if m = p.progress.takeMade(o.req.Name); m.at != o.place.Candidate {
		m = made{at: o.place.Candidate}
	}
	if o.parts.v4 && m.v4 == nil {
		if m.v4, err = p.makeIP(ctx, o, hcloud.PrimaryIPTypeIPv4, nameV4(o.req.Name), &m); err != nil {
			return m, err
		}
	}
	if o.parts.v6 && m.v6 == nil {
		if m.v6, err = p.makeIP(ctx, o, hcloud.PrimaryIPTypeIPv6, nameV6(o.req.Name), &m); err != nil {
			return m, err
		}
	}
	if o.parts.volume && !m.usable {
		if err = p.makeVolume(ctx, o, &m); err != nil {
			return m, err
		}
		m.usable = true
	}
	if p.opt.public() {
		if m.firewalls, err = p.namedFirewalls(ctx); err != nil {
			return m, err
		}
	}
	if o.parts.fw != 0 {
		id, fresh, err := p.ensureFirewall(ctx, o.parts.fw)
		if err != nil {
			return m, err
		}
		m.firewalls, m.freshFirewall = append(m.firewalls, id), fresh
	}
	return m, nil
}

// errTaken is a companion's name that something else has.
func (p *Provider) errTaken(req provider.CreateRequest, kind, name string) error {
	return provider.Wrap(provider.Conflict, provider.OpCreate, p.name, req.Name,
		fmt.Errorf("a %s named %q exists and is not this instance's", kind, name))
}

// companionLabels mark what belongs to an instance.
func (o order) companionLabels() map[string]string {
	l := o.req.Marks.Labels()
	l[labelParts] = o.parts.String()
	return l
}

var errMoving = errors.New("it is being changed by somebody else")

// makeIP makes a primary IP of the instance's own. It goes with the server; if
// the server is never made, it is swept.
func (p *Provider) makeIP(ctx context.Context, o order, kind hcloud.PrimaryIPType, name string, m *made) (*hcloud.PrimaryIP, error) {
	for range 2 {
		res, _, err := p.client.PrimaryIP.Create(ctx, hcloud.PrimaryIPCreateOpts{
			Name: name, Type: kind, AssigneeType: "server", Location: o.place.Location, AutoDelete: hcloud.Ptr(true), Labels: o.companionLabels(),
		})
		if err == nil && (res == nil || res.PrimaryIP == nil || res.PrimaryIP.ID == 0) {
			err = errAnswer
		}
		if err == nil {
			m.freshIPs = append(m.freshIPs, res.PrimaryIP.ID)
			return res.PrimaryIP, nil
		}
		if !isCode(err, hcloud.ErrorCodeUniquenessError) {
			return nil, err
		}
		ip, _, err := p.client.PrimaryIP.GetByName(ctx, name)
		switch {
		case err != nil:
			return nil, err
		case ip == nil:
			continue // gone meanwhile
		case !marksOf(ip.Labels).SameOwner(o.req.Marks):
			return nil, p.errTaken(o.req, "primary IP", name)
		case ip.Location == nil || ip.Location.Name == o.place.Location || ip.AssigneeID != 0:
			return ip, nil
		}
		// An earlier attempt made it for another place.
		if _, err := p.client.PrimaryIP.Delete(ctx, ip); unlessCode(err, hcloud.ErrorCodeNotFound) != nil {
			return nil, err
		}
	}
	return nil, provider.Wrap(provider.Transient, provider.OpCreate, p.name, o.req.Name, fmt.Errorf("primary IP %q: %w", name, errMoving))
}

// makeVolume makes the instance's disk and waits until it can be used.
func (p *Provider) makeVolume(ctx context.Context, o order, m *made) error {
	name := nameVolume(o.req.Name)
	if m.volume != nil { // an earlier attempt was cut off while it waited
		return p.waitVolume(ctx, m.volume, nil)
	}
	for range 2 {
		opts := hcloud.VolumeCreateOpts{Name: name, Size: p.opt.Volume.SizeGB, Location: &hcloud.Location{Name: o.place.Location}, Labels: o.companionLabels()}
		if p.opt.Volume.Format != "" {
			opts.Format = hcloud.Ptr(p.opt.Volume.Format)
		}
		res, _, err := p.client.Volume.Create(ctx, opts)
		if err == nil && (res.Volume == nil || res.Volume.ID == 0) {
			err = errAnswer
		}
		if err == nil {
			m.volume, m.freshVolume = res.Volume, true
			return p.waitVolume(ctx, res.Volume, res.Action)
		}
		if !isCode(err, hcloud.ErrorCodeUniquenessError) {
			return err
		}
		v, _, err := p.client.Volume.GetByName(ctx, name)
		switch {
		case err != nil:
			return err
		case v == nil:
			continue
		case !marksOf(v.Labels).SameOwner(o.req.Marks):
			return p.errTaken(o.req, "volume", name)
		case v.Location == nil || v.Location.Name == o.place.Location || v.Server != nil:
			m.volume = v
			return p.waitVolume(ctx, v, nil)
		}
		if _, err := p.client.Volume.Delete(ctx, v); unlessCode(err, hcloud.ErrorCodeNotFound) != nil {
			return err
		}
	}
	return provider.Wrap(provider.Transient, provider.OpCreate, p.name, o.req.Name, fmt.Errorf("volume %q: %w", name, errMoving))
}

func (p *Provider) waitVolume(ctx context.Context, v *hcloud.Volume, a *hcloud.Action) error {
	ctx, cancel := p.limited(ctx)
	defer cancel()
	if err := p.waitAction(ctx, a); err != nil {
		return err
	}
	for a == nil && v != nil && v.Status == hcloud.VolumeStatusCreating {
		if err := p.pause(ctx); err != nil {
			return err
		}
		var err error
		if v, _, err = p.client.Volume.GetByID(ctx, v.ID); err != nil {
			return err
		}
	}
	return nil
}
