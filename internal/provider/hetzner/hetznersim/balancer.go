package hetznersim

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// balancerType is a kind of load balancer.
type balancerType struct {
	id                                           int64
	name, description                            string
	connections, services, targets, certificates int
	hourly                                       int
}

var balancerTypes = []balancerType{
	{1, "lb11", "LB11", 10_000, 5, 25, 10, 88},
	{2, "lb21", "LB21", 20_000, 15, 75, 25, 180},
	{3, "lb31", "LB31", 40_000, 30, 150, 50, 350},
}

func findBalancerType(r ref) (balancerType, bool) {
	i := slices.IndexFunc(balancerTypes, func(t balancerType) bool { return r.is(t.id, t.name) })
	if i < 0 {
		return balancerType{}, false
	}
	return balancerTypes[i], true
}

func (t balancerType) view() obj {
	return obj{"id": t.id, "name": t.name, "description": t.description, "max_connections": t.connections,
		"max_services": t.services, "max_targets": t.targets, "max_assigned_certificates": t.certificates, "deprecated": nil,
		"prices": rentPrices(t.hourly, tebi20, everywhere)}
}

func listBalancerTypes(c *call) (int, any, error) {
	var views []view
	for _, t := range balancerTypes {
		views = append(views, view{id: t.id, name: t.name, body: t.view()})
	}
	return c.list(listRules{key: "load_balancer_types", name: true}, views)
}

func getBalancerType(c *call) (int, any, error) {
	t, ok := findBalancerType(ref{ID: c.ids[0]})
	if !ok {
		return 0, nil, notFound("load balancer type", c.ids[0])
	}
	return 200, obj{"load_balancer_type": t.view()}, nil
}

type loadBalancer struct {
	base
	Type      string            `json:"type"`
	Location  string            `json:"location"`
	IPv4      int64             `json:"ipv4"` // primary IPs
	IPv6      int64             `json:"ipv6"`
	Disabled  bool              `json:"disabled,omitempty"` // public interface
	Nets      []attachment      `json:"nets,omitempty"`
	Services  []json.RawMessage `json:"services,omitempty"`
	Targets   []target          `json:"targets,omitempty"`
	Algorithm string            `json:"algorithm"`
	Deleting  bool              `json:"deleting,omitempty"`
}

// target is what a load balancer sends to: one field is set.
type target struct {
	Server   int64  `json:"server,omitempty"`
	Selector string `json:"selector,omitempty"`
	IP       string `json:"ip,omitempty"`
	Private  bool   `json:"private,omitempty"`
}

func (b *loadBalancer) on() resource { return resource{"load_balancer", b.ID} }

func (b *loadBalancer) attached(network int64) bool {
	return slices.ContainsFunc(b.Nets, func(a attachment) bool { return a.Network == network })
}

// service reads a stored service.
func (b *loadBalancer) service(i int) (s service) {
	_ = json.Unmarshal(b.Services[i], &s)
	return s
}

func (b *loadBalancer) health() []obj {
	out := []obj{}
	for i := range b.Services {
		out = append(out, obj{"listen_port": b.service(i).ListenPort, "status": "healthy"})
	}
	return out
}

func (p *project) balancerView(b *loadBalancer) obj {
	t, _ := findBalancerType(ref{Name: b.Type})
	leg := func(id int64) obj {
		ip, ok := p.Primary.get(id)
		if !ok {
			return obj{"ip": nil, "dns_ptr": nil}
		}
		if ip.Type == "ipv4" {
			return obj{"id": ip.ID, "ip": ip.IP, "dns_ptr": ip.pointer()}
		}
		addr := nth(ip.IP, 1).String()
		o := obj{"id": ip.ID, "ip": addr, "dns_ptr": nil}
		if name := ip.DNS[addr]; name != "" {
			o["dns_ptr"] = name
		}
		return o
	}
	nets, services, targets := []obj{}, []obj{}, []obj{}
	for _, n := range b.Nets {
		nets = append(nets, obj{"network": n.Network, "ip": n.IP})
	}
	for i := range b.Services {
		services = append(services, b.service(i).view())
	}
	for _, t := range b.Targets {
		targets = append(targets, p.targetView(b, t))
	}
	return obj{"id": b.ID, "name": b.Name, "public_net": obj{"enabled": !b.Disabled, "ipv4": leg(b.IPv4), "ipv6": leg(b.IPv6)},
		"private_net": nets, "location": locationNamed(b.Location).view(), "load_balancer_type": t.view(),
		"protection": obj{"delete": b.Protected}, "labels": labelsOf(b.Labels), "created": stamp(b.Created), "services": services,
		"targets": targets, "algorithm": obj{"type": b.Algorithm}, "outgoing_traffic": nil, "ingoing_traffic": nil,
		"included_traffic": int64(tebi20)}
}

