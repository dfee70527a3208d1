package openstack

import (
	"net/url"
	"strings"
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// change is something that has happened.
type change struct {
	verb string
	// id is the change in the event's id.
	id string
	// at is when it had happened, and by when it was shown at the earliest.
	at, by time.Time
	size   event.Size
	// sized says that the event has a size, known or not.
	sized bool
	seq   int64
}

// subject is the resource that changes are of.
type subject struct{ id, name, project string }

// says reports whether a change is news. One of what was unfinished is, however old
// it is.
func (r *reading) says(sub subject, ch change, open bool) bool {
	if r.all {
		return true
	}
	if ch.by.Before(r.w.From) && !open {
		return false
	}
	if r.w.Oldest.IsZero() || ch.by.Before(r.w.Oldest) {
		r.w.Oldest = ch.by
	}
	id := r.eventID(sub, ch)
	if r.at.Seen.has(id) {
		r.at.Seen.add(id, r.begun)
		return false
	}
	return true
}

func (r *reading) eventID(sub subject, ch change) string {
	return event.ID(TypeName, r.s.accountOf(sub.project), event.Resource{Type: r.s.kind.Type, ID: sub.id}, ch.id)
}

// say makes the event of a change.
func (r *reading) say(sub subject, ch change, was event.Size) {
	d := event.Data{
		Platform: TypeName, Account: r.s.accountOf(sub.project), Change: ch.id, Sequence: ch.seq, Region: r.region.Name,
		Resource: event.Resource{Type: r.s.kind.Type, ID: sub.id, Name: sub.name},
	}
	if ch.sized {
		d.Size = ch.size
		d.UnknownSize = source.UnknownFields(TypeName, r.s.kind.Type, ch.size)
		if len(was) > 0 && !was.Equal(ch.size) {
			d.PreviousSize = was
		}
	}
	e := event.New(r.s.kind.EventType(ch.verb), ch.at, d)
	r.at.Seen.add(e.ID, r.begun)
	r.out.Items = append(r.out.Items, source.Item{Ref: refOf(r.region.Name, sub.id, ch.id), Event: e})
}

// reject says once that no event can be made of an entry.
func (r *reading) reject(id, reason string) {
	said := "rejected " + id + " " + reason
	was := r.at.Seen.has(said)
	r.at.Seen.add(said, r.begun) // while it is there it is not said again
	if was {
		return
	}
	r.out.Rejected = append(r.out.Rejected, source.Rejection{Ref: refOf(r.region.Name, id, ""), Reason: reason})
}

// refOf is where an entry is found again: <region>/<id>/<change>.
func refOf(region, id, change string) source.Ref {
	return source.Ref(strings.TrimRight(url.PathEscape(region)+"/"+id+"/"+change, "/"))
}
