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
		in := ingestion{ctx: ctx, tx: tx, now: s.now(), projects: map[string]int64{}}
		defer in.close()
		for i, e := range events {
			o, err := in.one(e)
			if err != nil {
				return fmt.Errorf("event %s: %w", e.ID, err)
			}
			outcomes[i] = o
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return outcomes, nil
}

// ingestion is the storing of one batch.
type ingestion struct {
	ctx      context.Context
	tx       *sql.Tx
	now      time.Time
	projects map[string]int64
	prepared map[string]*sql.Stmt
}

// stmt prepares a statement once per batch.
func (in *ingestion) stmt(query string) (*sql.Stmt, error) {
	if st := in.prepared[query]; st != nil {
		return st, nil
	}
	st, err := in.tx.PrepareContext(in.ctx, query)
	if err != nil {
		return nil, err
	}
	if in.prepared == nil {
		in.prepared = map[string]*sql.Stmt{}
	}
	in.prepared[query] = st
	return st, nil
}

func (in *ingestion) close() {
	for _, st := range in.prepared {
		_ = st.Close() // the transaction is what counts
	}
}

func (in *ingestion) exec(query string, args ...any) (changed int64, err error) {
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

func (in *ingestion) one(e event.Event) (sink.Outcome, error) {
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
	n, err := in.exec(`INSERT INTO events (id, project, resource, type, time, received_at, body) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
		e.ID, project, resource, string(e.Type), e.Time.UnixNano(), in.now.UnixNano(), body)
	switch {
	case err != nil:
		return "", err
	case n == 1:
		return sink.Accepted, nil
	}
	return in.again(e, body)
}

// again handles an event whose id is stored.
func (in *ingestion) again(e event.Event, body []byte) (sink.Outcome, error) {
	st, err := in.stmt(`SELECT body, received_at FROM events WHERE id = ?`)
	if err != nil {
		return "", err
	}
	var old []byte
	var received int64
	if err := st.QueryRowContext(in.ctx, e.ID).Scan(&old, &received); err != nil {
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
	_, err = in.exec(`UPDATE events SET type = ?, time = ?, received_at = ?, body = ? WHERE id = ?`,
		string(e.Type), e.Time.UnixNano(), in.now.UnixNano(), body, e.ID)
	return sink.Accepted, err
}

func (in *ingestion) project(p event.Platform, account string) (int64, error) {
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

func (in *ingestion) resource(project int64, r event.Resource) (int64, error) {
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
