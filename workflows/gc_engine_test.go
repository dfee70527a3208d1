package workflows_test

import (
	"fmt"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/tollgate-dev/tollgate/internal/historytest"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/memory"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// instance places a server of a proxy.
func (w *world) instance(name string, m provider.Marks) {
	w.backend.Place(memory.NewServer{Name: name, Region: "north", Labels: m.Labels()})
}

func marks(uid, proxy string) provider.Marks {
	return provider.Marks{UID: uid, Installation: installation, Namespace: "default", Proxy: proxy}
}

func (w *world) exists(name string) bool {
	for _, s := range w.backend.Servers() {
		if s.Name == name {
			return true
		}
	}
	return false
}

// start starts a sweep.
func (w *world) start(name string, in api.OrphanGCInput) client.WorkflowRun {
	w.t.Helper()
	in.Provider = "mem"
	in.MinAge, in.ConfirmAfter = api.Duration(time.Nanosecond), api.Duration(time.Second)
	run, err := w.client.ExecuteWorkflow(w.t.Context(), client.StartWorkflowOptions{ID: workflows.OrphanGCID("mem") + "/" + name, TaskQueue: workflows.TaskQueue}, workflows.TypeOrphanGC, in)
	if err != nil {
		w.t.Fatal(err)
	}
	return run
}

// sweep runs a sweep to its end.
func (w *world) sweep(name string, in api.OrphanGCInput) api.OrphanGCResult {
	w.t.Helper()
	return w.finish(name, w.start(name, in))
}

func (w *world) finish(name string, run client.WorkflowRun) api.OrphanGCResult {
	w.t.Helper()
	var out api.OrphanGCResult
	if err := run.Get(w.t.Context(), &out); err != nil {
		w.t.Fatalf("sweep %s: %v", name, err)
	}
	w.replay(run.GetID(), "", name)
	return out
}

func TestSweepsOnTheEngine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.instance("owned", marks(w.proxy("owned"), "owned"))
	w.instance("unmarked", provider.Marks{})
	w.instance("foreign", provider.Marks{UID: "u", Installation: "other", Namespace: "default", Proxy: "never"})

	if out := w.sweep("nothing", api.OrphanGCInput{}); out.Outcome != api.SweepClean || out.Verdicts["Owned"] != 1 {
		t.Errorf("sweep %+v, want it clean", out)
	}

	ended, renewed := w.proxy("ended"), w.proxy("renewed")
	for _, name := range []string{"ended", "renewed"} {
		if err := w.client.TerminateWorkflow(t.Context(), workflows.ProxyID("default", name), "", "test"); err != nil {
			t.Fatal(err)
		}
	}
	w.proxy("renewed")
	w.instance("of-ended", marks(ended, "ended"))
	w.instance("of-renewed", marks(renewed, "renewed"))
	w.instance("of-nobody", marks("uid-nobody", "nobody"))
	if _, err := w.backend.CreateAddress(t.Context(), "", "address", marks(ended, "ended").Labels()); err != nil {
		t.Fatal(err)
	}
	if out := w.sweep("dry-run", api.OrphanGCInput{DryRun: true}); out.Outcome != api.SweepDryRun || out.OrphanCount != 4 {
		t.Errorf("sweep %+v, want a dry run with four orphans", out)
	}
	if out := w.sweep("over-cap", api.OrphanGCInput{Cap: 3}); out.Outcome != api.SweepOverCap || !has(out.Message, "there are 4 orphans, and the cap is 3") {
		t.Errorf("sweep %+v, want it over the cap", out)
	}
	if !w.exists("of-ended") || !w.exists("of-renewed") || !w.exists("of-nobody") || len(w.backend.Addresses()) != 1 {
		t.Error("a sweep that must not delete did")
	}
	w.report(api.FleetReport{Row: row(ended, "ended")})
	w.eventually("the row of the ended one", func() bool { return len(w.rows(0)) == 1 })
	out := w.sweep("deletes", api.OrphanGCInput{})
	if out.Outcome != api.SweepDeleted || out.OrphanCount != 4 {
		t.Errorf("sweep %+v, want four orphans deleted", out)
	}
	for _, o := range out.Orphans {
		if o.Action != api.OrphanDeleted {
			t.Errorf("orphan %+v", o)
		}
	}
	if len(w.backend.Addresses()) != 0 || w.exists("of-ended") || w.exists("of-renewed") || w.exists("of-nobody") {
		t.Error("orphans are left")
	}
	for _, name := range []string{"owned", "unmarked", "foreign"} {
		if !w.exists(name) {
			t.Errorf("%s was deleted", name)
		}
	}
	w.eventually("the fleet to forget the proxy", func() bool { return len(w.rows(0)) == 0 })

	heal := w.backend.Inject(memory.Fault{Err: &memory.APIError{Status: 401, Code: "unauthorized"}})
	if out := w.sweep("unreadable", api.OrphanGCInput{}); out.Outcome != api.SweepUnreadable {
		t.Errorf("sweep %+v, want it unreadable", out)
	}
	heal()
}

