package hetznersim

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

type network struct {
	base
	IPRange string       `json:"ipRange"`
	Subnets []subnet     `json:"subnets,omitempty"`
	Routes  []routeEntry `json:"routes,omitempty"`
	Expose  bool         `json:"expose,omitempty"`
}

type subnet struct {
	Type    string `json:"type"`
	IPRange string `json:"ip_range"`
	Zone    string `json:"network_zone"`
	VSwitch int64  `json:"vswitch_id,omitempty"`
}

type routeEntry struct {
	Destination string `json:"destination"`
	Gateway     string `json:"gateway"`
}

func (n *network) on() resource { return resource{"network", n.ID} }

// first is the n-th address of a range.
func nth(r string, n int) netip.Addr {
	p, err := netip.ParsePrefix(r)
	if err != nil {
		return netip.Addr{}
	}
	a := p.Addr()
	for range n {
		a = a.Next()
	}
	return a
}

func (p *project) networkView(n *network) obj {
	subnets, routes := []obj{}, []obj{}
	for _, s := range n.Subnets {
		subnets = append(subnets, obj{"type": s.Type, "ip_range": s.IPRange, "network_zone": s.Zone,
			"gateway": nth(n.IPRange, 1).String(), "vswitch_id": idOrNil(s.VSwitch)})
	}
	for _, r := range n.Routes {
		routes = append(routes, obj{"destination": r.Destination, "gateway": r.Gateway})
	}
	var servers, balancers []int64
	for _, v := range p.Servers.Live {
		if v.attached(n.ID) {
			servers = append(servers, v.ID)
		}
	}
	for _, b := range p.Balancers.Live {
		if b.attached(n.ID) {
			balancers = append(balancers, b.ID)
		}
	}
	return obj{"id": n.ID, "name": n.Name, "ip_range": n.IPRange, "subnets": subnets, "routes": routes,
		"servers": sortedIDs(servers), "load_balancers": sortedIDs(balancers), "protection": obj{"delete": n.Protected},
		"labels": labelsOf(n.Labels), "created": stamp(n.Created), "expose_routes_to_vswitch": n.Expose}
}

func (v *server) attached(network int64) bool {
	return slices.ContainsFunc(v.Nets, func(a attachment) bool { return a.Network == network })
}

// private are the ranges that networks may use.
var private = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16")}

func checkRange(p *problems, text string) netip.Prefix {
	r := parseNet(p, "ip_range", text)
	if r.IsValid() && !slices.ContainsFunc(private, func(n netip.Prefix) bool { return n.Overlaps(r) && n.Bits() <= r.Bits() }) {
		p.add("ip_range", "%s is not a private range", text)
	}
	return r
}

// checkSubnet completes and checks a subnet of a network.
func (n *network) checkSubnet(p *problems, s *subnet) {
	zones := []string{}
	for _, l := range locations {
		zones = append(zones, l.zone)
	}
	if !slices.Contains([]string{"cloud", "server", "vswitch"}, s.Type) {
		p.add("type", "%q is not cloud, server or vswitch", s.Type)
	}
	if !slices.Contains(zones, s.Zone) {
		p.add("network_zone", "%q is not a network zone", s.Zone)
	}
	whole, err := netip.ParsePrefix(n.IPRange)
	if err != nil {
		return
	}
	if s.IPRange == "" {
		s.IPRange = n.freeSubnet(whole)
	}
	r := parseNet(p, "ip_range", s.IPRange)
	if !r.IsValid() {
		return
	}
	if !whole.Overlaps(r) || r.Bits() < whole.Bits() {
		p.add("ip_range", "%s is not in %s", s.IPRange, n.IPRange)
	}
	for _, have := range n.Subnets {
		if h, err := netip.ParsePrefix(have.IPRange); err == nil && h.Overlaps(r) {
			p.add("ip_range", "%s overlaps with subnet %s", s.IPRange, have.IPRange)
		}
	}
}

// freeSubnet is the first /24 of the network that is free.
func (n *network) freeSubnet(whole netip.Prefix) string {
	for a := whole.Addr(); whole.Contains(a); {
		c := netip.PrefixFrom(a, max(24, whole.Bits()))
		if !slices.ContainsFunc(n.Subnets, func(s subnet) bool {
			h, err := netip.ParsePrefix(s.IPRange)
			return err == nil && h.Overlaps(c)
		}) {
			return c.String()
		}
		b := a.As4()
		next := (uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8) + 256
		a = netip.AddrFrom4([4]byte{byte(next >> 24), byte(next >> 16), byte(next >> 8), 0})
	}
	return ""
}

