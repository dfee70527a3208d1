package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/tollgate-dev/tollgate/internal/app"
	"github.com/tollgate-dev/tollgate/internal/devserver/devservertest"
	"github.com/tollgate-dev/tollgate/internal/discovery"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/local/localtest"
	"github.com/tollgate-dev/tollgate/internal/temporalclient"
)

const patience = time.Minute

// running is an App that works until stopped.
type running struct {
	t      *testing.T
	app    *app.App
	file   string
	state  string
	logs   *buffer
	cancel context.CancelFunc
	done   chan error
}

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) { b.mu.Lock(); defer b.mu.Unlock(); return b.b.Write(p) }
func (b *buffer) String() string              { b.mu.Lock(); defer b.mu.Unlock(); return b.b.String() }

// run starts an App on a real engine.
func run(t *testing.T, engine *devservertest.Server, dir, config string) *running {
	t.Helper()
	r := &running{t: t, file: filepath.Join(dir, "tollgate.yaml"), state: filepath.Join(dir, "state"), logs: &buffer{}, done: make(chan error, 1)}
	r.configure(config)
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	a, err := app.New(ctx, app.Options{
		ConfigFile: r.file, StateDir: r.state, HTTPAddr: "127.0.0.1:0", MetricsAddr: "127.0.0.1:0",
		Temporal:   temporalclient.Options{Isolated: true, Address: engine.HostPort()},
		Logger:     slog.New(slog.NewTextHandler(r.logs, nil)),
		CodecToken: provider.NewSensitive([]byte("codec-token")), UIURL: "http://127.0.0.1:8233",
		ReloadPoll: 50 * time.Millisecond, CountShoots: 200 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.app = a
	go func() { r.done <- a.Run(ctx) }()
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Errorf("run: %v", err)
		}
		if t.Failed() {
			t.Logf("log of the app:\n%s", r.logs)
		}
	})
	select {
	case <-a.Ready():
	case err := <-r.done:
		r.done <- err
		t.Fatalf("ended instead of getting ready: %v", err)
	case <-time.After(patience):
		t.Fatal("not ready in time")
	}
	return r
}

func (r *running) configure(config string) {
	r.t.Helper()
	tmp := r.file + ".new"
	if err := os.WriteFile(tmp, []byte(config), 0o600); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(tmp, r.file); err != nil {
		r.t.Fatal(err)
	}
}

func (r *running) stop() error {
	r.cancel()
	select {
	case err := <-r.done:
		r.done <- err
		return err
	case <-time.After(patience):
		return errors.New("not drained in time")
	}
}

// get asks the HTTP server.
func (r *running) get(path string, headers ...string) (int, string) {
	r.t.Helper()
	code, body, err := fetch(http.DefaultClient, "http://"+r.app.HTTPAddr()+path, headers...)
	if err != nil {
		r.t.Fatal(err)
	}
	return code, body
}

func fetch(c *http.Client, url string, headers ...string) (int, string, error) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

func (r *running) names(query string) []string {
	r.t.Helper()
	code, body := r.get("/v1/proxies"+query, "Authorization", "Bearer sesame")
	if code != http.StatusOK {
		return []string{fmt.Sprint("status ", code)}
	}
	var l discovery.List
	if err := json.Unmarshal([]byte(body), &l); err != nil {
		r.t.Fatal(err)
	}
	names := []string{}
	for _, p := range l.Items {
		names = append(names, p.Provider+"/"+p.Name)
	}
	return names
}

func (r *running) status(workflowID string) enumspb.WorkflowExecutionStatus {
	d, err := r.app.Connection().Client.DescribeWorkflow(r.t.Context(), workflowID, "")
	if err != nil {
		return enumspb.WORKFLOW_EXECUTION_STATUS_UNSPECIFIED
	}
	return d.RawResponse.GetWorkflowExecutionInfo().GetStatus()
}

func (r *running) hasSchedule(id string) bool {
	_, err := r.app.Connection().Client.ScheduleClient().GetHandle(r.t.Context(), id).Describe(r.t.Context())
	if notFound := new(serviceerror.NotFound); errors.As(err, &notFound) {
		return false
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return true
}

func configText(t *testing.T, providers ...string) string {
	var b strings.Builder
	b.WriteString("installation: test\nproviders:\n")
	for _, p := range providers {
		fmt.Fprintf(&b, "  - name: %s\n    type: local\n    budget: {requestsPerSecond: 200, burst: 200}\n    local: {binary: %s}\n", p, localtest.Binary(t))
	}
	b.WriteString("secrets: {token: {file: token}}\ndiscovery: {token: token}\nhealth: {interval: 5s}\nprobe: {interval: 1s, timeout: 2s}\n")
	return b.String()
}
