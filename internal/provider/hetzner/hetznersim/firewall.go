package hetznersim

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Limits of firewalls.
const (
	maxFirewallsPerServer = 5
	maxFirewallRules      = 50
)

type firewall struct {
	base
	Rules     []rule   `json:"rules,omitempty"`
	Servers   []int64  `json:"servers,omitempty"`
	Selectors []string `json:"selectors,omitempty"`
}

type rule struct {
	Direction   string   `json:"direction"`
	SourceIPs   []string `json:"source_ips"`
	DestIPs     []string `json:"destination_ips"`
	Protocol    string   `json:"protocol"`
	Port        string   `json:"port"`
	Description string   `json:"description"`
}

// applyTo is what a firewall is applied to in a request.
type applyTo struct {
	Type   string `json:"type"`
	Server *struct {
		ID int64 `json:"id"`
	} `json:"server"`
	LabelSelector *struct {
		Selector string `json:"selector"`
	} `json:"label_selector"`
}

func (f *firewall) on() resource { return resource{"firewall", f.ID} }

func (r rule) view() obj {
	o := obj{"direction": r.Direction, "source_ips": list(r.SourceIPs), "destination_ips": list(r.DestIPs),
		"protocol": r.Protocol, "port": nil, "description": nil}
	if r.Port != "" {
		o["port"] = r.Port
	}
	if r.Description != "" {
		o["description"] = r.Description
	}
	return o
}

func (p *project) firewallView(f *firewall) obj {
	rules, applied := []obj{}, []obj{}
	for _, r := range f.Rules {
		rules = append(rules, r.view())
	}
	for _, id := range sortedIDs(f.Servers) {
		applied = append(applied, obj{"type": "server", "server": obj{"id": id}})
	}
	for _, text := range f.Selectors {
		matched := []obj{}
		for _, v := range p.selected(text) {
			matched = append(matched, obj{"type": "server", "server": obj{"id": v.ID}})
		}
		applied = append(applied, obj{"type": "label_selector", "label_selector": obj{"selector": text}, "applied_to_resources": matched})
	}
	return obj{"id": f.ID, "name": f.Name, "labels": labelsOf(f.Labels), "created": stamp(f.Created), "rules": rules, "applied_to": applied}
}

// selected are the servers that match a label selector.
func (p *project) selected(text string) []*server {
	sel, err := parseSelector(text)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(p.Servers.all(), func(v *server) bool { return !sel.matches(v.Labels) })
}

// covers reports whether the firewall guards the server.
func (p *project) covers(f *firewall, id int64) bool {
	if slices.Contains(f.Servers, id) {
		return true
	}
	return slices.ContainsFunc(f.Selectors, func(text string) bool {
		return slices.ContainsFunc(p.selected(text), func(v *server) bool { return v.ID == id })
	})
}

func (p *project) firewallsOf(server int64) []obj {
	out := []obj{}
	for _, f := range p.Firewalls.all() {
		if !p.covers(f, server) {
			continue
		}
		status := "applied"
		for _, a := range p.running {
			if a.Command == "apply_firewall" && slices.Contains(a.On, f.on()) && slices.Contains(a.On, resource{"server", server}) {
				status = "pending"
			}
		}
		out = append(out, obj{"id": f.ID, "status": status})
	}
	return out
}

// openTCP are the ports that the firewalls of a server let in; nil without a
// firewall.
func (p *project) openTCP(server int64) []string {
	var ports []string
	for _, f := range p.Firewalls.all() {
		if !p.covers(f, server) {
			continue
		}
		ports = list(ports)
		for _, r := range f.Rules {
			if r.Direction == "in" && r.Protocol == "tcp" {
				ports = append(ports, r.Port)
			}
		}
	}
	return ports
}

func checkRules(p *problems, rules []rule) {
	if len(rules) > maxFirewallRules {
		p.add("rules", "at most %d rules", maxFirewallRules)
	}
	for i, r := range rules {
		field := "rules." + strconv.Itoa(i) + "."
		ips, other, which := r.SourceIPs, r.DestIPs, "source_ips"
		switch r.Direction {
		case "in":
		case "out":
			ips, other, which = r.DestIPs, r.SourceIPs, "destination_ips"
		default:
			p.add(field+"direction", "%q is not in or out", r.Direction)
		}
		required(p, field+which, len(ips) == 0)
		if len(other) > 0 {
			p.add(field+which, "only %s may be given for direction %s", which, r.Direction)
		}
		if len(ips) > 100 {
			p.add(field+which, "at most 100 networks")
		}
		for _, ip := range ips {
			n, err := netip.ParsePrefix(ip)
			if err != nil || n.Masked() != n {
				p.add(field+which, "%q is not a network in CIDR notation", ip)
			}
		}
		checkPort(p, field+"port", r)
	}
}

