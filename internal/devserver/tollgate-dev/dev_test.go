//go:build e2e

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/devserver"
)

func TestStopAndStartAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	first := s.start(t).running()
	for _, want := range []string{
		"first start: made", "Temporal is up after", s.url(flagUI, ""), s.url(flagHTTP, "/codec/login?token="),
		s.url(flagMetrics, "/metrics"), "proxy create demo --provider local --wait",
		"TEMPORAL_ADDRESS=" + loopback(s.ports[flagTemporal]), "TOLLGATE_CODEC_KEYS=",
	} {
		if !strings.Contains(first.output(), want) {
			t.Errorf("the announcement lacks %q", want)
		}
	}
	for _, url := range []string{s.url(flagUI, "/"), s.url(flagHTTP, "/healthz"), s.url(flagHTTP, "/readyz"), s.url(flagMetrics, "/metrics")} {
		if _, err := get(t.Context(), url, ""); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	s.createProxy(t, "kept")
	before := s.proxy(t)

	first.signal(os.Interrupt)
	if code := first.ended(); code != 0 {
		t.Errorf("exit code %d after an interrupt", code)
	}
	for flag, port := range s.ports {
		if err := devserver.CheckPort(port, flag); err != nil {
			t.Errorf("after the stop: %v", err)
		}
	}
	ip := strings.Fields(before)[1]
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(ip, "3128"), 5*time.Second)
	if err != nil {
		t.Errorf("the proxy did not outlive tollgate-dev: %v", err)
	} else {
		_ = conn.Close()
	}

	second := s.start(t).running()
	if !strings.Contains(second.output(), "continuing dev-") {
		t.Error("the second start does not say that it continues")
	}
	if after := s.proxy(t); after != before {
		t.Errorf("the proxy was %s and is %s", before, after)
	}
	s.deleteProxy(t, "kept")
	second.signal(syscall.SIGTERM)
	if code := second.ended(); code != 0 {
		t.Errorf("exit code %d after SIGTERM", code)
	}
}

func TestKilledAndStartedAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	first := s.start(t).running()
	s.createProxy(t, "kept")
	before := s.proxy(t)
	first.signal(syscall.SIGKILL)
	first.ended()
	second := s.start(t).running()
	if after := s.proxy(t); after != before {
		t.Errorf("the proxy was %s and is %s", before, after)
	}
	s.deleteProxy(t, "kept")
	second.signal(syscall.SIGHUP) // a closed terminal
	if code := second.ended(); code != 0 {
		t.Errorf("exit code %d after a hang-up", code)
	}
}

func TestSecondInterruptForces(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := s.start(t).running()
	// With the engine stopped in its tracks a clean stop takes its whole limit.
	engine := s.enginePID(t)
	if err := syscall.Kill(engine, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p.signal(os.Interrupt)
	eventually(t, "the first interrupt is answered", func() error {
		if !strings.Contains(p.output(), "stopping; proxies keep running") {
			return errors.New("no answer")
		}
		return nil
	})
	p.signal(os.Interrupt)
	if code := p.ended(); code != exitForced {
		t.Errorf("exit code %d", code)
	}
	if err := syscall.Kill(engine, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	s.gone(t)
}

func TestEngineIsRestarted(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := s.start(t).running()
	s.createProxy(t, "kept")
	before := s.proxy(t)
	engine := s.enginePID(t)
	if err := syscall.Kill(engine, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another engine works", func() error {
		if s.enginePID(t) == engine {
			return errors.New("the dead one's id is still there")
		}
		_, err := get(t.Context(), s.url(flagHTTP, "/readyz"), "")
		return err
	})
	if after := s.proxy(t); after != before {
		t.Errorf("the proxy was %s and is %s", before, after)
	}
	if !strings.Contains(p.output(), "engine ended, restarting it") {
		t.Error("the terminal says nothing about it")
	}
	s.deleteProxy(t, "kept")
	p.signal(os.Interrupt)
	if code := p.ended(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestRefusedStarts(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", devserver.Host+":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	taken := l.Addr().(*net.TCPAddr).Port
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	if err := os.WriteFile(broken, []byte("providers:\n  - name: local\n    typ: local\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	type refusal struct {
		args []string
		want []string
	}
	refusals := map[string]refusal{
		"port out of range": {[]string{"--http-port", "70000"}, []string{"--http-port 70000: want 1 to 65535"}},
		"port given twice":  {[]string{"--ui-port", "7000", "--temporal-port", "7000"}, []string{"--ui-port 7000", "--temporal-port"}},
		"no state dir":      {[]string{"--state-dir", ""}, []string{"--state-dir"}},
		"unknown flag":      {[]string{"--port", "1"}, []string{"--port"}},
		"an argument":       {[]string{"start"}, []string{"start"}},
		"wrong config":      {[]string{"--config", broken}, []string{broken + ":3", "typ"}},
		"no config":         {[]string{"--config", broken + ".missing"}, []string{broken + ".missing"}},
	}
	for _, p := range defaultOptions().ports() {
		refusals["taken "+p.flag] = refusal{
			[]string{"--" + p.flag, fmt.Sprint(taken)},
			[]string{fmt.Sprintf("--%s %d", p.flag, taken), "in use", p.use},
		}
	}
	for name, r := range refusals {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			p := s.start(t, r.args...)
			if code := p.ended(); code != exitFailure {
				t.Errorf("exit code %d", code)
			}
			for _, want := range r.want {
				if !strings.Contains(p.output(), want) {
					t.Errorf("output %q lacks %q", p.output(), want)
				}
			}
		})
	}
}

func TestStateDirInUse(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	first := s.start(t).running()
	second := s.start(t)
	if code := second.ended(); code != exitFailure {
		t.Errorf("exit code %d", code)
	}
	want := fmt.Sprintf("--state-dir: state directory %s is in use by another tollgate-dev, process %d", s.dir, first.cmd.Process.Pid)
	if !strings.Contains(second.output(), want) {
		t.Errorf("output %q lacks %q", second.output(), want)
	}
	first.signal(os.Interrupt)
	if code := first.ended(); code != 0 {
		t.Errorf("exit code %d of the first", code)
	}
}
