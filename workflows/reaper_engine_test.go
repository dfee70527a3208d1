package workflows_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/devserver/devservertest"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/memory"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// older makes all instances a day older than they are.
type older struct {
	provider.Provider
	mu      sync.Mutex
	broken  error
	holding chan struct{} // listings wait for it when it is set
}

func (o *older) List(ctx context.Context, sel provider.Selector) ([]provider.Instance, error) {
	o.mu.Lock()
	broken, holding := o.broken, o.holding
	o.mu.Unlock()
	if holding != nil {
		select {
		case <-holding:
		case <-ctx.Done():
			return nil, provider.Wrap(provider.Transient, provider.OpList, "mem", "", ctx.Err())
		}
	}
	if broken != nil {
		return nil, broken
	}
	all, err := o.Provider.List(ctx, sel)
	for i := range all {
		all[i].CreatedAt = all[i].CreatedAt.Add(-24 * time.Hour)
	}
	return all, err
}

// serveReaper starts workers that know reapers only.
func (w *world) serveReaper() *older {
	w.t.Helper()
	driver, err := memory.New(w.t.Context(), w.backend, provider.Config{Name: "mem", Installation: installation})
	if err != nil {
		w.t.Fatal(err)
	}
	o := &older{Provider: driver}
	main := worker.New(w.client, workflows.TaskQueue, devservertest.WorkerOptions())
	registerWatchers(main)
	main.RegisterWorkflowWithOptions(proxyStub, workflow.RegisterOptions{Name: workflows.TypeProxy})
	main.RegisterActivity(&activities.Sweeps{})
	mem := worker.New(w.client, workflows.ProviderTaskQueue("mem"), worker.Options{DisableWorkflowWorker: true})
	mem.RegisterActivity(&activities.Reaper{Installation: installation, Temporal: w.client,
		Lookup: func(name string) (provider.Provider, provider.Profile, bool, error) {
			return o, memory.Profile(), name == "mem", nil
		}})
	for _, x := range []worker.Worker{main, mem} {
		if err := x.Start(); err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(x.Stop)
	}
	return o
}

func (w *world) reap(name string, change func(*api.ReaperInput)) (api.ReaperResult, error) {
	w.t.Helper()
	in := api.ReaperInput{Provider: "mem", Selector: provider.Selector{Namespace: "default"}, OlderThan: api.Duration(6 * time.Hour)}
	if change != nil {
		change(&in)
	}
	id := workflows.ReaperID("mem", in.Selector) + "/" + name
	run, err := w.client.ExecuteWorkflow(w.t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: workflows.TaskQueue}, workflows.TypeReaper, in)
	if err != nil {
		w.t.Fatal(err)
	}
	var out api.ReaperResult
	err = run.Get(w.t.Context(), &out)
	w.replay(id, "", name)
	return out, err
}

func TestReapersOnTheEngine(t *testing.T) {
	t.Parallel()
	w := newIdleWorld(t)
	o := w.serveReaper()
	if out, err := w.reap("nothing-old", nil); err != nil || out.Outcome != api.ReapNothing || out.Message != "Nothing is older than 6h0m0s." {
		t.Errorf("%+v, %v", out, err)
	}
	uid := w.proxy("runs")
	w.instance("of-running", marks(uid, "runs"))
	w.instance("of-nobody", marks("uid-nobody", "nobody"))
	w.instance("foreign", provider.Marks{UID: "u", Installation: "other", Namespace: "default", Proxy: "never"})

	out, err := w.reap("dry-run", func(in *api.ReaperInput) { in.DryRun = true })
	if err != nil || out.Outcome != api.ReapDryRun || out.Count != 2 || out.Matched != 2 || !w.exists("of-nobody") {
		t.Errorf("dry run %+v, %v", out, err)
	}
	if out, err = w.reap("reaps", nil); err != nil || out.Outcome != api.ReapDone || out.Message != "2 instances deleted." {
		t.Errorf("run %+v, %v", out, err)
	}
	if w.exists("of-nobody") || w.exists("of-running") || !w.exists("foreign") {
		t.Error("the wrong instances are left")
	}
	w.eventually("the proxy is told to go", func() bool {
		seen := w.seen("runs")
		return len(seen) == 1 && seen[0] == "delete"
	})

	o.mu.Lock()
	o.broken = provider.Wrap(provider.Permanent, provider.OpList, "mem", "", errors.New("401 from the API"))
	o.mu.Unlock()
	if out, err = w.reap("list-fails", nil); err != nil || out.Outcome != api.ReapUnreadable || !strings.Contains(out.Message, "401 from the API") {
		t.Errorf("unreadable %+v, %v", out, err)
	}
	if _, err = w.reap("bad-input", func(in *api.ReaperInput) { in.OlderThan = 0 }); err == nil || !strings.Contains(err.Error(), "olderThan: 0s is out of range") {
		t.Errorf("bad input: %v", err)
	}
	if n := w.events(workflows.ReaperID("mem", provider.Selector{Namespace: "default"})+"/reaps", "ActivityTaskScheduled"); n != 1 {
		t.Errorf("%d activities for one run", n)
	}
}

func TestReaperIsCanceled(t *testing.T) {
	t.Parallel()
	w := newIdleWorld(t)
	o := w.serveReaper()
	o.mu.Lock()
	o.holding = make(chan struct{})
	o.mu.Unlock()
	w.instance("of-nobody", marks("uid-nobody", "nobody"))
	in := api.ReaperInput{Provider: "mem", All: true, OlderThan: api.Duration(time.Hour)}
	id := workflows.ReaperID("mem", in.Selector) + "/canceled"
	run, err := w.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: workflows.TaskQueue}, workflows.TypeReaper, in)
	if err != nil {
		t.Fatal(err)
	}
	w.eventually("it looks", func() bool { return w.events(id, "ActivityTaskScheduled") == 1 })
	if err := w.client.CancelWorkflow(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
	var canceled *temporal.CanceledError
	if err := run.Get(t.Context(), nil); !errors.As(err, &canceled) {
		t.Errorf("it ended with %v", err)
	}
	w.replay(id, "", "canceled")
	if !w.exists("of-nobody") {
		t.Error("something was deleted")
	}
	if got := query[api.Reap](w, id, workflows.QueryStatus); got.Status.Outcome != api.ReapCanceled || got.Kind != api.KindReap {
		t.Errorf("status %+v", got)
	}
}
