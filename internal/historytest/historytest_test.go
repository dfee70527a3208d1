package historytest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/internal/devserver/devservertest"
	"github.com/tollgate-dev/tollgate/internal/historytest"
)

// naps is a workflow that sleeps a few times and then continues as new, once.
func naps(n int) any {
	return func(ctx workflow.Context, again bool) error {
		for range n {
			if err := workflow.Sleep(ctx, time.Millisecond); err != nil {
				return err
			}
		}
		if again {
			return workflow.NewContinueAsNewError(ctx, "Naps", false)
		}
		return nil
	}
}

func register(n int) func(worker.WorkflowRegistry) {
	return func(r worker.WorkflowRegistry) {
		r.RegisterWorkflowWithOptions(naps(n), workflow.RegisterOptions{Name: "Naps"})
	}
}

func TestHistoriesSurviveAFileAndCatchChanges(t *testing.T) {
	t.Parallel()
	c := devservertest.Start(t).Client(client.Options{Identity: "somebody@a-machine"})
	w := worker.New(c, "naps", worker.Options{})
	register(2)(w)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "naps/1", TaskQueue: "naps"}, "Naps", true)
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Get(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	runs, err := historytest.Runs(t.Context(), c, "naps/1")
	if err != nil || len(runs) != 2 || runs[0] == runs[1] {
		t.Fatalf("Runs = %v, %v; want two", runs, err)
	}
	h := historytest.Fetch(t, c, "naps/1", runs[0])
	b, err := historytest.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := historytest.Marshal(h); err != nil || string(again) != string(b) {
		t.Errorf("the same history is written in two ways: %v", err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a-machine", `"` + host + ":"} {
		if strings.Contains(string(b), name) {
			t.Errorf("the file names the machine: %s", name)
		}
	}
	file := filepath.Join(t.TempDir(), "naps.json")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := historytest.ReplayFile(file, register(2)); err != nil {
		t.Errorf("the replay fails: %v", err)
	}
	if err := historytest.ReplayFile(file, register(3)); err == nil {
		t.Error("a workflow that does something else replays as well")
	}
}

func TestRecording(t *testing.T) {
	t.Setenv("TOLLGATE_RECORD", "")
	if historytest.Recording() {
		t.Error("Recording without being asked")
	}
	t.Setenv("TOLLGATE_RECORD", "1")
	if !historytest.Recording() {
		t.Error("not Recording")
	}
}

func TestDir(t *testing.T) {
	t.Parallel()
	dir := historytest.Dir(t, "Proxy")
	if _, err := os.Stat(filepath.Join(dir, "..", "..", "..", "go.mod")); err != nil || !strings.HasSuffix(dir, filepath.Join("testdata", "histories", "Proxy")) {
		t.Errorf("Dir = %s: %v", dir, err)
	}
}
