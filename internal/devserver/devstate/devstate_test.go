package devstate_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/config"
	"github.com/tollgate-dev/tollgate/internal/devserver/devstate"
	"github.com/tollgate-dev/tollgate/internal/provider"
)

func open(t *testing.T, dir string) *devstate.State {
	t.Helper()
	s, err := devstate.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// remembered is what must be the same at the next start.
type remembered struct{ Installation, Token, Config string }

func remember(t *testing.T, s *devstate.State) remembered {
	t.Helper()
	token, err := s.Token()
	if err != nil {
		t.Fatal(err)
	}
	path, err := s.EnsureConfig(func() (string, error) { return "127.0.0.1:7281", nil })
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return remembered{s.Installation, token, string(text)}
}

func TestOpenGeneratesOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "state")
	first := open(t, dir)
	if !first.Fresh {
		t.Error("the first start is not fresh")
	}
	want := remember(t, first)
	if len(want.Token) < 32 || !strings.HasPrefix(want.Installation, "dev-") {
		t.Errorf("generated %+v", want)
	}
	first.Close()

	second := open(t, dir)
	if second.Fresh {
		t.Error("the second start is fresh")
	}
	if diff := cmp.Diff(want, remember(t, second)); diff != "" {
		t.Errorf("the second start differs (-first +second):\n%s", diff)
	}
	if other := open(t, t.TempDir()); other.Installation == want.Installation {
		t.Errorf("two directories have the same installation id %s", other.Installation)
	}
}

func TestFilesArePrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	remember(t, s)
	log, err := s.OpenLog()
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	got := map[string]os.FileMode{}
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		got[rel] = info.Mode().Perm()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]os.FileMode{".": 0o700, "installation": 0o600, "lock": 0o600, "token": 0o600, "reporting-token": 0o600, "tollgate.log": 0o600, "tollgate.yaml": 0o600}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("modes (-want +got):\n%s", diff)
	}
}

func TestOpenTwiceIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := open(t, dir)
	_, err := devstate.Open(dir)
	var inUse *devstate.InUseError
	if !errors.As(err, &inUse) {
		t.Fatalf("got error %v", err)
	}
	if diff := cmp.Diff(&devstate.InUseError{Dir: first.Dir, PID: os.Getpid()}, inUse); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
	first.Close()
	open(t, dir)
}

func TestEmptyFileIsAnError(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"installation", "token"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := devstate.Open(dir)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("empty %s: got error %v", name, err)
		}
	}
}

func TestUnfinishedFilesAreNoState(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// What a killed first start can leave.
	if err := os.WriteFile(filepath.Join(dir, "installation.123"), []byte("dev-"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s := open(t, dir); !s.Fresh || len(s.Installation) < len("dev-0123456789ab") {
		t.Errorf("installation %q, fresh %v", s.Installation, s.Fresh)
	}
}

func TestGeneratedConfigIsValid(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	path, err := s.EnsureConfig(func() (string, error) { return "127.0.0.1:7281", nil })
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(path, config.Options{Types: []provider.Type{{Name: "local"}}})
	if err != nil {
		t.Fatal(err)
	}
	type facts struct {
		Installation, Target, CAFile, Token string
		Providers                           []string
		Drift                               time.Duration
	}
	local, _ := cfg.Provider("local")
	got := facts{cfg.Installation, cfg.Probe.Target, cfg.Probe.TLS.CAFile, cfg.Secrets[cfg.Discovery.Token].File, cfg.Names(), local.DriftInterval}
	want := facts{s.Installation, "127.0.0.1:7281", s.Path("probe/ca.pem"), s.TokenFile(), []string{"local"}, 10 * time.Second}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

func TestEnsureConfigKeepsEdits(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	edited := []byte("# mine\n")
	if err := os.WriteFile(s.ConfigFile(), edited, 0o600); err != nil {
		t.Fatal(err)
	}
	path, err := s.EnsureConfig(func() (string, error) { return "", errors.New("asked for a target") })
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, edited) {
		t.Errorf("the file is now %q", got)
	}
}

func TestLargeLogIsMovedAway(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	write := func(text []byte) {
		t.Helper()
		f, err := s.OpenLog()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(text); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	write(make([]byte, 9<<20))
	write([]byte("new\n"))
	write([]byte("appended\n"))
	got, err := os.ReadFile(s.Path("tollgate.log"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "new\nappended\n"; string(got) != want {
		t.Errorf("log is %d bytes, want %q", len(got), want)
	}
	if info, err := os.Stat(s.Path("tollgate.log.1")); err != nil || info.Size() != 9<<20 {
		t.Errorf("old log: %v, %v", info, err)
	}
}
