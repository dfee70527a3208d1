// Package historytest records the histories of workflows on a real engine and
// replays recorded ones, so that a change of workflow code that would break runs
// under way fails a test.
//
// Recorded histories lie in testdata/histories/<workflow type>/*.json at the
// root of the module. Old ones are never deleted: runs like them may be open
// somewhere.
package historytest

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// recordVariable turns recording on in tests without the flag -record.
const recordVariable = "TOLLGATE_RECORD"

// Recording reports whether tests should record what they run: when the flag
// -record is set in a test binary that has it, or TOLLGATE_RECORD is not empty.
func Recording() bool {
	if f := flag.Lookup("record"); f != nil && f.Value.String() == "true" {
		return true
	}
	return os.Getenv(recordVariable) != ""
}

// Dir is the directory of the histories of one workflow type; of all of them
// when the type is empty.
func Dir(t testing.TB, workflowType string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "testdata", "histories", workflowType)
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("historytest: no go.mod above the working directory")
		}
		dir = up
	}
}

// Record writes the history of a run, as it is now, to
// testdata/histories/<type>/<name>.json. An empty runID is the latest run. The
// client must use no codec, so that the payloads are in the clear. What names
// the machine is left out.
func Record(t testing.TB, c client.Client, workflowID, runID, name string) {
	t.Helper()
	h := Fetch(t, c, workflowID, runID)
	started := h.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes()
	b, err := Marshal(h)
	if err != nil {
		t.Fatalf("historytest: %s: %v", workflowID, err)
	}
	file := filepath.Join(Dir(t, started.GetWorkflowType().GetName()), name+".json")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("recorded %d events of %s in %s", len(h.GetEvents()), workflowID, file)
}

// Fetch reads the history of a run as it is now.
func Fetch(t testing.TB, c client.Client, workflowID, runID string) *historypb.History {
	t.Helper()
	it := c.GetWorkflowHistory(t.Context(), workflowID, runID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	h := &historypb.History{}
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			t.Fatalf("historytest: history of %s: %v", workflowID, err)
		}
		h.Events = append(h.Events, e)
	}
	if len(h.Events) == 0 {
		t.Fatalf("historytest: %s has no history", workflowID)
	}
	return h
}

// scrubbed are the fields that name a machine, a process or its files; a replay
// needs none of them.
var scrubbed = map[string]string{"identity": "worker", "stackTrace": "", "lastWorkerIdentity": "worker"}

// Marshal renders a history as stable JSON without what names the machine.
func Marshal(h *historypb.History) ([]byte, error) {
	raw, err := temporalproto.CustomJSONMarshalOptions{}.Marshal(h)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // numbers stay as they are
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	scrub(v)
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	err = e.Encode(v)
	return b.Bytes(), err
}

func scrub(v any) {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			scrub(x)
		}
	case map[string]any:
		if v["kind"] == "TASK_QUEUE_KIND_STICKY" {
			v["name"] = "sticky" // it begins with the host's name
		}
		for k, x := range v {
			if with, ok := scrubbed[k]; ok {
				if _, text := x.(string); text {
					v[k] = with
					continue
				}
			}
			scrub(x)
		}
	}
}

// Replay replays every recorded history, or those of the given types, against
// the workflows that register registers. It fails for a type without histories.
func Replay(t *testing.T, register func(worker.WorkflowRegistry), types ...string) {
	t.Helper()
	if len(types) == 0 {
		entries, err := os.ReadDir(Dir(t, ""))
		if err != nil {
			t.Fatalf("historytest: %v", err)
		}
		for _, e := range entries {
			types = append(types, e.Name())
		}
	}
	for _, typ := range types {
		files, err := filepath.Glob(filepath.Join(Dir(t, typ), "*.json"))
		if err != nil || len(files) == 0 {
			t.Errorf("historytest: no recorded history of %s: %v", typ, err)
		}
		for _, file := range files {
			t.Run(typ+"/"+strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
				t.Parallel()
				if err := ReplayFile(file, register); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// ReplayFile replays one recorded history.
func ReplayFile(file string, register func(worker.WorkflowRegistry)) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	h, err := client.HistoryFromJSON(f, client.HistoryJSONOptions{})
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(file), err)
	}
	return ReplayHistory(h, register)
}

// ReplayHistory replays a history under the workflow id that it was started
// with.
func ReplayHistory(h *historypb.History, register func(worker.WorkflowRegistry)) error {
	if len(h.GetEvents()) == 0 {
		return fs.ErrInvalid
	}
	started := h.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes()
	r := worker.NewWorkflowReplayer()
	register(r)
	return r.ReplayWorkflowHistoryWithOptions(log.NewStructuredLogger(slog.New(slog.DiscardHandler)), h, worker.ReplayWorkflowHistoryOptions{
		OriginalExecution: workflow.Execution{ID: started.GetWorkflowId(), RunID: started.GetOriginalExecutionRunId()},
	})
}

// Runs returns the run ids of a workflow's chain, the first one first.
func Runs(ctx context.Context, c client.Client, workflowID string) ([]string, error) {
	d, err := c.DescribeWorkflow(ctx, workflowID, "")
	if err != nil {
		return nil, err
	}
	run := d.RawResponse.GetWorkflowExecutionInfo().GetFirstRunId()
	var runs []string
	for run != "" {
		runs = append(runs, run)
		// The last event of an open run would be waited for.
		d, err := c.DescribeWorkflow(ctx, workflowID, run)
		if err != nil {
			return runs, err
		}
		if d.RawResponse.GetWorkflowExecutionInfo().GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW {
			break
		}
		it := c.GetWorkflowHistory(ctx, workflowID, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT)
		next := ""
		for it.HasNext() {
			e, err := it.Next()
			if err != nil {
				return runs, err
			}
			next = e.GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId()
		}
		run = next
	}
	return runs, nil
}
