//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
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

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/tollgate-dev/tollgate/internal/codec"
	"github.com/tollgate-dev/tollgate/internal/devserver"
	"github.com/tollgate-dev/tollgate/internal/devserver/devservertest"
	"github.com/tollgate-dev/tollgate/internal/temporalclient"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// bins is where "make build" put the programs.
func bins(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "bin", name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v (make build)", err)
	}
	return path
}

// world is one installation: an engine, a state directory, a probe target and a
// worker process.
type world struct {
	t      testing.TB
	engine *devservertest.Server
	dir    string
	http   string // host:port of the discovery API
	metr   string
	client client.Client
	keys   string
	token  string
	env    []string // of workers, beside this process's

	mu     sync.Mutex
	worker *exec.Cmd
	dead   chan struct{}
}

// settings of a world's configuration file.
type settings struct {
	installation string
	extra        string // more secrets
	providers    string // more providers
	gc           string
	shared       string // a directory for the local provider's instances
	token        string // of the discovery API
	codec        string // more of the codec's settings
	env          []string
	engine       *devservertest.Server
	idle         bool // without a worker
}

func newWorld(t testing.TB, s settings) *world {
	t.Helper()
	if s.installation == "" {
		s.installation = "e2e"
	}
	if s.gc == "" {
		s.gc = "{interval: 1h, minAge: 1h, confirmAfter: 1s}"
	}
	if s.token == "" {
		s.token = "e2e-token"
	}
	w := &world{t: t, dir: t.TempDir(), engine: s.engine, token: s.token, env: s.env}
	if w.engine == nil {
		w.engine = devservertest.Start(t)
	}
	w.http, w.metr = w.freeAddr(), w.freeAddr()
	w.keys = filepath.Join(w.dir, "keys.json")
	if _, err := codec.Create(w.keys); err != nil {
		t.Fatal(err)
	}
	local := ""
	if s.shared != "" {
		local = "\n    local: {dir: " + s.shared + "}"
	}
	local += s.providers
	config := fmt.Sprintf(`installation: %s
providers:
  - name: local
    type: local
    drift: {interval: 2s}%s
secrets:
  token: {file: token}
%s
probe: {target: %q, interval: 1s, timeout: 1s, unhealthyAfter: 2, tls: {enabled: false}}
gc: %s
health: {interval: 5s}
discovery: {token: token}
codec: {keyFile: keys.json%s}
log: {level: debug, format: json}
`, s.installation, local, s.extra, probeTarget(t), s.gc, s.codec)
	w.write("tollgate.yaml", config)
	w.write("token", w.token)
	if !s.idle {
		w.startWorker()
	}
	t.Cleanup(w.cleanup)
	w.client = w.dial()
	return w
}

