//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// The kill matrix. In each round, proxies begin the same operation a few
// milliseconds apart, and the worker is killed while each of them is at another
// point of it. Whatever the point, each proxy ends with exactly one instance (or
// none after a delete), and each caller is answered once.
const (
	killRounds = 4
	perRound   = 11
)

// point is where a proxy was when the worker died.
func (w *world) point(name string) string {
	iter := w.client.GetWorkflowHistory(w.t.Context(), workflows.ProxyID("default", name), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	n, last := 0, "not started"
	for iter.HasNext() {
		e, err := iter.Next()
		if err != nil {
			return err.Error()
		}
		n, last = n+1, e.GetEventType().String()
		if a := e.GetActivityTaskScheduledEventAttributes(); a != nil {
			last = "scheduled " + a.GetActivityType().GetName()
		}
	}
	return fmt.Sprintf("%02d %s", n, last)
}

// callers collects what each call was answered.
type callers struct {
	wg      sync.WaitGroup
	mu      sync.Mutex
	answers map[string][]error
}

func (c *callers) call(name string, f func() error) {
	c.wg.Go(func() {
		err := f()
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.answers == nil {
			c.answers = map[string][]error{}
		}
		c.answers[name] = append(c.answers[name], err)
	})
}

func (c *callers) wantOneEach(t testing.TB, names []string) {
	t.Helper()
	c.wg.Wait()
	for _, n := range names {
		if a := c.answers[n]; len(a) != 1 || a[0] != nil {
			t.Errorf("%s: the caller was answered %v, want once and without an error", n, a)
		}
	}
}

func TestKillMatrix(t *testing.T) {
	w := newWorld(t, settings{})
	points := map[string]map[string]bool{"create": {}, "replace": {}, "delete": {}}
	kills := map[string]int{}
	// killDuring begins an operation on each proxy, step apart, kills the worker
	// when the last one began, and starts another.
	killDuring := func(op string, names []string, step, after time.Duration, begin func(name string)) {
		for _, n := range names {
			begin(n)
			time.Sleep(step)
		}
		time.Sleep(after)
		w.killWorker()
		for _, n := range names {
			points[op][w.point(n)] = true
			kills[op]++
		}
		w.startWorker()
	}
	for round := range killRounds {
		var names []string
		for i := range perRound {
			names = append(names, fmt.Sprintf("kill-%d-%d", round, i))
		}
		step, after := time.Duration(10+7*round)*time.Millisecond, time.Duration(3*round)*time.Millisecond
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)

		killDuring("create", names, step, after, func(n string) { w.start(ctx, n) })
		ids := map[string]provider.InstanceID{}
		for _, n := range names {
			ids[n] = w.waitFor(n, time.Minute, "running", running).Status.InstanceID
		}
		w.wantInstances(perRound, 10*time.Second)

		var replaced callers
		killDuring("replace", names, step, after, func(n string) {
			replaced.call(n, func() error {
				var r api.ReplaceResult
				err := w.update(ctx, n, workflows.UpdateReplace, api.ReplaceInput{}, &r)
				if err == nil && r.InstanceID == ids[n] {
					err = fmt.Errorf("answered with the old instance %s", r.InstanceID)
				}
				return err
			})
		})
		replaced.wantOneEach(t, names)
		for _, n := range names {
			if p := w.waitFor(n, time.Minute, "running", running); p.Status.Replacements != 1 {
				t.Errorf("%s: %d replacements for one call", n, p.Status.Replacements)
			}
		}
		w.wantInstances(perRound, 10*time.Second)

		var deleted callers
		killDuring("delete", names, step/2, after, func(n string) {
			deleted.call(n, func() error { return w.delete(ctx, n) })
		})
		deleted.wantOneEach(t, names)
		for _, n := range names {
			w.eventually(time.Minute, func() string { return w.closed(n) })
		}
		w.wantInstances(0, 10*time.Second)
		w.eventually(10*time.Second, func() string {
			if list, err := w.discovered(); err != nil || len(list) > 0 {
				return fmt.Sprintf("discovery lists %v (%v)", list, err)
			}
			return ""
		})
		cancel()
	}
	for op, seen := range points {
		t.Logf("%s: %d kills at %d different places of the history", op, kills[op], len(seen))
		if kills[op] < 40 {
			t.Errorf("%s: only %d kills", op, kills[op])
		}
		if len(seen) < 4 {
			t.Errorf("%s: the kills met only the places %v", op, seen)
		}
	}
}

// TestCancelMatrix cancels proxies at many points of their creation, some of
// them while the worker dies, so that the outcome of a create is unknown.
func TestCancelMatrix(t *testing.T) {
	w := newWorld(t, settings{})
	points := map[string]bool{}
	cancels := 0
	for round := range killRounds {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		var names []string
		for i := range perRound {
			names = append(names, fmt.Sprintf("cancel-%d-%d", round, i))
		}
		for i, n := range names {
			w.start(ctx, n)
			time.Sleep(time.Duration(2+4*round*i) * time.Millisecond / 2)
		}
		kill := round%2 == 1
		if kill {
			w.killWorker()
		}
		for _, n := range names {
			points[w.point(n)] = true
			cancels++
			if err := w.client.CancelWorkflow(ctx, workflows.ProxyID("default", n), ""); err != nil {
				t.Fatal(err)
			}
		}
		if kill {
			w.startWorker()
		}
		for _, n := range names {
			w.eventually(time.Minute, func() string { return w.closed(n) })
		}
		w.wantInstances(0, 10*time.Second)
		cancel()
	}
	t.Logf("%d cancels at %d different places of the history", cancels, len(points))
	if cancels < 40 || len(points) < 4 {
		t.Errorf("%d cancels met only the places %v", cancels, points)
	}
}
