package openstacksim

import (
	"slices"
	"time"
)

const zoneName = "nova"

type server struct {
	cut                     bool // its cell cannot be reached
	id, name, project, user string
	// status is the state that it rests in. While a task changes that, shown tells
	// what is answered.
	status, task, fault string
	metadata            map[string]string
	tags                []string
	flavor              flavor
	old                 *flavor // the size before a resize that is not confirmed
	image               string
	userData            []byte
	configDrive         bool
	zone                string
	ports               []string
	ownPort             string // a port that the service has made and deletes
	volumes             []attached
	created, updated    time.Time
	launched            time.Time // the last time that it was put on a host
	terminated          time.Time
	placed              time.Time // when a host is found for it
	due                 time.Time // end of building or deleting
	locked              bool
	doomed              bool // deleted while it was built
	wasOff              bool // before a resize
	keyName             string
	asked               string // the zone that the create has asked for
	work                *work
	actions             []*action // the newest first
}

type attached struct {
	id     string
	delete bool
}

// vmStates are the states that compute hosts know, by status.
var vmStates = map[string]string{"BUILD": "building", "ACTIVE": "active", "SHUTOFF": "stopped", "ERROR": "error", "PAUSED": "paused",
	"SUSPENDED": "suspended", "VERIFY_RESIZE": "resized", "RESCUE": "rescued", "SHELVED": "shelved", "SHELVED_OFFLOADED": "shelved_offloaded",
	"SOFT_DELETED": "soft-delete", "DELETED": "deleted"}

// IsStatus reports whether it is a state that a server can rest in.
func IsStatus(s string) bool { return vmStates[s] != "" && s != "DELETED" }

// powers are the power states, by status: a running one, a paused one, one that is
// off and one on disk.
var powers = map[string]int{"ACTIVE": 1, "VERIFY_RESIZE": 1, "RESCUE": 1, "PAUSED": 3, "SHUTOFF": 4, "SHELVED": 4, "SHELVED_OFFLOADED": 4,
	"SOFT_DELETED": 4, "SUSPENDED": 4}

// power is the power state. A server that was off stays off when it is resized.
func (x *server) power() int {
	if x.status == "VERIFY_RESIZE" && x.wasOff {
		return powers["SHUTOFF"]
	}
	return powers[x.status]
}

// home is the zone that a host is found in.
func (s *Sim) home(x *server) string {
	if x.asked != "" {
		return x.asked
	}
	return s.opt.Zones[0]
}

// runs reports whether its guest runs.
func (x *server) runs() bool { return x.power() == 1 }

func (x *server) vmState() string {
	if vm := vmStates[x.status]; vm != "" {
		return vm
	}
	return "active"
}

// shown is the status as the service answers it: some tasks have one of their own.
func (x *server) shown() string {
	switch x.task {
	case "rebooting":
		if x.status == "ACTIVE" {
			return "REBOOT"
		}
	case "rebooting_hard":
		if x.status == "ACTIVE" {
			return "HARD_REBOOT"
		}
	case "rebuilding", "rebuild_spawning":
		return "REBUILD"
	case "resize_prep", "resize_migrating", "resize_finish":
		return "RESIZE"
	case "resize_reverting":
		return "REVERT_RESIZE"
	}
	return x.status
}

// scheduling reports whether no host has taken the server yet. The real service
// keeps those in another place: it lists them first, and whatever changed when.
func (x *server) scheduling() bool { return x.status == "BUILD" && x.task == "scheduling" }

// tick brings what takes time to its end.
func (s *Sim) tick() {
	now := s.now()
	for _, r := range s.regions {
		for _, x := range slices.Clone(r.servers) {
			if x.scheduling() && !now.Before(x.placed) {
				x.task, x.zone, x.updated = "spawning", s.home(x), now
				x.actions[len(x.actions)-1].begin(now)
			}
			switch {
			case x.task == "deleting" && !now.Before(x.due):
				s.end(r, x)
			case x.doomed && x.status != "BUILD" && !now.Before(x.due):
				s.end(r, x)
			case x.status == "BUILD" && x.task == "spawning" && (!s.held && !s.heldNames[x.name] || x.doomed) && !now.Before(x.due):
				s.build(r, x)
				// The real one finishes building, and its delete waits for that.
				if x.doomed {
					x.due = now.Add(s.opt.DeleteTime)
				}
			case x.work != nil:
				s.proceed(r, x)
			}
		}
		for _, v := range slices.Clone(r.volumes) {
			s.tickVolume(r, v)
		}
	}
}
