package hetznersim

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
)

type primaryIP struct {
	base
	Type         string            `json:"type"`
	IP           string            `json:"ip"`
	Location     string            `json:"location"`
	Assignee     int64             `json:"assignee,omitempty"`
	AssigneeType string            `json:"assigneeType,omitempty"`
	AutoDelete   bool              `json:"autoDelete,omitempty"`
	DNS          map[string]string `json:"dns,omitempty"`
}

func (ip *primaryIP) on() resource { return resource{"primary_ip", ip.ID} }

// contains reports whether the address is this one or in its network.
func (ip *primaryIP) contains(text string) bool { return within(ip.IP, text) }

func within(have, text string) bool {
	a, err := netip.ParseAddr(text)
	if err != nil {
		return false
	}
	if n, err := netip.ParsePrefix(have); err == nil {
		return n.Contains(a)
	}
	return have == a.String()
}

func (ip *primaryIP) setPointer(addr, name string) {
	if ip.DNS == nil {
		ip.DNS = map[string]string{}
	}
	ip.DNS[addr] = name
	if name == "" {
		delete(ip.DNS, addr)
	}
}

// defaultPointer is the reverse name that an IPv4 address has from the start.
func defaultPointer(addr string) string {
	parts := strings.Split(addr, ".")
	slices.Reverse(parts)
	return "static." + strings.Join(parts, ".") + ".clients.example.net"
}

func (ip *primaryIP) pointer() string {
	if name, ok := ip.DNS[ip.IP]; ok {
		return name
	}
	return defaultPointer(ip.IP)
}

func (ip *primaryIP) pointers() []obj {
	if ip.Type == "ipv4" {
		return []obj{{"ip": ip.IP, "dns_ptr": ip.pointer()}}
	}
	return pointerList(ip.DNS)
}

func pointerList(dns map[string]string) []obj {
	out := []obj{}
	for _, a := range slices.Sorted(maps.Keys(dns)) {
		out = append(out, obj{"ip": a, "dns_ptr": dns[a]})
	}
	return out
}

func (ip *primaryIP) view() obj {
	kind := ip.AssigneeType
	if ip.Assignee == 0 {
		kind = "unassigned" // since 2026-08-01
	}
	return obj{"id": ip.ID, "name": ip.Name, "labels": labelsOf(ip.Labels), "created": stamp(ip.Created), "blocked": false,
		"location": locationNamed(ip.Location).view(), "ip": ip.IP, "dns_ptr": ip.pointers(),
		"protection": obj{"delete": ip.Protected}, "type": ip.Type, "auto_delete": ip.AutoDelete,
		"assignee_type": kind, "assignee_id": idOrNil(ip.Assignee)}
}

func (s *Sim) primaryEffect(p *project, ip *primaryIP, a *action) {
	v, _ := p.Servers.get(a.Args.Other)
	switch a.Command {
	case "assign_primary_ip":
		if v == nil {
			return
		}
		ip.Assignee, ip.AssigneeType = v.ID, "server"
		*v.leg(ip.Type) = ip.ID
	case "unassign_primary_ip":
		ip.Assignee, ip.AssigneeType = 0, ""
		if v != nil {
			*v.leg(ip.Type) = 0
		}
	}
}

// leg is where the server keeps its address of this type.
func (v *server) leg(kind string) *int64 {
	if kind == "ipv6" {
		return &v.IPv6
	}
	return &v.IPv4
}

func listPrimaryIPs(c *call) (int, any, error) {
	ip := c.r.URL.Query().Get("ip")
	var views []view
	for _, a := range c.p.Primary.seenAt(c.now, c.lag) {
		if ip == "" || a.contains(ip) {
			views = append(views, viewOf(&a.base, a.view()))
		}
	}
	return c.list(listRules{key: "primary_ips", sort: []string{"id", "created"}, name: true, labels: true, extra: []string{"ip"}}, views)
}

func (c *call) primaryIP() (*primaryIP, error) {
	ip, ok := c.p.Primary.get(c.ids[0])
	if !ok {
		return nil, notFound("primary IP", c.ids[0])
	}
	return ip, nil
}

func getPrimaryIP(c *call) (int, any, error) {
	ip, err := c.primaryIP()
	if err != nil {
		return 0, nil, err
	}
	return 200, obj{"primary_ip": ip.view()}, nil
}

func createPrimaryIP(c *call) (int, any, error) {
	var req struct {
		Name         string            `json:"name"`
		Labels       map[string]string `json:"labels"`
		Type         string            `json:"type"`
		Location     ref               `json:"location"`
		AssigneeType string            `json:"assignee_type"`
		AssigneeID   int64             `json:"assignee_id"`
		AutoDelete   bool              `json:"auto_delete"`
	}
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	var p problems
	checkName(&p, req.Name, 128)
	checkLabels(&p, req.Labels)
	if req.Type != "ipv4" && req.Type != "ipv6" {
		p.add("type", "%q is not ipv4 or ipv6", req.Type)
	}
	if req.AssigneeType != "" && req.AssigneeType != "server" && req.AssigneeType != "unassigned" {
		p.add("assignee_type", "%q is not server", req.AssigneeType)
	}
	loc, ok := findLocation(req.Location)
	srv, has := c.p.Servers.get(req.AssigneeID)
	switch {
	case req.AssigneeID != 0 && !has:
		p.add("assignee_id", "server %d not found", req.AssigneeID)
	case req.AssigneeID != 0 && !req.Location.empty():
		p.add("location", "must not be given with an assignee")
	case req.AssigneeID == 0 && !ok:
		p.add("location", "location %s not found", req.Location)
	}
	if err := p.err(); err != nil {
		return 0, nil, err
	}
	if has {
		loc = locationNamed(srv.Location)
		if err := c.assignable(srv, req.Type); err != nil {
			return 0, nil, err
		}
	}
	if c.p.Primary.nameTaken(req.Name, 0) {
		return 0, nil, notUnique("name", "primary IP name is already used")
	}
	if err := c.p.overLimit("primary_ips", len(c.p.Primary.Live), 1); err != nil {
		return 0, nil, err
	}
	addr := ""
	if req.Type == "ipv4" {
		var err error
		if addr, err = c.s.backendAddress(c.p, &server{base: base{Name: req.Name, Labels: req.Labels}, Location: loc.name}); err != nil {
			return 0, nil, fail("resource_unavailable", "no address: %v", err)
		}
	}
	ip := c.newPrimaryIP(req.Type, addr, loc.name)
	ip.Name, ip.Labels, ip.AutoDelete = req.Name, maps.Clone(req.Labels), req.AutoDelete
	answer := obj{"primary_ip": ip.view()}
	if has {
		a := c.start("assign_primary_ip", c.s.timing.Action, actionArgs{Other: srv.ID}, ip.on(), srv.on())
		answer["action"] = a.view(c.now)
	}
	return 201, answer, nil
}

