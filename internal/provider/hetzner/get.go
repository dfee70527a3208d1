package hetzner

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// errAnswer is an answer that is JSON and makes no sense.
var errAnswer = errors.New("the answer lacks the object that was asked for")

// Get implements provider.Provider.
func (p *Provider) Get(ctx context.Context, id provider.InstanceID) (provider.Instance, error) {
	key, err := p.parseID(provider.OpGet, id)
	if err != nil {
		return provider.Instance{}, err
	}
	s, err := p.server(ctx, key.server)
	if err != nil {
		return provider.Instance{}, p.classify(ctx, provider.OpGet, string(id), err)
	}
	if s == nil {
		return provider.Instance{}, provider.Wrap(provider.NotFound, provider.OpGet, p.name, string(id),
			fmt.Errorf("there is no server %d", key.server))
	}
	return p.instance(ctx, s), nil
}

// server reads a server by its id, nil when there is none.
func (p *Provider) server(ctx context.Context, id int64) (*hcloud.Server, error) {
	s, _, err := p.client.Server.GetByID(ctx, id)
	if err != nil {
		return nil, err
	}
	if s != nil && s.ID != id {
		return nil, errAnswer
	}
	return s, nil
}

// serverNamed reads a server by its exact name, nil when there is none.
func (p *Provider) serverNamed(ctx context.Context, name string) (*hcloud.Server, error) {
	found, resp, err := p.client.Server.List(ctx, hcloud.ServerListOpts{Name: name})
	switch {
	case err != nil:
		return nil, err
	case resp.Meta.Pagination == nil:
		return nil, errAnswer // it is no list, so it does not say that there is none
	case len(found) == 0:
		return nil, nil
	case found[0].ID == 0 || found[0].Name != name:
		return nil, errAnswer
	}
	return found[0], nil
}

// Find implements provider.Provider.
func (p *Provider) Find(ctx context.Context, name string, owner provider.Marks) (provider.Instance, error) {
	s, err := p.serverNamed(ctx, name)
	if err != nil {
		return provider.Instance{}, p.classify(ctx, provider.OpFind, name, err)
	}
	if s == nil {
		return provider.Instance{}, provider.Wrap(provider.NotFound, provider.OpFind, p.name, name, errors.New("no server has this name"))
	}
	in := p.instance(ctx, s)
	if !in.Marks.SameOwner(owner) {
		return provider.Instance{}, provider.Wrap(provider.Conflict, provider.OpFind, p.name, name,
			errors.New("the name is taken by a server that is not ours"))
	}
	return in, nil
}

// perPage is the vendor's largest page.
const perPage = 50

// listTries is how often a listing is begun anew when things vanish while it is
// read: pages are cut by position, so that each deletion may push an instance
// from a page that is not read yet to one that was.
const listTries = 4

// List implements provider.Provider.
func (p *Provider) List(ctx context.Context, sel provider.Selector) ([]provider.Instance, error) {
	servers, err := p.listServers(ctx, selectorOf(sel))
	if err != nil {
		return nil, p.classify(ctx, provider.OpList, "", err)
	}
	out := make([]provider.Instance, 0, len(servers))
	for _, s := range servers {
		out = append(out, p.instance(ctx, s))
	}
	return out, nil
}

var errShifting = errors.New("instances vanish faster than they can be listed")

func (p *Provider) listServers(ctx context.Context, selector string) ([]*hcloud.Server, error) {
	for range listTries {
		all, shifted, err := p.readPages(ctx, selector)
		if err != nil || !shifted {
			return all, err
		}
	}
	return nil, errShifting
}

// readPages reads all pages once. shifted says that fewer entries were left on
// a later page than on an earlier one.
func (p *Provider) readPages(ctx context.Context, selector string) (all []*hcloud.Server, shifted bool, err error) {
	total := 0
	for page := 1; page != 0; {
		servers, resp, err := p.client.Server.List(ctx, hcloud.ServerListOpts{
			ListOpts: hcloud.ListOpts{Page: page, PerPage: perPage, LabelSelector: selector}, Sort: []string{"id:asc"},
		})
		if err != nil {
			return nil, false, err
		}
		meta := resp.Meta.Pagination
		if meta == nil {
			return nil, false, errAnswer // it cannot be told whether there is more
		}
		if meta.TotalEntries != 0 { // the vendor may leave it out
			if meta.TotalEntries < total {
				return nil, true, nil
			}
			total = meta.TotalEntries
		}
		for _, s := range servers {
			if s.ID == 0 {
				return nil, false, errAnswer
			}
			if !slices.ContainsFunc(all, func(h *hcloud.Server) bool { return h.ID == s.ID }) {
				all = append(all, s)
			}
		}
		page = meta.NextPage
	}
	return all, false, nil
}

// selectorOf is the label selector of what carries the managed mark and matches.
func selectorOf(sel provider.Selector) string {
	labels := provider.Marks{Installation: sel.Installation, UID: sel.UID, Namespace: sel.Namespace, Proxy: sel.Proxy}.Labels()
	terms := make([]string, 0, len(labels))
	for k, v := range labels {
		terms = append(terms, k+"=="+v)
	}
	slices.Sort(terms)
	return strings.Join(terms, ",")
}

// marksOf reads the marks of anything; all empty when the managed mark is
// missing.
func marksOf(labels map[string]string) provider.Marks {
	m, managed := provider.MarksFromLabels(labels)
	if !managed {
		return provider.Marks{}
	}
	return m
}

// instance turns a server into ours. Whatever optional part is missing is left
// empty.
func (p *Provider) instance(ctx context.Context, s *hcloud.Server) provider.Instance {
	parts, _ := parseParts(s.Labels[labelParts])
	in := provider.Instance{
		ID: instanceKey{s.ID, s.Name, parts}.id(), Name: s.Name, IP: p.addressOf(s), RawState: string(s.Status),
		Marks: marksOf(s.Labels), CreatedAt: s.Created.UTC(),
	}
	if s.Location != nil {
		in.Placement.Region = s.Location.Name
	}
	if s.ServerType != nil {
		in.Placement.MachineType = s.ServerType.Name
	}
	if s.Image != nil {
		in.Placement.Image = s.Image.Name
	}
	in.State = p.Map(ctx, in.RawState, in.ID)
	switch {
	case in.State == provider.StateStopped && s.Locked:
		// Off while an action runs: it has been built and will be started next, or
		// is on its way out.
		in.State = provider.StateProvisioning
	case in.State == provider.StateRunning && !in.IP.IsValid():
		in.State = provider.StateProvisioning
	}
	return in
}

// addressOf is where clients connect: the configured kind of address, or the
// first that a server from before a change of the configuration has.
func (p *Provider) addressOf(s *hcloud.Server) netip.Addr {
	for _, kind := range p.opt.addresses {
		var a netip.Addr
		switch kind {
		case addrIPv4:
			a, _ = netip.AddrFromSlice(s.PublicNet.IPv4.IP)
		case addrIPv6:
			// The vendor gives a /64 and configures its first address in the guest.
			if n := s.PublicNet.IPv6.Network; n != nil {
				if base, ok := netip.AddrFromSlice(n.IP); ok {
					a = base.Next()
				}
			}
		case addrPrivate:
			for _, n := range s.PrivateNet {
				if a, _ = netip.AddrFromSlice(n.IP); a.IsValid() {
					break
				}
			}
		}
		if a = a.Unmap(); a.IsValid() && !a.IsUnspecified() {
			return a
		}
	}
	return netip.Addr{}
}
