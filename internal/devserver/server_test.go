package devserver_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/internal/devserver"
	"github.com/tollgate-dev/tollgate/internal/devserver/devservertest"
	"github.com/tollgate-dev/tollgate/internal/devserver/enginebin"
)

// supervisorEnv makes the test binary a supervisor of an engine in the directory
// that the variable names, to be killed.
const supervisorEnv = "DEVSERVER_TEST_SUPERVISOR"

func TestMain(m *testing.M) {
	dir := os.Getenv(supervisorEnv)
	if dir == "" {
		os.Exit(m.Run())
	}
	s, err := devserver.Start(context.Background(), devserver.Options{Dir: dir})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_, port, err := net.SplitHostPort(s.HostPort())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(s.PID(), port)
	<-s.Done()
}

func TestRestartKeepsWorkflows(t *testing.T) {
	t.Parallel()
	s := devservertest.Start(t)
	c := s.Client()
	startWorker(t, c)
	start(t, c, "kept")
	before := s.PID()
	s.RestartEngine()
	if s.PID() == before {
		t.Error("the engine has the same process id after a restart")
	}
	finish(t, c, "kept")
}

func TestKilledEngineIsRestarted(t *testing.T) {
	t.Parallel()
	s := devservertest.Start(t)
	c := s.Client()
	startWorker(t, c)
	for round, id := range []string{"first", "second", "third"} {
		start(t, c, id)
		s.KillEngine()
		s.MustBeHealthy()
		if got, want := s.Restarts(), round+1; got != want {
			t.Errorf("%d restarts after kill %d", got, want)
		}
		finish(t, c, id)
	}
}

func TestStartedAgainContinues(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	first, err := devserver.Start(ctx, devserver.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.DialContext(ctx, client.Options{HostPort: first.HostPort()})
	if err != nil {
		t.Fatal(err)
	}
	start(t, c, "survivor")
	c.Close()
	if err := first.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if err := first.Stop(ctx); err != nil {
		t.Errorf("second stop: %v", err)
	}
	if err := first.WaitHealthy(ctx); err == nil {
		t.Error("a stopped engine is healthy")
	}
	select {
	case <-first.Done():
	default:
		t.Error("Done is open after Stop")
	}

	second := devservertest.Start(t, devservertest.WithDir(dir))
	c = second.Client()
	startWorker(t, c)
	finish(t, c, "survivor")
}

func TestStateIsPrivate(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	s := devservertest.Start(t, devservertest.WithDir(dir))
	if got := mode(t, dir); got != 0o700 {
		t.Errorf("directory has mode %o", got)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 3 {
		t.Errorf("found only %v, want database, journal and log", files)
	}
	for _, f := range files {
		if got := mode(t, f); got != 0o600 {
			t.Errorf("%s has mode %o", f, got)
		}
	}
	if got, want := s.DBFile(), filepath.Join(dir, "temporal.db"); got != want {
		t.Errorf("database is %s, want %s", got, want)
	}
}

func TestSearchAttributesAreAddedToExistingNamespaces(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	plain, err := devserver.Start(ctx, devserver.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := plain.Stop(ctx); err != nil {
		t.Fatal(err)
	}

	s := devservertest.Start(t, devservertest.WithDir(dir), devservertest.WithNamespaces("other"),
		devservertest.WithSearchAttributes(temporal.NewSearchAttributeKeyKeyword("Colour"), temporal.NewSearchAttributeKeyBool("Open")))
	c := s.Client()
	want := map[string]enumspb.IndexedValueType{"Colour": enumspb.INDEXED_VALUE_TYPE_KEYWORD, "Open": enumspb.INDEXED_VALUE_TYPE_BOOL}
	for _, ns := range []string{devserver.Namespace, "other"} {
		got, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: ns})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.GetCustomAttributes()); diff != "" {
			t.Errorf("search attributes of %s (-want +got):\n%s", ns, diff)
		}
	}
}

func TestWebUIAnswers(t *testing.T) {
	t.Parallel()
	s := devservertest.Start(t, devservertest.WithUI())
	for path, want := range map[string]string{"/": "<html", "/api/v1/namespaces/default": `"name": "default"`, "/api/v1/settings": `"DisableNewsFetch":true`} {
		body := get(t, s.UIURL()+path)
		if !strings.Contains(body, want) {
			t.Errorf("%s answered %.200q, want it to contain %s", path, body, want)
		}
	}
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", devserver.Host+":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	taken := l.Addr().(*net.TCPAddr).Port
	for use, o := range map[string]devserver.Options{
		"Temporal":             {Port: taken},
		"the Web UI":           {UIPort: taken},
		"the engine's metrics": {MetricsPort: taken},
	} {
		o.Dir = t.TempDir()
		_, err := devserver.Start(t.Context(), o)
		var inUse *devserver.PortInUseError
		if !errors.As(err, &inUse) {
			t.Errorf("%s: got error %v", use, err)
			continue
		}
		if diff := cmp.Diff(&devserver.PortInUseError{Port: taken, Use: use}, inUse); diff != "" {
			t.Errorf("%s (-want +got):\n%s", use, diff)
		}
	}
}

func TestFailedStartShowsTheLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "temporal.db"), []byte("this is no database, whatever its name says"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := devserver.Start(t.Context(), devserver.Options{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "file is not a database") {
		t.Errorf("got error %v, want the engine's own words", err)
	}
}

func TestEngineEndsWithItsSupervisor(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), supervisorEnv+"="+dir)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	t.Cleanup(func() {
		if !killed {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	var pid, port int
	if _, err := fmt.Fscan(out, &pid, &port); err != nil {
		t.Fatalf("read the supervisor's report: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed = true
	_ = cmd.Wait() // says that it was killed

	// A successor on the same state waits for the engine that is on its way out.
	s := devservertest.Start(t, devservertest.WithDir(dir), func(o *devserver.Options) { o.Port = port })
	if s.PID() == pid {
		t.Errorf("the successor has process id %d as well", pid)
	}
	eventually(t, "the abandoned engine ends", func() error {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("process %d is there: %v", pid, err)
		}
		return nil
	})
}

func TestServesAsTheSDKsDevServer(t *testing.T) {
	t.Parallel()
	binary, err := enginebin.Ensure(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := testsuite.StartDevServer(ctx, testsuite.DevServerOptions{
		ExistingPath: binary,
		LogFormat:    "pretty",
		ExtraArgs:    []string{"--search-attribute", "Colour=Keyword"},
		Stdout:       t.Output(),
		Stderr:       t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	c := s.Client()
	w := worker.New(c, queue, worker.Options{})
	w.RegisterWorkflowWithOptions(collect, workflow.RegisterOptions{Name: "collect"})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	start(t, c, "in-memory")
	finish(t, c, "in-memory")
	w.Stop()
	c.Close()
	if err := s.Stop(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
			t.Errorf("stop: %v", err)
		}
	}
}
