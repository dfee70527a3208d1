package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.temporal.io/server/common/config"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/primitives/timestamp"
	sqliteschema "go.temporal.io/server/schema/sqlite"
)

// lockWait is how long a database may stay locked by an engine that is still
// stopping.
const lockWait = 10 * time.Second

// database is the store of one engine.
type database struct {
	sql  *config.SQL
	lock *os.File // nil in memory
}

// openDatabase locks the file, creates it with its schema if there is none and
// makes it private to this user. The caller closes the result when the server
// has stopped.
func openDatabase(file string, pragmas map[string]string) (*database, error) {
	if file == "" {
		return &database{sql: &config.SQL{
			PluginName:        sqliteplugin.PluginName,
			DatabaseName:      strconv.Itoa(os.Getpid()),
			ConnectAttributes: map[string]string{"mode": "memory", "cache": "shared"},
		}}, nil
	}
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, fmt.Errorf("--db-filename: %w", err)
	}
	// The journal files beside the database take its mode, the directory only
	// gets one when it is new: a shared one is not ours to change.
	syscall.Umask(0o077)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, fmt.Errorf("--db-filename: %w", err)
	}
	lock, err := lockFile(file+".lock", lockWait)
	if err != nil {
		return nil, fmt.Errorf("--db-filename %s: %w", file, err)
	}
	db := &database{sql: sqlConfig(file, pragmas), lock: lock}
	if err := createDatabase(file); err != nil {
		db.Close()
		return nil, fmt.Errorf("--db-filename %s: %w", file, err)
	}
	return db, nil
}

// Close releases the lock; the kernel does the same for a killed process.
func (db *database) Close() {
	if db.lock != nil {
		_ = db.lock.Close() // nothing was written
	}
}

// lockFile takes an exclusive lock, waiting for the one who holds it. Two
// servers on one file would damage each other's state.
func lockFile(name string, wait time.Duration) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(wait); ; time.Sleep(50 * time.Millisecond) {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(deadline) {
			break
		}
	}
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		var pid int
		_, _ = fmt.Fscan(f, &pid) // stays 0 while the other one writes it
		err = fmt.Errorf("the database is %w by another engine, process %d", errInUse, pid)
	case err == nil:
		// The process id is for people and for the next engine's message.
		if err = f.Truncate(0); err == nil {
			_, err = fmt.Fprintln(f, os.Getpid())
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// createDatabase makes the file with its schema unless it exists. The schema is
// written to another name first, so that a process killed on the way leaves no
// half-made database behind.
func createDatabase(file string) error {
	switch _, err := os.Stat(file); {
	case err == nil:
		return os.Chmod(file, 0o600)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	draft := file + ".new"
	for _, stale := range []string{draft, draft + "-journal"} {
		if err := os.Remove(stale); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	// A rollback journal is gone once the schema is written, so that the draft is
	// one complete file; the write-ahead log comes with the first real connection.
	if err := sqliteschema.SetupSchema(sqlConfig(draft, nil)); err != nil {
		return fmt.Errorf("create the schema: %w", err)
	}
	return os.Rename(draft, file)
}

func sqlConfig(file string, pragmas map[string]string) *config.SQL {
	attrs := maps.Clone(pragmas)
	if attrs == nil {
		attrs = map[string]string{}
	}
	attrs["mode"] = "rwc"
	return &config.SQL{
		PluginName: sqliteplugin.PluginName,
		// The name becomes a part of a URI.
		DatabaseName:      strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(file),
		ConnectAttributes: attrs,
	}
}

// createNamespaces adds the namespaces that are missing. Doing it before the
// server starts makes them usable from its first moment.
func (db *database) createNamespaces(names []string, o *options) error {
	list := make([]*sqliteschema.NamespaceConfig, 0, len(names))
	for _, name := range names {
		ns, err := sqliteschema.NewNamespaceConfig(clusterName, name, false, o.searchAttributes)
		if err != nil {
			return fmt.Errorf("namespace %q: %w", name, err)
		}
		ns.Detail.Config.Retention = timestamp.DurationPtr(o.retention)
		list = append(list, ns)
	}
	if err := sqliteschema.CreateNamespaces(db.sql, list...); err != nil {
		return fmt.Errorf("create namespaces: %w", err)
	}
	return nil
}
