package hetznersim

import "slices"

func changeBalancerType(c *call, b *loadBalancer) (int, any, error) {
	var req struct {
		Type ref `json:"load_balancer_type"`
	}
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	t, ok := findBalancerType(req.Type)
	switch {
	case !ok:
		return 0, nil, invalid("load_balancer_type", "load balancer type %s not found", req.Type)
	case t.name == b.Type || len(b.Services) > t.services || len(b.Targets) > t.targets:
		return 0, nil, fail("invalid_load_balancer_type", "load balancer type %s does not fit", t.name)
	}
	return c.answer(c.start("change_load_balancer_type", c.s.timing.Action, actionArgs{Text: t.name}, b.on()))
}

func changeAlgorithm(c *call, b *loadBalancer) (int, any, error) {
	var req balancerAlgorithm
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	if !slices.Contains(algorithms, req.Type) {
		return 0, nil, invalid("type", "%q is not round_robin or least_connections", req.Type)
	}
	b.Algorithm = req.Type
	return c.done("change_algorithm", b)
}

func attachBalancer(c *call, b *loadBalancer) (int, any, error) {
	var req struct {
		Network int64  `json:"network"`
		IP      string `json:"ip"`
		IPRange string `json:"ip_range"`
	}
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	n, ok := c.p.Networks.get(req.Network)
	switch {
	case !ok:
		return 0, nil, invalid("network", "network %d not found", req.Network)
	case len(b.Nets) > 0:
		return 0, nil, fail("load_balancer_already_attached", "load balancer is already attached to a network")
	}
	ip, err := c.p.freeIP(n, locationNamed(b.Location).zone, req.IP, req.IPRange)
	if err != nil {
		return 0, nil, err
	}
	b.Nets = []attachment{{Network: n.ID, IP: ip}}
	return c.done("attach_to_network", b, n.on())
}

func detachBalancer(c *call, b *loadBalancer) (int, any, error) {
	var req struct {
		Network int64 `json:"network"`
	}
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	if !b.attached(req.Network) {
		return 0, nil, invalid("network", "load balancer is not attached to network %d", req.Network)
	}
	b.Nets = nil
	return c.done("detach_from_network", b, resource{"network", req.Network})
}

func enablePublic(c *call, b *loadBalancer) (int, any, error) {
	b.Disabled = false
	return c.done("enable_public_interface", b)
}

func disablePublic(c *call, b *loadBalancer) (int, any, error) {
	switch {
	case len(b.Nets) == 0:
		return 0, nil, fail("load_balancer_not_attached_to_network", "load balancer is not attached to a network")
	case slices.ContainsFunc(b.Targets, func(t target) bool { return !t.Private && t.IP == "" }):
		return 0, nil, fail("targets_without_use_private_ip", "load balancer has targets that use the public IP")
	}
	b.Disabled = true
	return c.done("disable_public_interface", b)
}

func balancerDNSPtr(c *call, b *loadBalancer) (int, any, error) {
	find := func(ip string) *primaryIP {
		for _, id := range []int64{b.IPv4, b.IPv6} {
			if p, ok := c.p.Primary.get(id); ok && p.contains(ip) {
				return p
			}
		}
		return nil
	}
	return setDNSPtr(c, "change_dns_ptr", b.on(), func(ip string) bool { return find(ip) != nil },
		func(ip, name string) { find(ip).setPointer(ip, name) })
}

// balancerEffect applies what a finished action of a load balancer has done.
func (s *Sim) balancerEffect(p *project, b *loadBalancer, a *action) {
	switch a.Command {
	case "change_load_balancer_type":
		b.Type = a.Args.Text
	case "delete_load_balancer":
		for _, id := range []int64{b.IPv4, b.IPv6} {
			ip, ok := p.Primary.get(id)
			if !ok {
				continue
			}
			ip.Assignee, ip.AssigneeType = 0, ""
			if ip.AutoDelete {
				p.Primary.remove(ip.ID, a.EndsAt)
			}
		}
		p.Balancers.remove(b.ID, a.EndsAt)
	}
}