func (w *world) dial() client.Client {
	w.t.Helper()
	keys, err := codec.Open(w.keys, slog.New(slog.DiscardHandler))
	if err != nil {
		w.t.Fatal(err)
	}
	c, err := temporalclient.Dial(w.t.Context(), temporalclient.Options{
		Address: w.engine.HostPort(), Namespace: "default", Isolated: true,
		Codec: codec.New(keys), Logger: slog.New(slog.DiscardHandler), Wait: 10 * time.Second,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	return c.Client
}

func (w *world) write(name, content string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(content), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) freeAddr() string {
	w.t.Helper()
	port, err := devserver.FreePort()
	if err != nil {
		w.t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// startWorker starts a worker process and waits until it is ready.
func (w *world) startWorker() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	log, err := os.OpenFile(filepath.Join(w.dir, "worker.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		w.t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(bins(w.t, "tollgate-worker"), "--config", filepath.Join(w.dir, "tollgate.yaml"),
		"--state-dir", filepath.Join(w.dir, "state"), "--http-addr", w.http, "--metrics-addr", w.metr)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(cleanEnv(), append(w.env, "TEMPORAL_ADDRESS="+w.engine.HostPort())...)
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	dead := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its end is what tests wait for, however it came
		close(dead)
	}()
	w.worker, w.dead = cmd, dead
	deadline := time.Now().Add(time.Minute)
	for {
		resp, err := http.Get("http://" + w.http + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-dead:
			w.t.Fatalf("the worker ended at its start:\n%s", w.logTail())
		default:
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("the worker is not ready:\n%s", w.logTail())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// killWorker ends the worker with SIGKILL.
func (w *world) killWorker() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.worker == nil {
		return
	}
	_ = w.worker.Process.Kill()
	<-w.dead
}

func (w *world) logTail() string {
	b, _ := os.ReadFile(filepath.Join(w.dir, "worker.log"))
	lines := strings.Split(string(b), "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}

// cleanup ends the worker and every proxy process that a failed test left.
func (w *world) cleanup() {
	w.killWorker()
	for _, pid := range w.processes() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	if w.t.Failed() {
		w.t.Logf("end of the worker's log:\n%s", w.logTail())
	}
}

// processes lists the proxy processes whose directory is below the world's.
func (w *world) processes() []int {
	var pids []int
	dirs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range dirs {
		b, err := os.ReadFile(f)
		if err != nil || !strings.Contains(string(b), "tollgate-proxy\x00") || !strings.Contains(string(b), w.dir) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f))); err == nil && !zombie(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func zombie(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(b), ") Z ")
}

// instances lists the instances on disk.
func (w *world) instances() []string {
	var names []string
	entries, _ := os.ReadDir(filepath.Join(w.dir, "state", "providers", "local", "instances"))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (w *world) start(ctx context.Context, name string, mod ...func(*api.ProxySpec)) client.WorkflowRun {
	w.t.Helper()
	spec := api.ProxySpec{Provider: "local"}
	for _, m := range mod {
		m(&spec)
	}
	run, err := w.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: workflows.ProxyID("default", name), TaskQueue: workflows.TaskQueue},
		workflows.TypeProxy, api.ProxyInput{Spec: spec})
	if err != nil {
		w.t.Fatal(err)
	}
	return run
}

func (w *world) status(ctx context.Context, name string) (api.Proxy, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	v, err := w.client.QueryWorkflow(ctx, workflows.ProxyID("default", name), "", workflows.QueryStatus)
	if err != nil {
		return api.Proxy{}, err
	}
	var p api.Proxy
	return p, v.Get(&p)
}

// waitFor polls the proxy until ok or the limit.
func (w *world) waitFor(name string, limit time.Duration, what string, ok func(api.Proxy) bool) api.Proxy {
	w.t.Helper()
	var p api.Proxy
	var err error
	w.eventually(limit, func() string {
		if p, err = w.status(w.t.Context(), name); err != nil {
			return fmt.Sprintf("%s: %v", name, err)
		}
		if !ok(p) {
			b, _ := json.Marshal(p.Status)
			return fmt.Sprintf("%s is not %s: %s", name, what, b)
		}
		return ""
	})
	return p
}

func running(p api.Proxy) bool { return p.Status.Phase == api.PhaseRunning && healthy(p) }

func healthy(p api.Proxy) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == api.CondHealthy {
			return c.Status == api.True
		}
	}
	return false
}

// eventually polls until problem returns "" or the limit.
func (w *world) eventually(limit time.Duration, problem func() string) {
	w.t.Helper()
	deadline := time.Now().Add(limit)
	for {
		p := problem()
		if p == "" {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("after %s: %s", limit, p)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// eventuallyMoving polls until problem returns "", for as long as what progress
// counts changes within the limit: how much there is to do depends on what was
// struck, and how long that takes on the machine.
func (w *world) eventuallyMoving(limit time.Duration, progress func() int, problem func() string) {
	w.t.Helper()
	seen, deadline := progress(), time.Now().Add(limit)
	for {
		p := problem()
		if p == "" {
			return
		}
		if n := progress(); n != seen {
			seen, deadline = n, time.Now().Add(limit)
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("nothing moved for %s: %s", limit, p)
		}
		time.Sleep(500 * time.Millisecond) // what it asks costs what it waits for
	}
}

// wantInstances waits until exactly n instances exist on disk and as processes.
func (w *world) wantInstances(n int, limit time.Duration) {
	w.t.Helper()
	w.eventually(limit, func() string {
		if i, p := w.instances(), w.processes(); len(i) != n || len(p) != n {
			return fmt.Sprintf("want %d instances, have on disk %v, as processes %v", n, i, p)
		}
		return ""
	})
}

func (w *world) delete(ctx context.Context, name string) error {
	return w.update(ctx, name, workflows.UpdateDelete, api.DeleteInput{}, nil)
}

// update calls an update to its end, as a caller would: over the loss of its
// connection or the worker.
func (w *world) update(ctx context.Context, name, update string, in, out any) error {
	h, err := w.client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: workflows.ProxyID("default", name), UpdateName: update, Args: []any{in},
		WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return err
	}
	return h.Get(ctx, out)
}

// closed reports whether the proxy's workflow has ended.
func (w *world) closed(name string) string {
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
	defer cancel()
	d, err := w.client.DescribeWorkflow(ctx, workflows.ProxyID("default", name), "")
	var gone *serviceerror.NotFound
	switch {
	case errors.As(err, &gone):
		return ""
	case err != nil:
		return fmt.Sprintf("%s: %v", name, err)
	case d.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING:
		return name + " still runs"
	}
	return ""
}

// discovered asks the discovery API for the names it lists.
func (w *world) discovered() (map[string]string, error) {
	req, _ := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://"+w.http+"/v1/proxies", nil)
	req.Header.Set("Authorization", "Bearer "+w.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s: %w", resp.Status, b, err)
	}
	var list struct {
		Items []struct {
			Name, URL string
		}
	}
	out := map[string]string{}
	err = json.Unmarshal(b, &list)
	for _, i := range list.Items {
		out[i.Name] = i.URL
	}
	return out, err
}
