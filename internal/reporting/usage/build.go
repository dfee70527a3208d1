package usage

import (
	"maps"
	"slices"
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
)

// builder makes the spans of one life.
type builder struct {
	timeline *Timeline
	from     time.Time
	points   []point
	state    event.State
}

// point is a moment from which on fields have values. A field that it does not
// mention stays as it was.
type point struct {
	at    time.Time
	state event.State
	// values are set here; unknown are the fields that may have changed to
	// nobody knows what.
	values  event.Size
	unknown map[string]bool
}

func (b *builder) apply(e event.Event) {
	at := e.Time
	if at.Before(b.from) {
		at = b.from
	}
	b.backfill(e, e.Data.PreviousSize)
	p := point{at: at, values: event.Size{}, unknown: map[string]bool{}}
	maps.Copy(p.values, e.Data.Size)
	for _, f := range e.Data.UnknownSize {
		p.unknown[f] = true
	}
	switch s := e.Type.State(); {
	case e.Data.State != "":
		b.state = e.Data.State
	case s != "" && !(e.Type.Effect() == event.Opens && b.state != ""):
		// That a start is active is an assumption: it gives way to what is known.
		b.state = s
	case b.state == "":
		b.state = event.Active
	}
	p.state = b.state
	b.points = append(b.points, p)
}

// end takes in what an end says of the life that it ends.
func (b *builder) end(e event.Event) {
	sizes := event.Size{}
	maps.Copy(sizes, e.Data.PreviousSize)
	maps.Copy(sizes, e.Data.Size)
	b.backfill(e, sizes)
}

// backfill takes in that fields had these values until e. A field whose value was
// not known gets it from where it last may have changed.
func (b *builder) backfill(e event.Event, until event.Size) {
	for field, v := range until.All() {
		i := len(b.points) - 1
		for ; i > 0; i-- {
			if _, set := b.points[i].values[field]; set || b.points[i].unknown[field] {
				break
			}
		}
		if i < 0 {
			return
		}
		p := b.points[i]
		if had, set := p.values[field]; set && had != v {
			b.timeline.find(SizeGap, e)
			continue
		}
		p.values[field] = v
		delete(p.unknown, field)
	}
}

// finish gives the life its spans.
func (b *builder) finish(l *Life) {
	required, _ := event.Fields(b.timeline.Platform, b.timeline.Resource.Type)
	size, unknown := event.Size{}, map[string]bool{}
	for _, f := range required {
		unknown[f] = true
	}
	for i, p := range b.points {
		for f, v := range p.values {
			size[f] = v
			delete(unknown, f)
		}
		for f := range p.unknown {
			delete(size, f)
			unknown[f] = true
		}
		s := Span{From: p.at, To: l.To, State: p.state, Size: maps.Clone(size), Unknown: slices.Sorted(maps.Keys(unknown))}
		l.last = s
		if i+1 < len(b.points) {
			s.To = b.points[i+1].at
		}
		if !s.To.IsZero() && !s.From.Before(s.To) {
			continue
		}
		if n := len(l.Spans); n > 0 && l.Spans[n-1].same(s) {
			l.Spans[n-1].To = s.To
			continue
		}
		l.Spans = append(l.Spans, s)
	}
}

func (s Span) same(o Span) bool {
	return s.State == o.State && s.Size.Equal(o.Size) && slices.Equal(s.Unknown, o.Unknown)
}
