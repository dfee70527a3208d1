package openstacksim

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

const zoneName = "nova"

type server struct {
	id, name, status, task, fault string
	metadata                      map[string]string
	tags                          []string
	flavor                        flavor
	image                         string
	userData                      []byte
	configDrive                   bool
	zone                          string
	ports                         []string
	ownPort                       string // a port that the service has made and deletes
	volumes                       []attached
	created, updated              time.Time
	launched, terminated          time.Time
	due                           time.Time // end of building or deleting
	locked                        bool
	doomed                        bool // deleted while it was built
	keyName                       string
	actions                       []action
}

type attached struct {
	id     string
	delete bool
}

type action struct {
	name, message string
	at            time.Time
}

func (x *server) act(now time.Time, name string) {
	x.actions = append([]action{{name: name, at: now}}, x.actions...)
	x.updated = now
}

// tick brings what takes time to its end.
func (s *Sim) tick() {
	now := s.now()
	for _, r := range s.regions {
		for _, x := range slices.Clone(r.servers) {
			switch {
			case x.task == "deleting" && !now.Before(x.due):
				s.end(r, x)
			case x.doomed && x.status != "BUILD" && !now.Before(x.due):
				s.end(r, x)
			case x.status == "BUILD" && x.task != "deleting" && (!s.held || x.doomed) && !now.Before(x.due):
				s.build(r, x)
				// The real one finishes building, and its delete waits for that.
				if x.doomed {
					x.due = now.Add(s.opt.DeleteTime)
				}
			}
		}
		for _, v := range slices.Clone(r.volumes) {
			switch {
			case v.status == "creating" && !now.Before(v.due):
				v.status = "available"
			case v.status == "deleting" && !now.Before(v.due):
				r.volumes = slices.DeleteFunc(r.volumes, func(o *volume) bool { return o == v })
			}
		}
	}
}

// build ends a server's building: it takes its ports and volumes and runs, or it
// is in ERROR.
func (s *Sim) build(r *region, x *server) {
	x.task, x.updated = "", s.now()
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
		x.actions[len(x.actions)-1].message = "Error"
		for _, p := range r.ports {
			if p.device == x.id {
				p.device = ""
			}
		}
		return
	}
	for _, a := range x.volumes {
		if v := r.volumeByID(a.id); v != nil {
			v.status, v.server = "in-use", x.id
		}
	}
	x.status, x.launched, x.zone = "ACTIVE", s.now(), zoneName
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
		v.status, v.server = "available", ""
		if a.delete {
			v.status, v.due = "deleting", s.now().Add(s.opt.VolumeTime)
		}
	}
	x.status, x.task, x.terminated, x.updated = "DELETED", "", s.now(), s.now()
	r.servers = slices.DeleteFunc(r.servers, func(o *server) bool { return o == x })
	r.gone = append(r.gone, x)
}

func (c *call) computeVersion() {
	c.answer(http.StatusOK, map[string]any{"version": map[string]any{"id": "v2.1", "status": "CURRENT", "version": c.sim.opt.Microversion,
		"min_version": "2.1", "updated": "2013-07-23T11:33:21Z"}})
}

// microversion refuses what the service does not speak.
func (c *call) microversion() bool {
	asked := strings.TrimPrefix(c.r.Header.Get("Openstack-Api-Version"), "compute ")
	if asked == "" || atLeast(c.sim.opt.Microversion, asked) {
		return true
	}
	c.fail(http.StatusNotAcceptable, "computeFault", "Version %s is not supported by the API. Minimum is 2.1 and maximum is %s.",
		asked, c.sim.opt.Microversion)
	return false
}

// speaks reports whether the request has at least this microversion.
func (c *call) speaks(v string) bool {
	asked := strings.TrimPrefix(c.r.Header.Get("Openstack-Api-Version"), "compute ")
	return asked != "" && atLeast(asked, v)
}

func atLeast(have, want string) bool {
	var h, w [2]int
	_, err1 := fmt.Sscanf(have, "%d.%d", &h[0], &h[1])
	_, err2 := fmt.Sscanf(want, "%d.%d", &w[0], &w[1])
	return err1 == nil && err2 == nil && (h[0] > w[0] || h[0] == w[0] && h[1] >= w[1])
}

func (c *call) limits() {
	most := -1
	if q := c.sim.quotas.Instances; q > 0 {
		most = q
	}
	c.answer(http.StatusOK, map[string]any{"limits": map[string]any{"rate": []any{}, "absolute": map[string]any{
		"maxTotalInstances": most, "totalInstancesUsed": len(c.region.servers), "maxTotalCores": -1, "totalCoresUsed": len(c.region.servers)}}})
}