func (p *project) targetView(b *loadBalancer, t target) obj {
	switch {
	case t.Server != 0:
		return obj{"type": "server", "server": obj{"id": t.Server}, "health_status": b.health(), "use_private_ip": t.Private}
	case t.IP != "":
		return obj{"type": "ip", "ip": obj{"ip": t.IP}, "health_status": b.health()}
	}
	sub := []obj{}
	for _, v := range p.selected(t.Selector) {
		sub = append(sub, obj{"type": "server", "server": obj{"id": v.ID}, "health_status": b.health(), "use_private_ip": t.Private})
	}
	return obj{"type": "label_selector", "label_selector": obj{"selector": t.Selector}, "targets": sub, "use_private_ip": t.Private}
}

func (p *project) balancersOf(server int64) []int64 {
	var ids []int64
	for _, b := range p.Balancers.Live {
		for _, t := range b.Targets {
			if t.Server == server {
				ids = append(ids, b.ID)
			}
		}
	}
	return sortedIDs(ids)
}

func listBalancers(c *call) (int, any, error) {
	var views []view
	for _, b := range c.p.Balancers.seenAt(c.now, c.lag) {
		views = append(views, viewOf(&b.base, c.p.balancerView(b)))
	}
	return c.list(listRules{key: "load_balancers", sort: []string{"id", "name", "created"}, name: true, labels: true}, views)
}

func (c *call) balancer() (*loadBalancer, error) {
	b, ok := c.p.Balancers.get(c.ids[0])
	if !ok {
		return nil, notFound("load balancer", c.ids[0])
	}
	return b, nil
}

func getBalancer(c *call) (int, any, error) {
	b, err := c.balancer()
	if err != nil {
		return 0, nil, err
	}
	return 200, obj{"load_balancer": c.p.balancerView(b)}, nil
}

type balancerCreate struct {
	Name            string             `json:"name"`
	Type            ref                `json:"load_balancer_type"`
	Algorithm       *balancerAlgorithm `json:"algorithm"`
	Services        []service          `json:"services"`
	Targets         []targetRequest    `json:"targets"`
	Labels          map[string]string  `json:"labels"`
	PublicInterface *bool              `json:"public_interface"`
	PublicNet       *struct {
		IPv4 int64 `json:"ipv4"`
		IPv6 int64 `json:"ipv6"`
	} `json:"public_net"`
	Network     int64  `json:"network"`
	NetworkZone string `json:"network_zone"`
	Location    ref    `json:"location"`
}

type balancerAlgorithm struct {
	Type string `json:"type"`
}

var algorithms = []string{"round_robin", "least_connections"}

func createBalancer(c *call) (int, any, error) {
	var req balancerCreate
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	b, err := c.planBalancer(req)
	if err != nil {
		return 0, nil, err
	}
	if c.p.Balancers.nameTaken(req.Name, 0) {
		return 0, nil, notUnique("name", "load balancer name is already used")
	}
	if err := c.p.overLimit("load_balancers", len(c.p.Balancers.Live), 1); err != nil {
		return 0, nil, err
	}
	b.ID = c.s.id()
	for _, want := range []struct {
		kind string
		at   *int64
	}{{"ipv4", &b.IPv4}, {"ipv6", &b.IPv6}} {
		if *want.at == 0 {
			*want.at = c.newPrimaryIP(want.kind, "", b.Location).ID
		}
		ip, _ := c.p.Primary.get(*want.at)
		ip.Assignee, ip.AssigneeType = b.ID, "load_balancer"
	}
	c.p.Balancers.put(b)
	return 201, obj{"load_balancer": c.p.balancerView(b), "action": c.start("create_load_balancer", c.s.timing.Init, actionArgs{}, b.on()).view(c.now)}, nil
}

