package openstacksim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// work is what a server is at after it was told to.
type work struct {
	action         *action
	name, from, to string
	size           flavor
	image          string
	step, due      time.Time
	half           bool // past the half of it
}

// verb is what POST /servers/{id}/action can ask for: in which states, what the
// server is at meanwhile, and the state it has afterwards.
type verb struct {
	action, event, method string
	from                  []string
	task, to              string
	status                int
}

var verbs = map[string]verb{
	"os-stop":       {"stop", "compute_stop_instance", "stop", []string{"ACTIVE", "ERROR"}, "powering-off", "SHUTOFF", 202},
	"os-start":      {"start", "compute_start_instance", "start", []string{"SHUTOFF"}, "powering-on", "ACTIVE", 202},
	"pause":         {"pause", "compute_pause_instance", "pause", []string{"ACTIVE"}, "pausing", "PAUSED", 202},
	"unpause":       {"unpause", "compute_unpause_instance", "unpause", []string{"PAUSED"}, "unpausing", "ACTIVE", 202},
	"suspend":       {"suspend", "compute_suspend_instance", "suspend", []string{"ACTIVE"}, "suspending", "SUSPENDED", 202},
	"resume":        {"resume", "compute_resume_instance", "resume", []string{"SUSPENDED"}, "resuming", "ACTIVE", 202},
	"shelve":        {"shelve", "compute_shelve_instance", "shelve", []string{"ACTIVE", "SHUTOFF", "PAUSED", "SUSPENDED"}, "shelving", "SHELVED", 202},
	"shelveOffload": {"shelveOffload", "compute_shelve_offload_instance", "shelve_offload", []string{"SHELVED"}, "shelving_offloading", "SHELVED_OFFLOADED", 202},
	"unshelve":      {"unshelve", "compute_unshelve_instance", "unshelve", []string{"SHELVED", "SHELVED_OFFLOADED"}, "unshelving", "ACTIVE", 202},
	"reboot":        {"reboot", "compute_reboot_instance", "reboot", []string{"ACTIVE"}, "rebooting", "ACTIVE", 202},
	"restore":       {"restore", "compute_restore_instance", "restore", []string{"SOFT_DELETED"}, "restoring", "ACTIVE", 202},
	"rebuild":       {"rebuild", "compute_rebuild_instance", "rebuild", []string{"ACTIVE", "SHUTOFF", "ERROR"}, "rebuilding", "ACTIVE", 202},
	"resize":        {"resize", "compute_resize_instance", "resize", []string{"ACTIVE", "SHUTOFF"}, "resize_prep", "VERIFY_RESIZE", 202},
	"confirmResize": {"confirmResize", "compute_confirm_resize", "confirmResize", []string{"VERIFY_RESIZE"}, "", "ACTIVE", 204},
	"revertResize":  {"revertResize", "compute_revert_resize", "revertResize", []string{"VERIFY_RESIZE"}, "resize_reverting", "ACTIVE", 202},
}

// serverAction is POST /servers/{id}/action.
func (c *call) serverAction() {
	x := c.server(c.r.PathValue("id"))
	if x == nil {
		c.notFound("Instance", c.r.PathValue("id"))
		return
	}
	if len(c.body) != 1 {
		c.fail(http.StatusBadRequest, "badRequest", "Malformed request body")
		return
	}
	for name, args := range c.body {
		if v, ok := verbs[name]; ok {
			c.perform(x, name, v, args)
			return
		}
		now := c.sim.now()
		switch name {
		case "lock", "unlock":
			x.locked, x.updated = name == "lock", now
			a := c.note(x, name, "api_"+name)
			a.begin(now)
			a.finish(now, false)
		case "forceDelete":
			c.noteDelete(x)
			x.updated, x.work = now, nil
			x.task, x.due = "deleting", now.Add(c.sim.opt.DeleteTime)
		default:
			c.fail(http.StatusBadRequest, "badRequest", "There is no such action: %s", name)
			return
		}
		c.sim.tick()
		c.w.WriteHeader(http.StatusAccepted)
	}
}

