package openstacksim

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
)

// build ends a server's building: it takes its ports and volumes and runs, or it
// is in ERROR.
func (s *Sim) build(r *region, x *server) {
	x.task, x.updated = "", s.now()
	made := x.actions[len(x.actions)-1]
	fault := s.fault
	for _, id := range x.ports {
		switch p := r.portByID(id); {
		case p == nil:
			fault = fmt.Sprintf("Port id %s could not be found.", id)
		case p.device != "" && p.device != x.id:
			fault = fmt.Sprintf("Port %s is still in use.", id)
		case fault == "":
			p.device = x.id
		}
	}
	if fault == "" && s.opt.Backend != nil {
		if err := s.opt.Backend.Start(s.r(), x.id, x.name, r.addressOf(x)); err != nil {
			s.opt.Logger.Warn("simulated server does not start", "instance", x.name, "error", err)
			fault = "Build of instance " + x.id + " aborted: " + err.Error()
		}
	}
	if fault != "" {
		x.status, x.fault = "ERROR", fault
		made.finish(s.now(), true)
		for _, p := range r.ports {
			if p.device == x.id {
				p.device = ""
			}
		}
		return
	}
	for _, a := range x.volumes {
		if v := r.volumeByID(a.id); v != nil {
			v.take(x.id, s.now())
		}
	}
	made.finish(s.now(), false)
	x.status, x.launched, x.zone = "ACTIVE", s.now(), s.home(x)
}

// halt ends what runs behind a server.
func (s *Sim) halt(r *region, x *server) {
	if s.opt.Backend != nil {
		if err := s.opt.Backend.Stop(s.r(), x.id, r.addressOf(x)); err != nil {
			s.opt.Logger.Warn("simulated server does not stop", "instance", x.name, "error", err)
		}
	}
}

// end removes a server. Ports that were given to it stay and are free, as do
// volumes that do not go with it.
func (s *Sim) end(r *region, x *server) {
	s.halt(r, x)
	for _, p := range slices.Clone(r.ports) {
		if p.device != x.id {
			continue
		}
		p.device = ""
		if p.id == x.ownPort {
			s.removePort(r, p)
		}
	}
	for _, a := range x.volumes {
		v := r.volumeByID(a.id)
		if v == nil {
			continue
		}
		v.server = ""
		v.become("available", s.now())
		if a.delete {
			v.become("deleting", s.now())
			v.due = s.now().Add(s.opt.VolumeTime)
		}
	}
	for _, a := range x.actions {
		if a.name == "delete" && a.finished.IsZero() {
			a.finish(s.now(), false)
		}
	}
	x.status, x.task, x.work, x.terminated, x.updated = "DELETED", "", nil, s.now(), s.now()
	r.servers = slices.DeleteFunc(r.servers, func(o *server) bool { return o == x })
	r.gone = append(r.gone, x)
}

func (c *call) limits() {
	most, used := -1, c.count()
	if q := c.sim.quotas.Instances; q > 0 {
		most = q
	}
	c.answer(http.StatusOK, map[string]any{"limits": map[string]any{"rate": []any{}, "absolute": map[string]any{
		"maxTotalInstances": most, "totalInstancesUsed": used, "maxTotalCores": -1, "totalCoresUsed": used}}})
}

func (c *call) zones() {
	c.answer(http.StatusOK, map[string]any{"availabilityZoneInfo": each(c.sim.opt.Zones, func(name string) any {
		return map[string]any{"zoneName": name, "zoneState": map[string]any{"available": true}, "hosts": nil}
	})})
}

// getKey is one of the user's key pairs.
func (c *call) getKey() {
	name := c.r.PathValue("name")
	if !slices.Contains(c.sim.opt.Keys, name) {
		c.fail(http.StatusNotFound, "itemNotFound", "Keypair %s not found for user %s", name, c.user)
		return
	}
	c.answer(http.StatusOK, map[string]any{"keypair": map[string]any{"name": name, "user_id": c.user, "type": "ssh"}})
}

func (c *call) listFlavors() {
	list := c.region.flavors
	if m := c.query.Get("marker"); m != "" {
		i := slices.IndexFunc(list, func(f flavor) bool { return f.id == m })
		if i < 0 {
			c.fail(http.StatusBadRequest, "badRequest", "marker [%s] not found", m)
			return
		}
		list = list[i+1:]
	}
	limit, ok := c.limit(c.sim.opt.PageSize)
	if !ok {
		return
	}
	answerPage(c, "flavors", list, limit, func(f flavor) string { return f.id }, func(f flavor) any {
		return map[string]any{"id": f.id, "name": f.name, "vcpus": f.vcpus, "ram": f.ram, "disk": f.disk,
			"OS-FLV-EXT-DATA:ephemeral": f.ephemeral, "swap": f.swap}
	})
}

func (c *call) deleteServer() {
	x := c.server(c.r.PathValue("id"))
	switch {
	case x == nil:
		c.notFound("Instance", c.r.PathValue("id"))
		return
	case x.locked && !c.admin:
		c.fail(http.StatusConflict, "conflictingRequest", "Instance %s is locked", x.id)
		return
	}
	if x.task != "deleting" {
		c.noteDelete(x)
		x.updated, x.work = c.sim.now(), nil
		if c.sim.opt.SoftDelete && x.status != "SOFT_DELETED" && x.status != "ERROR" {
			c.sim.halt(c.region, x)
			x.status = "SOFT_DELETED"
			x.actions[0].finish(c.sim.now(), false)
		} else if x.status == "BUILD" {
			x.doomed = true
		} else {
			x.task, x.due = "deleting", c.sim.now().Add(c.sim.opt.DeleteTime)
		}
		c.sim.tick()
	}
	c.w.WriteHeader(http.StatusNoContent)
}

// decodeUserData checks it as the service's schema does.
func decodeUserData(text string) ([]byte, string) {
	if len(text) > 65_535 {
		return nil, "is too long"
	}
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, "is not a 'base64'"
	}
	return b, ""
}
