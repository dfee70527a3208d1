package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
	"github.com/tollgate-dev/tollgate/internal/reporting/usage"
)

// Ingest stores valid events, all or none, and says for each whether it was new.
// An event of a project that does not exist creates it. When Ingest returns
// without an error, the events are on disk.
//
// Of two events with the same id the one that knows more stays (usage.Compare):
// when it comes second it is accepted and the first one moves to the replaced
// ones.
func (s *Store) Ingest(ctx context.Context, events []event.Event) ([]sink.Outcome, error) {
	outcomes := make([]sink.Outcome, len(events))
	err := s.tx(ctx, func(tx *sql.Tx) error {
		in := newBatch(ctx, tx, s.now())
		defer in.close()
		for i, e := range events {
			o, err := in.one(e)
			if err != nil {
				return fmt.Errorf("event %s: %w", e.ID, err)
			}
			outcomes[i] = o
		}
		return in.markStale()
	})
	if err != nil {
		return nil, err
	}
	return outcomes, nil
}

// batch is what one transaction stores.
type batch struct {
	ctx      context.Context
	tx       *sql.Tx
	now      time.Time
	prepared map[string]*sql.Stmt
	projects map[string]int64
	shapes   map[shapeKey]int64
	// stale are the resources that have changed, and their projects.
	stale map[int64]int64
}

func newBatch(ctx context.Context, tx *sql.Tx, now time.Time) *batch {
	return &batch{ctx: ctx, tx: tx, now: now, prepared: map[string]*sql.Stmt{}, projects: map[string]int64{},
		shapes: map[shapeKey]int64{}, stale: map[int64]int64{}}
}

// stmt prepares a statement once per batch.
func (in *batch) stmt(query string) (*sql.Stmt, error) {
	if st := in.prepared[query]; st != nil {
		return st, nil
	}
	st, err := in.tx.PrepareContext(in.ctx, query)
	if err != nil {
		return nil, err
	}
	in.prepared[query] = st
	return st, nil
}

func (in *batch) close() {
	for _, st := range in.prepared {
		_ = st.Close() // the transaction is what counts
	}
}

func (in *batch) exec(query string, args ...any) (changed int64, err error) {
	st, err := in.stmt(query)
	if err != nil {
		return 0, err
	}
	r, err := st.ExecContext(in.ctx, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

func (in *batch) one(e event.Event) (sink.Outcome, error) {
	body, err := json.Marshal(e)
	if err != nil {
		return "", err
	}
	project, err := in.project(e.Data.Platform, e.Data.Account)
	if err != nil {
		return "", err
	}
	resource, err := in.resource(project, e.Data.Resource)
	if err != nil {
		return "", err
	}
	tells := e.Type.Effect() != event.None
	n, err := in.exec(`INSERT INTO events (id, project, resource, type, time, received_at, body, tells) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
		e.ID, project, resource, string(e.Type), e.Time.UnixNano(), in.now.UnixNano(), body, tells)
	if err != nil {
		return "", err
	}
	if n == 0 {
		if o, err := in.again(e, body, tells); err != nil || o == sink.Duplicate {
			return o, err
		}
	}
	if tells || n == 0 {
		in.stale[resource] = project
	}
	if len(e.Data.Counters) > 0 {
		st, err := in.stmt(`SELECT seq FROM events WHERE id = ?`)
		if err != nil {
			return "", err
		}
		var seq int64
		if err := st.QueryRowContext(in.ctx, e.ID).Scan(&seq); err != nil {
			return "", err
		}
		return sink.Accepted, in.count(seq, project, resource, e)
	}
	return sink.Accepted, nil
}

// markStale says of which resources the spans are to be made anew.
func (in *batch) markStale() error {
	for resource, project := range in.stale {
		if _, err := in.exec(`INSERT INTO stale (resource, project) VALUES (?, ?) ON CONFLICT DO NOTHING`, resource, project); err != nil {
			return err
		}
	}
	return nil
}

// again handles an event whose id is stored.
func (in *batch) again(e event.Event, body []byte, tells bool) (sink.Outcome, error) {
	st, err := in.stmt(`SELECT seq, body, received_at FROM events WHERE id = ?`)
	if err != nil {
		return "", err
	}
	var old []byte
	var seq, received int64
	if err := st.QueryRowContext(in.ctx, e.ID).Scan(&seq, &old, &received); err != nil {
		return "", err
	}
	stored, err := event.Decode(old)
	if err != nil {
		return "", err
	}
	if usage.Compare(e, stored) >= 0 {
		return sink.Duplicate, nil
	}
	if _, err := in.exec(`INSERT INTO replaced_events (id, received_at, replaced_at, body) VALUES (?, ?, ?, ?)`, e.ID, received, in.now.UnixNano(), old); err != nil {
		return "", err
	}
	if _, err := in.exec(`DELETE FROM counts WHERE event = ? AND resource = (SELECT resource FROM events WHERE seq = ?)`, seq, seq); err != nil {
		return "", err
	}
	_, err = in.exec(`UPDATE events SET type = ?, time = ?, received_at = ?, body = ?, tells = ? WHERE seq = ?`,
		string(e.Type), e.Time.UnixNano(), in.now.UnixNano(), body, tells, seq)
	return sink.Accepted, err
}

func (in *batch) project(p event.Platform, account string) (int64, error) {
	key := string(p) + "/" + account // a platform has no slash
	if num, ok := in.projects[key]; ok {
		return num, nil
	}
	if _, err := in.exec(insertProject, uuid.NewString(), string(p), account, "", false, in.now.UnixNano()); err != nil {
		return 0, err
	}
	st, err := in.stmt(`SELECT num FROM projects WHERE platform = ? AND external_id = ?`)
	if err != nil {
		return 0, err
	}
	var num int64
	if err := st.QueryRowContext(in.ctx, string(p), account).Scan(&num); err != nil {
		return 0, err
	}
	in.projects[key] = num
	return num, nil
}

func (in *batch) resource(project int64, r event.Resource) (int64, error) {
	st, err := in.stmt(`SELECT num FROM resources WHERE project = ? AND type = ? AND id = ?`)
	if err != nil {
		return 0, err
	}
	var num int64
	err = st.QueryRowContext(in.ctx, project, string(r.Type), r.ID).Scan(&num)
	if !errors.Is(err, sql.ErrNoRows) {
		return num, err
	}
	if _, err := in.exec(`INSERT INTO resources (project, type, id) VALUES (?, ?, ?)`, project, string(r.Type), r.ID); err != nil {
		return 0, err
	}
	err = st.QueryRowContext(in.ctx, project, string(r.Type), r.ID).Scan(&num)
	return num, err
}