// perform starts what a verb asks for, if the server's state allows it.
func (c *call) perform(x *server, name string, v verb, args json.RawMessage) {
	now := c.sim.now()
	var req struct {
		Type   string `json:"type"`
		Flavor string `json:"flavorRef"`
		Image  string `json:"imageRef"`
	}
	if len(args) > 0 && json.Unmarshal(args, &req) != nil {
		c.fail(http.StatusBadRequest, "badRequest", "Invalid input for field/attribute %s.", name)
		return
	}
	var size flavor
	switch {
	case name == "reboot" && req.Type == "HARD":
		v.task, v.from = "rebooting_hard", []string{"ACTIVE", "SHUTOFF", "PAUSED", "SUSPENDED", "ERROR"}
	case name == "reboot" && req.Type != "SOFT":
		c.fail(http.StatusBadRequest, "badRequest", "Invalid input for field/attribute type. Value: %s. '%s' is not one of ['HARD', 'Hard', 'hard', 'SOFT', 'Soft', 'soft']", req.Type, req.Type)
		return
	case name == "resize":
		i := slices.IndexFunc(c.region.flavors, func(f flavor) bool { return f.id == req.Flavor })
		if i < 0 {
			c.fail(http.StatusBadRequest, "badRequest", "Flavor %s could not be found.", req.Flavor)
			return
		}
		size = c.region.flavors[i]
	case name == "rebuild" && !slices.ContainsFunc(c.region.images, func(i image) bool { return i.id == req.Image }):
		c.fail(http.StatusBadRequest, "badRequest", "Cannot find image for rebuild")
		return
	}
	if name == "shelveOffload" && !c.admin {
		c.forbidden("os_compute_api:os-shelve:shelve_offload")
		return
	}
	if x.locked && !c.admin {
		c.fail(http.StatusConflict, "conflictingRequest", "Instance %s is locked", x.id)
		return
	}
	if !slices.Contains(v.from, x.status) {
		c.conflict(x, v, "vm_state", x.vmState())
		return
	}
	if x.task != "" || x.doomed || x.work != nil {
		c.conflict(x, v, "task_state", x.task)
		return
	}
	if name == "resize" && size.id == x.flavor.id {
		c.fail(http.StatusBadRequest, "badRequest", "When resizing, instances must change flavor!")
		return
	}
	a := c.note(x, v.action, v.event)
	a.begin(now)
	x.task, x.updated = v.task, now
	x.work = &work{action: a, name: name, from: x.status, to: v.to, size: size, image: req.Image,
		step: now.Add(c.sim.opt.ActionTime / 2), due: now.Add(c.sim.opt.ActionTime)}
	c.sim.tick()
	if name == "rebuild" {
		c.answer(http.StatusAccepted, map[string]any{"server": c.show(x)})
		return
	}
	c.w.WriteHeader(v.status)
}

func (c *call) conflict(x *server, v verb, attribute, state string) {
	c.fail(http.StatusConflict, "conflictingRequest", "Cannot '%s' instance %s while it is in %s %s", v.method, x.id, attribute, state)
}

// proceed ends a server's work when it is due, or fails it.
func (s *Sim) proceed(r *region, x *server) {
	now, w := s.now(), x.work
	if !w.half && !s.failActions && !now.Before(w.step) {
		w.half = true
		s.halfway(r, x, *w)
	}
	if s.heldActions || now.Before(w.due) {
		return
	}
	x.work, x.task, x.updated = nil, "", now
	w.action.finish(now, s.failActions)
	if !s.failActions {
		s.done(r, x, *w)
	} else if w.half && w.name == "resize" {
		x.flavor, x.old = *x.old, nil
	}
}

// halfway is what can be seen of a verb before it is done.
func (s *Sim) halfway(r *region, x *server, w work) {
	switch name := w.name; {
	case name == "resize": // the size is the new one before the server is back
		old := x.flavor
		x.old, x.flavor, x.task = &old, w.size, "resize_finish"
	case name == "revertResize":
		x.flavor = *x.old
	case name == "shelve" && !s.opt.KeepShelved:
		x.task = "shelving_offloading"
		s.rest(r, x, "SHELVED")
	case name == "unshelve" && x.status == "SHELVED_OFFLOADED":
		x.task, x.zone = "spawning", s.home(x)
	default:
		return
	}
	x.updated = s.now()
}

// done brings a server into the state that a verb leads to.
func (s *Sim) done(r *region, x *server, w work) {
	to := w.to
	switch w.name {
	case "resize":
		x.wasOff, x.launched = w.from == "SHUTOFF", s.now()
	case "confirmResize", "revertResize":
		if w.name == "revertResize" {
			x.launched = s.now()
		}
		if x.old = nil; x.wasOff {
			to = "SHUTOFF"
		}
	case "shelve":
		if !s.opt.KeepShelved {
			x.zone, to = "", "SHELVED_OFFLOADED"
		}
	case "shelveOffload":
		x.zone = ""
	case "rebuild":
		x.image, x.launched = w.image, s.now()
		if w.from == "SHUTOFF" {
			to = w.from
		}
	case "unshelve":
		x.zone = s.home(x)
		if w.from == "SHELVED_OFFLOADED" {
			x.launched = s.now()
		}
	}
	if w.name == "rebuild" || w.name == "reboot" {
		s.halt(r, x)
	}
	s.rest(r, x, to)
}

// rest puts a server into a state and lets what is behind it run, or not.
func (s *Sim) rest(r *region, x *server, status string) {
	x.status = status
	if !x.runs() {
		s.halt(r, x)
		return
	}
	if s.opt.Backend == nil {
		return
	}
	if err := s.opt.Backend.Start(s.r(), x.id, x.name, r.addressOf(x)); err != nil {
		x.status, x.fault = "ERROR", fmt.Sprintf("%v", err)
	}
}