// planBalancer checks a create and builds what it asks for.
func (c *call) planBalancer(req balancerCreate) (*loadBalancer, error) {
	var p problems
	short(&p, req.Name)
	checkLabels(&p, req.Labels)
	t, ok := findBalancerType(req.Type)
	if !ok {
		p.add("load_balancer_type", "load balancer type %s not found", req.Type)
	}
	b := &loadBalancer{base: base{Name: req.Name, Labels: maps.Clone(req.Labels), Created: c.now}, Type: t.name,
		Algorithm: "round_robin", Disabled: req.PublicInterface != nil && !*req.PublicInterface}
	if req.Algorithm != nil {
		if b.Algorithm = req.Algorithm.Type; !slices.Contains(algorithms, b.Algorithm) {
			p.add("algorithm.type", "%q is not round_robin or least_connections", b.Algorithm)
		}
	}
	switch i := slices.IndexFunc(locations, func(l location) bool { return l.zone == req.NetworkZone }); {
	case !req.Location.empty() && req.NetworkZone != "" || req.Location.empty() && req.NetworkZone == "":
		p.add("location", "one of location and network_zone is required")
	case req.Location.empty() && i < 0:
		p.add("network_zone", "%q is not a network zone", req.NetworkZone)
	case req.Location.empty():
		b.Location = locations[i].name
	default:
		l, ok := findLocation(req.Location)
		if b.Location = l.name; !ok {
			p.add("location", "location %s not found", req.Location)
		}
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	if req.Network != 0 {
		n, ok := c.p.Networks.get(req.Network)
		if !ok {
			return nil, invalid("network", "network %d not found", req.Network)
		}
		ip, err := c.p.freeIP(n, locationNamed(b.Location).zone, "", "")
		if err != nil {
			return nil, err
		}
		b.Nets = []attachment{{Network: n.ID, IP: ip}}
	}
	if req.PublicNet != nil {
		b.IPv4, b.IPv6 = req.PublicNet.IPv4, req.PublicNet.IPv6
		for kind, id := range map[string]int64{"ipv4": b.IPv4, "ipv6": b.IPv6} {
			if ip, ok := c.p.Primary.get(id); id != 0 && (!ok || ip.Type != kind || ip.Assignee != 0 || ip.Location != b.Location) {
				return nil, invalid("public_net."+kind, "primary IP %d cannot be used", id)
			}
		}
	}
	for i, s := range req.Services {
		if err := c.addServiceTo(b, s, "services."+strconv.Itoa(i)+"."); err != nil {
			return nil, err
		}
	}
	for _, tr := range req.Targets {
		if err := c.addTargetTo(b, tr); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func updateBalancer(c *call) (int, any, error) {
	b, err := c.balancer()
	if err != nil {
		return 0, nil, err
	}
	var ch change
	if err := c.decode(&ch); err != nil {
		return 0, nil, err
	}
	if err := ch.apply(&b.base, short, c.p.Balancers.nameTaken); err != nil {
		return 0, nil, err
	}
	return 200, obj{"load_balancer": c.p.balancerView(b)}, nil
}

// deleteBalancer answers 201 with an action since 2026-10-05.
func deleteBalancer(c *call) (int, any, error) {
	b, err := c.balancer()
	if err != nil {
		return 0, nil, err
	}
	switch {
	case b.Deleting:
		return 0, nil, notFound("load balancer", b.ID)
	case b.Protected:
		return 0, nil, fail("protected", "load balancer deletion is protected")
	}
	if err := c.p.lockedErr("load_balancer", b.ID); err != nil {
		return 0, nil, err
	}
	b.Deleting = true
	return c.answer(c.start("delete_load_balancer", c.s.timing.Delete, actionArgs{}, b.on()))
}