func checkPort(p *problems, field string, r rule) {
	switch r.Protocol {
	case "tcp", "udp":
		from, to, isRange := strings.Cut(r.Port, "-")
		lo, err := strconv.Atoi(from)
		hi, err2 := lo, error(nil)
		if isRange {
			hi, err2 = strconv.Atoi(to)
		}
		if err != nil || err2 != nil || lo < 1 || hi > 65535 || lo > hi {
			if r.Port != "any" {
				p.add(field, "%q is not a port or a range of ports", r.Port)
			}
		}
	case "icmp", "esp", "gre":
		if r.Port != "" {
			p.add(field, "must not be given for protocol %s", r.Protocol)
		}
	default:
		p.add(strings.TrimSuffix(field, "port")+"protocol", "%q is not tcp, udp, icmp, esp or gre", r.Protocol)
	}
}

// apply puts the firewall on servers and selectors.
func (c *call) apply(f *firewall, to []applyTo) ([]*action, error) {
	var actions []*action
	seen := map[int64]bool{}
	for _, t := range to {
		switch {
		case t.Type == "server" && t.Server != nil:
			if seen[t.Server.ID] {
				return nil, fail("server_already_added", "server %d is given twice", t.Server.ID)
			}
			seen[t.Server.ID] = true
			if err := c.canApply(f, t.Server.ID); err != nil {
				return nil, err
			}
		case t.Type == "label_selector" && t.LabelSelector != nil:
			if _, err := parseSelector(t.LabelSelector.Selector); err != nil {
				return nil, err
			}
			if slices.Contains(f.Selectors, t.LabelSelector.Selector) {
				return nil, fail("firewall_already_applied", "firewall is already applied to %q", t.LabelSelector.Selector)
			}
		default:
			return nil, invalid("apply_to", "%q needs its object", t.Type)
		}
	}
	for _, t := range to {
		if t.Type == "server" {
			f.Servers = append(f.Servers, t.Server.ID)
			actions = append(actions, c.start("apply_firewall", c.s.timing.Action, actionArgs{}, f.on(), resource{"server", t.Server.ID}))
			continue
		}
		f.Selectors = append(f.Selectors, t.LabelSelector.Selector)
		for _, v := range c.p.selected(t.LabelSelector.Selector) {
			actions = append(actions, c.start("apply_firewall", c.s.timing.Action, actionArgs{}, f.on(), v.on()))
		}
	}
	return actions, nil
}

func (c *call) canApply(f *firewall, id int64) error {
	v, ok := c.p.Servers.get(id)
	switch {
	case !ok || v.Status == stDeleting:
		return fail("firewall_resource_not_found", "server %d not found", id)
	case slices.Contains(f.Servers, id):
		return fail("firewall_already_applied", "firewall is already applied to server %d", id)
	case v.IPv4 == 0 && v.IPv6 == 0:
		return fail("private_net_only_server", "server %d has no public interface", id)
	case len(c.p.firewallsOf(id)) >= maxFirewallsPerServer:
		return invalid("apply_to", "server %d has %d firewalls already", id, maxFirewallsPerServer)
	}
	return nil
}

func createFirewall(c *call) (int, any, error) {
	var req struct {
		Name    string            `json:"name"`
		Labels  map[string]string `json:"labels"`
		Rules   []rule            `json:"rules"`
		ApplyTo []applyTo         `json:"apply_to"`
	}
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	var p problems
	short(&p, req.Name)
	checkLabels(&p, req.Labels)
	checkRules(&p, req.Rules)
	if err := p.err(); err != nil {
		return 0, nil, err
	}
	if c.p.Firewalls.nameTaken(req.Name, 0) {
		return 0, nil, notUnique("name", "firewall name is already used")
	}
	if err := c.p.overLimit("firewalls", len(c.p.Firewalls.Live), 1); err != nil {
		return 0, nil, err
	}
	f := &firewall{base: base{ID: c.s.id(), Name: req.Name, Labels: maps.Clone(req.Labels), Created: c.now}, Rules: req.Rules}
	rules := c.start("set_firewall_rules", c.s.timing.Action, actionArgs{}, f.on())
	actions, err := c.apply(f, req.ApplyTo)
	if err != nil {
		delete(c.p.Actions, rules.ID)
		delete(c.p.running, rules.ID)
		var e *apiError
		if e, _ = err.(*apiError); e != nil && e.Code == "firewall_resource_not_found" {
			e.Status = 422 // so says the table of this operation
		}
		return 0, nil, err
	}
	c.p.Firewalls.put(f)
	return 201, obj{"firewall": c.p.firewallView(f), "actions": c.views(append([]*action{rules}, actions...)...)}, nil
}
