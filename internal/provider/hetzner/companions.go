package hetzner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Kinds of companions.
const (
	KindPrimaryIP = "primary_ip"
	KindVolume    = "volume"
	// KindFirewall is the shared firewall. It has no owner, so it is listed only
	// when it guards nothing and no owner is asked for.
	KindFirewall = "firewall"
)

// ListCompanions implements provider.Companions. It lists what carries our marks
// whatever the configuration makes today.
func (p *Provider) ListCompanions(ctx context.Context, sel provider.Selector) ([]provider.Companion, error) {
	out, err := p.listCompanions(ctx, sel)
	if err != nil {
		return nil, p.classify(ctx, provider.OpListCompanions, "", err)
	}
	return out, nil
}

func (p *Provider) listCompanions(ctx context.Context, sel provider.Selector) ([]provider.Companion, error) {
	opts := hcloud.ListOpts{PerPage: perPage, LabelSelector: selectorOf(sel)}
	var out []provider.Companion
	ips, err := p.client.PrimaryIP.AllWithOpts(ctx, hcloud.PrimaryIPListOpts{ListOpts: opts})
	if err != nil {
		return nil, err
	}
	for _, ip := range ips {
		out = append(out, provider.Companion{Kind: KindPrimaryIP, ID: strconv.FormatInt(ip.ID, 10), Name: ip.Name, Marks: marksOf(ip.Labels),
			CreatedAt: ip.Created.UTC(), AttachedTo: attachedTo(ip.AssigneeID, ip.Name, ip.Labels)})
	}
	volumes, err := p.client.Volume.AllWithOpts(ctx, hcloud.VolumeListOpts{ListOpts: opts})
	if err != nil {
		return nil, err
	}
	for _, v := range volumes {
		var server int64
		if v.Server != nil {
			server = v.Server.ID
		}
		out = append(out, provider.Companion{Kind: KindVolume, ID: strconv.FormatInt(v.ID, 10), Name: v.Name, Marks: marksOf(v.Labels),
			CreatedAt: v.Created.UTC(), AttachedTo: attachedTo(server, v.Name, v.Labels)})
	}
	if err := p.claim(ctx, sel, out); err != nil {
		return nil, err
	}
	if sel.UID != "" || sel.Namespace != "" || sel.Proxy != "" {
		return out, nil
	}
	firewalls, err := p.client.Firewall.AllWithOpts(ctx, hcloud.FirewallListOpts{ListOpts: opts})
	if err != nil {
		return nil, err
	}
	for _, f := range firewalls {
		if len(f.AppliedTo) == 0 {
			out = append(out, provider.Companion{Kind: KindFirewall, ID: strconv.FormatInt(f.ID, 10), Name: f.Name, Marks: marksOf(f.Labels),
				CreatedAt: f.Created.UTC()})
		}
	}
	return out, nil
}

// claimByName is up to how many free companions are looked up one by one rather
// than in a listing of all servers.
const claimByName = 4

// claim finds the servers of companions that are not attached: one that is being
// built has its volume attached at the end only, and the volume is in use all
// the same.
func (p *Provider) claim(ctx context.Context, sel provider.Selector, list []provider.Companion) error {
	byName := map[string]*hcloud.Server{}
	for _, c := range list {
		if c.AttachedTo == "" {
			byName[instanceOf(c.Name)] = nil
		}
	}
	if len(byName) > claimByName {
		servers, err := p.listServers(ctx, selectorOf(sel))
		if err != nil {
			return err
		}
		for _, s := range servers {
			byName[s.Name] = s
		}
	} else {
		for name := range byName {
			s, err := p.serverNamed(ctx, name)
			if err != nil {
				return err
			}
			byName[name] = s
		}
	}
	for i, c := range list {
		s := byName[instanceOf(c.Name)]
		if c.AttachedTo == "" && s != nil && marksOf(s.Labels).SameOwner(c.Marks) {
			list[i].AttachedTo = p.instance(ctx, s).ID
		}
	}
	return nil
}

// attachedTo is the id of the instance that uses a companion.
func attachedTo(server int64, name string, labels map[string]string) provider.InstanceID {
	if server == 0 {
		return ""
	}
	parts, _ := parseParts(labels[labelParts])
	return instanceKey{server, instanceOf(name), parts}.id()
}

// DeleteCompanion implements provider.Companions.
func (p *Provider) DeleteCompanion(ctx context.Context, c provider.Companion) error {
	id, err := strconv.ParseInt(c.ID, 10, 64)
	if err != nil || id < 1 {
		return p.noCompanion(c)
	}
	ctx, cancel := p.limited(ctx)
	defer cancel()
	switch c.Kind {
	case KindPrimaryIP:
		err = p.deleteIP(ctx, c, id)
	case KindVolume:
		err = p.deleteVolume(ctx, c, id)
	case KindFirewall:
		_, err = p.client.Firewall.Delete(ctx, &hcloud.Firewall{ID: id})
		err = unlessCode(err, hcloud.ErrorCodeNotFound)
	default:
		return p.noCompanion(c)
	}
	if err != nil {
		return p.classify(ctx, provider.OpDeleteCompanion, c.ID, err)
	}
	p.log.DebugContext(ctx, "companion deleted", slog.String("kind", c.Kind), slog.String("name", c.Name))
	return nil
}

