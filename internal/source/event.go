package source

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
)

// Item is an event and where it came from.
type Item struct {
	// Event has the id that event.ID gives it: a function of platform, account,
	// resource and change, and of nothing else. Every read of the same change, and
	// every other path that shows it, gives the same id. What the event says of
	// sizes may differ from read to read: the receiver keeps what it got first.
	Event event.Event
	// Ref is where the event can be derived from again.
	Ref Ref
}

// Kind describes what a source knows of resources of one type.
type Kind struct {
	Type event.ResourceType
	// Verbs are what can happen: "create" in server.create.end. One with a dot is
	// all that follows the resource type: "worker.scale" in shoot.worker.scale.
	Verbs []string
	// Silent are those of Verbs that the feed never shows. The inventory finds
	// them out by comparing listings.
	Silent []string
}

// Verbs of a resource's life, which every kind has.
const (
	VerbCreate = "create"
	VerbDelete = "delete"
)

// Verbs by which an inventory says that the size or the state of a resource is
// another one than what was reported. A kind that lacks VerbResize is one whose
// resources keep their size for life.
const (
	VerbResize   = "resize"
	VerbPowerOn  = "power_on"
	VerbPowerOff = "power_off"
)

// VerbRestore is that of a resource that had ended and exists again.
const VerbRestore = "restore"

// Has reports whether a verb is one of the kind's.
func (k Kind) Has(verb string) bool { return slices.Contains(k.Verbs, verb) }

// EventType is the type of the events with this verb.
func (k Kind) EventType(verb string) event.Type {
	if strings.Contains(verb, ".") {
		return event.Type(string(k.Type) + "." + verb)
	}
	return event.TypeOf(k.Type, verb)
}

// UnknownFields lists the size fields of a resource type that s lacks, in the
// order of the table.
func UnknownFields(p event.Platform, r event.ResourceType, s event.Size) []string {
	fields, _ := event.Fields(p, r)
	return slices.DeleteFunc(fields, func(f string) bool { _, known := s[f]; return known })
}

// Check says what is wrong with an item of a source of this type, nil if nothing
// is.
func (t Type) Check(i Item) error {
	e, d := i.Event, i.Event.Data
	if err := e.Validate(); err != nil {
		return fmt.Errorf("event %s: %w", e.ID, err)
	}
	n := slices.IndexFunc(t.Kinds, func(k Kind) bool { return k.Type == d.Resource.Type })
	switch {
	case d.Platform != t.Platform():
		return fmt.Errorf("event %s: platform: %q is not the source's, %q", e.ID, d.Platform, t.Platform())
	case n < 0:
		return fmt.Errorf("event %s: %q is no kind of the source", e.ID, d.Resource.Type)
	case !slices.ContainsFunc(t.Kinds[n].Verbs, func(v string) bool { return t.Kinds[n].EventType(v) == e.Type }):
		return fmt.Errorf("event %s: %q is no type of %s", e.ID, e.Type, d.Resource.Type)
	case i.Ref == "" || len(i.Ref) > MaxRef:
		return fmt.Errorf("event %s: its reference has %d bytes: want 1 to %d", e.ID, len(i.Ref), MaxRef)
	}
	if eff := e.Type.Effect(); eff != event.Opens && eff != event.Closes {
		return nil
	}
	// An end that can be taken back names what asked for it as well.
	closes := d.Change == event.ChangeDelete || t.Kinds[n].Has(VerbRestore) && strings.HasPrefix(d.Change, event.Change(event.ChangeDelete, ""))
	if (d.Change == event.ChangeCreate) != (e.Type.Effect() == event.Opens) || closes != (e.Type.Effect() == event.Closes) {
		return fmt.Errorf("event %s: the change of a %s is %q: every path has to name it alike", e.ID, e.Type, d.Change)
	}
	for _, f := range UnknownFields(d.Platform, d.Resource.Type, d.Size) {
		if !slices.Contains(d.UnknownSize, f) {
			return fmt.Errorf("event %s: %s is neither in size nor in unknown_size", e.ID, f)
		}
	}
	return nil
}
