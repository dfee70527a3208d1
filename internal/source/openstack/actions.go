package openstack

import (
	"cmp"
	"slices"
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// action is an entry of a server's list of actions.
// Source: nova/compute/instance_actions.py and os-instance-actions (Zed).
type action struct {
	Name    string `json:"action"`
	Request string `json:"request_id"`
	// Message is "Error" when something about the action went wrong. It may have been
	// done all the same: the next host that was tried had room.
	Message string `json:"message"`
	Start   string `json:"start_time"`
	// Updated is when the latest of its parts was done.
	Updated string `json:"updated_at"`

	start, updated time.Time
}

// Names of actions that mean something.
const (
	actCreate  = "create"
	actResize  = "resize"
	actMigrate = "migrate"
	actConfirm = "confirmResize"
	actRevert  = "revertResize"
	// A soft delete has the name of any other; nobody notes when the cloud reclaims
	// what was deleted softly. Source: nova/compute/api.py _delete (Zed).
	actDelete  = "delete"
	actRestore = "restore"
)

// switches are the actions after which a server runs, or no longer does. A pause
// keeps the memory of the host; a hard reboot starts what was off.
var switches = map[string]event.State{
	"stop": event.Off, "suspend": event.Off, "shelve": event.Off, "shelveOffload": event.Off,
	"start": event.Active, "resume": event.Active, "unshelve": event.Active, "reboot": event.Active,
	"rescue": event.Active, "unrescue": event.Active,
}

// history makes the changes of a server's life, the earliest first. A server that
// never ran has none. It is pure.
//
// Of actions only the order and the end are known. Sizes are the flavor that the
// server has now, which the last change of size has led to; what came before is
// known where a resize was reverted, or where there was none.
func (v server) history(acts []action) []change {
	if v.launched.IsZero() || v.Status == "BUILD" {
		return nil
	}
	acts = v.done(acts)
	sizes, first := v.sizesAfter(acts)
	born := change{verb: source.VerbCreate, id: event.ChangeCreate, size: first, sized: true, at: v.launched}
	if i := slices.IndexFunc(acts, func(a action) bool { return a.Name == actCreate }); i >= 0 && !acts[i].updated.IsZero() {
		// Later changes move the time of the launch.
		born.at = acts[i].updated
	}
	born.by = latest(v.created, born.at)
	out := []change{born}
	state, now, deleted := event.Active, first, -1
	for i, a := range acts {
		ch := change{id: event.Change("action", a.Request), at: cmp.Or(a.updated, a.start), by: latest(a.start, a.updated), seq: int64(i + 1)}
		size, sized := sizes[i]
		next, switched := switches[a.Name]
		switch {
		case a.Request == "" || ch.at.IsZero():
			continue
		case sized:
			now = size
			ch.verb, ch.size, ch.sized = source.VerbResize, size, true
		case a.Name == actDelete && a.Message == "" && deleted < 0:
			deleted = i
			continue
		case a.Name == actRestore && a.Message == "" && deleted >= 0:
			out = append(out, softEnd(acts[deleted], deleted, now).after(born.at))
			state, deleted = event.Active, -1
			ch.verb, ch.size, ch.sized = source.VerbRestore, now, true
		case switched && a.Message == "" && next != state:
			if state = next; next == event.Off {
				ch.verb = source.VerbPowerOff
			} else {
				ch.verb = source.VerbPowerOn
			}
		default:
			continue
		}
		out = append(out, ch.after(born.at))
	}
	if !v.over() {
		return out
	}
	end := change{verb: source.VerbDelete, id: event.ChangeDelete, size: v.size(), sized: true, seq: int64(len(acts) + 1),
		at: cmp.Or(v.terminated, v.updated), by: latest(v.terminated, v.updated)}
	if deleted >= 0 && (v.Status == "SOFT_DELETED" || v.terminated.Sub(cmp.Or(acts[deleted].updated, acts[deleted].start)) > softFor) {
		// That it is reclaimed later is the cloud's affair.
		end = softEnd(acts[deleted], deleted, v.size())
	}
	for _, ch := range out {
		if end.at.Before(ch.at) {
			end.at = ch.at
		}
	}
	return append(out, end)
}

// softFor is how long a server has been deleted softly at the least before the cloud
// reclaims it. The end of any other is that of its delete, to the second.
const softFor = time.Minute

// softEnd is the end of a server that was deleted softly. It may be restored and end
// again: the change is named after the request.
func softEnd(a action, place int, size event.Size) change {
	return change{verb: source.VerbDelete, id: event.Change(event.ChangeDelete, a.Request), at: cmp.Or(a.updated, a.start),
		by: latest(a.start, a.updated), size: size, sized: true, seq: int64(place + 1)}
}

// after is the change at a time or later: another machine's clock may be behind.
func (ch change) after(t time.Time) change {
	ch.at = latest(t, ch.at)
	return ch
}

// over reports whether the server is deleted, be it for good or not.
func (v server) over() bool { return v.Status == "DELETED" || v.Status == "SOFT_DELETED" }

// done are the actions in the order of their beginning, without the one that the
// server is busy with.
func (v server) done(acts []action) []action {
	acts = slices.Clone(acts)
	for i := range acts {
		acts[i].start, acts[i].updated = parse(acts[i].Start), parse(acts[i].Updated)
	}
	slices.SortStableFunc(acts, func(a, b action) int { return a.start.Compare(b.start) })
	// What is deleted softly is busy with an action of its own only when it is restored.
	busy := v.Task != "" && (!v.over() || v.Status == "SOFT_DELETED" && v.Task == "restoring")
	if n := len(acts); busy && n > 0 && acts[n-1].Message == "" {
		return acts[:n-1]
	}
	return acts
}

// sizesAfter are the sizes that actions have led to, by their place in the list,
// and the size at the beginning; nil is unknown.
func (v server) sizesAfter(acts []action) (after map[int]event.Size, first event.Size) {
	after = map[int]event.Size{}
	size := v.size()
	if v.moving() {
		size = nil // the flavor may be the old one or the new one
	}
	reverted := map[int]bool{}
	settled := v.Status == "VERIFY_RESIZE" // the last one has happened, and waits to be confirmed
	for i := len(acts) - 1; i >= 0; i-- {
		switch a := acts[i]; a.Name {
		case actConfirm:
			settled = settled || a.Message == ""
		case actRevert:
			if a.Message != "" {
				continue
			}
			settled = true
			for j := i - 1; j >= 0; j-- {
				if acts[j].Name == actResize || acts[j].Name == actMigrate {
					reverted[j] = true
					if acts[j].Name == actResize {
						after[i] = size
					}
					break
				}
			}
		case actResize, actMigrate:
			happened := a.Message == "" || settled
			settled = false
			switch {
			case !happened || a.Name == actMigrate:
			case reverted[i]:
				after[i] = nil
			default:
				after[i], size = size, nil
			}
		}
	}
	return after, size
}

// moving reports whether the server is being resized, and nobody can say which
// flavor it shows.
func (v server) moving() bool {
	switch v.Task {
	case "resize_migrated", "resize_finish", "resize_reverting", "resize_confirming":
		return v.Task != "resize_confirming"
	}
	return false
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
