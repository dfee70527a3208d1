package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	querypb "go.temporal.io/api/query/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// fakeTemporal is a Temporal namespace in memory. Values cross it as JSON, as
// they do in reality.
type fakeTemporal struct {
	mu        sync.Mutex
	runs      map[string]*fakeRun // by workflow id
	closed    bool
	pollers   int
	err       error // of every call, when set
	onStart   func(id string, in api.ProxyInput) *fakeRun
	signals   []string
	queries   []string // of lists
	schedules map[string]*client.Schedule
}

// fakeRun is one workflow.
type fakeRun struct {
	kind      string
	status    enumspb.WorkflowExecutionStatus
	firstRun  string
	runID     string
	closeTime time.Time
	// statuses are the answers to the query "status", one after another; the last
	// one stays.
	statuses []any
	table    any
	updates  map[string]func(ctx context.Context, arg []byte) (any, error)
	updateID []string
	result   any
	history  map[string][]*historypb.HistoryEvent
	pending  []*workflowpb.PendingActivityInfo
	options  client.StartWorkflowOptions
	// attributes are the search attributes that a list shows.
	attributes map[string]string
	input      []byte
}

func newFake() *fakeTemporal {
	return &fakeTemporal{runs: map[string]*fakeRun{}, pollers: 1, schedules: map[string]*client.Schedule{}}
}

func running(kind string, statuses ...any) *fakeRun {
	return &fakeRun{
		kind: kind, status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, firstRun: "uid-1", runID: "run-1",
		statuses: statuses, updates: map[string]func(context.Context, []byte) (any, error){},
	}
}

// get finds a workflow under the lock that the caller holds.
func (f *fakeTemporal) get(id string) (*fakeRun, error) {
	if f.err != nil {
		return nil, f.err
	}
	if r := f.runs[id]; r != nil {
		return r, nil
	}
	return nil, serviceerror.NewNotFound("workflow not found for ID: " + id)
}

func (f *fakeTemporal) ExecuteWorkflow(_ context.Context, o client.StartWorkflowOptions, workflow any, args ...any) (client.WorkflowRun, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil, f.err
	}
	if r := f.runs[o.ID]; r != nil && r.status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return nil, serviceerror.NewWorkflowExecutionAlreadyStarted("already started", "req", r.runID)
	}
	input, err := json.Marshal(args[0])
	if err != nil {
		return nil, err
	}
	r := running(workflow.(string))
	if f.onStart != nil {
		var in api.ProxyInput
		if err := json.Unmarshal(input, &in); err != nil {
			return nil, err
		}
		r = f.onStart(o.ID, in)
	}
	r.options, r.input = o, input
	f.runs[o.ID] = r
	return fakeHandle{f, o.ID}, nil
}

func (f *fakeTemporal) GetWorkflow(_ context.Context, id, _ string) client.WorkflowRun {
	return fakeHandle{f, id}
}

func (f *fakeTemporal) SignalWorkflow(_ context.Context, id, _, name string, arg any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	r, err := f.get(id)
	if err != nil {
		return err
	}
	if r.status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return serviceerror.NewNotFound("workflow execution already completed")
	}
	b, err := json.Marshal(arg)
	f.signals = append(f.signals, id+" "+name+" "+string(b))
	return err
}

func (f *fakeTemporal) QueryWorkflowWithOptions(ctx context.Context, q *client.QueryWorkflowWithOptionsRequest) (*client.QueryWorkflowWithOptionsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r, err := f.get(q.WorkflowID)
	if err != nil {
		return nil, err
	}
	if q.QueryRejectCondition == enumspb.QUERY_REJECT_CONDITION_NOT_OPEN && r.status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return &client.QueryWorkflowWithOptionsResponse{QueryRejected: &querypb.QueryRejected{Status: r.status}}, nil
	}
	if f.pollers == 0 {
		f.mu.Unlock()
		<-ctx.Done()
		f.mu.Lock()
		return nil, serviceerror.NewDeadlineExceeded("context deadline exceeded")
	}
	var answer any
	if err, ok := r.table.(error); ok && q.QueryType == workflows.QueryTable {
		return nil, err
	}
	switch {
	case q.QueryType == workflows.QueryTable:
		answer = r.table
	case len(r.statuses) > 0:
		answer = r.statuses[0]
		if len(r.statuses) > 1 {
			r.statuses = r.statuses[1:]
		}
	}
	if err, ok := answer.(error); ok {
		return nil, err
	}
	v, err := encode(answer)
	return &client.QueryWorkflowWithOptionsResponse{QueryResult: v}, err
}

func (f *fakeTemporal) UpdateWorkflow(ctx context.Context, o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	f.mu.Lock()
	r, err := f.get(o.WorkflowID)
	if err == nil && r.status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		err = serviceerror.NewNotFound("workflow execution already completed")
	}
	if err != nil {
		f.mu.Unlock()
		return nil, err
	}
	r.updateID = append(r.updateID, o.UpdateID)
	pollers, handler := f.pollers, r.updates[o.UpdateName]
	f.mu.Unlock()
	if pollers == 0 {
		<-ctx.Done()
		return nil, client.NewWorkflowUpdateServiceTimeoutOrCanceledError(ctx.Err())
	}
	if handler == nil {
		return nil, temporal.NewApplicationError("unknown update "+o.UpdateName, "")
	}
	var arg []byte
	if len(o.Args) > 0 {
		if arg, err = json.Marshal(o.Args[0]); err != nil {
			return nil, err
		}
	}
	out, err := handler(ctx, arg)
	if err != nil {
		return nil, err
	}
	v, err := encode(out)
	return fakeUpdate{v, o}, err
}

