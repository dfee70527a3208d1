package store

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting/api"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/usage"
)

// EventFilter chooses events. Empty fields match all.
type EventFilter struct {
	ProjectID, ResourceType, ResourceID, Type, ID string
	From, To                                      *time.Time
	After                                         int64 // the seq of the last event of the page before
	Newest                                        bool  // newest arrivals first; After is then a seq to stay below
	Limit                                         int
}

// Event is a stored event and its place in the order of arrival.
type Event struct {
	Seq int64
	api.StoredEvent
}

// Events lists events in the order in which they arrived.
func (s *Store) Events(ctx context.Context, f EventFilter) ([]Event, error) {
	var w where
	w.equal("p.id", f.ProjectID)
	w.equal("r.type", f.ResourceType)
	w.equal("r.id", f.ResourceID)
	w.equal("e.type", f.Type)
	w.equal("e.id", f.ID)
	if f.From != nil {
		w.add("e.time >= ?", f.From.UnixNano())
	}
	if f.To != nil {
		w.add("e.time < ?", f.To.UnixNano())
	}
	order := "ASC"
	switch {
	case !f.Newest:
		w.add("e.seq > ?", f.After)
	case f.After > 0:
		w.add("e.seq < ?", f.After)
		order = "DESC"
	default:
		order = "DESC"
	}
	scan := func(rw row) (e Event, err error) {
		var body []byte
		var received int64
		if err := rw.Scan(&e.Seq, &e.ProjectID, &received, &body); err != nil {
			return e, err
		}
		e.ReceivedAt = fromNano(received)
		e.Event, err = event.Decode(body)
		return e, err
	}
	return list(ctx, s.read, scan, `SELECT e.seq, p.id, e.received_at, e.body FROM events e JOIN projects p ON p.num = e.project JOIN resources r ON r.num = e.resource`+
		w.String()+` ORDER BY e.seq `+order+` LIMIT ?`, append(w.args, f.Limit)...)
}

// ResourceKey is the place of a resource in the order of Timelines.
type ResourceKey struct {
	Project  int64
	Type, ID string
}

// ResourceFilter chooses resources. Empty fields match all.
type ResourceFilter struct {
	ProjectID, Platform, ExternalID, Type string
	IDs                                   []string
	After                                 *ResourceKey
}

// Resource is a resource and all that its events say.
type Resource struct {
	Key       ResourceKey
	ProjectID string
	usage.Timeline
}

// Timelines yields resources by project, type and id. All of them are as of one
// moment. An error ends it. One resource at a time is in memory.
func (s *Store) Timelines(ctx context.Context, f ResourceFilter) iter.Seq2[Resource, error] {
	return func(yield func(Resource, error) bool) {
		var w where
		// One project as a constant lets the index give the order; a join would
		// sort all bodies.
		if f.ProjectID != "" {
			w.add("r.project = (SELECT num FROM projects WHERE id = ?)", f.ProjectID)
		}
		if f.Platform != "" && f.ExternalID != "" {
			w.add("r.project = (SELECT num FROM projects WHERE platform = ? AND external_id = ?)", f.Platform, f.ExternalID)
		} else {
			w.equal("p.platform", f.Platform)
			w.equal("p.external_id", f.ExternalID)
		}
		w.equal("r.type", f.Type)
		if len(f.IDs) > 0 {
			args := make([]any, len(f.IDs))
			for i, id := range f.IDs {
				args[i] = id
			}
			w.add("r.id IN (?"+strings.Repeat(", ?", len(f.IDs)-1)+")", args...)
		}
		if f.After != nil {
			w.add("(r.project, r.type, r.id) > (?, ?, ?)", f.After.Project, f.After.Type, f.After.ID)
		}
		rows, err := s.read.QueryContext(ctx, `SELECT r.project, r.type, r.id, p.id, e.body
FROM resources r CROSS JOIN projects p ON p.num = r.project CROSS JOIN events e ON e.resource = r.num`+
			w.String()+` ORDER BY r.project, r.type, r.id`, w.args...)
		if err != nil {
			yield(Resource{}, err)
			return
		}
		defer func() { _ = rows.Close() }() // rows.Err has what matters
		var cur Resource
		var events []event.Event
		flush := func() bool {
			if len(events) == 0 {
				return true
			}
			cur.Timeline = usage.Build(events)
			events = events[:0]
			return yield(cur, nil)
		}
		for rows.Next() {
			var key ResourceKey
			var project string
			var body []byte
			if err := rows.Scan(&key.Project, &key.Type, &key.ID, &project, &body); err != nil {
				yield(Resource{}, err)
				return
			}
			if key != cur.Key {
				if !flush() {
					return
				}
				cur = Resource{Key: key, ProjectID: project}
			}
			e, err := event.Decode(body)
			if err != nil {
				yield(Resource{}, fmt.Errorf("resource %s %s: %w", key.Type, key.ID, err))
				return
			}
			events = append(events, e)
		}
		if err := rows.Err(); err != nil {
			yield(Resource{}, err)
			return
		}
		flush()
	}
}

// Count is what a project has.
type Count struct {
	Resources, Events int64
	// Newest is when the latest event arrived, zero when there is none.
	Newest time.Time
}

// Counts counts what each project has, by project number.
func (s *Store) Counts(ctx context.Context) (map[int64]Count, error) {
	type counted struct {
		project int64
		Count
	}
	scan := func(rw row) (c counted, err error) {
		var newest int64
		err = rw.Scan(&c.project, &c.Resources, &c.Events, &newest)
		if newest != 0 {
			c.Newest = fromNano(newest)
		}
		return c, err
	}
	all, err := list(ctx, s.read, scan, `SELECT p.num, (SELECT count(*) FROM resources r WHERE r.project = p.num),
(SELECT count(*) FROM events e WHERE e.project = p.num), coalesce((SELECT e.received_at FROM events e WHERE e.project = p.num ORDER BY e.seq DESC LIMIT 1), 0) FROM projects p`)
	if err != nil {
		return nil, err
	}
	out := map[int64]Count{}
	for _, c := range all {
		out[c.project] = c.Count
	}
	return out, nil
}
