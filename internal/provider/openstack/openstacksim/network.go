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
	id, name, description, device, mac string
	address                            netip.Addr
	groups                             []string
	created                            time.Time
}

type floatingIP struct {
	id, description, port string
	address               netip.Addr
	created               time.Time
}

// host is the n-th address of a network.
func host(network string, n uint32) netip.Addr {
	a := netip.MustParsePrefix(network).Addr().As4()
	binary.BigEndian.PutUint32(a[:], binary.BigEndian.Uint32(a[:])+n)
	return netip.AddrFrom4(a)
}

// newPort makes a port; its address comes from the backend if there is one.
func (s *Sim) newPort(r *region, name, description string) *port {
	s.nextAddr++
	p := &port{id: uuid.NewString(), name: name, description: description, mac: fmt.Sprintf("fa:16:3e:%02x:%02x:%02x", byte(s.nextAddr>>16), byte(s.nextAddr>>8), byte(s.nextAddr)),
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
			f.port = ""
		}
	}
	r.ports = slices.DeleteFunc(r.ports, func(o *port) bool { return o == p })
	if s.opt.Backend != nil {
		s.opt.Backend.Release(p.address)
	}
}

// matches applies the filters of the network service: equality, several values
// of one key joined by or, unknown keys ignored.
func (c *call) matches(fields map[string]string) bool {
	for key, want := range c.query {
		if have, known := fields[key]; known && !slices.Contains(want, have) {
			return false
		}
	}
	return true
}

