package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/usage"
)

// open is the end of a span that has not ended.
const open = math.MaxInt64

// refreshChunk is how many resources are made anew in one transaction: ingestion
// waits for no more.
const refreshChunk = 200

// Refresh makes the spans of resources anew whose events have changed, of one
// project or, with the empty id, of all. Each chunk stays, even when ctx ends.
func (s *Store) Refresh(ctx context.Context, projectID string) error {
	for {
		switch more, err := s.RefreshSome(ctx, projectID); {
		case err != nil:
			return err
		case !more:
			return nil
		}
	}
}

// RefreshSome does a part of what Refresh does; more says that there is more to do.
func (s *Store) RefreshSome(ctx context.Context, projectID string) (more bool, err error) {
	var w where
	if projectID != "" {
		w.add("project = (SELECT num FROM projects WHERE id = ?)", projectID)
	}
	// A look without the write lock: mostly there is nothing to do.
	stale := `SELECT resource FROM stale` + w.String() + ` LIMIT ?`
	args := append(w.args, refreshChunk)
	some, err := list(ctx, s.read, scanNumber, stale, args...)
	if err != nil || len(some) == 0 {
		return false, err
	}
	err = s.tx(ctx, func(tx *sql.Tx) error {
		in := newBatch(ctx, tx, s.now())
		defer in.close()
		rows, err := tx.QueryContext(ctx, stale, args...)
		if err != nil {
			return err
		}
		some, err := collect(rows, scanNumber)
		if err != nil {
			return err
		}
		more = len(some) == refreshChunk
		for _, resource := range some {
			if err := in.refresh(resource); err != nil {
				return fmt.Errorf("resource %d: %w", resource, err)
			}
		}
		return nil
	})
	return more, err
}

func scanNumber(r row) (n int64, err error) { return n, r.Scan(&n) }

// collect reads all rows and closes them.
func collect[T any](rows *sql.Rows, scan func(row) (T, error)) (all []T, err error) {
	defer func() { _ = rows.Close() }() // rows.Err has what matters
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

// refresh makes the spans and findings of one resource anew.
func (in *batch) refresh(resource int64) error {
	st, err := in.stmt(`SELECT project, body FROM events WHERE resource = ? AND tells = 1`)
	if err != nil {
		return err
	}
	rows, err := st.QueryContext(in.ctx, resource)
	if err != nil {
		return err
	}
	var project int64
	events, err := collect(rows, func(r row) (event.Event, error) {
		var body []byte
		if err := r.Scan(&project, &body); err != nil {
			return event.Event{}, err
		}
		return event.Decode(body)
	})
	if err != nil {
		return err
	}
	for _, q := range []string{`DELETE FROM spans WHERE project = ? AND resource = ?`, `DELETE FROM findings WHERE project = ? AND resource = ?`} {
		if _, err := in.exec(q, project, resource); err != nil {
			return err
		}
	}
	t := usage.Build(events)
	for _, l := range t.Lives {
		for _, span := range l.Spans {
			shape, err := in.shape(t.Resource.Type, span)
			if err != nil {
				return err
			}
			ends := int64(open)
			if !span.To.IsZero() {
				ends = span.To.UnixNano()
			}
			if _, err := in.exec(`INSERT INTO spans (project, resource, begins, ends, shape) VALUES (?, ?, ?, ?, ?)`,
				project, resource, span.From.UnixNano(), ends, shape); err != nil {
				return err
			}
		}
	}
	for n, f := range t.Findings {
		if _, err := in.exec(`INSERT INTO findings (project, resource, n, time, code) VALUES (?, ?, ?, ?, ?)`,
			project, resource, n, f.Time.UnixNano(), string(f.Code)); err != nil {
			return err
		}
	}
	_, err = in.exec(`DELETE FROM stale WHERE resource = ?`, resource)
	return err
}

type shapeKey struct{ typ, state, size, unknown string }

// shape finds the number of what a resource is in a span.
func (in *batch) shape(t event.ResourceType, s usage.Span) (int64, error) {
	size, err := json.Marshal(s.Size) // in the order of the names
	if err != nil {
		return 0, err
	}
	unknown, err := json.Marshal(s.Unknown)
	if err != nil {
		return 0, err
	}
	key := shapeKey{string(t), string(s.State), string(size), string(unknown)}
	if num, ok := in.shapes[key]; ok {
		return num, nil
	}
	args := []any{key.typ, key.state, key.size, key.unknown}
	if _, err := in.exec(`INSERT INTO shapes (type, state, size, unknown) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`, args...); err != nil {
		return 0, err
	}
	st, err := in.stmt(`SELECT num FROM shapes WHERE type = ? AND state = ? AND size = ? AND unknown = ?`)
	if err != nil {
		return 0, err
	}
	var num int64
	if err := st.QueryRowContext(in.ctx, args...).Scan(&num); err != nil {
		return 0, err
	}
	in.shapes[key] = num
	return num, nil
}

// count keeps the counters of an event, in place of those that it had.
func (in *batch) count(seq, project, resource int64, e event.Event) error {
	for name, v := range e.Data.Counters.All() {
		if _, err := in.exec(`INSERT INTO counts (resource, time, event, counter, amount, project) VALUES (?, ?, ?, ?, ?, ?)`,
			resource, e.Time.UnixNano(), seq, name, v.String(), project); err != nil {
			return err
		}
	}
	return nil
}

// countAll fills the counters of events that were stored before there was a table
// for them.
func countAll(ctx context.Context, tx *sql.Tx, now time.Time) error {
	in := newBatch(ctx, tx, now)
	defer in.close()
	type counting struct {
		seq, project, resource int64
		event.Event
	}
	rows, err := tx.QueryContext(ctx, `SELECT seq, project, resource, body FROM events WHERE instr(body, '"counters"') > 0`)
	if err != nil {
		return err
	}
	all, err := collect(rows, func(r row) (c counting, err error) {
		var body []byte
		if err := r.Scan(&c.seq, &c.project, &c.resource, &body); err != nil {
			return c, err
		}
		c.Event, err = event.Decode(body)
		return c, err
	})
	if err != nil {
		return err
	}
	for _, c := range all {
		if err := in.count(c.seq, c.project, c.resource, c.Event); err != nil {
			return err
		}
	}
	return nil
}
