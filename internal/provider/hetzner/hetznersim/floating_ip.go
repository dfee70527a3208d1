package hetznersim

import "maps"

type floatingIP struct {
	base
	Type   string            `json:"type"`
	IP     string            `json:"ip"`
	Home   string            `json:"home"`
	Server int64             `json:"server,omitempty"`
	Text   string            `json:"text,omitempty"` // description
	DNS    map[string]string `json:"dns,omitempty"`
}

func (f *floatingIP) on() resource { return resource{"floating_ip", f.ID} }

func (f *floatingIP) view() obj {
	return obj{"id": f.ID, "name": f.Name, "description": f.Text, "ip": f.IP, "type": f.Type, "server": idOrNil(f.Server),
		"dns_ptr": pointerList(f.DNS), "home_location": locationNamed(f.Home).view(), "blocked": false,
		"protection": obj{"delete": f.Protected}, "labels": labelsOf(f.Labels), "created": stamp(f.Created)}
}

func (p *project) floatingOf(server int64) []int64 {
	var ids []int64
	for _, f := range p.Floating.Live {
		if f.Server == server {
			ids = append(ids, f.ID)
		}
	}
	return sortedIDs(ids)
}

func (f *floatingIP) effect(a *action) {
	switch a.Command {
	case "assign_floating_ip":
		f.Server = a.Args.Other
	case "unassign_floating_ip":
		f.Server = 0
	}
}

func listFloatingIPs(c *call) (int, any, error) {
	var views []view
	for _, f := range c.p.Floating.seenAt(c.now, c.lag) {
		views = append(views, viewOf(&f.base, f.view()))
	}
	return c.list(listRules{key: "floating_ips", sort: []string{"id", "created"}, name: true, labels: true}, views)
}

func (c *call) floatingIP() (*floatingIP, error) {
	f, ok := c.p.Floating.get(c.ids[0])
	if !ok {
		return nil, notFound("floating IP", c.ids[0])
	}
	return f, nil
}

func getFloatingIP(c *call) (int, any, error) {
	f, err := c.floatingIP()
	if err != nil {
		return 0, nil, err
	}
	return 200, obj{"floating_ip": f.view()}, nil
}

func createFloatingIP(c *call) (int, any, error) {
	var req struct {
		Type         string            `json:"type"`
		Server       int64             `json:"server"`
		HomeLocation ref               `json:"home_location"`
		Description  string            `json:"description"`
		Name         string            `json:"name"`
		Labels       map[string]string `json:"labels"`
	}
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	var p problems
	checkLabels(&p, req.Labels)
	if req.Type != "ipv4" && req.Type != "ipv6" {
		p.add("type", "%q is not ipv4 or ipv6", req.Type)
	}
	home, ok := findLocation(req.HomeLocation)
	srv, has := c.p.Servers.get(req.Server)
	switch {
	case req.Server != 0 && !has:
		p.add("server", "server %d not found", req.Server)
	case req.Server == 0 && !ok:
		p.add("home_location", "location %s not found", req.HomeLocation)
	}
	if err := p.err(); err != nil {
		return 0, nil, err
	}
	if c.p.Floating.nameTaken(req.Name, 0) {
		return 0, nil, notUnique("name", "floating IP name is already used")
	}
	if err := c.p.overLimit("floating_ips", len(c.p.Floating.Live), 1); err != nil {
		return 0, nil, err
	}
	if has && !ok {
		home = locationNamed(srv.Location)
	}
	f := &floatingIP{base: base{ID: c.s.id(), Name: req.Name, Labels: maps.Clone(req.Labels), Created: c.now}, Type: req.Type, Home: home.name, Text: req.Description}
	if f.IP = c.s.nextIPv6(); req.Type == "ipv4" {
		f.IP = c.s.nextIPv4()
		f.DNS = map[string]string{f.IP: defaultPointer(f.IP)}
	}
	c.p.Floating.put(f)
	answer := obj{"floating_ip": f.view()}
	if has {
		answer["action"] = c.start("assign_floating_ip", c.s.timing.Action, actionArgs{Other: srv.ID}, f.on(), srv.on()).view(c.now)
	}
	return 201, answer, nil
}

func updateFloatingIP(c *call) (int, any, error) {
	f, err := c.floatingIP()
	if err != nil {
		return 0, nil, err
	}
	var req struct {
		change
		Description *string `json:"description"`
	}
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	if err := req.apply(&f.base, short, c.p.Floating.nameTaken); err != nil {
		return 0, nil, err
	}
	if req.Description != nil {
		f.Text = *req.Description
	}
	return 200, obj{"floating_ip": f.view()}, nil
}

// deleteFloatingIP has no action; an assigned address is refused since
// 2026-05-01.
func deleteFloatingIP(c *call) (int, any, error) {
	f, err := c.floatingIP()
	if err != nil {
		return 0, nil, err
	}
	switch {
	case f.Protected:
		return 0, nil, fail("protected", "floating IP deletion is protected")
	case f.Server != 0:
		return 0, nil, fail("must_be_unassigned", "floating IP must be unassigned before it can be deleted")
	}
	if err := c.p.lockedErr("floating_ip", f.ID); err != nil {
		return 0, nil, err
	}
	c.p.Floating.remove(f.ID, c.now)
	return 204, nil, nil
}

// onFloatingIP wraps an action of a floating IP that must not be locked.
func onFloatingIP(h func(c *call, f *floatingIP) (int, any, error)) handler {
	return func(c *call) (int, any, error) {
		f, err := c.floatingIP()
		if err != nil {
			return 0, nil, err
		}
		if err := c.p.lockedErr("floating_ip", f.ID); err != nil {
			return 0, nil, err
		}
		return h(c, f)
	}
}

func assignFloatingIP(c *call, f *floatingIP) (int, any, error) {
	var req struct {
		Server int64 `json:"server"`
	}
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	srv, ok := c.p.Servers.get(req.Server)
	switch {
	case !ok || srv.Status == stDeleting:
		return 0, nil, invalid("server", "server %d not found", req.Server)
	case f.Server == srv.ID:
		return 0, nil, fail("floating_ip_assigned", "floating IP is already assigned")
	}
	return c.answer(c.start("assign_floating_ip", c.s.timing.Action, actionArgs{Other: srv.ID}, f.on(), srv.on()))
}

func unassignFloatingIP(c *call, f *floatingIP) (int, any, error) {
	if f.Server == 0 {
		return 0, nil, invalid("server", "floating IP is not assigned")
	}
	return c.answer(c.start("unassign_floating_ip", c.s.timing.Action, actionArgs{}, f.on(), resource{"server", f.Server}))
}

func floatingDNSPtr(c *call, f *floatingIP) (int, any, error) {
	return setDNSPtr(c, "change_dns_ptr", f.on(), func(ip string) bool { return within(f.IP, ip) }, func(ip, name string) {
		if f.DNS == nil {
			f.DNS = map[string]string{}
		}
		f.DNS[ip] = name
		if name == "" {
			delete(f.DNS, ip)
		}
	})
}