// all answers with a whole listing: the service has no pages unless asked.
func all[T any](c *call, key string, list []T, show func(T) map[string]any, fields func(T) map[string]string) {
	out := []any{}
	for _, x := range list {
		if c.matches(fields(x)) {
			out = append(out, show(x))
		}
	}
	c.answer(http.StatusOK, map[string]any{key: out})
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

func (c *call) listGroups() {
	all(c, "security_groups", []object{c.region.group}, named, func(o object) map[string]string {
		return map[string]string{"id": o.id, "name": o.name}
	})
}

func (c *call) showPort(p *port) map[string]any {
	owner := ""
	if p.device != "" {
		owner = "compute:nova"
	}
	return map[string]any{"id": p.id, "name": p.name, "description": p.description, "network_id": c.region.network.id, "status": "ACTIVE",
		"device_id": p.device, "device_owner": owner, "mac_address": p.mac, "admin_state_up": true, "tags": []string{},
		"fixed_ips":       []any{map[string]any{"subnet_id": c.region.subnet.id, "ip_address": p.address.String()}},
		"security_groups": p.groups, "created_at": seconds(p.created), "updated_at": seconds(p.created), "project_id": c.sim.project}
}

func (c *call) listPorts() {
	all(c, "ports", c.region.ports, c.showPort, func(p *port) map[string]string {
		return map[string]string{"id": p.id, "name": p.name, "description": p.description, "device_id": p.device, "network_id": c.region.network.id}
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
	if q := c.sim.quotas.Ports; q > 0 && len(c.region.ports) >= q {
		c.neutron(http.StatusConflict, "OverQuota", "Quota exceeded for resources: ['port'].")
		return
	}
	p := c.sim.newPort(c.region, req.Name, req.Description)
	if p == nil {
		c.neutron(http.StatusConflict, "IpAddressGenerationFailure", "No more IP addresses available on network %s.", req.Network)
		return
	}
	if p.groups = req.Groups; p.groups == nil {
		p.groups = []string{c.region.group.id}
	}
	c.answer(http.StatusCreated, map[string]any{"port": c.showPort(p)})
}

func (c *call) getPort() {
	if p := c.region.portByID(c.r.PathValue("id")); p != nil {
		c.answer(http.StatusOK, map[string]any{"port": c.showPort(p)})
		return
	}
	c.neutron(http.StatusNotFound, "PortNotFound", "Port %s could not be found.", c.r.PathValue("id"))
}

// deletePort deletes one that a server uses, too: the server loses it.
func (c *call) deletePort() {
	p := c.region.portByID(c.r.PathValue("id"))
	if p == nil {
		c.neutron(http.StatusNotFound, "PortNotFound", "Port %s could not be found.", c.r.PathValue("id"))
		return
	}
	c.sim.removePort(c.region, p)
	c.w.WriteHeader(http.StatusNoContent)
}

func (c *call) showFloating(f *floatingIP) map[string]any {
	status, p := "DOWN", any(nil)
	if f.port != "" {
		status, p = "ACTIVE", f.port
	}
	return map[string]any{"id": f.id, "description": f.description, "floating_ip_address": f.address.String(), "floating_network_id": c.region.external.id,
		"port_id": p, "status": status, "tags": []string{}, "created_at": seconds(f.created), "updated_at": seconds(f.created), "project_id": c.sim.project}
}

func (c *call) listFloating() {
	all(c, "floatingips", c.region.floating, c.showFloating, func(f *floatingIP) map[string]string {
		return map[string]string{"id": f.id, "description": f.description, "port_id": f.port, "floating_network_id": c.region.external.id}
	})
}

func (c *call) floating() *floatingIP {
	id := c.r.PathValue("id")
	if i := slices.IndexFunc(c.region.floating, func(f *floatingIP) bool { return f.id == id }); i >= 0 {
		return c.region.floating[i]
	}
	c.neutron(http.StatusNotFound, "FloatingIPNotFound", "Floating IP %s could not be found", id)
	return nil
}

// free checks that a port can have a floating IP.
func (c *call) free(id, floating string) bool {
	if id == "" {
		return true
	}
	if c.region.portByID(id) == nil {
		c.neutron(http.StatusNotFound, "PortNotFound", "Port %s could not be found.", id)
		return false
	}
	for _, f := range c.region.floating {
		if f.port == id && f.id != floating {
			c.neutron(http.StatusConflict, "FloatingIPPortAlreadyAssociated",
				"Cannot associate floating IP %s (%s) with port %s using fixed IP, as that fixed IP already has a floating IP on external network %s.",
				floating, f.address, id, c.region.external.id)
			return false
		}
	}
	return true
}

func (c *call) createFloating() {
	var req struct {
		Network     string `json:"floating_network_id"`
		Port        string `json:"port_id"`
		Description string `json:"description"`
	}
	if !c.read("floatingip", &req) {
		return
	}
	if req.Network != c.region.external.id {
		c.neutron(http.StatusNotFound, "NetworkNotFound", "Network %s could not be found.", req.Network)
		return
	}
	if q := c.sim.quotas.FloatingIPs; q > 0 && len(c.region.floating) >= q {
		c.neutron(http.StatusConflict, "OverQuota", "Quota exceeded for resources: ['floatingip'].")
		return
	}
	if !c.free(req.Port, "") {
		return
	}
	c.region.nextFloat++
	f := &floatingIP{id: uuid.NewString(), description: req.Description, port: req.Port, created: c.sim.now(),
		address: host("203.0.113.0/24", c.region.nextFloat%250+2)}
	c.region.floating = append(c.region.floating, f)
	c.answer(http.StatusCreated, map[string]any{"floatingip": c.showFloating(f)})
}

func (c *call) getFloating() {
	if f := c.floating(); f != nil {
		c.answer(http.StatusOK, map[string]any{"floatingip": c.showFloating(f)})
	}
}

func (c *call) updateFloating() {
	f := c.floating()
	if f == nil {
		return
	}
	var req struct {
		Port string `json:"port_id"`
	}
	if !c.read("floatingip", &req) || !c.free(req.Port, f.id) {
		return
	}
	f.port = req.Port
	c.answer(http.StatusOK, map[string]any{"floatingip": c.showFloating(f)})
}

func (c *call) deleteFloating() {
	f := c.floating()
	if f == nil {
		return
	}
	c.region.floating = slices.DeleteFunc(c.region.floating, func(o *floatingIP) bool { return o == f })
	c.w.WriteHeader(http.StatusNoContent)
}
