package inventory

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Patience is how long a difference that the feed shows is left to it while
// changes are under way.
const Patience = time.Hour

// Feed is how far the feed of a stream has been delivered.
type Feed struct {
	// UpTo: everything that was finished by then is delivered; zero is unknown.
	UpTo time.Time
	// Pending is the number of changes that have begun and not ended.
	Pending int
	// Why says in words why it goes no further, if it does not.
	Why string
}

// Moment is when the first look was.
type Moment struct {
	At, Until time.Time
	// Platform is Until by the platform's clock; zero is not known.
	Platform time.Time
}

// when is the time of what the look concludes: that of the platform's clock, as the
// times of all that it shows.
func (m Moment) when() time.Time {
	if !m.Platform.IsZero() {
		return m.Platform
	}
	return m.Until
}

// SeenKey names a difference that an earlier inventory saw.
type SeenKey struct {
	Kind api.DifferenceKind
	Key  Key
}

// Input is all that a plan rests on.
type Input struct {
	Stream Stream
	// First is when the first look was, and Seen what it saw (Candidates).
	First Moment
	Seen  []uint64
	// Look is the second one.
	Look Look
	// Ended are the resources that exist and are not open by what was reported, and
	// were before.
	Ended map[Key]Reported
	Feed  Feed
	// LastSeen is when resources that are not listed any more were listed last, as
	// far as that is known.
	LastSeen map[Key]time.Time
	// FirstSeen are the differences that the inventory before left, and since when
	// they were seen.
	FirstSeen map[SeenKey]time.Time
	// MaxEnds is the cap; see api.InventoryInput.
	MaxEnds int
}

// Step is a difference and the events that repair it.
type Step struct {
	api.Difference
	// Events are to be delivered in this order when Action is empty.
	Events []event.Event
}

// Plan says of each difference that both looks saw what is to be done about it. It
// is pure: the same input gives the same plan, whoever makes it.
//
// Ids of events are functions of what happened. A beginning and an end have the
// ids that the feed gives them. A change of size or state has one of what was
// reported, since when, and what is: as long as nothing is reported, every
// inventory makes the same one, and once something is, a later change back and
// forth makes another.
func Plan(in Input) []Step {
	p := planner{Input: in, open: len(in.Look.Reported)}
	var steps []Step
	ends, strangers := 0, 0
	for _, f := range findings(in.Stream, in.Look) {
		if _, again := slices.BinarySearch(in.Seen, f.hash()); !again {
			continue // one look concludes nothing
		}
		s := p.step(f)
		switch {
		case f.kind == api.MissingDelete && s.Action == "":
			ends++
		case f.kind == api.MissingCreate:
			strangers++
		}
		steps = append(steps, s)
	}
	why := p.brake(ends, strangers)
	for i := range steps {
		if s := &steps[i]; why != "" && s.Kind == api.MissingDelete && s.Action == "" {
			s.Action, s.Message = api.DifferenceHeld, why
		}
	}
	return steps
}

type planner struct {
	Input
	open int
}

// brake says why nothing may end: suspiciously much would.
func (p *planner) brake(ends, strangers int) string {
	switch {
	case ends > p.MaxEnds && 2*ends > p.open:
		return fmt.Sprintf("%d of %d resources would end at once, more than the cap of %d: look at them, and if they are gone indeed, run once with a larger cap", ends, p.open, p.MaxEnds)
	case p.MaxEnds <= api.DefaultInventoryMaxEnds && ends >= 3 && ends == p.open && strangers > 0:
		return fmt.Sprintf("none of the %d resources that were reported exists, and %d others do: is the credential one of another account? If not, run once with a cap above %d", ends, strangers, api.DefaultInventoryMaxEnds)
	}
	return ""
}

