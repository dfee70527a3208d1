package activities_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/memory"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// fakeTemporal is a Temporal with workflows that do nothing but receive.
type fakeTemporal struct {
	mu        sync.Mutex
	workflows map[string]*fakeWorkflow
	// broken answers every call about a workflow with an error.
	broken map[string]error
	// pageSize of lists; the list itself shows every open workflow.
	pageSize  int
	described int
}

type fakeWorkflow struct {
	status   enumspb.WorkflowExecutionStatus
	firstRun string
	table    api.FleetTable
	signals  []fakeSignal
}

type fakeSignal struct {
	name string
	arg  any
}

func newTemporal() *fakeTemporal {
	return &fakeTemporal{workflows: map[string]*fakeWorkflow{}, broken: map[string]error{}, pageSize: 3}
}

// proxy adds a proxy workflow.
func (f *fakeTemporal) proxy(name, uid string, status enumspb.WorkflowExecutionStatus) *fakeWorkflow {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := &fakeWorkflow{status: status, firstRun: uid}
	f.workflows[workflows.ProxyID("default", name)] = w
	return w
}

func (f *fakeTemporal) fleet(shard int, rows ...api.FleetRow) *fakeWorkflow {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := &fakeWorkflow{status: running, firstRun: "fleet", table: api.FleetTable{Provider: "mem", Shard: shard, Rows: rows}}
	f.workflows[workflows.FleetID("mem", shard)] = w
	return w
}

const (
	running    = enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	paused     = enumspb.WORKFLOW_EXECUTION_STATUS_PAUSED
	completed  = enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
	terminated = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED
)

func (f *fakeTemporal) find(id string) (*fakeWorkflow, error) {
	if err := f.broken[id]; err != nil {
		return nil, err
	}
	w, ok := f.workflows[id]
	if !ok {
		return nil, serviceerror.NewNotFound("workflow not found for ID: " + id)
	}
	return w, nil
}

func (f *fakeTemporal) open(id string) (*fakeWorkflow, error) {
	w, err := f.find(id)
	if err == nil && w.status != running && w.status != paused {
		err = serviceerror.NewNotFound("workflow execution already completed")
	}
	return w, err
}

func (f *fakeTemporal) SignalWorkflow(ctx context.Context, id, _, name string, arg any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	w, err := f.open(id)
	if err != nil {
		return err
	}
	w.signals = append(w.signals, fakeSignal{name, arg})
	return ctx.Err()
}

func (f *fakeTemporal) SignalWithStartWorkflow(_ context.Context, id, name string, arg any, o client.StartWorkflowOptions, typ any, args ...any) (client.WorkflowRun, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.broken[id]; err != nil {
		return nil, err
	}
	w, ok := f.workflows[id]
	if !ok {
		if in, ok := args[0].(api.FleetWatchInput); !ok || typ != workflows.TypeFleetWatch || o.ID != id || o.TaskQueue != workflows.TaskQueue || workflows.FleetID(in.Provider, in.Shard) != id {
			return nil, fmt.Errorf("start of %v %s on %s with %+v", typ, id, o.TaskQueue, args)
		}
		w = &fakeWorkflow{status: running, firstRun: "fleet"}
		f.workflows[id] = w
	}
	w.signals = append(w.signals, fakeSignal{name, arg})
	return nil, nil
}

func (f *fakeTemporal) QueryWorkflow(_ context.Context, id, _, query string, _ ...any) (converter.EncodedValue, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w, err := f.find(id)
	if err != nil {
		return nil, err
	}
	if query != workflows.QueryTable {
		return nil, fmt.Errorf("query %q", query)
	}
	p, err := converter.GetDefaultDataConverter().ToPayloads(w.table)
	return client.NewValue(p), err
}

func (f *fakeTemporal) DescribeWorkflow(_ context.Context, id, _ string) (*client.WorkflowExecutionDescription, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.described++
	w, err := f.find(id)
	if err != nil {
		return nil, err
	}
	return &client.WorkflowExecutionDescription{RawResponse: &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: w.info(id)}}, nil
}

func (w *fakeWorkflow) info(id string) *workflowpb.WorkflowExecutionInfo {
	return &workflowpb.WorkflowExecutionInfo{Status: w.status, FirstRunId: w.firstRun, Execution: &commonpb.WorkflowExecution{WorkflowId: id}}
}

func (f *fakeTemporal) ListWorkflow(_ context.Context, r *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if want := "WorkflowType = 'Proxy' AND ExecutionStatus = 'Running' AND TollgateProvider = 'mem'"; r.Query != want {
		return nil, fmt.Errorf("query %q, want %q", r.Query, want)
	}
	var ids []string
	for id, w := range f.workflows {
		if _, _, err := workflows.ParseProxyID(id); err == nil && w.status == running {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	from := 0
	if len(r.NextPageToken) > 0 {
		from = int(r.NextPageToken[0])
	}
	out := &workflowservice.ListWorkflowExecutionsResponse{}
	for _, id := range ids[from:min(from+f.pageSize, len(ids))] {
		out.Executions = append(out.Executions, f.workflows[id].info(id))
	}
	if from+f.pageSize < len(ids) {
		out.NextPageToken = []byte{byte(from + f.pageSize)}
	}
	return out, nil
}

// received returns what a workflow was signalled.
func (f *fakeTemporal) received(id string) []fakeSignal {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w := f.workflows[id]; w != nil {
		return slices.Clone(w.signals)
	}
	return nil
}

// names lists the signals as "name", or "name kind" for observations.
func names(signals []fakeSignal) []string {
	var out []string
	for _, s := range signals {
		n := s.name
		if o, ok := s.arg.(api.Observation); ok {
			n += " " + string(o.Kind)
		}
		out = append(out, n)
	}
	return out
}

const installation = "acme"

// cloud is a memory account and a driver for it.
func cloud(t *testing.T, options memory.Options) (*memory.Backend, activities.Lookup) {
	t.Helper()
	b := memory.NewBackend(options)
	p, err := memory.New(t.Context(), b, provider.Config{Name: "mem", Installation: installation})
	if err != nil {
		t.Fatal(err)
	}
	return b, func(name string) (provider.Provider, provider.Profile, bool, error) {
		return p, memory.Profile(), name == "mem", nil
	}
}

func marks(uid, proxy string) provider.Marks {
	return provider.Marks{UID: uid, Installation: installation, Namespace: "default", Proxy: proxy}
}

// activityEnv is an environment that activities run in, without any log.
func activityEnv(register ...any) *testsuite.TestActivityEnvironment {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestActivityEnvironment()
	for _, a := range register {
		env.RegisterActivity(a)
	}
	return env
}

// call runs an activity and decodes its result.
func call[T any](t *testing.T, env *testsuite.TestActivityEnvironment, activity, in any) (T, error) {
	t.Helper()
	var out T
	v, err := env.ExecuteActivity(activity, in)
	if err != nil {
		return out, err
	}
	if v.HasValue() {
		if err := v.Get(&out); err != nil {
			t.Fatal(err)
		}
	}
	return out, nil
}
