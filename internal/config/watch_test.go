package config

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// watched runs a Watcher over a file and records what it applies.
type watched struct {
	t       *testing.T
	file    string
	now     chan struct{}
	metrics *Metrics
	current atomic.Pointer[Config]
	loads   atomic.Int32

	mu      sync.Mutex
	applied []string // installations
	refuse  error
}

func watch(t *testing.T, file string) *watched {
	t.Helper()
	w := &watched{t: t, file: file, now: make(chan struct{}), metrics: NewMetrics(prometheus.NewRegistry())}
	c, err := Load(file, testOptions)
	if err != nil {
		t.Fatal(err)
	}
	w.current.Store(c)
	watcher := &Watcher{
		Current: w.current.Load,
		Load: func() (*Config, error) {
			defer w.loads.Add(1)
			return Load(file, testOptions)
		},
		Apply: func(_ context.Context, c *Config) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.refuse != nil {
				return w.refuse
			}
			w.applied = append(w.applied, c.Installation)
			w.current.Store(c)
			return nil
		},
		Poll: time.Millisecond, Now: w.now, Logger: slog.New(slog.DiscardHandler), Metrics: w.metrics,
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); watcher.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

func (w *watched) eventually(what string, ok func() bool) {
	w.t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			w.t.Fatalf("not in 10 s: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func (w *watched) installation(want string) {
	w.t.Helper()
	w.eventually("installation "+want, func() bool { return w.current.Load().Installation == want })
}

func (w *watched) failures() float64 {
	return testutil.ToFloat64(w.metrics.reloads.WithLabelValues("failure"))
}

func content(installation string) string {
	return "installation: " + installation + "\nproviders: [{name: one, type: local}]\n"
}

func TestWatcherSeesEveryWayAFileIsReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "c.yaml")
	write(t, file, content("a"))
	w := watch(t, file)

	write(t, file, content("b")) // in place, same size
	w.installation("b")

	write(t, file+".new", content("c"))
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
	w.installation("c")
	if got := testutil.ToFloat64(w.metrics.reloads.WithLabelValues("success")); got != 2 {
		t.Errorf("successes = %v, want 2", got)
	}
}

func TestWatcherSeesAConfigMapSwap(t *testing.T) {
	t.Parallel()
	// A ConfigMap volume: c.yaml -> ..data/c.yaml, ..data -> ..1; an update makes
	// ..2 and renames a new link over ..data.
	dir := t.TempDir()
	version := func(name, installation string) {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name, "c.yaml"), content(installation))
		tmp := filepath.Join(dir, "..data_tmp")
		if err := os.Symlink(name, tmp); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tmp, filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	version("..1", "a")
	file := filepath.Join(dir, "c.yaml")
	if err := os.Symlink(filepath.Join("..data", "c.yaml"), file); err != nil {
		t.Fatal(err)
	}
	w := watch(t, file)
	version("..2", "b")
	w.installation("b")
}

func TestWatcherKeepsTheOldConfigurationAndReportsABadFileOnce(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "c.yaml")
	write(t, file, content("a"))
	w := watch(t, file)

	write(t, file, "installation: [\n")
	w.eventually("a failure", func() bool { return w.failures() == 1 })
	if got := testutil.ToFloat64(w.metrics.ok); got != 0 {
		t.Errorf("last_reload_successful = %v, want 0", got)
	}
	loads := w.loads.Load()
	w.now <- struct{}{} // a forced look reports it again; unforced ones did not
	w.eventually("the forced reload", func() bool { return w.loads.Load() == loads+1 })
	w.eventually("the second failure", func() bool { return w.failures() == 2 })
	if got := w.current.Load().Installation; got != "a" {
		t.Errorf("installation = %q, want the old one", got)
	}

	write(t, file, content("a")) // back to what is at work
	w.eventually("success", func() bool { return testutil.ToFloat64(w.metrics.ok) == 1 })
}

func TestWatcherReportsAMissingFileOnceAndRecovers(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "c.yaml")
	write(t, file, content("a"))
	w := watch(t, file)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	w.eventually("a failure", func() bool { return w.failures() == 1 })
	write(t, file, content("a"))
	w.eventually("success", func() bool { return testutil.ToFloat64(w.metrics.ok) == 1 })
	if got := w.failures(); got != 1 {
		t.Errorf("failures = %v, want 1", got)
	}
}

func TestWatcherKeepsTheOldConfigurationWhenApplyFails(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "c.yaml")
	write(t, file, content("a"))
	w := watch(t, file)
	w.mu.Lock()
	w.refuse = errors.New("no")
	w.mu.Unlock()
	write(t, file, content("b"))
	w.eventually("a failure", func() bool { return w.failures() == 1 })
	if got := w.current.Load().Installation; got != "a" {
		t.Errorf("installation = %q, want the old one", got)
	}
	w.mu.Lock()
	w.refuse = nil
	w.mu.Unlock()
	w.now <- struct{}{}
	w.installation("b")
}

func TestWatcherReloadsWhenASecretChanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, secret := filepath.Join(dir, "c.yaml"), filepath.Join(dir, "token")
	write(t, file, content("a")+"secrets: {tok: {file: token}}\n")
	w := watch(t, file)
	applied := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.applied)
	}
	write(t, secret, "one")
	w.eventually("a reload when the secret appears", func() bool { return applied() == 1 })
	write(t, secret, "two")
	w.eventually("a reload when it changes", func() bool { return applied() == 2 })
}
