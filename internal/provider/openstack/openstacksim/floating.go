package openstacksim

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/google/uuid"
)

type floatingIP struct {
	id, project, description, port string
	address                        netip.Addr
	created, updated               time.Time
}

func (f *floatingIP) status() string {
	if f.port == "" {
		return "DOWN"
	}
	return "ACTIVE"
}

// fields are the members of a request's object.
func (c *call) fields(key string) map[string]json.RawMessage {
	var out map[string]json.RawMessage
	_ = json.Unmarshal(c.body[key], &out) // read has checked it
	return out
}

func (c *call) showFloating(f *floatingIP) map[string]any {
	var p any
	if f.port != "" {
		p = f.port
	}
	return map[string]any{"id": f.id, "description": f.description, "floating_ip_address": f.address.String(), "floating_network_id": c.region.external.id,
		"port_id": p, "status": f.status(), "tags": []string{}, "created_at": seconds(f.created), "updated_at": seconds(f.updated),
		"project_id": f.project, "tenant_id": f.project}
}

func (c *call) listFloating() {
	list := slices.DeleteFunc(slices.Clone(c.region.floating), func(f *floatingIP) bool { return !c.sees(f.project) })
	all(c, "floatingips", list, c.showFloating, func(f *floatingIP) map[string]string {
		return map[string]string{"id": f.id, "description": f.description, "port_id": f.port, "floating_network_id": c.region.external.id,
			"project_id": f.project, "tenant_id": f.project, "status": f.status(), "floating_ip_address": f.address.String()}
	})
}

func (c *call) floating() *floatingIP {
	id := c.r.PathValue("id")
	if i := slices.IndexFunc(c.region.floating, func(f *floatingIP) bool { return f.id == id && c.sees(f.project) }); i >= 0 {
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
	if c.port(id) == nil {
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
	if q := c.sim.quotas.FloatingIPs; q > 0 && owned(c, c.region.floating, func(f *floatingIP) string { return f.project }) >= q {
		c.neutron(http.StatusConflict, "OverQuota", "Quota exceeded for resources: ['floatingip'].")
		return
	}
	if !c.free(req.Port, "") {
		return
	}
	c.region.nextFloat++
	f := &floatingIP{id: uuid.NewString(), project: c.project, description: req.Description, port: req.Port, created: c.sim.now(), updated: c.sim.now(),
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
		Port        *string `json:"port_id"`
		Description *string `json:"description"`
	}
	if !c.read("floatingip", &req) {
		return
	}
	_, ported := c.fields("floatingip")["port_id"]
	if ported {
		id := ""
		if req.Port != nil {
			id = *req.Port
		}
		if !c.free(id, f.id) {
			return
		}
		f.port = id
	}
	if req.Description != nil {
		f.description = *req.Description
	}
	f.updated = c.sim.now()
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
