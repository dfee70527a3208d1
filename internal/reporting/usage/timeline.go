package usage

import (
	"slices"
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
)

// Timeline is all that the events of one resource say.
type Timeline struct {
	Platform event.Platform
	Account  string
	// Resource has the last name that an event gives.
	Resource event.Resource
	Region   string
	// Lives are in order and do not overlap. Most resources have one.
	Lives []Life
	// Counts are in order.
	Counts   []Count
	Findings []Finding
}

// Life is from a start to an end.
type Life struct {
	From time.Time
	// To is zero while the resource exists.
	To time.Time
	// StartUnknown is set when no event says when the life began: From is the
	// time of the first event that there is.
	StartUnknown bool
	// EndNotBefore is set when nobody knows the exact end: it lies between
	// EndNotBefore and To, and To is what counts.
	EndNotBefore *time.Time
	// Spans cover the life without gaps and are split exactly where the size or
	// the state changes. A life without duration has none.
	Spans []Span
	// last is what the resource was at its end.
	last Span
}

// Span is a time in which nothing about a resource changes.
type Span struct {
	From, To time.Time // To is zero at the end of an open life
	State    event.State
	Size     event.Size
	// Unknown are the size fields that nobody knows, sorted.
	Unknown []string
}

// Count is what an event adds to counters.
type Count struct {
	Time     time.Time
	Counters event.Size
}

// Code says what is odd about an event.
type Code string

// Findings. None of them stops anything; each is counted and shown.
const (
	// NoCreate: the resource is first heard of by this event, not by its start.
	NoCreate Code = "no_create"
	// SecondCreate: a start within a life; its size counts, its time does not.
	SecondCreate Code = "second_create"
	// BeforeStart: a change that is older than the start of the life; what it
	// says counts from the start on.
	BeforeStart Code = "before_start"
	// AfterEnd: a change after the end; it is left out.
	AfterEnd Code = "after_end"
	// EndWithoutStart: an end of a resource that was never heard of.
	EndWithoutStart Code = "end_without_start"
	// SecondEnd: an end after the end; it is left out.
	SecondEnd Code = "second_end"
	// SizeGap: the event says that a size had been another one than the events
	// before it say: one is missing.
	SizeGap Code = "size_gap"
)

// Finding is something odd about an event.
type Finding struct {
	Code    Code
	EventID string
	Time    time.Time
}

// Build makes the timeline of the events of one resource. Events of others must
// not be among them. No events give the zero Timeline.
func Build(events []event.Event) Timeline {
	var t Timeline
	sorted := distinct(events)
	for _, e := range sorted {
		t.Platform, t.Account = e.Data.Platform, e.Data.Account
		name := t.Resource.Name
		if e.Data.Resource.Name != "" {
			name = e.Data.Resource.Name
		}
		t.Resource = e.Data.Resource
		t.Resource.Name = name
		if e.Data.Region != "" {
			t.Region = e.Data.Region
		}
		if len(e.Data.Counters) > 0 {
			t.Counts = append(t.Counts, Count{e.Time, e.Data.Counters})
		}
	}
	lived := slices.DeleteFunc(sorted, func(e event.Event) bool { return e.Type.Effect() == event.None })
	// Each end closes a group of events; the last group may have none.
	for first := true; len(lived) > 0; first = false {
		n := slices.IndexFunc(lived, func(e event.Event) bool { return e.Type.Effect() == event.Closes })
		var end *event.Event
		if n < 0 {
			n = len(lived)
		} else {
			end = &lived[n]
		}
		t.addLife(lived[:n], end, first)
		if end != nil {
			n++
		}
		lived = lived[n:]
	}
	return t
}

func (t *Timeline) find(c Code, e event.Event) {
	t.Findings = append(t.Findings, Finding{c, e.ID, e.Time})
}

// addLife adds the life that a group of events tells of, if it does.
func (t *Timeline) addLife(events []event.Event, end *event.Event, first bool) {
	start := slices.IndexFunc(events, func(e event.Event) bool {
		return e.Type.Effect() == event.Opens || e.Type.Effect() == event.Touches
	})
	unknown := false
	if start < 0 && first && len(events) > 0 {
		start, unknown = 0, true
		t.find(NoCreate, events[0])
	}
	if start < 0 {
		for _, e := range events {
			t.find(AfterEnd, e)
		}
		switch {
		case end == nil:
		case first:
			t.find(EndWithoutStart, *end)
		default:
			t.find(SecondEnd, *end)
		}
		return
	}
	b := builder{timeline: t, from: events[start].Time}
	for i, e := range events {
		switch {
		case i < start && !first:
			t.find(AfterEnd, e) // of the life before
			continue
		case i < start:
			t.find(BeforeStart, e)
		case i > start && e.Type.Effect() == event.Opens:
			t.find(SecondCreate, e)
		}
		b.apply(e)
	}
	l := Life{From: b.from, StartUnknown: unknown}
	if end != nil {
		l.To, l.EndNotBefore = end.Time, end.Data.NotBefore
		b.end(*end)
	}
	b.finish(&l)
	t.Lives = append(t.Lives, l)
}

// At is what the resource was at a time: a moment at which something changes
// counts as after the change. ok is false when it had not begun yet by what the
// events say. After the end, alive is false and the span is the last one.
func (t Timeline) At(at time.Time) (s Span, l Life, alive, ok bool) {
	for _, life := range t.Lives {
		if life.From.After(at) {
			break
		}
		ok, l = true, life
		alive = life.To.IsZero() || at.Before(life.To)
		s = life.last
		if alive {
			i := slices.IndexFunc(life.Spans, func(s Span) bool {
				return !at.Before(s.From) && (s.To.IsZero() || at.Before(s.To))
			})
			s = life.Spans[i] // spans cover the life
		}
	}
	return s, l, alive, ok
}
