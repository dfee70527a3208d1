//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/devserver"
)

// portFlags are the flags of tollgate-dev that name ports.
var portFlags = []string{"temporal-port", "ui-port", "http-port", "metrics-port", "reporting-port"}

// site is a directory in which a person starts tollgate-dev.
// probePort is the flag of the probe target's: what another program takes while a
// site starts again is lost to it.
const probePort = "probe-port"

type site struct {
	t     testing.TB
	dir   string
	ports map[string]int
}

func newSite(t testing.TB) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), ports: map[string]int{}}
	for _, f := range append([]string{probePort}, portFlags...) {
		port, err := devserver.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		s.ports[f] = port
	}
	t.Cleanup(func() {
		for _, pid := range s.processes() {
			if t.Failed() {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				continue
			}
			t.Errorf("process %d of %s is left", pid, s.dir)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return s
}

// processes are all that name the site's directory.
func (s *site) processes() (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		b, err := os.ReadFile(f)
		if pid, perr := strconv.Atoi(filepath.Base(filepath.Dir(f))); err == nil && perr == nil && strings.Contains(string(b), s.dir) && !zombie(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (s *site) url(flag, path string) string {
	return fmt.Sprintf("http://127.0.0.1:%d%s", s.ports[flag], path)
}

// start runs tollgate-dev; flags given here win over the site's.
func (s *site) start(flags ...string) *started {
	s.t.Helper()
	args := []string{"--state-dir", filepath.Join(s.dir, "state"), "--" + probePort, strconv.Itoa(s.ports[probePort])}
	for _, f := range portFlags {
		args = append(args, "--"+f, strconv.Itoa(s.ports[f]))
	}
	cmd := exec.Command(bins(s.t, "tollgate-dev"), append(args, flags...)...)
	cmd.Dir, cmd.Env = s.dir, cleanEnv()
	return startProgram(s.t, cmd)
}

// printed are the commands that tollgate-dev says to try.
func (s *site) printed(p *started) []string {
	s.t.Helper()
	_, after, _ := strings.Cut(p.output(), "Try, in another terminal:\n")
	block, _, ok := strings.Cut(after, "\n\n")
	if !ok {
		s.t.Fatalf("no commands to try in:\n%s", p.output())
	}
	var lines []string
	for line := range strings.Lines(block) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

// shell runs lines one after the other, as a person types them.
func (s *site) shell(lines ...string) result {
	s.t.Helper()
	cmd := exec.Command("sh", "-e", "-c", strings.Join(lines, "\n"))
	cmd.Dir, cmd.Env = s.dir, cleanEnv()
	return runProgram(s.t, cmd)
}

func get(t testing.TB, url string) error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return nil
}

const devStart = 2 * time.Minute

// TestDev is the first quarter of an hour with Tollgate: one program, the
// commands it says to try, Ctrl-C, and the next day.
func TestDev(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	sites := newTargets(t)
	first := s.start()
	first.says(devStart, "Ctrl-C stops.")
	for flag, path := range map[string]string{"ui-port": "", "http-port": "/v1/proxies", "metrics-port": "/metrics", "reporting-port": "/login?token="} {
		if want := s.url(flag, path); !strings.Contains(first.output(), want) {
			t.Errorf("tollgate-dev does not print %s:\n%s", want, first.output())
		}
	}
	for _, url := range []string{s.url("ui-port", "/"), s.url("http-port", "/readyz"), s.url("metrics-port", "/metrics"), s.url("reporting-port", "/healthz")} {
		if err := get(t, url); err != nil {
			t.Error(err)
		}
	}
	lines := s.printed(first)
	env := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "export ") })
	create := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, " proxy create demo ") })
	if len(lines) != 4 || env != 0 || create != 1 {
		t.Fatalf("tollgate-dev says to try\n%s", strings.Join(lines, "\n"))
	}
	// Each terminal needs the export; all else is as printed.
	out := s.shell(lines...).want(t, 0).has(t, "proxy default/demo: serves at ", "Running", `"name":"demo"`)
	_, at, _ := strings.Cut(out.stdout, "serves at ")
	at, _, _ = strings.Cut(at, "\n")
	if err := sites.reach(t.Context(), at, nil); err != nil {
		t.Error(err)
	}

	second := s.start("--temporal-port", freePort(t), "--ui-port", freePort(t), "--http-port", freePort(t), "--metrics-port", freePort(t), "--reporting-port", freePort(t))
	if code := second.ended(time.Minute); code != 1 {
		t.Errorf("a second tollgate-dev on one state directory ended with exit code %d", code)
	}
	want := fmt.Sprintf("--state-dir: state directory %s is in use by another tollgate-dev, process %d", filepath.Join(s.dir, "state"), first.cmd.Process.Pid)
	if !strings.Contains(second.output(), want) {
		t.Errorf("a second tollgate-dev on one state directory says %q, want %q", second.output(), want)
	}

	list := s.shell(lines[env], lines[create+1]).want(t, 0).stdout
	first.interrupt()
	if code := first.ended(time.Minute); code != 0 {
		t.Errorf("exit code %d after Ctrl-C:\n%s", code, first.output())
	}
	for flag, port := range s.ports {
		if err := devserver.CheckPort(port, flag); err != nil {
			t.Errorf("after Ctrl-C: %v", err)
		}
	}
	if n := s.processes(); len(n) != 1 {
		t.Errorf("processes %v are left after Ctrl-C, want the proxy's alone", n)
	}
	if err := sites.reach(t.Context(), at, nil); err != nil {
		t.Errorf("while nothing else runs: %v", err)
	}

	third := s.start()
	third.says(devStart, "Ctrl-C stops.")
	again := s.shell(lines[env], lines[create+1]).want(t, 0).stdout
	// All but the age is as it was.
	if a, b := strings.Fields(list), strings.Fields(again); len(a) != len(b) || strings.Join(a[:len(a)-1], " ") != strings.Join(b[:len(b)-1], " ") {
		t.Errorf("before the restart\n%sand after it\n%s", list, again)
	}
	s.shell(lines[env], strings.Replace(lines[create], "create demo --provider local", "delete demo", 1)).want(t, 0)
	third.interrupt()
	if code := third.ended(time.Minute); code != 0 {
		t.Errorf("exit code %d after the second Ctrl-C:\n%s", code, third.output())
	}
}

// TestDevNamesPortsInUse has each port taken in turn, by somebody else.
func TestDevNamesPortsInUse(t *testing.T) {
	t.Parallel()
	for _, flag := range portFlags {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			s := newSite(t)
			s.ports[flag] = l.Addr().(*net.TCPAddr).Port
			p := s.start()
			if code := p.ended(time.Minute); code != 1 {
				t.Errorf("exit code %d", code)
			}
			for _, want := range []string{fmt.Sprintf("--%s %d: the port for ", flag, s.ports[flag]), " is already in use by another process", "for example --" + flag + " "} {
				if !strings.Contains(p.output(), want) {
					t.Errorf("it says %q, want %q in it", p.output(), want)
				}
			}
		})
	}
}

func freePort(t testing.TB) string {
	t.Helper()
	port, err := devserver.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(port)
}
