package hetznersim

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

// MaxUserData is the vendor's limit of user data in bytes.
const MaxUserData = 32 << 10

type serverCreate struct {
	Name             string            `json:"name"`
	Location         ref               `json:"location"`
	ServerType       ref               `json:"server_type"`
	Image            ref               `json:"image"`
	StartAfterCreate *bool             `json:"start_after_create"`
	PlacementGroup   int64             `json:"placement_group"`
	SSHKeys          []ref             `json:"ssh_keys"`
	Volumes          []int64           `json:"volumes"`
	Networks         []int64           `json:"networks"`
	Firewalls        []serverFirewall  `json:"firewalls"`
	UserData         string            `json:"user_data"`
	Labels           map[string]string `json:"labels"`
	Automount        bool              `json:"automount"`
	PublicNet        *serverPublicNet  `json:"public_net"`
}

type serverFirewall struct {
	Firewall int64 `json:"firewall"`
}

type serverPublicNet struct {
	EnableIPv4 *bool  `json:"enable_ipv4"`
	EnableIPv6 *bool  `json:"enable_ipv6"`
	IPv4       *int64 `json:"ipv4"`
	IPv6       *int64 `json:"ipv6"`
}

func (n *serverPublicNet) wants() (v4, v6 bool, id4, id6 int64) {
	if n == nil {
		return true, true, 0, 0
	}
	return n.EnableIPv4 == nil || *n.EnableIPv4, n.EnableIPv6 == nil || *n.EnableIPv6, value(n.IPv4), value(n.IPv6)
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// serverPlan is a create that has passed all checks but the catalogue's.
type serverPlan struct {
	req      serverCreate
	typ      serverType
	loc      location
	img      *image
	keys     []int64
	v4, v6   bool
	id4, id6 int64
}

func createServer(c *call) (int, any, error) {
	var req serverCreate
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	plan, err := c.planServer(req)
	if err != nil {
		return 0, nil, err
	}
	if c.p.Servers.nameTaken(req.Name, 0) {
		return 0, nil, notUnique("name", "server name is already used")
	}
	if err := c.checkServerLimits(plan); err != nil {
		return 0, nil, err
	}
	if err := c.s.orderable(plan.typ, plan.loc.name, c.now); err != nil {
		return 0, nil, err
	}
	return c.makeServer(plan)
}

// planServer checks everything that a look at the request and the project can
// tell.
func (c *call) planServer(req serverCreate) (serverPlan, error) {
	plan := serverPlan{req: req}
	plan.v4, plan.v6, plan.id4, plan.id6 = req.PublicNet.wants()
	var p problems
	checkHostname(&p, req.Name)
	checkLabels(&p, req.Labels)
	if n := len(req.UserData); n > MaxUserData {
		p.add("user_data", "must be at most %d bytes long, not %d", MaxUserData, n)
	}
	required(&p, "server_type", req.ServerType.empty())
	required(&p, "image", req.Image.empty())
	var ok bool
	if plan.typ, ok = findServerType(req.ServerType); !ok && !req.ServerType.empty() {
		p.add("server_type", "server type %s not found", req.ServerType)
	}
	if !req.Image.empty() && plan.typ.id != 0 {
		if plan.img, ok = c.p.image(req.Image, plan.typ.arch); !ok {
			p.add("image", "image %s not found for architecture %s", req.Image, plan.typ.arch)
		} else if plan.img.Arch != plan.typ.arch {
			p.add("image", "image %s has architecture %s, server type %s has %s", req.Image, plan.img.Arch, plan.typ.name, plan.typ.arch)
		}
	}
	if plan.loc, ok = c.s.pickLocation(req.Location, plan.typ, c.now); !ok {
		p.add("location", "location %s not found", req.Location)
	}
	for _, k := range req.SSHKeys {
		i := slices.IndexFunc(c.p.Keys.all(), func(have *sshKey) bool { return k.is(have.ID, have.Name) })
		if i < 0 {
			p.add("ssh_keys", "SSH key %s not found", k)
			continue
		}
		plan.keys = append(plan.keys, c.p.Keys.all()[i].ID)
	}
	c.checkServerParts(&p, plan)
	if !plan.v4 && !plan.v6 && len(req.Networks) == 0 {
		p.add("public_net", "a server needs at least one public or private network")
	}
	if err := p.err(); err != nil {
		return plan, err
	}
	if !plan.v4 && !plan.v6 && len(req.Firewalls) > 0 {
		return plan, fail("private_net_only_server", "server has no public interface")
	}
	for _, id := range req.Volumes {
		if err := c.p.lockedErr("volume", id); err != nil {
			return plan, err
		}
	}
	return plan, c.checkServerAddresses(plan)
}

func (c *call) checkServerParts(p *problems, plan serverPlan) {
	req := plan.req
	for _, id := range req.Volumes {
		vol, ok := c.p.Volumes.get(id)
		switch {
		case !ok:
			p.add("volumes", "volume %d not found", id)
		case vol.Server != 0:
			p.add("volumes", "volume %d is attached to a server", id)
		case vol.Location != plan.loc.name:
			p.add("volumes", "volume %d is in location %s", id, vol.Location)
		}
	}
	for _, id := range req.Networks {
		n, ok := c.p.Networks.get(id)
		if !ok {
			p.add("networks", "network %d not found", id)
			continue
		}
		if _, err := c.p.freeIP(n, plan.loc.zone, "", ""); err != nil {
			p.add("networks", "network %d has no subnet with a free address in %s", id, plan.loc.zone)
		}
	}
	for _, f := range req.Firewalls {
		if _, ok := c.p.Firewalls.get(f.Firewall); !ok {
			p.add("firewalls", "firewall %d not found", f.Firewall)
		}
	}
	if len(req.Firewalls) > maxFirewallsPerServer {
		p.add("firewalls", "at most %d firewalls", maxFirewallsPerServer)
	}
	if req.PlacementGroup != 0 {
		g, ok := c.p.Groups.get(req.PlacementGroup)
		if !ok {
			p.add("placement_group", "placement group %d not found", req.PlacementGroup)
		} else if len(c.p.serversOfGroup(g.ID)) >= maxServersPerGroup {
			p.add("placement_group", "placement group %d is full", g.ID)
		}
	}
}

// checkServerAddresses checks the primary IPs that the request names.
func (c *call) checkServerAddresses(plan serverPlan) error {
	for _, want := range []struct {
		id   int64
		kind string
	}{{plan.id4, "ipv4"}, {plan.id6, "ipv6"}} {
		if want.id == 0 {
			continue
		}
		ip, ok := c.p.Primary.get(want.id)
		switch {
		case !ok:
			return invalid("public_net."+want.kind, "primary IP %d not found", want.id)
		case ip.Type != want.kind:
			return fail("primary_ip_version_mismatch", "primary IP %d is not of type %s", ip.ID, want.kind)
		case ip.Assignee != 0:
			return fail("primary_ip_assigned", "primary IP %d is already assigned", ip.ID)
		case ip.Location != plan.loc.name:
			return fail("primary_ip_datacenter_mismatch", "primary IP %d is in location %s", ip.ID, ip.Location)
		}
		if err := c.p.lockedErr("primary_ip", ip.ID); err != nil {
			return err
		}
	}
	return nil
}

func (c *call) checkServerLimits(plan serverPlan) error {
	if err := c.p.overLimit("servers", len(c.p.Servers.Live), 1); err != nil {
		return err
	}
	fresh := 0
	if plan.v4 && plan.id4 == 0 {
		fresh++
	}
	if plan.v6 && plan.id6 == 0 {
		fresh++
	}
	return c.p.overLimit("primary_ips", len(c.p.Primary.Live), fresh)
}

// makeServer commits the create and starts its actions.
func (c *call) makeServer(plan serverPlan) (int, any, error) {
	req := plan.req
	v := &server{base: base{ID: c.s.id(), Name: req.Name, Labels: maps.Clone(req.Labels), Created: c.now}, Status: stInitializing,
		Type: plan.typ.name, Location: plan.loc.name, Image: plan.img.ID, UserData: req.UserData, Group: req.PlacementGroup,
		Keys: plan.keys, Disk: plan.typ.disk}
	if err := c.giveAddresses(v, plan); err != nil {
		return 0, nil, err
	}
	c.p.Servers.put(v)
	t := c.s.timing
	create := c.start("create_server", t.Init, actionArgs{}, v.on())
	ready := c.now.Add(t.Init)
	var next []*action
	if req.StartAfterCreate == nil || *req.StartAfterCreate {
		boot := ready.Add(t.Gap)
		c.s.later(c.p, "_starting", boot, actionArgs{}, v.on())
		next = append(next, c.startAt("start_server", boot, t.Start, actionArgs{}, v.on()))
	}
	for _, id := range req.Volumes {
		next = append(next, c.startAt("attach_volume", ready, t.Action, actionArgs{Other: v.ID},
			resource{"volume", id}, v.on()))
	}
	for _, id := range req.Networks {
		next = append(next, c.startAt("attach_to_network", ready, t.Action, actionArgs{Other: id},
			v.on(), resource{"network", id}))
	}
	for _, f := range req.Firewalls {
		fw, _ := c.p.Firewalls.get(f.Firewall)
		fw.Servers = append(fw.Servers, v.ID)
		c.startAt("apply_firewall", c.now, t.Action, actionArgs{}, resource{"firewall", fw.ID}, v.on())
	}
	answer := obj{"server": c.p.serverView(c.s, v), "action": create.view(c.now), "next_actions": c.views(next...), "root_password": nil}
	if len(plan.keys) == 0 {
		answer["root_password"] = password()
	}
	return 201, answer, nil
}

// giveAddresses assigns the primary IPs that the request names and makes the
// others, which go with the server when it is deleted.
func (c *call) giveAddresses(v *server, plan serverPlan) error {
	if plan.v4 && plan.id4 == 0 {
		addr, err := c.s.backendAddress(c.p, v)
		if err != nil {
			return fail("resource_unavailable", "no address: %v", err)
		}
		plan.id4 = c.newPrimaryIP("ipv4", addr, v.Location).ID
	}
	if plan.v6 && plan.id6 == 0 {
		plan.id6 = c.newPrimaryIP("ipv6", "", v.Location).ID
	}
	if plan.v4 {
		v.IPv4 = plan.id4
	}
	if plan.v6 {
		v.IPv6 = plan.id6
	}
	for _, id := range []int64{v.IPv4, v.IPv6} {
		if ip, ok := c.p.Primary.get(id); ok {
			ip.Assignee, ip.AssigneeType = v.ID, "server"
		}
	}
	return nil
}

// newPrimaryIP makes an address that POST /servers asked for.
func (c *call) newPrimaryIP(kind, addr, loc string) *primaryIP {
	if addr == "" {
		addr = c.s.nextIPv4()
		if kind == "ipv6" {
			addr = c.s.nextIPv6()
		}
	}
	id := c.s.id()
	ip := &primaryIP{base: base{ID: id, Name: fmt.Sprintf("primary_ip-%d", id), Created: c.now}, Type: kind, IP: addr,
		Location: loc, AutoDelete: !c.s.opts.KeepAutoIPs}
	c.p.Primary.put(ip)
	return ip
}

// address is the server's public IPv4 address, if it has one.
func (p *project) address(v *server) netip.Addr {
	ip, ok := p.Primary.get(v.IPv4)
	if !ok {
		return netip.Addr{}
	}
	a, _ := netip.ParseAddr(ip.IP)
	return a
}
