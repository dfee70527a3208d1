//go:build e2e

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/tollgate-dev/tollgate/internal/devserver"
	"github.com/tollgate-dev/tollgate/internal/devserver/enginebin"
	"github.com/tollgate-dev/tollgate/internal/provider/local"
	"github.com/tollgate-dev/tollgate/internal/provider/local/localtest"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// asProgram makes the test binary tollgate-dev itself, so that a test can send
// it signals and kill it.
const asProgram = "TOLLGATE_DEV_TEST_PROGRAM"

// patience bounds every wait of these tests on a loaded machine.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// program is one started tollgate-dev.
type program struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan struct{}
	err  error

	mu  sync.Mutex
	out bytes.Buffer
}

// site is where programs of one test run, one after the other.
type site struct {
	dir   string
	ports map[string]int
}

func newSite(t *testing.T) site {
	t.Helper()
	s := site{dir: filepath.Join(t.TempDir(), "state"), ports: map[string]int{}}
	flags := []string{flagProbe} // which another test would take while this one starts again
	for _, p := range defaultOptions().ports() {
		flags = append(flags, p.flag)
	}
	for _, flag := range flags {
		port, err := devserver.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		s.ports[flag] = port
	}
	// A failed test would leave its proxies behind: they outlive everything.
	t.Cleanup(func() {
		for _, pid := range processesNaming(t, s.dir) {
			t.Errorf("process %d of %s is left", pid, s.dir)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return s
}

// processesNaming finds processes by a path in their command lines.
func processesNaming(t *testing.T, path string) (pids []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		args, err := os.ReadFile(f)
		if err != nil || !bytes.Contains(args, []byte(path)) {
			continue // it has ended, or it is another one
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// enginePID is the engine that works on the site's database. While one begins, its
// id is not written yet.
func (s site) enginePID(t *testing.T) (pid int) {
	t.Helper()
	eventually(t, "the engine says its process id", func() error {
		b, err := os.ReadFile(filepath.Join(s.dir, "temporal.db.lock"))
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(b)))
		}
		return err
	})
	return pid
}

// gone waits until nothing of the site runs any more.
func (s site) gone(t *testing.T) {
	t.Helper()
	eventually(t, "all processes end", func() error {
		if pids := processesNaming(t, s.dir); len(pids) > 0 {
			return fmt.Errorf("processes %v are left", pids)
		}
		return nil
	})
}

func (s site) url(flag, path string) string { return "http://" + loopback(s.ports[flag]) + path }

func (s site) start(t *testing.T, more ...string) *program {
	t.Helper()
	args := []string{"--state-dir", s.dir}
	for flag, port := range s.ports {
		args = append(args, "--"+flag, strconv.Itoa(port))
	}
	return s.launch(t, append(args, more...)...)
}

func (s site) launch(t *testing.T, args ...string) *program {
	t.Helper()
	engine, err := enginebin.Ensure(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{t: t, cmd: exec.Command(self, args...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), asProgram+"=1", enginebin.EnvPath+"="+engine, local.BinaryEnv+"="+localtest.Binary(t))
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout, p.cmd.Stderr = w, w
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close() // the program has its own
	go func() {
		lines := bufio.NewReader(r)
		for {
			line, err := lines.ReadString('\n')
			p.mu.Lock()
			p.out.WriteString(line)
			p.mu.Unlock()
			if err != nil {
				break
			}
		}
		_ = r.Close()
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("output of process %d:\n%s", p.cmd.Process.Pid, p.output())
		}
	})
	return p
}

func (p *program) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// running waits for the last line of the announcement.
func (p *program) running() *program {
	p.t.Helper()
	eventually(p.t, "tollgate-dev runs", func() error {
		select {
		case <-p.done:
			p.t.Fatalf("tollgate-dev ended: %v\n%s", p.err, p.output())
		default:
		}
		if !strings.Contains(p.output(), "Ctrl-C stops") {
			return errors.New("not announced")
		}
		return nil
	})
	return p
}

func (p *program) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// ended waits for the end and returns the exit code, -1 after a signal.
func (p *program) ended() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Fatalf("process %d does not end", p.cmd.Process.Pid)
	}
	return p.cmd.ProcessState.ExitCode()
}

// eventually repeats check until it succeeds.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		case <-tick.C:
		}
	}
}

// get returns the body of a successful answer.
func get(ctx context.Context, url, token string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, body)
	}
	return string(body), err
}

// listed is what the discovery API lists.
func (s site) listed(t *testing.T) ([]string, error) {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(s.dir, "token"))
	if err != nil {
		return nil, err
	}
	body, err := get(t.Context(), s.url(flagHTTP, "/v1/proxies"), strings.TrimSpace(string(token)))
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []struct{ Name, IP string }
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		return nil, err
	}
	var found []string
	for _, item := range list.Items {
		found = append(found, item.Name+" "+item.IP)
	}
	return found, nil
}

// proxy waits until the discovery API lists one proxy and returns it.
func (s site) proxy(t *testing.T) (found string) {
	t.Helper()
	eventually(t, "the proxy is listed", func() error {
		list, err := s.listed(t)
		if err != nil {
			return err
		}
		if len(list) != 1 {
			return fmt.Errorf("listed %v", list)
		}
		found = list[0]
		return nil
	})
	return found
}

func (s site) dial(t *testing.T) client.Client {
	t.Helper()
	c, err := client.DialContext(t.Context(), client.Options{HostPort: loopback(s.ports[flagTemporal])})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// createProxy starts a proxy by hand, with plain JSON as the docs show it.
func (s site) createProxy(t *testing.T, name string) {
	t.Helper()
	s.createProxyAt(t, name, "local")
}

func (s site) createProxyAt(t *testing.T, name, provider string) {
	t.Helper()
	input := map[string]any{
		"metadata": map[string]any{"name": name},
		"spec":     map[string]any{"provider": provider},
	}
	_, err := s.dial(t).ExecuteWorkflow(t.Context(),
		client.StartWorkflowOptions{ID: workflows.ProxyID(api.DefaultNamespace, name), TaskQueue: workflows.TaskQueue},
		workflows.TypeProxy, input)
	if err != nil {
		t.Fatal(err)
	}
}

// deleteProxy leaves no proxy process behind.
func (s site) deleteProxy(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := s.dial(t)
	id := workflows.ProxyID(api.DefaultNamespace, name)
	if err := c.SignalWorkflow(ctx, id, "", workflows.SignalDelete, nil); err != nil {
		t.Fatal(err)
	}
	if err := c.GetWorkflow(ctx, id, "").Get(ctx, nil); err != nil {
		t.Fatal(err)
	}
}
