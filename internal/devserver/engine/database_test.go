package main

import (
	"database/sql"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func openTest(t *testing.T, file string) *database {
	t.Helper()
	db, err := openDatabase(file, fastPragmas)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

// namespaces reads the names from the file itself.
func namespaces(t *testing.T, file string) []string {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query("SELECT name FROM namespaces ORDER BY name")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return names
}

func TestDatabaseIsCreatedAndKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	file := filepath.Join(dir, "t.db")
	o, err := parseArgs([]string{"--namespace", "mine"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	// What a start that was killed can leave behind.
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file+".new", []byte("half a schema"), 0o600); err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		db := openTest(t, file)
		if err := db.createNamespaces(o.namespaces, o); err != nil {
			t.Fatal(err)
		}
		if got := namespaces(t, file); len(got) != 2 || got[0] != "default" || got[1] != "mine" {
			t.Errorf("round %d: namespaces %v", round, got)
		}
		for _, f := range []string{file, file + ".lock"} {
			info, err := os.Stat(f)
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode().Perm() != 0o600 {
				t.Errorf("%s has mode %o", f, info.Mode().Perm())
			}
		}
		db.Close()
	}
	if _, err := os.Stat(file + ".new"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the draft is still there: %v", err)
	}
}

func TestNameWithURICharacters(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a?b#c%20d.db")
	o, err := parseArgs(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := openTest(t, file).createNamespaces(o.namespaces, o); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

func TestLockedDatabaseIsRefused(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	held, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := held.WriteString("4711\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := lockFile(name, 0); !errors.Is(err, errInUse) || !strings.Contains(err.Error(), "process 4711") {
		t.Errorf("got error %v", err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := lockFile(name, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(content), strconv.Itoa(os.Getpid())+"\n"; got != want {
		t.Errorf("the lock says %q, want %q", got, want)
	}
}
