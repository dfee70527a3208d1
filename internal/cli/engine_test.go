package cli

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	tollgateapp "github.com/tollgate-dev/tollgate/internal/app"
	"github.com/tollgate-dev/tollgate/internal/devserver/devservertest"
	"github.com/tollgate-dev/tollgate/internal/provider/local/localtest"
	"github.com/tollgate-dev/tollgate/internal/temporalclient"
	"github.com/tollgate-dev/tollgate/workflows"
)

// patience covers a loaded machine.
const patience = 2 * time.Minute

// realCLI is a command line that dials a real engine.
func realCLI(t *testing.T, engine *devservertest.Server, dir string) *cli {
	t.Helper()
	c := newCLI(t, nil)
	c.dir, c.now, c.grace = dir, time.Now, workerGrace
	c.connect = func(ctx context.Context, o ConnectOptions) (*Connection, error) {
		o.Address = engine.HostPort()
		return connect(ctx, o)
	}
	return c
}

// startApp runs all workers with a local provider named one, with its state in
// dir/.tollgate, until the test ends.
func startApp(t *testing.T, engine *devservertest.Server, dir string) {
	t.Helper()
	file := filepath.Join(dir, "tollgate.yaml")
	text := "installation: test\nproviders:\n- name: one\n  type: local\n  local: {binary: " + localtest.Binary(t) + "}\n" +
		"probe: {interval: 1s, timeout: 2s}\ngc: {interval: 1h}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	a, err := tollgateapp.New(ctx, tollgateapp.Options{
		ConfigFile: file, StateDir: filepath.Join(dir, stateDir), HTTPAddr: "127.0.0.1:0",
		Temporal: temporalclient.Options{Isolated: true, Address: engine.HostPort()},
		Logger:   slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("app: %v", err)
		}
	})
	select {
	case <-a.Ready():
	case <-time.After(patience):
		t.Fatal("the app is not ready in time")
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// TestALifeByCommandLine takes a proxy through its life on a real engine, with
// the real workers and encrypted payloads.
func TestALifeByCommandLine(t *testing.T) {
	t.Parallel()
	engine := devservertest.Start(t)
	dir := t.TempDir()
	startApp(t, engine, dir)
	c := realCLI(t, engine, dir)
	const secret = "sentinel-8d1f"
	c.write("ci.txt", "#cloud-config\n# "+secret+"\n")
	must := func(args ...string) string {
		t.Helper()
		r := c.run(args...)
		if r.code != ExitOK {
			t.Fatalf("tollgate %s: exit code %d\n%s%s", strings.Join(args, " "), r.code, r.stdout, r.stderr)
		}
		if strings.Contains(r.stdout+r.stderr, secret) {
			t.Errorf("tollgate %s prints the secret", strings.Join(args, " "))
		}
		return r.stdout
	}
	has := func(text string, wants ...string) {
		t.Helper()
		for _, w := range wants {
			if !strings.Contains(text, w) {
				t.Errorf("%q is missing in\n%s", w, text)
			}
		}
	}

	has(must("proxy", "create", "demo", "-p", "one", "--port", freePort(t), "-l", "team=web", "--cloud-init", "ci.txt", "--wait"),
		"proxy default/demo: created\n", "proxy default/demo: serves at 127.")
	c.run("proxy", "create", "demo", "-p", "one").expect(t, ExitConflict,
		"tollgate: proxy default/demo exists already\n  change it with tollgate proxy update demo or tollgate apply -f FILE\n")
	has(must("proxy", "get", "demo", "-o", "wide"), "Running", "cloudInit.inline:", "[redacted]", "Provisioned   True")
	must("proxy", "list", "-A", "-o", "wide")

	doc := must("proxy", "get", "demo", "-o", "yaml")
	c.write("demo.yaml", doc)
	if got := must("apply", "-f", "demo.yaml", "--wait"); got != "proxy default/demo: unchanged\nproxy default/demo: serves at "+field(doc, "ip")+":"+field(doc[strings.Index(doc, "status:"):], "port")+"\n" {
		t.Errorf("applied as it is: %q", got)
	}
	c.write("demo.yaml", strings.Replace(doc, "neverHealthyAfter: 10m0s", "neverHealthyAfter: 5m", 1))
	has(must("apply", "-f", "demo.yaml"), "proxy default/demo: changed, generation 2\n  ~ spec.neverHealthyAfter: 10m0s -> 5m0s\n")
	has(must("proxy", "update", "demo", "--port", freePort(t), "--wait"), "generation 3", "serves at")

	// Two who ask for a replacement at once get one, both of them an answer.
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if r := c.run("proxy", "replace", "demo", "--reason", "by two"); r.code != ExitOK || !strings.Contains(r.stdout, "replaced, serves at") {
				t.Errorf("replace: exit code %d\n%s%s", r.code, r.stdout, r.stderr)
			}
		})
	}
	wg.Wait()

	history := must("proxy", "history", "demo", "--limit", "0")
	has(history, "create", "cloudInit.inline=[redacted]", "CreateInstance", "Proven, healthy", "SetSpec done", "Replace done", "by two", "(tollgate)")
	if strings.Contains(history, "details are encrypted") {
		t.Errorf("history\n%s", history)
	}

	has(must("proxy", "list"), "demo", "one", "Running", "yes")
	has(must("providers", "list"), "one", "local")
	has(must("providers", "check"), "one", "yes")
	has(must("fleet", "list"), "one", "1")
	has(must("schedules", "list"), "gc/one", "1h0m0s")
	has(must("schedules", "apply", "--config", "tollgate.yaml"), "schedule gc/one: unchanged")
	has(must("gc", "run", "--dry-run"), "sweep of one: Clean")

	// Refused by the workflow's own validator.
	must("proxy", "create", "plain", "-p", "one", "--port", freePort(t), "--wait")
	c.stdin = "apiVersion: tollgate/v1\nkind: Proxy\nmetadata: {name: plain}\nspec: {provider: one, cloudInit: {inline: '[redacted]'}}\n"
	c.run("apply", "-f", "-").expect(t, ExitRefused, "tollgate: proxy default/plain: refused: spec.cloudInit.inline: \"[redacted]\" stands for a value that this proxy does not have: give the value, or a secretRef\n")

	// Stands still, and can be deleted all the same.
	r := c.run("proxy", "create", "lost", "-p", "nowhere", "--wait", "--timeout", patience.String())
	if r.code != ExitStuck || !strings.Contains(r.stderr, "ProviderNotConfigured") {
		t.Errorf("a proxy of an unknown provider: exit code %d\n%s", r.code, r.stderr)
	}

	// Without the key nothing is readable, and the error says what to do.
	keyless := realCLI(t, engine, t.TempDir())
	if r := keyless.run("proxy", "get", "demo"); r.code != ExitFailure || !strings.Contains(r.stderr, "is encrypted, and no key file is given") || !strings.Contains(r.stderr, "--codec-key-file") {
		t.Errorf("without the key: exit code %d\n%s", r.code, r.stderr)
	}
	if r := keyless.run("proxy", "history", "demo"); r.code != ExitOK || !strings.Contains(r.stderr, "details are encrypted and left out") {
		t.Errorf("history without the key: exit code %d\n%s", r.code, r.stderr)
	}

	has(must("proxy", "delete", "demo", "plain", "lost", "--wait"), "proxy default/demo: deleted (", "proxy default/lost: deleted (nothing was left")
	if r := c.run("proxy", "get", "demo"); r.code != ExitNotFound || !strings.Contains(r.stderr, "does not exist: it was deleted 20") {
		t.Errorf("get after delete: exit code %d\n%s", r.code, r.stderr)
	}
	has(must("proxy", "history", "demo"), "deleted")
}

