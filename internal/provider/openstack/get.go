package openstack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloud"
	"github.com/tollgate-dev/tollgate/internal/provider"
)

// server is what we read of a server. Everything but the id may be missing.
type server struct {
	ID        string               `json:"id"`
	Name      string               `json:"name"`
	Status    string               `json:"status"`
	Task      string               `json:"OS-EXT-STS:task_state"`
	Created   time.Time            `json:"-"`
	Metadata  map[string]string    `json:"metadata"`
	Addresses map[string][]address `json:"addresses"`
	Flavor    struct {
		ID   string `json:"id"`
		Name string `json:"original_name"`
	} `json:"flavor"`
	Zone  string `json:"OS-EXT-AZ:availability_zone"`
	Fault struct {
		Message string `json:"message"`
	} `json:"fault"`
}

type address struct {
	Addr    string `json:"addr"`
	Version int    `json:"version"`
	Type    string `json:"OS-EXT-IPS:type"`
}

// UnmarshalJSON reads a creation time that cannot be read as none.
func (s *server) UnmarshalJSON(b []byte) error {
	type plain server
	var with struct {
		plain
		Created string `json:"created"`
	}
	if err := json.Unmarshal(b, &with); err != nil {
		return err
	}
	*s = server(with.plain)
	s.Created = cloud.ParseTime(with.Created)
	return nil
}

// instance is the name that the server was made with. Somebody may have given it
// another one since.
func (s *server) instance() string {
	if _, managed := provider.MarksFromLabels(s.Metadata); managed && s.Metadata[metaInstance] != "" {
		return s.Metadata[metaInstance]
	}
	return s.Name
}

// state is the status with the task that runs on the server.
func (s *server) state() string {
	if s.Task == "" {
		return s.Status
	}
	return s.Status + " (" + s.Task + ")"
}

// ending reports whether the server is on its way out.
func (s *server) ending() bool {
	return s.Task == "deleting" || s.Task == "soft-deleting" || s.Status == "DELETED" || s.Status == "SOFT_DELETED"
}

// Get implements provider.Provider.
func (p *Provider) Get(ctx context.Context, id provider.InstanceID) (provider.Instance, error) {
	key, err := p.parseID(provider.OpGet, id)
	if err != nil {
		return provider.Instance{}, err
	}
	var s *server
	r, err := p.at(ctx, key.region)
	if err == nil {
		s, err = p.server(ctx, r, key.server)
	}
	if err != nil {
		return provider.Instance{}, p.classify(ctx, provider.OpGet, string(id), err)
	}
	if s == nil {
		return provider.Instance{}, provider.Wrap(provider.NotFound, provider.OpGet, p.name, string(id),
			fmt.Errorf("there is no server %s in %s", key.server, key.region))
	}
	return p.instance(ctx, r, *s), nil
}

// server reads a server by its id, nil when there is none.
func (p *Provider) server(ctx context.Context, r *region, id string) (*server, error) {
	var doc struct {
		Server *server `json:"server"`
	}
	if _, err := r.Compute.Get(ctx, r.Compute.ServiceURL("servers", id), &doc, &gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}}); err != nil {
		if cloud.NotThere(err) {
			return nil, nil
		}
		return nil, err
	}
	if doc.Server == nil || doc.Server.ID != id {
		return nil, cloud.ErrAnswer
	}
	return doc.Server, nil
}

// serversNamed reads the servers of exactly this name. The service matches names
// by regular expressions.
func (p *Provider) serversNamed(ctx context.Context, r *region, name string) ([]server, error) {
	all, err := cloud.List[server](ctx, r.Compute, "servers/detail", "servers", url.Values{"name": {"^" + regexp.QuoteMeta(name) + "$"}}, p.opt.PageSize)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(s server) bool { return s.Name != name || s.Status == "DELETED" }), nil
}

// byRule orders servers of one name: the first is the one that stays.
func byRule(a, b server) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
}

// Find implements provider.Provider.
func (p *Provider) Find(ctx context.Context, name string, owner provider.Marks) (provider.Instance, error) {
	in, err := p.find(ctx, name, owner)
	return in, p.classify(ctx, provider.OpFind, name, err)
}

func (p *Provider) find(ctx context.Context, name string, owner provider.Marks) (provider.Instance, error) {
	regions, err := p.everywhere(ctx)
	if err != nil {
		return provider.Instance{}, err
	}
	foreign := 0
	for _, r := range regions {
		all, err := p.serversNamed(ctx, r, name)
		if err != nil {
			return provider.Instance{}, err
		}
		ours := slices.DeleteFunc(slices.Clone(all), func(s server) bool { return !marksOf(s.Metadata).SameOwner(owner) })
		foreign += len(all) - len(ours)
		if len(ours) == 0 {
			// A server whose create was cut off may not be listed yet; its port knows it.
			s, err := p.holder(ctx, r, name, owner)
			if err != nil {
				return provider.Instance{}, err
			}
			if s != nil {
				ours = append(ours, *s)
			}
		}
		if len(ours) > 0 {
			return p.instance(ctx, r, slices.MinFunc(ours, func(a, b server) int {
				return cmp.Or(cmp.Compare(rank(a), rank(b)), byRule(a, b))
			})), nil
		}
	}
	if foreign > 0 {
		return provider.Instance{}, provider.Wrap(provider.Conflict, provider.OpFind, p.name, name,
			errors.New("the name is taken by a server that is not ours"))
	}
	return provider.Instance{}, provider.Wrap(provider.NotFound, provider.OpFind, p.name, name, errors.New("no server has this name"))
}

