// Package store keeps projects, relations and events in a SQLite file. What a
// method has returned as stored is on disk.
package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver
)

//go:embed migrations/*.sql
var migrations embed.FS

// Errors that callers tell apart.
var (
	ErrNotFound = errors.New("not found")
	ErrConflict = errors.New("conflict")
	ErrInvalid  = errors.New("invalid")
)

// Store is a database. It is safe for concurrent use, by several processes too.
type Store struct {
	// write has one connection: SQLite has one writer at a time, and waiting in
	// Go is fairer than waiting on its lock.
	write *sql.DB
	read  *sql.DB
	now   func() time.Time
	sums  sumsCache
}

// Open opens the database at path and brings its schema up to date; it makes the
// file when there is none. now gives the times at which things are stored.
func Open(ctx context.Context, path string, now func() time.Time) (*Store, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", path, err)
	}
	dsn := func(extra string) string {
		u := url.URL{Scheme: "file", Path: filepath.ToSlash(abs)}
		// A commit is on disk before it is acknowledged, power cuts included.
		return u.String() + "?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)" +
			"&_pragma=foreign_keys(1)" + extra
	}
	s := &Store{now: func() time.Time { return now().UTC() }}
	if s.write, err = sql.Open("sqlite", dsn("&_txlock=immediate")); err != nil {
		return nil, fmt.Errorf("database %s: %w", path, err)
	}
	s.write.SetMaxOpenConns(1)
	if err := s.migrate(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("database %s: %w", path, err), s.write.Close())
	}
	if s.read, err = sql.Open("sqlite", dsn("&_pragma=query_only(1)")); err != nil {
		return nil, errors.Join(fmt.Errorf("database %s: %w", path, err), s.write.Close())
	}
	s.read.SetMaxOpenConns(8)
	return s, nil
}

// Close closes the database. Calls under way fail.
func (s *Store) Close() error { return errors.Join(s.read.Close(), s.write.Close()) }

// Check says whether the database can be written to.
func (s *Store) Check(ctx context.Context) error {
	return s.tx(ctx, func(*sql.Tx) error { return nil })
}

// tx runs f in a transaction that holds the write lock.
func (s *Store) tx(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // of no effect after Commit
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// fills are what is done after a migration that SQL cannot do.
var fills = map[string]func(context.Context, *sql.Tx, time.Time) error{"0003_spans": countAll}

// migrate runs the migrations that have not run, each in a transaction with the
// note that it ran.
func (s *Store) migrate(ctx context.Context) error {
	files, err := fs.Glob(migrations, "migrations/*.sql") // in order
	if err != nil {
		return err
	}
	err = s.tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, ran_at INTEGER NOT NULL) STRICT`)
		return err
	})
	if err != nil {
		return err
	}
	for i, file := range files {
		version, name := i+1, strings.TrimSuffix(filepath.Base(file), ".sql")
		script, err := migrations.ReadFile(file)
		if err != nil {
			return err
		}
		err = s.tx(ctx, func(tx *sql.Tx) error {
			var ran int
			if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM migrations WHERE version = ?`, version).Scan(&ran); err != nil || ran > 0 {
				return err
			}
			if _, err := tx.ExecContext(ctx, string(script)); err != nil {
				return err
			}
			if then := fills[name]; then != nil {
				if err := then(ctx, tx, s.now()); err != nil {
					return err
				}
			}
			_, err := tx.ExecContext(ctx, `INSERT INTO migrations (version, name, ran_at) VALUES (?, ?, ?)`, version, name, s.now().UnixNano())
			return err
		})
		if err != nil {
			return fmt.Errorf("migration %s: %w", name, err)
		}
	}
	var last int
	if err := s.write.QueryRowContext(ctx, `SELECT coalesce(max(version), 0) FROM migrations`).Scan(&last); err != nil {
		return err
	}
	if last > len(files) {
		return fmt.Errorf("schema version %d is of a newer program: this one knows versions up to %d", last, len(files))
	}
	return nil
}

func fromNano(n int64) time.Time { return time.Unix(0, n).UTC() }

// where builds a condition from parts; a part with an empty value is left out.
type where struct {
	parts []string
	args  []any
}

func (w *where) add(part string, args ...any) {
	w.parts = append(w.parts, part)
	w.args = append(w.args, args...)
}

// equal adds a comparison unless want is empty.
func (w *where) equal(column, want string) {
	if want != "" {
		w.add(column+" = ?", want)
	}
}

func (w *where) String() string {
	if len(w.parts) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.parts, " AND ")
}
