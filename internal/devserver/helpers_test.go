package devserver_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

const (
	queue = "devserver-test"
	// patience bounds every wait of these tests on a loaded machine.
	patience = 2 * time.Minute
)

// collect waits for a signal and returns what it carried.
func collect(ctx workflow.Context) (string, error) {
	var got string
	workflow.GetSignalChannel(ctx, "value").Receive(ctx, &got)
	return got, nil
}

func startWorker(t *testing.T, c client.Client) {
	t.Helper()
	w := worker.New(c, queue, worker.Options{})
	w.RegisterWorkflowWithOptions(collect, workflow.RegisterOptions{Name: "collect"})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
}

func start(t *testing.T, c client.Client, id string) {
	t.Helper()
	_, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: queue}, "collect")
	if err != nil {
		t.Fatal(err)
	}
}

// finish signals the workflow and checks its result, retrying while the engine
// is away.
func finish(t *testing.T, c client.Client, id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.SignalWorkflow(ctx, id, "", "value", id); err != nil {
		t.Fatal(err)
	}
	var got string
	if err := c.GetWorkflow(ctx, id, "").Get(ctx, &got); err != nil {
		t.Fatal(err)
	}
	if got != id {
		t.Errorf("workflow %s returned %q", id, got)
	}
}

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func get(t *testing.T, url string) string {
	t.Helper()
	var body strings.Builder
	eventually(t, "GET "+url, func() error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		body.Reset()
		if res.StatusCode != http.StatusOK {
			return errors.New(res.Status)
		}
		return res.Write(&body)
	})
	return body.String()
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
