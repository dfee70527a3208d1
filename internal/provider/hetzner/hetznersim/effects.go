package hetznersim

import (
	"slices"
	"time"
)

// later plans a hidden action.
func (s *Sim) later(p *project, command string, at time.Time, args actionArgs, on ...resource) {
	a := &action{ID: s.id(), Command: command, Status: running, Started: s.now(), EndsAt: at, On: on, Args: args, Hidden: true}
	p.Actions[a.ID], p.running[a.ID] = a, a
}

// effect applies what a finished action has done. The object may be gone by
// then.
func (s *Sim) effect(p *project, a *action) {
	if len(a.On) == 0 {
		return
	}
	switch a.On[0].Type {
	case "server":
		if v, ok := p.Servers.get(a.On[0].ID); ok {
			s.serverEffect(p, v, a)
		}
	case "volume":
		if v, ok := p.Volumes.get(a.On[0].ID); ok {
			v.effect(a)
		}
	case "primary_ip":
		if ip, ok := p.Primary.get(a.On[0].ID); ok {
			s.primaryEffect(p, ip, a)
		}
	case "floating_ip":
		if f, ok := p.Floating.get(a.On[0].ID); ok {
			f.effect(a)
		}
	case "firewall":
		if f, ok := p.Firewalls.get(a.On[0].ID); ok && a.Command == "remove_firewall" {
			f.Servers = slices.DeleteFunc(f.Servers, func(id int64) bool { return id == a.Args.Other })
		}
	case "load_balancer":
		if b, ok := p.Balancers.get(a.On[0].ID); ok {
			s.balancerEffect(p, b, a)
		}
	}
}

func (s *Sim) serverEffect(p *project, v *server, a *action) {
	if v.Status == stDeleting && a.Command != "delete_server" {
		return
	}
	switch a.Command {
	case "create_server":
		v.Status = stOff
	case "_starting":
		v.Status = stStarting
	case "start_server":
		s.bootServer(p, v, a)
	case "stop_server", "_off":
		if v.Status != stOff {
			v.Status = stOff
			s.stopBackend(p, v)
		}
	case "shutdown_server":
		if v.Status == stRunning {
			s.later(p, "_off", a.EndsAt.Add(s.timing.Shutdown), actionArgs{}, v.on())
		}
	case "reboot_server", "reset_server":
		if v.Status == stStarting {
			s.bootServer(p, v, a)
		}
	case "delete_server":
		s.dropServer(p, v, a.EndsAt)
	case "change_server_type":
		v.Type, v.Status = a.Args.Text, stOff
		v.Disk = max(v.Disk, a.Args.Size)
	case "rebuild_server":
		v.Image = a.Args.Other
		s.bootServer(p, v, a)
	case "create_image":
		if img, ok := p.Images.get(a.Args.Other); ok {
			img.Status = "available"
		}
	case "attach_to_network":
		s.attachServer(p, v, a)
	case "detach_from_network":
		v.Nets = slices.DeleteFunc(v.Nets, func(n attachment) bool { return n.Network == a.Args.Other })
	}
}

// bootServer lets a server run; a backend that cannot start it makes the action
// fail and leaves the server off.
func (s *Sim) bootServer(p *project, v *server, a *action) {
	if err := s.startBackend(p, v); err != nil {
		a.Status, a.Err, v.Status = failed, &actionError{"server_error", err.Error()}, stOff
		return
	}
	v.Status = stRunning
}

// failEffect applies what an action that failed leaves behind.
func (s *Sim) failEffect(p *project, a *action) {
	if len(a.On) == 0 {
		return
	}
	switch a.On[0].Type {
	case "server":
		v, ok := p.Servers.get(a.On[0].ID)
		if !ok {
			return
		}
		switch a.Command {
		case "create_server", "start_server", "change_server_type", "rebuild_server":
			v.Status = stOff
			for id, h := range p.running { // it will not start either
				if h.Hidden && h.Command == "_starting" && h.On[0].ID == v.ID {
					delete(p.running, id)
					delete(p.Actions, id)
				}
			}
		case "stop_server":
			v.Status = a.Args.Text
		case "delete_server":
			if v.Status = a.Args.Text; v.Status == stRunning {
				s.bootServer(p, v, a)
			}
		case "create_image":
			if img, ok := p.Images.get(a.Args.Other); ok {
				img.Status = "unavailable"
			}
		}
	case "volume":
		if v, ok := p.Volumes.get(a.On[0].ID); ok && a.Command == "create_volume" {
			v.Status = "available"
		}
	}
}
