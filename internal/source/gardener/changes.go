package gardener

import (
	"strconv"
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// change is something that happened to a shoot.
type change struct {
	verb string
	// id is the change in the event's id.
	id string
	at time.Time
	// concluded: nobody showed it, it follows from a comparison. Then it happened
	// not before notBefore, if that is set, and at the latest at at.
	concluded      bool
	notBefore      time.Time
	size, previous event.Size
	unknown        []string
}

// changes are what lies between two states of a shoot. was is nil for one that was
// not there, and unknown for one of which nobody knows what it was.
//
// The ids are made of what Gardener itself counts: the generation at which a spec
// was written, and the one that it had carried out when a fact changed. They are
// the same whether a change was watched or concluded from two listings, unless
// more was written in between: then an id is new, and its event says what an
// earlier one has said too, which changes nothing.
func changes(was *state, now state) (out []change) {
	if !now.created {
		return nil
	}
	size, before := now.size(), event.Size(nil)
	hibernated := false
	if was == nil || !was.created {
		c := change{verb: source.VerbCreate, id: event.ChangeCreate, at: now.createdAt, size: size}
		if c.at.IsZero() {
			// The end of the creation was not seen, or it failed: what counts is that
			// there was a shoot.
			c.at, c.concluded = now.made, true
		}
		if now.generation > 1 && now.specAt.After(c.at) {
			c.size, c.unknown = nil, source.UnknownFields(event.Gardener, event.Shoot, nil)
		}
		before = c.size
		out = append(out, c)
	} else {
		before, hibernated = was.size(), was.hibernated
	}
	out = append(out, resized(before, size, now)...)
	fact := change{at: now.factAt}
	switch observed := strconv.FormatInt(now.observed, 10); {
	case now.hibernated && !hibernated:
		fact.verb, fact.id = verbHibernate, event.Change("hibernated", observed)
		out = append(out, fact)
	case !now.hibernated && hibernated, !now.hibernated && was != nil && was.unknown && now.asked:
		fact.verb, fact.id = verbWake, event.Change("awake", observed)
		out = append(out, fact)
	}
	return out
}

// resized compares sizes. A pool that is new is part of a scaling, one that is gone
// has no workers any more.
func resized(before, size event.Size, now state) (out []change) {
	ids := resizeIDs(now)
	scale := change{verb: verbScale, id: ids[0], at: now.specAt, size: event.Size{}, previous: event.Size{}}
	types := change{verb: verbMachineType, id: ids[1], at: now.specAt, size: event.Size{}, previous: event.Size{}}
	for f := range before {
		if _, ok := size[f]; !ok && event.IsPool(f) && !event.IsWord(f) && before[f] != event.Int(0) {
			scale.size[f], scale.previous[f] = event.Int(0), before[f]
		}
	}
	for f, v := range size {
		had, ok := before[f]
		switch {
		case !ok:
			scale.size[f] = v
		case had == v:
		case event.IsWord(f):
			types.size[f], types.previous[f] = v, had
		default:
			scale.size[f], scale.previous[f] = v, had
		}
	}
	for _, c := range []change{scale, types} {
		if len(c.size) > 0 {
			out = append(out, c)
		}
	}
	return out
}

// resizeIDs are the ids of a scaling and of a change of machine types that the
// generation of a shoot has brought.
func resizeIDs(now state) []string {
	generation := strconv.FormatInt(now.generation, 10)
	return []string{event.Change("scale", generation), event.Change("machine_type", generation)}
}

// ended is the end of a shoot that is gone.
func ended(last state, at time.Time) change {
	return change{verb: source.VerbDelete, id: event.ChangeDelete, at: at, size: last.size()}
}

// conclude marks changes that were not watched: they happened after since.
func conclude(list []change, since time.Time) []change {
	for i := range list {
		c := &list[i]
		if c.verb == source.VerbCreate {
			continue // its time comes from the shoot
		}
		c.concluded = true
		if !since.IsZero() && since.Before(c.at) {
			c.notBefore = since
		}
	}
	return list
}