func (p *planner) step(f finding) Step {
	s := Step{Difference: api.Difference{Stream: p.Stream.Name, Kind: f.kind, Account: f.key.Account, Resource: p.resource(f), FirstSeen: p.First.when()}}
	if t, ok := p.FirstSeen[SeenKey{f.kind, f.key}]; ok && t.Before(s.FirstSeen) {
		s.FirstSeen = t
	}
	none := func(format string, args ...any) {
		s.Action, s.Message = api.DifferenceNone, fmt.Sprintf(format, args...)
	}
	k, known := p.Stream.kind(f.key.Type)
	switch f.kind {
	case api.UnreadableEntry:
		s.Listed = f.is
		none("it cannot be told apart; while it is there, nothing of the stream counts as gone")
	case api.OursNotListed:
		s.Reported = "proxy " + f.is + " runs on it"
		none("the watch of the fleet replaces it")
	case api.OursWithoutOwner:
		s.Listed = "it carries the marks of this installation, uid " + f.is
		none("no proxy has it; the sweep deletes it")
	case api.OursTwice:
		none("there are two of this name and owner; the sweep keeps one")
	case api.MissingCreate:
		s.Listed = sizeText(f.x.Size)
		if e, ended := p.Ended[f.key]; ended {
			s.Kind, s.Reported = api.EndedButListed, "ended at "+clock(e.To)
			none("a resource ends once: its usage since then is missing")
			break
		}
		s.Events = p.begin(k, f.x)
	case api.MissingDelete:
		s.Reported = sizeText(f.rep.Size)
		if len(p.Look.Snapshot.Unreadable) > 0 {
			s.Action, s.Message = api.DifferenceWaits, "the listing has something that cannot be told apart: it may be that"
			break
		}
		s.Events = []event.Event{p.end(k, *f.rep, s.FirstSeen)}
	case api.SizeDiffers, api.UnknownSizeKnown, api.StateDiffers:
		s.Reported, s.Listed = f.was, f.is
		if f.was == "" {
			s.Reported = "unknown"
		}
		e, ok := p.change(k, f)
		if !ok {
			none("there is no event by which a %s changes so", f.key.Type)
			break
		}
		s.Events = []event.Event{e}
	}
	if len(s.Events) == 0 || s.Action != "" {
		s.Events = nil
		return s
	}
	if !known {
		s.Events = nil
		none("the source knows no %s", f.key.Type)
		return s
	}
	e := s.Events[0]
	s.EventID, s.EventTime, s.NotBefore = e.ID, e.Time, e.Data.NotBefore
	if why := p.wait(k, f, s.FirstSeen); why != "" {
		s.Action, s.Message, s.Events = api.DifferenceWaits, why, nil
	}
	return s
}

func (p *planner) resource(f finding) event.Resource {
	r := event.Resource{Type: f.key.Type, ID: f.key.ID, Name: f.name}
	switch {
	case f.x != nil:
		r.Name = f.x.Resource.Name
	case f.rep != nil:
		r.Name = f.rep.Resource.Name
	}
	return r
}