func (f *fakeTemporal) DescribeWorkflowExecution(_ context.Context, id, _ string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r, err := f.get(id)
	if err != nil {
		return nil, err
	}
	info := &workflowpb.WorkflowExecutionInfo{
		Execution: &commonpb.WorkflowExecution{WorkflowId: id, RunId: r.runID}, Status: r.status, FirstRunId: r.firstRun,
	}
	if !r.closeTime.IsZero() {
		info.CloseTime = timestamppb.New(r.closeTime)
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: info, PendingActivities: r.pending}, nil
}

func (f *fakeTemporal) DescribeTaskQueue(context.Context, string, enumspb.TaskQueueType) (*workflowservice.DescribeTaskQueueResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil, f.err
	}
	return &workflowservice.DescribeTaskQueueResponse{Pollers: make([]*taskqueuepb.PollerInfo, f.pollers)}, nil
}

func (f *fakeTemporal) ListWorkflow(_ context.Context, q *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil, f.err
	}
	f.queries = append(f.queries, q.GetQuery())
	var all []*workflowpb.WorkflowExecutionInfo
	for id, r := range f.runs {
		if r.status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING && strings.Contains(q.GetQuery(), "'"+r.kind+"'") {
			info := &workflowpb.WorkflowExecutionInfo{Execution: &commonpb.WorkflowExecution{WorkflowId: id}, StartTime: timestamppb.New(testNow.Add(-time.Hour)),
				SearchAttributes: &commonpb.SearchAttributes{IndexedFields: map[string]*commonpb.Payload{}}}
			for k, v := range r.attributes {
				p, err := converter.GetDefaultDataConverter().ToPayload(v)
				if err != nil {
					return nil, err
				}
				info.SearchAttributes.IndexedFields[k] = p
			}
			all = append(all, info)
		}
	}
	slices.SortFunc(all, func(a, b *workflowpb.WorkflowExecutionInfo) int {
		return strings.Compare(a.Execution.WorkflowId, b.Execution.WorkflowId)
	})
	// One per page, so that pages are read to their end.
	n := len(q.GetNextPageToken())
	if n >= len(all) {
		return &workflowservice.ListWorkflowExecutionsResponse{}, nil
	}
	r := &workflowservice.ListWorkflowExecutionsResponse{Executions: all[n : n+1]}
	if n+1 < len(all) {
		r.NextPageToken = make([]byte, n+1)
	}
	return r, nil
}

func (f *fakeTemporal) GetWorkflowHistory(_ context.Context, id, runID string, _ bool, _ enumspb.HistoryEventFilterType) client.HistoryEventIterator {
	f.mu.Lock()
	defer f.mu.Unlock()
	r, err := f.get(id)
	if err != nil {
		return &fakeEvents{err: err}
	}
	events, ok := r.history[runID]
	if !ok {
		return &fakeEvents{err: serviceerror.NewNotFound("run not found")}
	}
	return &fakeEvents{events: events}
}

func (f *fakeTemporal) ScheduleClient() client.ScheduleClient { return fakeSchedules{f} }

func (f *fakeTemporal) Close() { f.closed = true }

type fakeEvents struct {
	events []*historypb.HistoryEvent
	err    error
}

func (e *fakeEvents) HasNext() bool { return e.err != nil || len(e.events) > 0 }

func (e *fakeEvents) Next() (*historypb.HistoryEvent, error) {
	if e.err != nil {
		return nil, e.err
	}
	next := e.events[0]
	e.events = e.events[1:]
	return next, nil
}

type fakeHandle struct {
	f  *fakeTemporal
	id string
}

func (h fakeHandle) GetID() string    { return h.id }
func (h fakeHandle) GetRunID() string { return "run-1" }

func (h fakeHandle) GetFirstExecutionRunID() string { return "uid-1" }

func (h fakeHandle) Get(ctx context.Context, into any) error {
	return h.GetWithOptions(ctx, into, client.WorkflowRunGetOptions{})
}

func (h fakeHandle) GetWithOptions(ctx context.Context, into any, _ client.WorkflowRunGetOptions) error {
	h.f.mu.Lock()
	r, err := h.f.get(h.id)
	h.f.mu.Unlock()
	if err != nil {
		return err
	}
	if err, ok := r.result.(error); ok {
		return err
	}
	if r.result == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	v, err := encode(r.result)
	if err != nil {
		return err
	}
	return v.Get(into)
}

type fakeUpdate struct {
	v converter.EncodedValue
	o client.UpdateWorkflowOptions
}

func (u fakeUpdate) WorkflowID() string                    { return u.o.WorkflowID }
func (u fakeUpdate) RunID() string                         { return "run-1" }
func (u fakeUpdate) UpdateID() string                      { return u.o.UpdateID }
func (u fakeUpdate) Get(_ context.Context, into any) error { return u.v.Get(into) }

type jsonValue []byte

func encode(v any) (converter.EncodedValue, error) {
	b, err := json.Marshal(v)
	return jsonValue(b), err
}

func (v jsonValue) HasValue() bool { return len(v) > 0 }

func (v jsonValue) Get(into any) error {
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(v, into); err != nil {
		return fmt.Errorf("%w: %w", converter.ErrUnableToDecode, err)
	}
	return nil
}
