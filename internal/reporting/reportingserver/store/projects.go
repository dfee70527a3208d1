package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/tollgate-dev/tollgate/internal/reporting/api"
)

const (
	insertProject = `INSERT INTO projects (id, platform, external_id, name, registered, created_at) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (platform, external_id) DO NOTHING`
	projectColumn = `projects.num, projects.id, projects.platform, projects.external_id, projects.name, projects.registered, projects.created_at`
)

// Project is a project and its number in this database.
type Project struct {
	Num int64
	api.Project
}

// row is what a row can be read from.
type row interface{ Scan(...any) error }

func scanProject(r row) (p Project, err error) {
	var created int64
	err = r.Scan(&p.Num, &p.ID, &p.Platform, &p.ExternalID, &p.Name, &p.Registered, &created)
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("project: %w", ErrNotFound)
	}
	p.CreatedAt = fromNano(created)
	return p, err
}

// CreateProject makes a project, or returns the one there is. One that only
// events had named gets the name and is registered.
func (s *Store) CreateProject(ctx context.Context, c api.ProjectCreate) (p Project, created bool, err error) {
	err = s.tx(ctx, func(tx *sql.Tx) error {
		r, err := tx.ExecContext(ctx, insertProject, uuid.NewString(), c.Platform, c.ExternalID, c.Name, true, s.now().UnixNano())
		if err != nil {
			return err
		}
		n, err := r.RowsAffected()
		if err != nil {
			return err
		}
		created = n == 1
		if _, err := tx.ExecContext(ctx, `UPDATE projects SET name = ?, registered = 1 WHERE platform = ? AND external_id = ? AND registered = 0`,
			c.Name, c.Platform, c.ExternalID); err != nil {
			return err
		}
		p, err = scanProject(tx.QueryRowContext(ctx, `SELECT `+projectColumn+` FROM projects WHERE platform = ? AND external_id = ?`, c.Platform, c.ExternalID))
		return err
	})
	return p, created, err
}

// Project reads a project by its id; ErrNotFound when there is none.
func (s *Store) Project(ctx context.Context, id string) (Project, error) {
	return scanProject(s.read.QueryRowContext(ctx, `SELECT `+projectColumn+` FROM projects WHERE id = ?`, id))
}

// ProjectFilter chooses projects. Empty fields match all.
type ProjectFilter struct {
	Platform, ExternalID string
	// After is the last project of the page before.
	After *Project
	Limit int
}

// Projects lists projects by platform and external id.
func (s *Store) Projects(ctx context.Context, f ProjectFilter) ([]Project, error) {
	var w where
	w.equal("platform", f.Platform)
	w.equal("external_id", f.ExternalID)
	if f.After != nil {
		w.add("(platform, external_id) > (?, ?)", f.After.Platform, f.After.ExternalID)
	}
	return list(ctx, s.read, scanProject, `SELECT `+projectColumn+` FROM projects`+w.String()+` ORDER BY platform, external_id LIMIT ?`, append(w.args, f.Limit)...)
}

func list[T any](ctx context.Context, db *sql.DB, scan func(row) (T, error), query string, args ...any) ([]T, error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err has what matters
	var all []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

const selectRelation = `SELECT r.num, r.id, s.id, t.id, r.relation_type, r.key, r.metadata, r.valid_from, r.valid_to
FROM relations r JOIN projects s ON s.num = r.source JOIN projects t ON t.num = r.target`

// Relation is a relation and its number in this database.
type Relation struct {
	Num int64
	api.Relation
}

func scanRelation(rw row) (r Relation, err error) {
	var metadata string
	var from int64
	var to sql.NullInt64
	err = rw.Scan(&r.Num, &r.ID, &r.SourceID, &r.TargetID, &r.RelationType, &r.Key, &metadata, &from, &to)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return r, fmt.Errorf("relation: %w", ErrNotFound)
	case err != nil:
		return r, err
	}
	r.ValidFrom = fromNano(from)
	if to.Valid {
		at := fromNano(to.Int64)
		r.ValidTo = &at
	}
	return r, json.Unmarshal([]byte(metadata), &r.Metadata)
}