// wait says why nothing is concluded yet: the feed may still tell it.
func (p *planner) wait(k source.Kind, f finding, since time.Time) string {
	switch {
	case p.Feed.UpTo.IsZero():
		return "nobody knows how far the feed has been read" + because(p.Feed.Why)
	case p.Feed.UpTo.Before(p.First.Until):
		return "the feed has been read up to " + clock(p.Feed.UpTo) + " only, and may still tell it" + because(p.Feed.Why)
	case f.kind == api.MissingDelete && slices.Contains(k.Silent, source.VerbDelete):
		return ""
	case p.Feed.Pending > 0 && p.First.when().Sub(since) < Patience:
		return fmt.Sprintf("%d changes are under way, and this may be one of them; it is left to the feed for an hour", p.Feed.Pending)
	}
	return ""
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// data is what the events about a resource have in common.
func (p *planner) data(account string, r event.Resource, region, change string) event.Data {
	return event.Data{
		Platform: p.Stream.Platform, Account: account, Resource: r, Region: region, Change: change,
		Derived: event.FromInventory,
	}
}

// unknown lists the size fields that are not known.
func (p *planner) unknown(r event.ResourceType, size event.Size, besides event.Size) []string {
	if _, closed := event.Fields(p.Stream.Platform, r); closed {
		return source.UnknownFields(p.Stream.Platform, r, size)
	}
	var out []string
	for f := range besides.All() {
		if _, known := size[f]; !known {
			out = append(out, f)
		}
	}
	return out
}

// begin makes the events of a beginning that was never reported. What size it had
// at its beginning is known only if its size never changes; what it is now is
// known from the listing on.
func (p *planner) begin(k source.Kind, x *source.Existing) []event.Event {
	d := p.data(x.Account, x.Resource, x.Region, event.ChangeCreate)
	at := x.CreatedAt
	fixed := !k.Has(source.VerbResize)
	if at.IsZero() {
		// It began at some time before it was listed.
		at, fixed = p.First.when(), true
	}
	if fixed {
		d.Size = maps.Clone(x.Size)
	}
	d.UnknownSize = p.unknown(k.Type, d.Size, x.Size)
	out := []event.Event{event.New(k.EventType(source.VerbCreate), at, d)}
	// The next inventory would find the rest, and makes the same events of it.
	rep := Reported{Account: x.Account, Resource: x.Resource, Region: x.Region, State: event.Active, Size: d.Size, Unknown: d.UnknownSize, From: at, Since: at.UTC()}
	for _, f := range changed(KeyOf(x.Account, x.Resource), &rep, x) {
		if e, ok := p.change(k, f); ok {
			out = append(out, e)
		}
	}
	return out
}

// end makes the event of an end that nobody saw. It lies between the latest time
// at which the resource was known to exist and the first at which it was not
// there.
func (p *planner) end(k source.Kind, rep Reported, gone time.Time) event.Event {
	d := p.data(rep.Account, rep.Resource, rep.Region, event.ChangeDelete)
	d.Size = maps.Clone(rep.Size)
	d.UnknownSize = p.unknown(k.Type, d.Size, nil)
	last := rep.Since
	if seen := p.LastSeen[KeyOf(rep.Account, rep.Resource)]; seen.After(last) && seen.Before(gone) {
		last = seen
	}
	// The platform's clock may be ahead of ours.
	if gone.Before(last) {
		gone = last
	}
	if last.Before(gone) {
		last = last.UTC()
		d.NotBefore = &last
	}
	return event.New(k.EventType(source.VerbDelete), gone, d)
}

// change makes the event of a change that was never reported. ok is false when
// the platform's events have none for it.
func (p *planner) change(k source.Kind, f finding) (_ event.Event, ok bool) {
	verb := source.VerbResize
	if f.kind == api.StateDiffers {
		switch event.State(f.is) {
		case event.Active:
			verb = source.VerbPowerOn
		case event.Off:
			verb = source.VerbPowerOff
		default:
			return event.Event{}, false
		}
	}
	if !k.Has(verb) {
		return event.Event{}, false
	}
	d := p.data(f.key.Account, f.x.Resource, f.x.Region, event.Change("inventory", changeID(f)))
	if f.kind != api.StateDiffers {
		d.Size = maps.Clone(f.x.Size)
	}
	at := p.First.when()
	// The platform's clock may be ahead of ours; what was reported came first.
	if !at.After(f.rep.Since) {
		at = f.rep.Since.Add(time.Millisecond)
	} else if f.kind != api.UnknownSizeKnown {
		since := f.rep.Since.UTC()
		d.NotBefore = &since
	}
	return event.New(k.EventType(verb), at, d), true
}

// changeID is a function of what was reported, since when, and what is.
func changeID(f finding) string {
	kind := "size"
	if f.kind == api.StateDiffers {
		kind = "state"
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{kind, strconv.FormatInt(f.rep.Since.UnixNano(), 10), f.was, f.is}, "\x00")))
	return hex.EncodeToString(sum[:12])
}
