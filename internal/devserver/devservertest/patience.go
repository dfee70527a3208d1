package devservertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
)

// Patience is how long a test waits for what has to come. It matters to tests
// that fail only: a machine may have much else to do.
const Patience = 5 * time.Minute

// WorkerOptions are those of a worker that shares its machine with other tests
// and the race detector: a workflow task that takes seconds is no deadlock there.
func WorkerOptions() worker.Options {
	return worker.Options{DeadlockDetectionTimeout: 30 * time.Second}
}

// Eventually waits until ok holds. It fails the test after Patience.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Patience); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", Patience, what)
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("%s: %v", what, t.Context().Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Query asks the current run of a workflow. A question that nobody had the time
// to answer is asked again.
func Query[T any](t testing.TB, c client.Client, id, query string) (out T) {
	t.Helper()
	for deadline := time.Now().Add(Patience); ; {
		v, err := c.QueryWorkflow(t.Context(), id, "", query)
		if err == nil {
			err = v.Get(&out)
		}
		if err == nil {
			return out
		}
		if t.Context().Err() != nil || !late(err) || time.Now().After(deadline) {
			t.Fatalf("query %s of %s: %v", query, id, err)
		}
	}
}

// late reports whether a call failed because somebody was too slow. A workflow is
// not ready while its latest task is to be done again.
func late(err error) bool {
	var (
		deadline    *serviceerror.DeadlineExceeded
		unavailable *serviceerror.Unavailable
		notReady    *serviceerror.WorkflowNotReady
	)
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &deadline) || errors.As(err, &unavailable) || errors.As(err, &notReady)
}
