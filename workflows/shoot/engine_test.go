package shoot_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/devserver/devservertest"
	"github.com/tollgate-dev/tollgate/internal/historytest"
	"github.com/tollgate-dev/tollgate/internal/registration"
	"github.com/tollgate-dev/tollgate/internal/reporting/reportingserver"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
	"github.com/tollgate-dev/tollgate/workflows/shoot"
)

var id = workflows.ShootID("dev", "web", "uid-1")

func register(r worker.WorkflowRegistry) {
	r.RegisterWorkflowWithOptions(shoot.Workflow, workflow.RegisterOptions{Name: workflows.TypeShootRegistration})
}

// rig is a world on a real engine.
type rig struct {
	*world
	client client.Client
}

func newEngineRig(t *testing.T) *rig {
	t.Helper()
	engine := devservertest.Start(t, devservertest.WithSearchAttributes(workflows.SearchAttributes()...))
	return &rig{world: newWorld(t), client: engine.Client()}
}

// serve starts the workers of a process.
func (r *rig) serve() (stop func()) {
	r.t.Helper()
	main := worker.New(r.client, workflows.TaskQueue, devservertest.WorkerOptions())
	register(main)
	src := worker.New(r.client, workflows.SourceTaskQueue("garden"), worker.Options{DisableWorkflowWorker: true})
	src.RegisterActivity(&activities.Shoots{
		Settings: func(string) (activities.ShootSettings, bool) { return r.settings, true },
		Resolver: &registration.Resolver{Identify: (&registration.Identities{}).Identify},
	})
	for _, w := range []worker.Worker{main, src} {
		if err := w.Start(); err != nil {
			r.t.Fatal(err)
		}
	}
	stop = sync.OnceFunc(func() { src.Stop(); main.Stop() })
	r.t.Cleanup(stop)
	return stop
}

func (r *rig) start(in api.ShootRegistrationInput) client.WorkflowRun {
	r.t.Helper()
	run, err := r.client.ExecuteWorkflow(r.t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: workflows.TaskQueue}, workflows.TypeShootRegistration, in)
	if err != nil {
		r.t.Fatal(err)
	}
	return run
}

func (r *rig) signal(name string, v any) {
	r.t.Helper()
	if err := r.client.SignalWorkflow(r.t.Context(), id, "", name, v); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) ask() (s api.ShootRegistration, err error) {
	v, err := r.client.QueryWorkflow(r.t.Context(), id, "", workflows.QueryStatus)
	if err == nil {
		err = v.Get(&s)
	}
	return s, err
}

func (r *rig) now() api.ShootRegistration {
	r.t.Helper()
	return devservertest.Query[api.ShootRegistration](r.t, r.client, id, workflows.QueryStatus)
}

// eventually waits for a state. A question that is not answered is asked again.
func (r *rig) eventually(what string, ok func(s api.ShootStatus) bool) {
	r.t.Helper()
	for deadline := time.Now().Add(devservertest.Patience); ; time.Sleep(20 * time.Millisecond) {
		s, err := r.ask()
		if err == nil && ok(s.Status) {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("not in time: %s; it is %+v, %v", what, s.Status, err)
		}
	}
}

// asleep waits until everything that was said so far is done. What was registered
// before is so while it is checked again: only the work tells.
func (r *rig) asleep() {
	r.t.Helper()
	for deadline := time.Now().Add(devservertest.Patience); ; time.Sleep(20 * time.Millisecond) {
		d, err := r.client.DescribeWorkflow(r.t.Context(), id, "")
		if err == nil && len(d.RawResponse.GetPendingActivities()) == 0 && d.RawResponse.GetPendingWorkflowTask() == nil {
			r.eventually("registered", registered)
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("not asleep in time: %+v, %v", d, err)
		}
	}
}

func registered(s api.ShootStatus) bool { return s.Phase == api.ShootRegistered && s.Reason == "" }

// result wants the run complete and returns its result.
func (r *rig) result(run client.WorkflowRun) (out api.ShootRegistration) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), devservertest.Patience)
	defer cancel()
	if err := run.Get(ctx, &out); err != nil {
		r.t.Fatal(err)
	}
	return out
}

// replay replays the history of a run, and records it when that is asked for.
func (r *rig) replay(runID, name string) {
	r.t.Helper()
	h := historytest.Fetch(r.t, r.client, id, runID)
	if err := historytest.ReplayHistory(h, register); err != nil {
		r.t.Errorf("replay of %s: %v", name, err)
	}
	// There is no codec here: what is in the history is in the clear.
	for _, e := range h.GetEvents() {
		if strings.Contains(e.String(), sentinel) {
			r.t.Errorf("event %d tells a password", e.GetEventId())
		}
	}
	if historytest.Recording() {
		historytest.Record(r.t, r.client, id, runID, name)
	}
}

// A registration that sleeps has no timer and no activity: nothing happens to its
// history until somebody says something.
func TestALifeOnTheEngine(t *testing.T) {
	t.Parallel()
	r := newEngineRig(t)
	r.serve()
	run := r.start(begun)
	r.eventually("registered", registered)
	d, err := r.client.DescribeWorkflow(t.Context(), id, "")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(d.RawResponse.GetPendingActivities()); n != 0 || d.RawResponse.GetPendingWorkflowTask() != nil {
		t.Errorf("%d activities are pending, workflow task %v: want it asleep", n, d.RawResponse.GetPendingWorkflowTask())
	}
	h := historytest.Fetch(t, r.client, id, "")
	for _, e := range h.GetEvents() {
		if e.GetEventType() == enumspb.EVENT_TYPE_TIMER_STARTED {
			t.Errorf("event %d starts a timer", e.GetEventId())
		}
	}
	r.signal(workflows.SignalShootEnded, api.ShootEnd{At: gone})
	out := r.result(run)
	r.wantRelations(relation("tenant-a", created, gone))
	if len(out.Status.Relations) != 1 || !out.Status.Relations[0].Closed {
		t.Errorf("result %+v", out.Status)
	}
	r.replay(run.GetRunID(), "life")
}

