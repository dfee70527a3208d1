package openstacksim

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/google/uuid"
)

type port struct {
	id, project, name, description, device, mac string
	address                                     netip.Addr
	network                                     string // "" for the first
	groups                                      []string
	created                                     time.Time
}

// host is the n-th address of a network.
func host(network string, n uint32) netip.Addr {
	a := netip.MustParsePrefix(network).Addr().As4()
	binary.BigEndian.PutUint32(a[:], binary.BigEndian.Uint32(a[:])+n)
	return netip.AddrFrom4(a)
}

// newPort makes a port; its address comes from the backend if there is one.
func (s *Sim) newPort(r *region, project, name, description string) *port {
	s.nextAddr++
	p := &port{id: uuid.NewString(), project: project, name: name, description: description, mac: fmt.Sprintf("fa:16:3e:%02x:%02x:%02x", byte(s.nextAddr>>16), byte(s.nextAddr>>8), byte(s.nextAddr)),
		address: host("10.20.0.0/16", s.nextAddr%65_000+10), created: s.now()}
	if s.opt.Backend != nil {
		a, err := s.opt.Backend.Address(s.r())
		if err != nil {
			return nil
		}
		p.address = a
	}
	r.ports = append(r.ports, p)
	return p
}

func (s *Sim) removePort(r *region, p *port) {
	for _, f := range r.floating {
		if f.port == p.id {
			f.port, f.updated = "", s.now()
		}
	}
	r.ports = slices.DeleteFunc(r.ports, func(o *port) bool { return o == p })
	if s.opt.Backend != nil {
		s.opt.Backend.Release(p.address)
	}
}

func (c *call) networks() []object { return []object{c.region.network, c.region.external} }

func (c *call) showNetwork(o object) map[string]any {
	return map[string]any{"id": o.id, "name": o.name, "status": "ACTIVE", "router:external": o == c.region.external, "admin_state_up": true}
}

func (c *call) listNetworks() {
	all(c, "networks", c.networks(), c.showNetwork, func(o object) map[string]string {
		return map[string]string{"id": o.id, "name": o.name, "router:external": fmt.Sprint(o == c.region.external)}
	})
}

func (c *call) getNetwork() {
	for _, o := range c.networks() {
		if o.id == c.r.PathValue("id") {
			c.answer(http.StatusOK, map[string]any{"network": c.showNetwork(o)})
			return
		}
	}
	c.neutron(http.StatusNotFound, "NetworkNotFound", "Network %s could not be found.", c.r.PathValue("id"))
}

func named(o object) map[string]any { return map[string]any{"id": o.id, "name": o.name} }

func (c *call) listSubnets() {
	all(c, "subnets", []object{c.region.subnet}, named, func(o object) map[string]string {
		return map[string]string{"id": o.id, "name": o.name, "network_id": c.region.network.id}
	})
}

// group is a security group. Each project has one of the name default, and an admin
// sees them all.
type group struct {
	object
	project string
}

func (c *call) listGroups() {
	list := []group{{c.region.group, c.project}}
	if c.admin {
		for _, p := range append([]object{c.sim.project}, c.sim.projects...) {
			if p.id != c.project {
				id := uuid.NewSHA1(uuid.NameSpaceOID, []byte(c.region.name+p.id)).String()
				list = append([]group{{object{id, c.region.group.name}, p.id}}, list...)
			}
		}
	}
	all(c, "security_groups", list, func(g group) map[string]any {
		return map[string]any{"id": g.id, "name": g.name, "project_id": g.project, "tenant_id": g.project}
	}, func(g group) map[string]string {
		return map[string]string{"id": g.id, "name": g.name, "project_id": g.project, "tenant_id": g.project}
	})
}

func (c *call) networkOf(p *port) string {
	if p.network == "" {
		return c.region.network.id
	}
	return p.network
}

func (c *call) showPort(p *port) map[string]any {
	owner := ""
	if p.device != "" {
		owner = "compute:nova"
	}
	return map[string]any{"id": p.id, "name": p.name, "description": p.description, "network_id": c.networkOf(p), "status": "ACTIVE",
		"device_id": p.device, "device_owner": owner, "mac_address": p.mac, "admin_state_up": true, "tags": []string{},
		"fixed_ips":       []any{map[string]any{"subnet_id": c.region.subnet.id, "ip_address": p.address.String()}},
		"security_groups": p.groups, "created_at": seconds(p.created), "updated_at": seconds(p.created), "project_id": p.project, "tenant_id": p.project}
}

func (c *call) listPorts() {
	list := slices.DeleteFunc(slices.Clone(c.region.ports), func(p *port) bool { return !c.sees(p.project) })
	all(c, "ports", list, c.showPort, func(p *port) map[string]string {
		return map[string]string{"id": p.id, "name": p.name, "description": p.description, "device_id": p.device, "network_id": c.networkOf(p),
			"project_id": p.project, "tenant_id": p.project}
	})
}

func (c *call) createPort() {
	var req struct {
		Network     string `json:"network_id"`
		Name        string `json:"name"`
		Description string `json:"description"`
		Fixed       []struct {
			Subnet string `json:"subnet_id"`
			IP     string `json:"ip_address"`
		} `json:"fixed_ips"`
		Groups []string `json:"security_groups"`
	}
	if !c.read("port", &req) {
		return
	}
	if req.Network != c.region.network.id && req.Network != c.region.external.id {
		c.neutron(http.StatusNotFound, "NetworkNotFound", "Network %s could not be found.", req.Network)
		return
	}
	for text, n := range map[string]int{"name": len(req.Name), "description": len(req.Description)} {
		if n > 255 {
			c.neutron(http.StatusBadRequest, "HTTPBadRequest", "Invalid input for %s. Reason: exceeds maximum length of 255.", text)
			return
		}
	}
	if q := c.sim.quotas.Ports; q > 0 && owned(c, c.region.ports, func(p *port) string { return p.project }) >= q {
		c.neutron(http.StatusConflict, "OverQuota", "Quota exceeded for resources: ['port'].")
		return
	}
	p := c.sim.newPort(c.region, c.project, req.Name, req.Description)
	if p == nil {
		c.neutron(http.StatusConflict, "IpAddressGenerationFailure", "No more IP addresses available on network %s.", req.Network)
		return
	}
	p.network = req.Network
	slices.Sort(req.Groups)
	if p.groups = slices.Compact(req.Groups); p.groups == nil {
		p.groups = []string{c.region.group.id}
	}
	c.answer(http.StatusCreated, map[string]any{"port": c.showPort(p)})
}

func (c *call) getPort() {
	if p := c.port(c.r.PathValue("id")); p != nil {
		c.answer(http.StatusOK, map[string]any{"port": c.showPort(p)})
		return
	}
	c.neutron(http.StatusNotFound, "PortNotFound", "Port %s could not be found.", c.r.PathValue("id"))
}

// deletePort deletes one that a server uses, too: the server loses it.
func (c *call) deletePort() {
	p := c.port(c.r.PathValue("id"))
	if p == nil {
		c.neutron(http.StatusNotFound, "PortNotFound", "Port %s could not be found.", c.r.PathValue("id"))
		return
	}
	c.sim.removePort(c.region, p)
	c.w.WriteHeader(http.StatusNoContent)
}