// field is the value of a YAML line.
func field(doc, name string) string {
	_, rest, _ := strings.Cut(doc, " "+name+": ")
	value, _, _ := strings.Cut(rest, "\n")
	return value
}

// TestEngineErrors checks the translation of what a real server answers.
func TestEngineErrors(t *testing.T) {
	t.Parallel()
	engine := devservertest.Start(t, devservertest.WithNamespaces("bare"), devservertest.WithSearchAttributes(workflows.SearchAttributes()...))
	c := realCLI(t, engine, t.TempDir())
	for _, tc := range []struct {
		args string
		code ExitCode
		want string
	}{
		{"proxy get nobody", ExitNotFound, "tollgate: proxy default/nobody does not exist\n"},
		{"proxy delete nobody", ExitNotFound, "tollgate: proxy default/nobody does not exist\n"},
		{"proxy delete nobody --wait", ExitNotFound, "tollgate: proxy default/nobody does not exist\n"},
		{"proxy update nobody --port 1", ExitNotFound, "tollgate: proxy default/nobody does not exist\n"},
		{"proxy replace nobody", ExitNotFound, "tollgate: proxy default/nobody does not exist\n"},
		{"proxy history nobody", ExitNotFound, "tollgate: proxy default/nobody does not exist\n"},
		{"proxy list -p one", ExitNotFound, "tollgate: provider \"one\" has no fleet"},
		{"providers list", ExitNotFound, "tollgate: no providers: "},
		{"gc run one", ExitNotFound, "tollgate: provider \"one\" is not known"},
		{"proxy get demo --temporal-namespace nope", ExitUnavailable, "namespace \"nope\" does not exist"},
		{"proxy create demo -p one --wait", ExitNoWorker, "tollgate: no worker is polling task queue tollgate: is make run up?\n"},
		{"proxy get demo", ExitNoWorker, "tollgate: no worker is polling task queue tollgate: is make run up?\n"},
		{"proxy update demo --port 1", ExitNoWorker, "tollgate: no worker is polling task queue tollgate: is make run up?\n"},
		{"proxy delete demo --wait", ExitNoWorker, "tollgate: no worker is polling task queue tollgate: is make run up?\n"},
		{"proxy history demo", ExitOK, ""},
		{"proxy delete demo", ExitOK, ""},
	} {
		r := c.run(strings.Fields(tc.args)...)
		if r.code != tc.code || !strings.Contains(r.stderr, tc.want) {
			t.Errorf("tollgate %s: exit code %d, want %d; stderr\n%s", tc.args, r.code, tc.code, r.stderr)
		}
	}
	if err := engine.Client().TerminateWorkflow(t.Context(), "proxy/default/demo", "", "for the test"); err != nil {
		t.Fatal(err)
	}
	if r := c.run("proxy", "get", "demo"); r.code != ExitNotFound || !strings.Contains(r.stderr, "its workflow was terminated 20") {
		t.Errorf("terminated: exit code %d\n%s", r.code, r.stderr)
	}
	if r := c.run("proxy", "history", "demo"); !strings.Contains(r.stdout, "workflow terminated") || !strings.Contains(r.stdout, "for the test") {
		t.Errorf("history of the terminated\n%s", r.stdout)
	}
}

// A namespace that no worker has prepared lacks the search attributes.
func TestEngineWithoutSearchAttributes(t *testing.T) {
	t.Parallel()
	engine := devservertest.Start(t)
	r := realCLI(t, engine, t.TempDir()).run("proxy", "create", "demo", "-p", "one")
	if r.code != ExitUnavailable || !strings.Contains(r.stderr, "lacks Tollgate's search attributes") || !strings.Contains(r.stderr, "temporal operator search-attribute create") {
		t.Errorf("exit code %d\n%s", r.code, r.stderr)
	}
}