// The end comes first, and a second create after everything is over.
func TestEndBeforeCreateOnTheEngine(t *testing.T) {
	t.Parallel()
	r := newEngineRig(t)
	stop := r.serve()
	stop() // nobody works while both come
	o := client.StartWorkflowOptions{ID: id, TaskQueue: workflows.TaskQueue, WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY}
	run, err := r.client.SignalWithStartWorkflow(t.Context(), id, workflows.SignalShootEnded, api.ShootEnd{At: gone}, o, workflows.TypeShootRegistration, begun)
	if err != nil {
		t.Fatal(err)
	}
	f := facts
	f.CreatedAt = created
	r.signal(workflows.SignalShootCreated, f)
	r.garden.DeleteShoot("dev", "web")
	r.settings.Tenants = []registration.Mapping{{Project: "dev", Tenant: api.Tenant{Platform: "openstack", ExternalID: "Default/tenant-a"}}}
	r.serve()
	r.result(run)
	r.wantRelations(relation("tenant-a", created, gone))
	if _, err := r.client.SignalWithStartWorkflow(t.Context(), id, workflows.SignalShootCreated, f, o, workflows.TypeShootRegistration, begun); !temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		t.Errorf("a create after the end: %v, want it refused", err)
	}
	r.replay(run.GetRunID(), "end-before-create")
}

// The tenant changes, and the Reporting API is away at the worst moments.
func TestRotationOnTheEngine(t *testing.T) {
	t.Parallel()
	r := newEngineRig(t)
	r.serve()
	run := r.start(begun)
	r.eventually("registered", registered)
	r.reporting.SetFault(func(*http.Request) reportingserver.Fault { return reportingserver.Fault{Status: 503} })
	r.tenant("tenant-b")
	at := time.Now().UTC().Truncate(time.Second)
	r.signal(workflows.SignalShootRotated, api.ShootRotation{At: at})
	r.eventually("the Reporting API is away", func(s api.ShootStatus) bool {
		return s.Phase == api.ShootRegistering && s.Reason == api.ReasonReportingUnavailable
	})
	r.reporting.SetFault(nil)
	r.signal(workflows.SignalRetry, nil)
	r.eventually("registered again", registered)
	end := at.Add(time.Hour)
	r.signal(workflows.SignalShootEnded, api.ShootEnd{At: end}) // in the future: now counts
	out := r.result(run)
	is := out.Status.End.At
	if is.After(time.Now()) || !is.After(at) {
		t.Errorf("end %s, want the time at which it was said", is)
	}
	r.wantRelations(relation("tenant-a", created, at), relation("tenant-b", at, is))
	r.replay(run.GetRunID(), "rotation")
}

// Nobody knows the tenant until an operator says it.
func TestUnresolvedOnTheEngine(t *testing.T) {
	t.Parallel()
	r := newEngineRig(t)
	r.serve()
	f := facts
	f.Namespace, f.CreatedAt, f.Infrastructure, f.Binding = "garden-dev", created, "hcloud", &binding
	r.garden.SetShoot(f)
	run := r.start(begun)
	r.eventually("unresolved", func(s api.ShootStatus) bool {
		return s.Phase == api.ShootUnresolved && s.Reason == api.ReasonNotMapped
	})
	said := facts
	said.Tenant = &api.Tenant{Platform: "hetzner", ExternalID: "acme"}
	h, err := r.client.UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{WorkflowID: id, UpdateName: workflows.UpdateShootRegister,
		Args: []any{said}, WaitForStage: client.WorkflowUpdateStageCompleted})
	if err == nil {
		err = h.Get(t.Context(), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.eventually("registered", registered)
	r.signal(workflows.SignalShootEnded, api.ShootEnd{At: gone})
	r.result(run)
	r.replay(run.GetRunID(), "unresolved")
}

// Runs follow each other; each knows what the one before knew.
func TestContinuesOnTheEngine(t *testing.T) {
	t.Parallel()
	r := newEngineRig(t)
	stop := r.serve()
	in := begun
	in.ContinueAfter = 25
	run := r.start(in)
	r.eventually("registered", registered)
	at := time.Now().UTC().Truncate(time.Second)
	for round := range 6 {
		before := r.now()
		r.signal(workflows.SignalRetry, nil)
		r.asleep()
		after := r.now()
		before.Status.Conditions, after.Status.Conditions = nil, nil
		if diff := cmp.Diff(after, before); diff != "" {
			t.Errorf("round %d (-got +want):\n%s", round, diff)
		}
		if round == 3 {
			stop()
			r.tenant("tenant-b")
			stop = r.serve()
			r.signal(workflows.SignalShootRotated, api.ShootRotation{At: at})
			r.eventually("the other tenant", func(s api.ShootStatus) bool { return len(s.Relations) == 2 && registered(s) })
		}
	}
	runs, err := historytest.Runs(t.Context(), r.client, id)
	if err != nil || len(runs) < 2 {
		t.Fatalf("runs %v, %v: want several", runs, err)
	}
	r.signal(workflows.SignalShootEnded, api.ShootEnd{At: time.Now().UTC()})
	out := r.result(r.client.GetWorkflow(t.Context(), id, runs[len(runs)-1]))
	r.wantRelations(relation("tenant-a", created, at), relation("tenant-b", at, out.Status.End.At))
	r.replay(run.GetRunID(), "continued")
}
