package openstacksim

import (
	"fmt"
	"time"

	"github.com/google/uuid"
)

// PlaceServer makes a server without ports past the API, running.
func (s *Sim) PlaceServer(regionName, name string, metadata map[string]string, tags []string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.regions[regionName]
	x := &server{id: uuid.NewString(), name: name, project: s.project.id, user: "demo", status: "ACTIVE", metadata: metadata, tags: tags, created: s.now(), updated: s.now(),
		flavor: r.flavors[0], zone: s.opt.Zones[0], launched: s.now()}
	x.actions = []*action{{name: "create", request: "req-" + uuid.NewString(), user: "demo", project: x.project, start: s.now(),
		event: "compute__do_build_and_run_instance"}}
	x.actions[0].finish(s.now(), false)
	p := s.newPort(r, x.project, "", "")
	p.device, x.ownPort = x.id, p.id
	x.ports = []string{p.id}
	r.servers = append(r.servers, x)
	return x.id
}

// RemoveServer removes a server past the API, at once, with all that goes with
// it.
func (s *Sim) RemoveServer(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.regions {
		if x := r.server(id); x != nil {
			s.end(r, x)
		}
	}
}

// SetServer changes a server's state past the API: what its operator, a crash or
// a failed migration does. What it was at is over.
func (s *Sim) SetServer(id, status, fault string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tick()
	for _, r := range s.regions {
		if x := r.server(id); x != nil {
			x.updated, x.task, x.work = s.now(), "", nil
			s.rest(r, x, status)
			if x.fault = fault; status == "BUILD" {
				x.task = "spawning"
			}
			return nil
		}
	}
	return fmt.Errorf("there is no server %s", id)
}

// SetVolume changes a volume's state past the API: error, maintenance, or what a
// storage system left behind.
func (s *Sim) SetVolume(id, status string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tick()
	for _, r := range s.regions {
		if v := r.volumeByID(id); v != nil {
			v.become(status, s.now())
			return nil
		}
	}
	return fmt.Errorf("there is no volume %s", id)
}

// Purge forgets deleted servers and their actions, as the operator's clearing of
// the database does.
func (s *Sim) Purge() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tick()
	for _, r := range s.regions {
		r.gone = nil
	}
}

// HoldActions leaves what servers are told to do, and extending volumes, undone
// until release is called.
func (s *Sim) HoldActions() (release func()) { return s.toggle(&s.heldActions) }

// FailActions ends what servers are told to do with an error that changes
// nothing, until restore is called.
func (s *Sim) FailActions() (restore func()) { return s.toggle(&s.failActions) }

// FailVolumes ends the making, extending and deleting of volumes in an error,
// until restore is called.
func (s *Sim) FailVolumes() (restore func()) { return s.toggle(&s.failVolumes) }

func (s *Sim) toggle(on *bool) (off func()) {
	set := func(v bool) { s.mu.Lock(); defer s.mu.Unlock(); s.tick(); *on = v }
	set(true)
	return func() { set(false) }
}

// Age makes a server older, as the cloud's clock tells.
func (s *Sim) Age(id string, by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.regions {
		if x := r.server(id); x != nil {
			x.created = x.created.Add(-by)
		}
	}
}

// Rename gives a server another name.
func (s *Sim) Rename(id, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.regions {
		if x := r.server(id); x != nil {
			x.name, x.updated = name, s.now()
		}
	}
}
