package devserver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLogRotation(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), logName)
	for _, c := range []struct {
		name    string
		size    int64 // -1: no file
		rotated bool
	}{
		{"no log yet", -1, false},
		{"small", maxLogSize - 1, false},
		{"large", maxLogSize, true},
	} {
		if c.size >= 0 {
			if err := os.WriteFile(path, make([]byte, c.size), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := rotate(path); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		_, err := os.Stat(path + ".1")
		if got := err == nil; got != c.rotated {
			t.Errorf("%s: rotated %v, want %v", c.name, got, c.rotated)
		}
	}
}

func TestTailIsBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), logName)
	earlier := "an earlier run\n"
	var log strings.Builder
	log.WriteString(earlier)
	for i := range 3 * tailLines {
		log.WriteString(strings.Repeat("x", i+1) + "\n")
	}
	if err := os.WriteFile(path, []byte(log.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &process{logFrom: int64(len(earlier))}
	lines := strings.Split(p.tail(path), "\n")
	if len(lines) != tailLines || len(lines[len(lines)-1]) != 3*tailLines {
		t.Errorf("%d lines, the last with %d characters", len(lines), len(lines[len(lines)-1]))
	}
	p.logFrom = int64(log.Len())
	if got := p.tail(path); got != "" {
		t.Errorf("a run that said nothing has the tail %q", got)
	}
}
