package devserver_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/devserver"
	"github.com/tollgate-dev/tollgate/internal/devserver/devservertest"
	"github.com/tollgate-dev/tollgate/internal/devserver/enginebin"
)

func TestSupervisorGivesUp(t *testing.T) {
	t.Parallel()
	engine, err := enginebin.Ensure(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), enginebin.Name)
	if err := os.Symlink(engine, binary); err != nil {
		t.Fatal(err)
	}
	s := devservertest.Start(t, func(o *devserver.Options) { o.Binary = binary })
	if err := os.Remove(binary); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(binary, []byte("#!/bin/sh\necho 'no disk left' >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.KillEngine()
	select {
	case <-s.Done():
	case <-time.After(patience):
		t.Fatal("the supervisor goes on")
	}
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "no disk left") {
		t.Errorf("got error %v, want the engine's own words", err)
	}
	if err := s.WaitHealthy(t.Context()); err == nil {
		t.Error("an engine that cannot be started is healthy")
	}
}

func TestEngineSeesNoSecrets(t *testing.T) {
	t.Setenv("HCLOUD_TOKEN", "sentinel-of-a-token")
	s := devservertest.Start(t)
	env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(s.PID()), "environ"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(env), "PATH=") {
		t.Error("the engine has no PATH")
	}
	if strings.Contains(string(env), "sentinel") {
		t.Error("the engine has the credentials of providers in its environment")
	}
}