// freeIP picks an address for a server or load balancer: the wanted one, or the
// first free one of the subnet (of the wanted range, when given) in the zone.
func (p *project) freeIP(n *network, zone, want, inRange string) (string, error) {
	used := map[string]bool{}
	for _, v := range p.Servers.Live {
		for _, a := range v.Nets {
			if a.Network == n.ID {
				used[a.IP] = true
				for _, x := range a.Aliases {
					used[x] = true
				}
			}
		}
	}
	for _, b := range p.Balancers.Live {
		for _, a := range b.Nets {
			if a.Network == n.ID {
				used[a.IP] = true
			}
		}
	}
	gateway := nth(n.IPRange, 1).String()
	for _, s := range n.Subnets {
		r, err := netip.ParsePrefix(s.IPRange)
		if err != nil || s.Zone != zone || s.Type == "vswitch" || inRange != "" && s.IPRange != inRange {
			continue
		}
		if want != "" {
			if a, err := netip.ParseAddr(want); err != nil || !r.Contains(a) {
				continue
			}
			if used[want] || want == gateway || want == r.Addr().String() {
				return "", fail("ip_not_available", "IP %s is not available", want)
			}
			return want, nil
		}
		for a := r.Addr().Next(); r.Contains(a); a = a.Next() {
			if !used[a.String()] && a.String() != gateway {
				return a.String(), nil
			}
		}
	}
	if want != "" {
		return "", fail("ip_not_available", "IP %s is not available", want)
	}
	return "", fail("no_subnet_available", "no subnet with a free IP in %s", zone)
}

// attachServer is the effect of attach_to_network.
func (s *Sim) attachServer(p *project, v *server, a *action) {
	n, ok := p.Networks.get(a.Args.Other)
	if !ok || v.attached(a.Args.Other) {
		return
	}
	ip, err := p.freeIP(n, locationNamed(v.Location).zone, a.Args.Text, "")
	if err != nil {
		a.Status, a.Err = failed, &actionError{"no_subnet_available", err.Error()}
		return
	}
	v.Nets = append(v.Nets, attachment{Network: n.ID, IP: ip, MAC: fmt.Sprintf("86:00:00:%02x:%02x:%02x", byte(v.ID>>16), byte(v.ID>>8), byte(v.ID))})
}

func attachToNetwork(c *call, v *server) (int, any, error) {
	var req struct {
		Network  int64    `json:"network"`
		IP       string   `json:"ip"`
		AliasIPs []string `json:"alias_ips"`
		IPRange  string   `json:"ip_range"`
	}
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	n, ok := c.p.Networks.get(req.Network)
	switch {
	case !ok:
		return 0, nil, invalid("network", "network %d not found", req.Network)
	case v.attached(n.ID):
		return 0, nil, fail("server_already_attached", "server is already attached to network %d", n.ID)
	}
	whole, _ := netip.ParsePrefix(n.IPRange)
	for _, a := range v.Nets {
		if other, ok := c.p.Networks.get(a.Network); ok {
			if r, err := netip.ParsePrefix(other.IPRange); err == nil && r.Overlaps(whole) {
				return 0, nil, fail("networks_overlap", "network overlaps with network %d", other.ID)
			}
		}
	}
	ip, err := c.p.freeIP(n, locationNamed(v.Location).zone, req.IP, req.IPRange)
	if err != nil {
		return 0, nil, err
	}
	return c.answer(c.start("attach_to_network", c.s.timing.Action, actionArgs{Other: n.ID, Text: ip}, v.on(), n.on()))
}

func detachFromNetwork(c *call, v *server) (int, any, error) {
	var req struct {
		Network int64 `json:"network"`
	}
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	if !v.attached(req.Network) {
		return 0, nil, invalid("network", "server is not attached to network %d", req.Network)
	}
	return c.answer(c.start("detach_from_network", c.s.timing.Action, actionArgs{Other: req.Network}, v.on(),
		resource{"network", req.Network}))
}

func changeAliasIPs(c *call, v *server) (int, any, error) {
	var req struct {
		Network  int64    `json:"network"`
		AliasIPs []string `json:"alias_ips"`
	}
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	for i := range v.Nets {
		if v.Nets[i].Network == req.Network {
			v.Nets[i].Aliases = slices.Clone(req.AliasIPs)
			return c.answer(c.start("change_alias_ips", c.s.timing.Action, actionArgs{}, v.on(), resource{"network", req.Network}))
		}
	}
	return 0, nil, invalid("network", "server is not attached to network %d", req.Network)
}

func createNetwork(c *call) (int, any, error) {
	var req struct {
		Name    string            `json:"name"`
		IPRange string            `json:"ip_range"`
		Labels  map[string]string `json:"labels"`
		Subnets []subnet          `json:"subnets"`
		Routes  []routeEntry      `json:"routes"`
		Expose  bool              `json:"expose_routes_to_vswitch"`
	}
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	var p problems
	short(&p, req.Name)
	checkLabels(&p, req.Labels)
	checkRange(&p, req.IPRange)
	n := &network{base: base{Name: req.Name, Labels: maps.Clone(req.Labels), Created: c.now}, IPRange: req.IPRange, Expose: req.Expose}
	for _, s := range req.Subnets {
		n.checkSubnet(&p, &s)
		n.Subnets = append(n.Subnets, s)
	}
	for _, r := range req.Routes {
		n.checkRoute(&p, r)
		n.Routes = append(n.Routes, r)
	}
	if err := p.err(); err != nil {
		return 0, nil, err
	}
	if c.p.Networks.nameTaken(req.Name, 0) {
		return 0, nil, notUnique("name", "network name is already used")
	}
	if err := c.p.overLimit("networks", len(c.p.Networks.Live), 1); err != nil {
		return 0, nil, err
	}
	n.ID = c.s.id()
	c.p.Networks.put(n)
	return 201, obj{"network": c.p.networkView(n)}, nil
}
