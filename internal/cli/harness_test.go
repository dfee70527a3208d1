package cli

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/tollgate-dev/tollgate/internal/telemetry"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

var update = flag.Bool("update", false, "write the golden files anew")

var testNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// cli runs the command line against a fake and records what it prints.
type cli struct {
	t        *testing.T
	fake     *fakeTemporal
	dir      string
	stdin    string
	env      map[string]string
	terminal bool
	grace    time.Duration
	now      func() time.Time
	keyed    bool // the connection says that it is encrypted
	dialErr  error
	connect  func(context.Context, ConnectOptions) (*Connection, error)
	tracing  func(context.Context) (*telemetry.Tracing, error)
}

func newCLI(t *testing.T, f *fakeTemporal) *cli {
	t.Helper()
	return &cli{t: t, fake: f, dir: t.TempDir(), env: map[string]string{}, grace: 10 * time.Millisecond, now: func() time.Time { return testNow }}
}

type result struct {
	code           ExitCode
	stdout, stderr string
}

func (c *cli) run(args ...string) result { return c.runContext(c.t.Context(), args...) }

func (c *cli) runContext(ctx context.Context, args ...string) result {
	c.t.Helper()
	var out, errOut bytes.Buffer
	connect := c.connect
	if connect == nil {
		connect = func(_ context.Context, o ConnectOptions) (*Connection, error) {
			if c.dialErr != nil {
				return nil, c.dialErr
			}
			return &Connection{
				Client: c.fake, Converter: converter.GetDefaultDataConverter(), Failures: temporal.GetDefaultFailureConverter(),
				Address: "127.0.0.1:7233", Namespace: "default", Encrypted: c.keyed || o.KeyFile != "",
			}, nil
		}
	}
	a := newApp(Env{
		Stdin: strings.NewReader(c.stdin), Stdout: &out, Stderr: &errOut, Getenv: func(k string) string { return c.env[k] },
		Dir: c.dir, Terminal: c.terminal, Now: c.now, Connect: connect, Tracing: c.tracing,
	})
	a.grace, a.pollEvery = c.grace, time.Millisecond
	code := a.main(ctx, args)
	return result{code, out.String(), errOut.String()}
}

// write puts a file into the working directory.
func (c *cli) write(name, content string) {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// golden compares a run with testdata/<name>.golden.
func (c *cli) golden(name string, args ...string) {
	c.t.Helper()
	r := c.run(args...)
	got := fmt.Sprintf("$ tollgate %s\n%s", strings.Join(args, " "), r.stdout)
	if r.stderr != "" {
		got += "--- stderr\n" + r.stderr
	}
	got += fmt.Sprintf("--- exit %d\n", r.code)
	got = strings.ReplaceAll(got, c.dir, "/home/me")
	checkGolden(c.t, name, got)
}

func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, string(want)); diff != "" {
		t.Errorf("differs from %s (-got +want)\n%s", path, diff)
	}
}

// expect checks the exit code and standard error.
func (r result) expect(t *testing.T, code ExitCode, stderr string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d", r.code, code)
	}
	if diff := cmp.Diff(r.stderr, stderr); diff != "" {
		t.Errorf("stderr (-got +want)\n%s", diff)
	}
}

// proxyState makes the document of a proxy in some state.
func proxyState(phase api.Phase, provisioned, healthy api.Condition) api.Proxy {
	provisioned.Type, healthy.Type = api.CondProvisioned, api.CondHealthy
	for _, c := range []*api.Condition{&provisioned, &healthy} {
		c.LastTransitionTime = testNow.Add(-3 * time.Minute)
		c.ObservedGeneration = 1
		if c.Status == "" {
			c.Status = api.Unknown
		}
	}
	return api.Proxy{
		APIVersion: api.APIVersion, Kind: api.KindProxy,
		Metadata: api.Metadata{Name: "demo", Namespace: "default", UID: "uid-1", Generation: 1, CreationTimestamp: testNow.Add(-time.Hour)},
		Spec:     api.ProxySpec{Provider: "local"}.WithDefaults(),
		Status:   api.ProxyStatus{Phase: phase, ObservedGeneration: 1, SpecHash: "h1", Conditions: []api.Condition{provisioned, healthy}},
	}
}

// serving is a proxy that serves.
func serving() api.Proxy {
	p := proxyState(api.PhaseRunning, api.Condition{Status: api.True, Reason: api.ReasonRunning},
		api.Condition{Status: api.True, Reason: api.ReasonProven, Message: "a CONNECT went through"})
	p.Status.IP, p.Status.Port, p.Status.InstanceID, p.Status.InstanceName = "127.0.0.7", 3128, "local/proxy-a", "proxy-a"
	return p
}

// creating is a proxy on its way.
func creating() api.Proxy {
	return proxyState(api.PhaseProvisioning, api.Condition{Status: api.False, Reason: api.ReasonCreating, Message: "proxy-a"},
		api.Condition{Reason: api.ReasonCreating})
}