// TestSweepWaitsForSlowDeletes has a provider that keeps deleted servers for a
// while; the poll costs no history.
func TestSweepWaitsForSlowDeletes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	release := w.backend.HoldDeletes()
	for n := range 3 {
		w.instance(fmt.Sprint("slow-", n), marks(fmt.Sprint("uid-", n), "nobody"))
	}
	run := w.start("slow-deletes", api.OrphanGCInput{})
	w.eventually("each delete to be sent, and asked after at least twice", func() bool {
		return w.backend.Calls(memory.CallDeleteServer) >= 3 && w.backend.Calls(memory.CallGetServer) >= 3*4
	})
	release()
	out := w.finish("slow-deletes", run)
	if out.Outcome != api.SweepDeleted || out.OrphanCount != 3 {
		t.Errorf("sweep %+v, want three orphans deleted", out)
	}
	if n := w.backend.Calls(memory.CallDeleteServer); n != 3 {
		t.Errorf("%d deletes were sent, want each once", n)
	}
	if n := w.events(workflows.OrphanGCID("mem")+"/slow-deletes", "ActivityTaskStarted"); n != 5 {
		t.Errorf("%d activities started, want two looks and three deletes", n)
	}
}

// TestSweepsFindTheirOwnersWhileVisibilityLags starts owners and sweeps at once:
// nothing may rest on lists, which lag.
func TestSweepsFindTheirOwnersWhileVisibilityLags(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for n := range 30 {
		name := fmt.Sprint("new-", n)
		w.instance(name, marks(w.proxy(name), name))
	}
	if out := w.sweep("many-owners", api.OrphanGCInput{}); out.Outcome != api.SweepClean || out.Verdicts["Owned"] != 30 {
		t.Errorf("sweep %+v, want all owned", out)
	}
}

func TestProviderHealthOnTheEngine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := workflows.ProviderHealthID("mem")
	options := client.StartWorkflowOptions{ID: id, TaskQueue: workflows.TaskQueue}
	config := api.HealthConfig{Interval: api.Duration(time.Second), ConfigHash: "h1"}
	in := api.ProviderHealthInput{Provider: "mem", ContinueAfter: 60}
	if _, err := w.client.SignalWithStartWorkflow(t.Context(), id, workflows.SignalConfigure, config, options, workflows.TypeProviderHealth, in); err != nil {
		t.Fatal(err)
	}
	status := func() api.ProviderHealthStatus { return query[api.ProviderHealth](w, id, workflows.QueryStatus).Status }
	w.eventually("the first checks", func() bool { s := status(); return s.Ready && s.Checks >= 2 && len(s.Targets) == 2 })
	heal := w.backend.Inject(memory.Fault{Err: &memory.APIError{Status: 503, Code: "unavailable"}})
	update, err := w.client.UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{
		WorkflowID: id, UpdateName: workflows.UpdateCheck, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	var answer api.ProviderHealth
	if err == nil {
		err = update.Get(t.Context(), &answer)
	}
	if err != nil || answer.Status.Ready || answer.Status.Reason != api.ReasonTargetsFailed {
		t.Errorf("update Check = %+v, %v; want it not ready", answer.Status, err)
	}
	if d := w.details(id); !has(d, "**mem**: not ready since", "> **TargetsNotReady.**") {
		t.Errorf("details:\n%s", d)
	}
	heal()
	w.signal(id, workflows.SignalCheck, nil)
	w.eventually("it to be ready again", func() bool { return status().Ready })
	w.eventually("a continue-as-new", func() bool {
		runs, err := historytest.Runs(t.Context(), w.client, id)
		if err != nil {
			t.Fatal(err)
		}
		return len(runs) >= 2
	})
	runs, err := historytest.Runs(t.Context(), w.client, id)
	if err != nil {
		t.Fatal(err)
	}
	checks := status().Checks
	w.eventually("checks to go on", func() bool { return status().Checks > checks })
	w.replay(id, runs[0], "down-and-up")
	if err := w.client.CancelWorkflow(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
	w.eventually("the end", func() bool {
		d, err := w.client.DescribeWorkflow(t.Context(), id, "")
		return err == nil && d.RawResponse.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED
	})
	w.replay(id, "", "canceled")
}