// rank puts servers that end behind those that stay.
func rank(s server) int {
	if s.ending() {
		return 1
	}
	return 0
}

// holder returns the server that the port of an instance is in use by, if it is
// the owner's.
func (p *Provider) holder(ctx context.Context, r *region, name string, owner provider.Marks) (*server, error) {
	ports, err := p.portsOf(ctx, r, name)
	if err != nil {
		return nil, err
	}
	for _, port := range ports {
		if port.Device == "" || !port.label().marks.SameOwner(owner) {
			continue
		}
		s, err := p.server(ctx, r, port.Device)
		if err != nil {
			return nil, err
		}
		if s != nil && marksOf(s.Metadata).SameOwner(owner) {
			return s, nil
		}
	}
	return nil, nil
}

// List implements provider.Provider.
func (p *Provider) List(ctx context.Context, sel provider.Selector) ([]provider.Instance, error) {
	out, err := p.list(ctx, sel)
	if err != nil {
		return nil, p.classify(ctx, provider.OpList, "", err)
	}
	return out, nil
}

func (p *Provider) list(ctx context.Context, sel provider.Selector) ([]provider.Instance, error) {
	regions, err := p.everywhere(ctx)
	if err != nil {
		return nil, err
	}
	out := []provider.Instance{}
	for _, r := range regions {
		servers, err := p.managed(ctx, r, sel)
		if err != nil {
			return nil, err
		}
		for _, s := range servers {
			out = append(out, p.instance(ctx, r, s))
		}
	}
	return out, nil
}

// managed lists the servers of a region that carry the managed mark and match.
func (p *Provider) managed(ctx context.Context, r *region, sel provider.Selector) ([]server, error) {
	q := url.Values{}
	if r.tags {
		tags := tagManaged
		if sel.Installation != "" {
			tags += "," + tagInstallation(sel.Installation)
		}
		q.Set("tags", tags)
	}
	all, err := cloud.List[server](ctx, r.Compute, "servers/detail", "servers", q, p.opt.PageSize)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(s server) bool {
		m, managed := provider.MarksFromLabels(s.Metadata)
		return !managed || !sel.Matches(m) || s.Status == "DELETED"
	}), nil
}

// instance turns a server into ours. Whatever optional part is missing is left
// empty.
func (p *Provider) instance(ctx context.Context, r *region, s server) provider.Instance {
	in := provider.Instance{
		ID: instanceKey{r.Name, s.ID, s.instance()}.id(), Name: s.instance(), IP: p.addressOf(s), RawState: s.Status,
		Marks: marksOf(s.Metadata), CreatedAt: s.Created,
		Placement: provider.Placement{Region: r.Name, Zone: s.Zone, MachineType: cmp.Or(s.Flavor.Name, s.Flavor.ID)},
	}
	in.State = p.Map(ctx, s.Status, in.ID)
	switch {
	case s.ending():
		in.State, in.RawState = provider.StateTerminated, s.state()
	case s.Status == "ERROR":
		// The fault is what people need, and all that says why.
		if text := strings.TrimSpace(s.Fault.Message); text != "" {
			in.RawState += ": " + text
		}
	case in.State == provider.StateStopped && s.Task != "":
		in.State = provider.StateProvisioning // being started, resumed, unshelved ...
	case in.State == provider.StateRunning && !in.IP.IsValid():
		in.State = provider.StateProvisioning
	}
	return in
}

// addressOf is where clients connect: the floating IP of a server that has one
// of its own, and otherwise a fixed address of the configured version.
func (p *Provider) addressOf(s server) netip.Addr {
	pt, known := parseParts(s.Metadata[metaParts])
	var best netip.Addr
	bestRank := 3
	for _, name := range slices.Sorted(mapKeys(s.Addresses)) {
		for _, a := range s.Addresses[name] {
			ip, err := netip.ParseAddr(a.Addr)
			if err != nil || ip.IsUnspecified() || ip.IsMulticast() || ip.IsLinkLocalUnicast() {
				continue
			}
			rank := 2
			switch floating := a.Type == "floating"; {
			case floating && (pt.floating || !known):
				rank = 0
			case floating || pt.floating:
				continue // of somebody else; or ours is not there yet
			case a.Version == p.opt.IPVersion:
				rank = 1
			}
			if rank < bestRank {
				best, bestRank = ip.Unmap(), rank
			}
		}
	}
	return best
}
