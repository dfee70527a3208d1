package hetznersim

import (
	"net/netip"
	"slices"
)

func listNetworks(c *call) (int, any, error) {
	var views []view
	for _, n := range c.p.Networks.seenAt(c.now, c.lag) {
		views = append(views, viewOf(&n.base, c.p.networkView(n)))
	}
	return c.list(listRules{key: "networks", sort: []string{"id", "name", "created"}, name: true, labels: true}, views)
}

func (c *call) network() (*network, error) {
	n, ok := c.p.Networks.get(c.ids[0])
	if !ok {
		return nil, notFound("network", c.ids[0])
	}
	return n, nil
}

func getNetwork(c *call) (int, any, error) {
	n, err := c.network()
	if err != nil {
		return 0, nil, err
	}
	return 200, obj{"network": c.p.networkView(n)}, nil
}

func updateNetwork(c *call) (int, any, error) {
	n, err := c.network()
	if err != nil {
		return 0, nil, err
	}
	var req struct {
		change
		Expose *bool `json:"expose_routes_to_vswitch"`
	}
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	if c.p.locked("network", n.ID) {
		return 0, nil, fail("conflict", "network is being changed")
	}
	if err := req.apply(&n.base, short, c.p.Networks.nameTaken); err != nil {
		return 0, nil, err
	}
	if req.Expose != nil {
		n.Expose = *req.Expose
	}
	return 200, obj{"network": c.p.networkView(n)}, nil
}

// deleteNetwork has no action; what is attached is detached.
func deleteNetwork(c *call) (int, any, error) {
	n, err := c.network()
	if err != nil {
		return 0, nil, err
	}
	if n.Protected {
		return 0, nil, fail("protected", "network deletion is protected")
	}
	if c.p.locked("network", n.ID) {
		return 0, nil, fail("conflict", "network is being changed")
	}
	leaves := func(a attachment) bool { return a.Network == n.ID }
	for _, v := range c.p.Servers.Live {
		v.Nets = slices.DeleteFunc(v.Nets, leaves)
	}
	for _, b := range c.p.Balancers.Live {
		b.Nets = slices.DeleteFunc(b.Nets, leaves)
	}
	c.p.Networks.remove(n.ID, c.now)
	return 204, nil, nil
}

// onNetwork wraps an action of a network; while one runs the next gets a
// conflict.
func onNetwork(h func(c *call, n *network) (int, any, error)) handler {
	return func(c *call) (int, any, error) {
		n, err := c.network()
		if err != nil {
			return 0, nil, err
		}
		if c.p.locked("network", n.ID) {
			return 0, nil, fail("conflict", "network is being changed")
		}
		return h(c, n)
	}
}

// checkRoute applies the rules for routes: any destination but the network's
// own and the metadata service, through an address of the network.
func (n *network) checkRoute(p *problems, r routeEntry) {
	d := parseNet(p, "destination", r.Destination)
	whole, _ := netip.ParsePrefix(n.IPRange)
	if d.IsValid() && d.Bits() > 0 && d.Overlaps(whole) {
		p.add("destination", "%s overlaps with the network's range", r.Destination)
	}
	g, err := netip.ParseAddr(r.Gateway)
	switch {
	case err != nil || !whole.Contains(g):
		p.add("gateway", "%q is no address of the network", r.Gateway)
	case g == nth(n.IPRange, 1):
		p.add("gateway", "%q is the network's own gateway", r.Gateway)
	}
	for _, have := range n.Routes {
		if have.Destination == r.Destination {
			p.add("destination", "there is a route to %s", r.Destination)
		}
	}
}

func addRoute(c *call, n *network) (int, any, error) {
	var req routeEntry
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	var p problems
	n.checkRoute(&p, req)
	if err := p.err(); err != nil {
		return 0, nil, err
	}
	n.Routes = append(n.Routes, req)
	return c.answer(c.start("add_route", c.s.timing.Action, actionArgs{}, n.on()))
}

func deleteRoute(c *call, n *network) (int, any, error) {
	var req routeEntry
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	i := slices.Index(n.Routes, req)
	if i < 0 {
		return 0, nil, invalid("destination", "there is no such route")
	}
	n.Routes = slices.Delete(n.Routes, i, i+1)
	return c.answer(c.start("delete_route", c.s.timing.Action, actionArgs{}, n.on()))
}

func addSubnet(c *call, n *network) (int, any, error) {
	var req subnet
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	var p problems
	n.checkSubnet(&p, &req)
	if err := p.err(); err != nil {
		return 0, nil, err
	}
	n.Subnets = append(n.Subnets, req)
	return c.answer(c.start("add_subnet", c.s.timing.Action, actionArgs{}, n.on()))
}

func deleteSubnet(c *call, n *network) (int, any, error) {
	var req struct {
		IPRange string `json:"ip_range"`
	}
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	i := slices.IndexFunc(n.Subnets, func(s subnet) bool { return s.IPRange == req.IPRange })
	if i < 0 {
		return 0, nil, invalid("ip_range", "there is no such subnet")
	}
	r, _ := netip.ParsePrefix(req.IPRange)
	for _, v := range c.p.Servers.Live {
		for _, a := range v.Nets {
			if ip, err := netip.ParseAddr(a.IP); err == nil && a.Network == n.ID && r.Contains(ip) {
				return 0, nil, fail("resource_in_use", "server %d is attached to the subnet", v.ID)
			}
		}
	}
	n.Subnets = slices.Delete(n.Subnets, i, i+1)
	return c.answer(c.start("delete_subnet", c.s.timing.Action, actionArgs{}, n.on()))
}

func changeIPRange(c *call, n *network) (int, any, error) {
	var req struct {
		IPRange string `json:"ip_range"`
	}
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	var p problems
	r := checkRange(&p, req.IPRange)
	old, _ := netip.ParsePrefix(n.IPRange)
	if r.IsValid() && (r.Addr() != old.Addr() || r.Bits() > old.Bits()) {
		p.add("ip_range", "%s does not extend %s", req.IPRange, n.IPRange)
	}
	if err := p.err(); err != nil {
		return 0, nil, err
	}
	n.IPRange = req.IPRange
	return c.answer(c.start("change_ip_range", c.s.timing.Action, actionArgs{}, n.on()))
}