// assignable is the answer when a server cannot take an address just now.
func (c *call) assignable(v *server, kind string) error {
	if v.Status == stDeleting {
		return invalid("assignee_id", "server %d not found", v.ID)
	}
	if err := c.p.lockedErr("server", v.ID); err != nil {
		return err
	}
	if *v.leg(kind) != 0 {
		return fail("server_has_"+kind, "server already has an %s address", kind)
	}
	return stopped(v)
}

func updatePrimaryIP(c *call) (int, any, error) {
	ip, err := c.primaryIP()
	if err != nil {
		return 0, nil, err
	}
	var req struct {
		change
		AutoDelete *bool `json:"auto_delete"`
	}
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	if err := req.apply(&ip.base, short, c.p.Primary.nameTaken); err != nil {
		return 0, nil, err
	}
	if req.AutoDelete != nil {
		ip.AutoDelete = *req.AutoDelete
	}
	return 200, obj{"primary_ip": ip.view()}, nil
}

// deletePrimaryIP has no action; an assigned address is refused since
// 2026-05-01.
func deletePrimaryIP(c *call) (int, any, error) {
	ip, err := c.primaryIP()
	if err != nil {
		return 0, nil, err
	}
	switch {
	case ip.Protected:
		return 0, nil, fail("protected", "primary IP deletion is protected")
	case ip.Assignee != 0:
		return 0, nil, fail("must_be_unassigned", "primary IP must be unassigned before it can be deleted")
	}
	if err := c.p.lockedErr("primary_ip", ip.ID); err != nil {
		return 0, nil, err
	}
	c.p.Primary.remove(ip.ID, c.now)
	return 204, nil, nil
}

// onPrimaryIP wraps an action of a primary IP that must not be locked.
func onPrimaryIP(h func(c *call, ip *primaryIP) (int, any, error)) handler {
	return func(c *call) (int, any, error) {
		ip, err := c.primaryIP()
		if err != nil {
			return 0, nil, err
		}
		if err := c.p.lockedErr("primary_ip", ip.ID); err != nil {
			return 0, nil, err
		}
		return h(c, ip)
	}
}

func assignPrimaryIP(c *call, ip *primaryIP) (int, any, error) {
	var req struct {
		AssigneeID   int64  `json:"assignee_id"`
		AssigneeType string `json:"assignee_type"`
	}
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	srv, ok := c.p.Servers.get(req.AssigneeID)
	switch {
	case req.AssigneeType != "server":
		return 0, nil, invalid("assignee_type", "%q is not server", req.AssigneeType)
	case !ok:
		return 0, nil, invalid("assignee_id", "server %d not found", req.AssigneeID)
	case ip.Assignee != 0:
		return 0, nil, fail("primary_ip_already_assigned", "primary IP is already assigned to server %d", ip.Assignee)
	case srv.Location != ip.Location:
		return 0, nil, fail("primary_ip_datacenter_mismatch", "server is in location %s", srv.Location)
	}
	if err := c.assignable(srv, ip.Type); err != nil {
		return 0, nil, err
	}
	return c.answer(c.start("assign_primary_ip", c.s.timing.Action, actionArgs{Other: srv.ID}, ip.on(), srv.on()))
}

func unassignPrimaryIP(c *call, ip *primaryIP) (int, any, error) {
	if ip.Assignee == 0 {
		return 0, nil, invalid("assignee_id", "primary IP is not assigned")
	}
	if ip.AssigneeType != "server" {
		return 0, nil, fail("unsupported_error", "primary IP stays with its load balancer")
	}
	srv, ok := c.p.Servers.get(ip.Assignee)
	if ok {
		if err := c.p.lockedErr("server", srv.ID); err != nil {
			return 0, nil, err
		}
		if err := stopped(srv); err != nil {
			return 0, nil, err
		}
	}
	return c.answer(c.start("unassign_primary_ip", c.s.timing.Action, actionArgs{Other: ip.Assignee}, ip.on(),
		resource{"server", ip.Assignee}))
}

func primaryDNSPtr(c *call, ip *primaryIP) (int, any, error) {
	return setDNSPtr(c, "change_dns_ptr", ip.on(), ip.contains, ip.setPointer)
}

// protectPrimaryIP refuses to protect an address that goes with its server.
func protectPrimaryIP(c *call, ip *primaryIP) (int, any, error) {
	if ip.AutoDelete {
		var req struct{ Delete bool }
		if err := c.decode(&req); err != nil {
			return 0, nil, err
		}
		if req.Delete {
			return 0, nil, invalid("delete", "must not be set while auto_delete is")
		}
	}
	return c.protect(&ip.base, ip.on())
}
