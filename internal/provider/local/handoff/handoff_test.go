package handoff

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseStartTime(t *testing.T) {
	t.Parallel()
	rest := "S 1 2 3 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 8 0 4711 1000 200\n"
	for name, tt := range map[string]struct {
		line string
		want uint64
		ok   bool
	}{
		"plain":             {"42 (sleep) " + rest, 4711, true},
		"blanks and braces": {"42 (a) b (c) d) " + rest, 4711, true},
		"cut off":           {"42 (sleep) S 1 2", 0, false},
		"empty":             {"", 0, false},
		"no name":           {"42 S 1", 0, false},
	} {
		got, err := parseStartTime([]byte(tt.line))
		if got != tt.want || (err == nil) != tt.ok {
			t.Errorf("%s: %d, %v; want %d, ok %v", name, got, err, tt.want, tt.ok)
		}
	}
}

func TestIdentify(t *testing.T) {
	t.Parallel()
	a, err := Identify(os.Getpid())
	if err != nil || a.PID != os.Getpid() || a.StartTime == 0 || len(a.BootID) != 36 {
		t.Errorf("this process is %+v, %v", a, err)
	}
	if b, err := Identify(os.Getpid()); err != nil || b != a {
		t.Errorf("then %+v, %v; want %+v again", b, err, a)
	}
	if _, err := Identify(1 << 30); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a process that cannot exist: %v, want fs.ErrNotExist", err)
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	c := NewCredentials("alice", []byte("secret"))
	for _, tt := range []struct {
		user, password string
		want           bool
	}{
		{"alice", "secret", true}, {"alice", "Secret", false}, {"alice", "", false}, {"", "secret", false},
		{"alice:", "secret", false}, {"alicese", "cret", false},
	} {
		if got := c.Match(tt.user, []byte(tt.password)); got != tt.want {
			t.Errorf("Match(%q, %q) = %v, want %v", tt.user, tt.password, got, tt.want)
		}
	}
	if other := NewCredentials("alice", []byte("secret")); bytes.Equal(c.Digest, other.Digest) {
		t.Error("two digests of one password are equal: want a fresh salt each")
	}
}

func TestConfigSurvivesTheDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want := Config{
		Credentials: NewCredentials("a", []byte("b")), AllowPorts: []int{80, 443}, IdleTimeout: time.Minute, Drain: time.Second,
	}
	for range 2 { // the second time it replaces a file
		if err := WriteJSON(dir, ConfigFile, want, true); err != nil {
			t.Fatal(err)
		}
	}
	got, err := ReadConfig(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v, %v; want one file", entries, err)
	}
	if st, err := os.Stat(filepath.Join(dir, ConfigFile)); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", st.Mode(), err)
	}
	if _, err := ReadConfig(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v, want fs.ErrNotExist", err)
	}
}