func (c *call) zones() {
	c.answer(http.StatusOK, map[string]any{"availabilityZoneInfo": []any{
		map[string]any{"zoneName": zoneName, "zoneState": map[string]any{"available": true}, "hosts": nil}}})
}

func (c *call) listFlavors() {
	page(c, "flavors", c.region.flavors, func(f flavor) string { return f.id }, func(f flavor) any {
		return map[string]any{"id": f.id, "name": f.name, "vcpus": f.vcpus, "ram": f.ram, "disk": f.disk}
	})
}

func (c *call) deleteServer() {
	x := c.region.server(c.r.PathValue("id"))
	switch {
	case x == nil:
		c.notFound("Instance", c.r.PathValue("id"))
		return
	case x.locked:
		c.fail(http.StatusConflict, "conflictingRequest", "Instance %s is locked", x.id)
		return
	}
	if x.task != "deleting" {
		x.act(c.sim.now(), "delete")
		if c.sim.opt.SoftDelete && x.status != "SOFT_DELETED" && x.status != "ERROR" {
			c.sim.halt(c.region, x)
			x.status = "SOFT_DELETED"
		} else if x.status == "BUILD" {
			x.doomed = true
		} else {
			x.task, x.due = "deleting", c.sim.now().Add(c.sim.opt.DeleteTime)
		}
		c.sim.tick()
	}
	c.w.WriteHeader(http.StatusNoContent)
}

// serverAction is POST /servers/{id}/action.
func (c *call) serverAction() {
	x := c.region.server(c.r.PathValue("id"))
	if x == nil {
		c.notFound("Instance", c.r.PathValue("id"))
		return
	}
	for name := range c.body {
		switch name {
		case "os-stop", "os-start":
			from, to := "ACTIVE", "SHUTOFF"
			if name == "os-start" {
				from, to = to, from
			}
			if x.status != from {
				c.fail(http.StatusConflict, "conflictingRequest", "Cannot '%s' instance %s while it is in vm_state %s", name[3:], x.id, strings.ToLower(x.status))
				return
			}
			x.act(c.sim.now(), name[3:])
			x.status = to
			if to == "SHUTOFF" {
				c.sim.halt(c.region, x)
			} else if c.sim.opt.Backend != nil {
				if err := c.sim.opt.Backend.Start(c.sim.r(), x.id, x.name, c.region.addressOf(x)); err != nil {
					x.status, x.fault = "ERROR", err.Error()
				}
			}
		case "lock", "unlock":
			x.locked = name == "lock"
			x.act(c.sim.now(), name)
		case "forceDelete":
			x.act(c.sim.now(), "forceDelete")
			x.task, x.due = "deleting", c.sim.now().Add(c.sim.opt.DeleteTime)
		default:
			c.fail(http.StatusBadRequest, "badRequest", "There is no such action: %s", name)
			return
		}
		c.sim.tick()
		c.w.WriteHeader(http.StatusAccepted)
		return
	}
	c.fail(http.StatusBadRequest, "badRequest", "Malformed request body")
}

// instanceActions can be read after a server's end, too, from 2.21.
func (c *call) instanceActions() {
	id := c.r.PathValue("id")
	x := c.region.server(id)
	if x == nil && c.speaks("2.21") {
		if i := slices.IndexFunc(c.region.gone, func(g *server) bool { return g.id == id }); i >= 0 {
			x = c.region.gone[i]
		}
	}
	if x == nil {
		c.notFound("Instance", id)
		return
	}
	out := []any{}
	for _, a := range x.actions {
		var msg any
		if a.message != "" {
			msg = a.message
		}
		out = append(out, map[string]any{"action": a.name, "instance_uuid": id, "request_id": "req-" + uuid.NewString(), "user_id": "demo",
			"project_id": c.sim.project, "start_time": micros(a.at), "message": msg})
	}
	c.answer(http.StatusOK, map[string]any{"instanceActions": out})
}

func (c *call) detachVolume() {
	x, v := c.region.server(c.r.PathValue("id")), c.region.volumeByID(c.r.PathValue("volume"))
	if x == nil || v == nil || v.server != x.id {
		c.notFound("volume_id", c.r.PathValue("volume"))
		return
	}
	x.volumes = slices.DeleteFunc(x.volumes, func(a attached) bool { return a.id == v.id })
	v.status, v.server = "available", ""
	x.act(c.sim.now(), "detach_volume")
	c.w.WriteHeader(http.StatusAccepted)
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