func (p *Provider) noCompanion(c provider.Companion) error {
	return provider.WithReason(provider.Wrap(provider.Permanent, provider.OpDeleteCompanion, p.name, c.ID,
		fmt.Errorf("companion %q of kind %q is none of this provider's", c.ID, c.Kind)), provider.ReasonMalformedID)
}

// mine refuses a companion whose marks are not what they were listed with.
func (p *Provider) mine(c provider.Companion, labels map[string]string) error {
	if m := marksOf(labels); m.Installation != c.Marks.Installation || m.UID != c.Marks.UID || m.Installation == "" {
		return provider.Wrap(provider.Conflict, provider.OpDeleteCompanion, p.name, c.ID,
			fmt.Errorf("the %s belongs to uid %q of installation %q by now", c.Kind, m.UID, m.Installation))
	}
	return nil
}

// deleteIP unassigns and deletes a primary IP. The vendor unassigns only from a
// server that is off, so a running one is switched off for it, and on again if
// it has another network left.
func (p *Provider) deleteIP(ctx context.Context, c provider.Companion, id int64) error {
	ip, _, err := p.client.PrimaryIP.GetByID(ctx, id)
	if err != nil || ip == nil {
		return err
	}
	if err := p.mine(c, ip.Labels); err != nil {
		return err
	}
	if ip.AssigneeID != 0 {
		if ip.AssigneeType != "server" {
			return provider.Wrap(provider.Permanent, provider.OpDeleteCompanion, p.name, c.ID,
				fmt.Errorf("the address is assigned to a %s", ip.AssigneeType))
		}
		restart, err := p.unassign(ctx, ip)
		defer restart()
		if err != nil {
			return err
		}
	}
	return p.whenFree(ctx, func() error {
		_, err := p.client.PrimaryIP.Delete(ctx, ip)
		return unlessCode(err, hcloud.ErrorCodeNotFound)
	})
}

// unassign takes an address from its server. restart switches the server on
// again if this has switched it off.
func (p *Provider) unassign(ctx context.Context, ip *hcloud.PrimaryIP) (restart func(), err error) {
	restart = func() {}
	s, err := p.server(ctx, ip.AssigneeID)
	if err != nil {
		return restart, err
	}
	if s != nil && s.Status == hcloud.ServerStatusDeleting {
		_, err = p.waitDeleting(ctx, s.ID)
		return restart, err
	}
	if s != nil && s.Status != hcloud.ServerStatusOff {
		if err := p.act(ctx, func() (*hcloud.Action, *hcloud.Response, error) { return p.client.Server.Poweroff(ctx, s) }); err != nil {
			return restart, err
		}
		if hasAnother(s, ip.ID) {
			restart = func() { p.switchOn(ctx, s) }
		}
	}
	err = p.act(ctx, func() (*hcloud.Action, *hcloud.Response, error) { return p.client.PrimaryIP.Unassign(ctx, ip.ID) })
	if isCode(err, hcloud.ErrorCodeInvalidInput, hcloud.ErrorCodeNotFound) {
		err = nil // it is free or gone by now; the delete will tell
	}
	return restart, err
}

// hasAnother reports whether a server has a network beside this address: without
// one the vendor does not switch it on.
func hasAnother(s *hcloud.Server, ip int64) bool {
	return len(s.PrivateNet) > 0 || s.PublicNet.IPv4.ID != 0 && s.PublicNet.IPv4.ID != ip || s.PublicNet.IPv6.ID != 0 && s.PublicNet.IPv6.ID != ip
}

// restartTime bounds the attempt to switch a server on again.
const restartTime = 10 * time.Second

func (p *Provider) switchOn(ctx context.Context, s *hcloud.Server) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restartTime)
	defer cancel()
	err := p.whenFree(ctx, func() error { _, _, err := p.client.Server.Poweron(ctx, s); return err })
	if err != nil {
		p.log.WarnContext(ctx, "a server was switched off to take its address and does not start again", "instance", s.Name,
			"error", p.classify(ctx, provider.OpDeleteCompanion, s.Name, err))
	}
}

// act starts an action as soon as nothing is locked and waits for its end.
func (p *Provider) act(ctx context.Context, start func() (*hcloud.Action, *hcloud.Response, error)) error {
	var a *hcloud.Action
	if err := p.whenFree(ctx, func() (err error) { a, _, err = start(); return err }); err != nil {
		return err
	}
	if a == nil || a.ID == 0 {
		return errAnswer
	}
	return p.waitAction(ctx, a)
}

func (p *Provider) deleteVolume(ctx context.Context, c provider.Companion, id int64) error {
	v, _, err := p.client.Volume.GetByID(ctx, id)
	if err != nil || v == nil {
		return err
	}
	if err := p.mine(c, v.Labels); err != nil {
		return err
	}
	if v.Server != nil {
		err := p.act(ctx, func() (*hcloud.Action, *hcloud.Response, error) { return p.client.Volume.Detach(ctx, v) })
		if err != nil && !isCode(err, hcloud.ErrorCodeInvalidInput, hcloud.ErrorCodeNotFound) {
			return err
		}
	}
	err = p.whenFree(ctx, func() error { _, err := p.client.Volume.Delete(ctx, v); return err })
	if errors.Is(err, errSlow) {
		return err
	}
	return unlessCode(err, hcloud.ErrorCodeNotFound)
}
