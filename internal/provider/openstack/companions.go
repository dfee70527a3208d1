package openstack

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloud"
	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Kinds of companions.
const (
	KindPort       = "port"
	KindFloatingIP = "floating_ip"
	KindVolume     = "volume"
)

// companionID is a companion's id: <region>/<id>.
func companionID(r *region, id string) string { return url.PathEscape(r.Name) + "/" + id }

// ListCompanions implements provider.Companions. It lists what carries our marks
// whatever the configuration makes today.
func (p *Provider) ListCompanions(ctx context.Context, sel provider.Selector) ([]provider.Companion, error) {
	regions, err := p.everywhere(ctx)
	out := []provider.Companion{}
	for _, r := range regions {
		var in []provider.Companion
		if in, err = p.companions(ctx, r, sel); err != nil {
			break
		}
		out = append(out, in...)
	}
	if err != nil {
		return nil, p.classify(ctx, provider.OpListCompanions, "", err)
	}
	return out, nil
}

func (p *Provider) companions(ctx context.Context, r *region, sel provider.Selector) ([]provider.Companion, error) {
	var out []provider.Companion
	var free []int // of out: those that no server is known of
	add := func(kind, id, name, created, server string, l label) {
		if !sel.Matches(l.marks) {
			return
		}
		c := provider.Companion{Kind: kind, ID: companionID(r, id), Name: name, Marks: l.marks, CreatedAt: cloud.ParseTime(created)}
		if server != "" {
			c.AttachedTo = instanceKey{r.Name, server, l.instance}.id()
		} else {
			free = append(free, len(out))
		}
		out = append(out, c)
	}
	// The network service has no filter by the beginning of a description.
	all, err := cloud.List[port](ctx, r.Network, "ports", "ports", r.own(nil), 0)
	if err != nil {
		return nil, err
	}
	device := map[string]string{}
	for _, x := range all {
		device[x.ID] = x.Device
		if l, ok := parseLabel(x.Description); ok {
			add(KindPort, x.ID, x.Name, x.Created, x.Device, l)
		}
	}
	addresses, err := p.addresses(ctx, r, nil)
	if err != nil {
		return nil, err
	}
	for _, f := range addresses {
		if l, ok := parseLabel(f.Description); ok {
			add(KindFloatingIP, f.ID, f.Address, f.Created, device[f.Port], l)
		}
	}
	if r.Volume != nil {
		volumes, err := cloud.List[volume](ctx, r.Volume, "volumes/detail", "volumes", nil, p.opt.PageSize)
		if err != nil {
			return nil, err
		}
		for _, v := range volumes {
			if _, managed := provider.MarksFromLabels(v.Metadata); managed && v.Metadata[metaInstance] != "" {
				add(KindVolume, v.ID, v.Name, v.Created, v.server(), v.label())
			}
		}
	}
	return out, p.claim(ctx, r, sel, out, free)
}

// claim finds the servers of companions that are not attached: one that is being
// built takes its port and its volume late, and needs them all the same.
func (p *Provider) claim(ctx context.Context, r *region, sel provider.Selector, out []provider.Companion, free []int) error {
	if len(free) == 0 {
		return nil
	}
	servers, err := p.managed(ctx, r, sel)
	if err != nil {
		return err
	}
	byOwner := map[provider.Marks][]server{}
	for _, s := range servers {
		m := marksOf(s.Metadata)
		m.SpecHash = ""
		byOwner[m] = append(byOwner[m], s)
	}
	for _, i := range free {
		m := out[i].Marks
		m.SpecHash = ""
		for _, s := range byOwner[m] {
			if s.instance() == p.instanceName(out[i]) || out[i].Kind == KindFloatingIP {
				out[i].AttachedTo = instanceKey{r.Name, s.ID, s.instance()}.id()
			}
		}
	}
	return nil
}

// instanceName is the instance that a companion's name says.
func (p *Provider) instanceName(c provider.Companion) string {
	if n, ok := strings.CutSuffix(c.Name, "-port"); ok {
		return n
	}
	n, _ := strings.CutSuffix(c.Name, "-disk")
	return n
}

// DeleteCompanion implements provider.Companions.
func (p *Provider) DeleteCompanion(ctx context.Context, c provider.Companion) error {
	region, id, ok := strings.Cut(c.ID, "/")
	region, uerr := url.PathUnescape(region)
	if !ok || uerr != nil || region == "" || !uuidForm.MatchString(id) {
		return p.noCompanion(c)
	}
	r, err := p.at(ctx, region)
	if err == nil {
		switch c.Kind {
		case KindPort:
			err = p.deletePort(ctx, r, c, id)
		case KindFloatingIP:
			err = p.deleteAddress(ctx, r, c, id)
		case KindVolume:
			err = p.deleteDisk(ctx, r, c, id)
		default:
			return p.noCompanion(c)
		}
	}
	if err != nil {
		return p.classify(ctx, provider.OpDeleteCompanion, c.ID, err)
	}
	p.log.DebugContext(ctx, "deleted", slog.String("companion", c.ID), slog.String("kind", c.Kind))
	return nil
}

func (p *Provider) noCompanion(c provider.Companion) error {
	return provider.WithReason(provider.Wrap(provider.Permanent, provider.OpDeleteCompanion, p.name, c.ID,
		fmt.Errorf("%s %q is no companion: want %s, %s or %s with <region>/<id>", c.Kind, c.ID, KindPort, KindFloatingIP, KindVolume)),
		provider.ReasonMalformedID)
}

// mine says whether a thing is what the companion says that it is: its id could
// be from a mistake, its marks cannot.
func (p *Provider) mine(c provider.Companion, marks provider.Marks) error {
	if marks.SameOwner(c.Marks) {
		return nil
	}
	return provider.Wrap(provider.Conflict, provider.OpDeleteCompanion, p.name, c.ID,
		fmt.Errorf("%s belongs to uid %q of installation %q and stays", c.Kind, marks.UID, marks.Installation))
}

// deletePort deletes a port. It may be in use: the compute service is told.
func (p *Provider) deletePort(ctx context.Context, r *region, c provider.Companion, id string) error {
	var x port
	if err := ports.Get(ctx, r.Network, id).ExtractInto(&x); err != nil {
		return gone(err)
	}
	if err := p.mine(c, x.label().marks); err != nil {
		return err
	}
	return p.dropPort(ctx, r, id)
}

func (p *Provider) dropPort(ctx context.Context, r *region, id string) error {
	return gone(ports.Delete(ctx, r.Network, id).ExtractErr())
}

func (p *Provider) deleteAddress(ctx context.Context, r *region, c provider.Companion, id string) error {
	var x floatingIP
	if err := floatingips.Get(ctx, r.Network, id).ExtractInto(&x); err != nil {
		return gone(err)
	}
	if err := p.mine(c, x.label().marks); err != nil {
		return err
	}
	return p.dropAddress(ctx, r, id)
}

func (p *Provider) dropAddress(ctx context.Context, r *region, id string) error {
	return gone(floatingips.Delete(ctx, r.Network, id).ExtractErr())
}

func (p *Provider) deleteDisk(ctx context.Context, r *region, c provider.Companion, id string) error {
	if r.Volume == nil {
		return cloud.BadConfig("volume: region %q has no volume service", r.Name)
	}
	v, err := p.volume(ctx, r, id)
	if err != nil || v == nil {
		return err
	}
	if err := p.mine(c, v.label().marks); err != nil {
		return err
	}
	return p.deleteVolume(ctx, r, *v)
}