// CreateRelation relates the project source to another one, or returns the
// relation there is: with ValidFrom the one that begins then, without it the one
// that is open. ErrConflict when it would overlap another one, ErrNotFound when
// one of the projects does not exist.
func (s *Store) CreateRelation(ctx context.Context, source string, c api.RelationCreate) (r Relation, created bool, err error) {
	metadata := []byte("{}")
	if c.Metadata != nil {
		if metadata, err = json.Marshal(*c.Metadata); err != nil {
			return Relation{}, false, err
		}
	}
	err = s.tx(ctx, func(tx *sql.Tx) error {
		from, err := scanProject(tx.QueryRowContext(ctx, `SELECT `+projectColumn+` FROM projects WHERE id = ?`, source))
		if err != nil {
			return err
		}
		to, err := scanProject(tx.QueryRowContext(ctx, `SELECT `+projectColumn+` FROM projects WHERE id = ?`, c.TargetID))
		if err != nil {
			return fmt.Errorf("target_id: %w", err)
		}
		same := ` WHERE r.source = ? AND r.target = ? AND r.relation_type = ? AND r.key = ?`
		args := []any{from.Num, to.Num, c.RelationType, c.Key}
		valid := s.now()
		if c.ValidFrom != nil {
			valid = *c.ValidFrom
			r, err = scanRelation(tx.QueryRowContext(ctx, selectRelation+same+` AND r.valid_from = ?`, append(args, valid.UnixNano())...))
		} else {
			r, err = scanRelation(tx.QueryRowContext(ctx, selectRelation+same+` AND r.valid_to IS NULL`, args...))
		}
		if !errors.Is(err, ErrNotFound) {
			return err
		}
		// The new one is open: it overlaps all that have not ended by then.
		other, err := scanRelation(tx.QueryRowContext(ctx, selectRelation+same+` AND (r.valid_to IS NULL OR r.valid_to > ?) LIMIT 1`, append(args, valid.UnixNano())...))
		if err == nil {
			return fmt.Errorf("%w: relation %s of the same type and key between these projects is valid after %s", ErrConflict, other.ID, valid.UTC().Format(time.RFC3339Nano))
		} else if !errors.Is(err, ErrNotFound) {
			return err
		}
		id := uuid.NewString()
		if _, err := tx.ExecContext(ctx, `INSERT INTO relations (id, source, target, relation_type, key, metadata, valid_from) VALUES (?, ?, ?, ?, ?, ?, ?)`,
			id, from.Num, to.Num, c.RelationType, c.Key, string(metadata), valid.UnixNano()); err != nil {
			return err
		}
		created = true
		r, err = scanRelation(tx.QueryRowContext(ctx, selectRelation+` WHERE r.id = ?`, id))
		return err
	})
	return r, created, err
}

// CloseRelation sets the end of a relation of a project, which may be on either
// side of it. ErrConflict when it has another end, ErrInvalid when the end is
// before its start.
func (s *Store) CloseRelation(ctx context.Context, project, id string, at time.Time) (r Relation, err error) {
	err = s.tx(ctx, func(tx *sql.Tx) error {
		r, err = scanRelation(tx.QueryRowContext(ctx, selectRelation+` WHERE r.id = ? AND ? IN (s.id, t.id)`, id, project))
		switch {
		case err != nil:
			return err
		case r.ValidTo != nil && r.ValidTo.Equal(at):
			return nil
		case r.ValidTo != nil:
			return fmt.Errorf("%w: valid_to is %s already", ErrConflict, r.ValidTo.Format(time.RFC3339Nano))
		case at.Before(r.ValidFrom):
			return fmt.Errorf("%w: valid_to %s is before valid_from %s", ErrInvalid, at.UTC().Format(time.RFC3339Nano), r.ValidFrom.Format(time.RFC3339Nano))
		}
		if _, err := tx.ExecContext(ctx, `UPDATE relations SET valid_to = ? WHERE num = ?`, at.UnixNano(), r.Num); err != nil {
			return err
		}
		r, err = scanRelation(tx.QueryRowContext(ctx, selectRelation+` WHERE r.num = ?`, r.Num))
		return err
	})
	return r, err
}

// RelationFilter chooses relations of a project. Empty fields match all.
type RelationFilter struct {
	Project  Project
	From, To bool // relations from the project, to it
	Type     string
	Key      *string // nil: all; empty: those without a key
	At       *time.Time
	After    int64 // the number of the last relation of the page before
	Limit    int
}

// Relations lists relations in the order in which they were created.
func (s *Store) Relations(ctx context.Context, f RelationFilter) ([]Relation, error) {
	var w where
	w.add("(? AND r.source = ? OR ? AND r.target = ?)", f.From, f.Project.Num, f.To, f.Project.Num)
	w.add("r.num > ?", f.After)
	w.equal("r.relation_type", f.Type)
	if f.Key != nil {
		w.add("r.key = ?", *f.Key)
	}
	if f.At != nil {
		w.add("r.valid_from <= ? AND (r.valid_to IS NULL OR r.valid_to > ?)", f.At.UnixNano(), f.At.UnixNano())
	}
	return list(ctx, s.read, scanRelation, selectRelation+w.String()+` ORDER BY r.num LIMIT ?`, append(w.args, f.Limit)...)
}
