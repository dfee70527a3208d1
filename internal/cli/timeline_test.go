package cli

import (
	"strings"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	updatepb "go.temporal.io/api/update/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// tape makes the events of a run, a second apart.
type tape struct {
	t      *testing.T
	at     time.Time
	events []*historypb.HistoryEvent
}

func (x *tape) payload(v any) *commonpb.Payload {
	x.t.Helper()
	p, err := converter.GetDefaultDataConverter().ToPayload(v)
	if err != nil {
		x.t.Fatal(err)
	}
	return p
}

func (x *tape) payloads(v any) *commonpb.Payloads {
	return &commonpb.Payloads{Payloads: []*commonpb.Payload{x.payload(v)}}
}

func (x *tape) add(kind enumspb.EventType, e *historypb.HistoryEvent) int64 {
	x.at = x.at.Add(time.Second)
	e.EventType, e.EventTime, e.EventId = kind, timestamppb.New(x.at), int64(len(x.events)+1)
	x.events = append(x.events, e)
	return e.EventId
}

func (x *tape) started(in api.ProxyInput, continued string) {
	x.add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowExecutionStartedEventAttributes{
		WorkflowExecutionStartedEventAttributes: &historypb.WorkflowExecutionStartedEventAttributes{
			Input: x.payloads(in), Identity: "alice@desk (tollgate)", ContinuedExecutionRunId: continued,
		}}})
}

func (x *tape) signal(name string, arg any, by string) {
	a := &historypb.WorkflowExecutionSignaledEventAttributes{SignalName: name, Identity: by}
	if arg != nil {
		a.Input = x.payloads(arg)
	}
	x.add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowExecutionSignaledEventAttributes{WorkflowExecutionSignaledEventAttributes: a}})
}

func (x *tape) state(phase api.Phase, reason string, healthy bool) {
	x.add(enumspb.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_UpsertWorkflowSearchAttributesEventAttributes{
		UpsertWorkflowSearchAttributesEventAttributes: &historypb.UpsertWorkflowSearchAttributesEventAttributes{SearchAttributes: &commonpb.SearchAttributes{
			IndexedFields: map[string]*commonpb.Payload{
				workflows.AttrPhase.GetName():   x.payload(string(phase)),
				workflows.AttrReason.GetName():  x.payload(reason),
				workflows.AttrHealthy.GetName(): x.payload(healthy),
				workflows.AttrIP.GetName():      {Metadata: map[string][]byte{"encoding": []byte("binary/null")}},
			}}}}})
}

// step is an activity; a nil failure completes it with the result.
func (x *tape) step(name, summary string, attempt int32, result any, f *failurepb.Failure) {
	id := x.add(enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, &historypb.HistoryEvent{UserMetadata: &sdkpb.UserMetadata{Summary: x.payload(summary)},
		Attributes: &historypb.HistoryEvent_ActivityTaskScheduledEventAttributes{
			ActivityTaskScheduledEventAttributes: &historypb.ActivityTaskScheduledEventAttributes{ActivityType: &commonpb.ActivityType{Name: name}}}})
	started := &historypb.ActivityTaskStartedEventAttributes{ScheduledEventId: id, Attempt: attempt}
	if attempt > 1 {
		started.LastFailure = failed("NotReady", "still booting")
	}
	x.add(enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_ActivityTaskStartedEventAttributes{ActivityTaskStartedEventAttributes: started}})
	if f != nil {
		x.add(enumspb.EVENT_TYPE_ACTIVITY_TASK_FAILED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_ActivityTaskFailedEventAttributes{
			ActivityTaskFailedEventAttributes: &historypb.ActivityTaskFailedEventAttributes{ScheduledEventId: id, Failure: f}}})
		return
	}
	x.add(enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_ActivityTaskCompletedEventAttributes{
		ActivityTaskCompletedEventAttributes: &historypb.ActivityTaskCompletedEventAttributes{ScheduledEventId: id, Result: x.payloads(result)}}})
}

func failed(class, message string) *failurepb.Failure {
	return &failurepb.Failure{Message: message, FailureInfo: &failurepb.Failure_ApplicationFailureInfo{
		ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{Type: class}}}
}

func (x *tape) updateAccepted(id, name string, in any) {
	x.add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowExecutionUpdateAcceptedEventAttributes{
		WorkflowExecutionUpdateAcceptedEventAttributes: &historypb.WorkflowExecutionUpdateAcceptedEventAttributes{ProtocolInstanceId: id,
			AcceptedRequest: &updatepb.Request{Meta: &updatepb.Meta{UpdateId: id, Identity: "bob@desk (tollgate)"}, Input: &updatepb.Input{Name: name, Args: x.payloads(in)}}}}})
}

func (x *tape) updateCompleted(id string, o *updatepb.Outcome) {
	x.add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowExecutionUpdateCompletedEventAttributes{
		WorkflowExecutionUpdateCompletedEventAttributes: &historypb.WorkflowExecutionUpdateCompletedEventAttributes{Meta: &updatepb.Meta{UpdateId: id}, Outcome: o}}})
}

func (x *tape) taskFailed(cause enumspb.WorkflowTaskFailedCause) {
	x.add(enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowTaskFailedEventAttributes{
		WorkflowTaskFailedEventAttributes: &historypb.WorkflowTaskFailedEventAttributes{Cause: cause, Failure: &failurepb.Failure{Message: "lookup failed"}, Identity: "worker-1"}}})
}

// aLife is a proxy that had some trouble, over two runs.
func aLife(t *testing.T) *fakeRun {
	first := &tape{t: t, at: testNow.Add(-time.Hour)}
	first.started(api.ProxyInput{Spec: api.ProxySpec{Provider: "local", Port: 8080, CloudInit: &api.SecretSource{Inline: "s3cr3t"}}, Labels: map[string]string{"team": "web"}}, "")
	first.state(api.PhasePending, api.ReasonPending, false)
	first.state(api.PhasePending, api.ReasonPending, false) // nothing new
	first.step("CreateInstance", "create proxy-a on local", 1, nil, failed("QuotaExceeded", "local: create proxy-a: QuotaExceeded: ten servers"))
	wait := first.add(enumspb.EVENT_TYPE_TIMER_STARTED, &historypb.HistoryEvent{UserMetadata: &sdkpb.UserMetadata{Summary: first.payload("QuotaExceeded")},
		Attributes: &historypb.HistoryEvent_TimerStartedEventAttributes{TimerStartedEventAttributes: &historypb.TimerStartedEventAttributes{StartToFireTimeout: durationpb.New(5 * time.Minute)}}})
	first.add(enumspb.EVENT_TYPE_TIMER_FIRED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_TimerFiredEventAttributes{
		TimerFiredEventAttributes: &historypb.TimerFiredEventAttributes{StartedEventId: wait}}})
	cut := first.add(enumspb.EVENT_TYPE_TIMER_STARTED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_TimerStartedEventAttributes{
		TimerStartedEventAttributes: &historypb.TimerStartedEventAttributes{StartToFireTimeout: durationpb.New(10 * time.Second)}}})
	first.add(enumspb.EVENT_TYPE_TIMER_CANCELED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_TimerCanceledEventAttributes{
		TimerCanceledEventAttributes: &historypb.TimerCanceledEventAttributes{StartedEventId: cut}}})
	first.step("CreateInstance", "create proxy-a on local", 1, map[string]any{"id": "local/proxy-a"}, nil)
	first.step("WaitRunning", "wait until proxy-a runs", 4, map[string]any{"ip": "127.0.0.7"}, nil)
	first.step("ReportFleet", "tell the fleet", 1, nil, nil)
	first.state(api.PhaseRunning, api.ReasonProven, true)
	first.taskFailed(enumspb.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR)
	first.taskFailed(enumspb.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR)
	first.add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW, &historypb.HistoryEvent{})

	second := &tape{t: t, at: testNow.Add(-30 * time.Minute)}
	second.started(api.ProxyInput{Carried: &api.CarriedProxy{}}, "run-0")
	second.signal(workflows.SignalObserved, api.Observation{Kind: api.ObservedUnhealthy, InstanceID: "local/proxy-a", Reason: "timeout"}, "worker-1")
	second.updateAccepted("u1", workflows.UpdateReplace, api.ReplaceInput{Reason: "blocked"})
	second.updateAccepted("u2", workflows.UpdateSetSpec, api.SetSpecInput{Spec: api.ProxySpec{Provider: "local", Port: 8081}})
	second.updateCompleted("u2", &updatepb.Outcome{Value: &updatepb.Outcome_Success{Success: second.payloads(api.SetSpecResult{Generation: 2})}})
	second.updateCompleted("u1", &updatepb.Outcome{Value: &updatepb.Outcome_Failure{Failure: failed("Latched", "cannot go on")}})
	second.signal(workflows.SignalReplace, "by hand", "carol@desk")
	second.signal(workflows.SignalRetry, nil, "carol@desk")
	second.add(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED, &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowExecutionCancelRequestedEventAttributes{
		WorkflowExecutionCancelRequestedEventAttributes: &historypb.WorkflowExecutionCancelRequestedEventAttributes{Cause: "no longer needed", Identity: "temporal-ui"}}})
	second.state(api.PhaseDeleting, api.ReasonDeleting, false)
	second.add(enumspb.EVENT_TYPE_TIMER_STARTED, &historypb.HistoryEvent{UserMetadata: &sdkpb.UserMetadata{Summary: second.payload("Transient")},
		Attributes: &historypb.HistoryEvent_TimerStartedEventAttributes{TimerStartedEventAttributes: &historypb.TimerStartedEventAttributes{StartToFireTimeout: durationpb.New(time.Hour)}}})
	r := running(workflows.TypeProxy, serving())
	r.history = map[string][]*historypb.HistoryEvent{"run-0": first.events, "run-1": second.events}
	r.pending = []*workflowpb.PendingActivityInfo{{
		ActivityType: &commonpb.ActivityType{Name: "DeleteInstance"}, Attempt: 3, State: enumspb.PENDING_ACTIVITY_STATE_SCHEDULED,
		NextAttemptScheduleTime: timestamppb.New(testNow.Add(time.Minute)), LastFailure: failed("Transient", "503"),
	}}
	return r
}

func TestHistory(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]string{
		"history":       "proxy history demo",
		"history-all":   "proxy history demo --all -o wide",
		"history-limit": "proxy history demo --limit 2",
		"history-json":  "proxy history demo --limit 2 -o json",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			f.runs["proxy/default/demo"] = aLife(t)
			newCLI(t, f).golden(name, strings.Fields(args)...)
		})
	}
}

func TestHistoryOfTheDeletedAndTheTerminated(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]*historypb.HistoryEvent{
		"history-deleted": {EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, Attributes: &historypb.HistoryEvent_WorkflowExecutionCompletedEventAttributes{
			WorkflowExecutionCompletedEventAttributes: &historypb.WorkflowExecutionCompletedEventAttributes{
				Result: (&tape{t: t}).payloads(api.ProxyResult{Reason: "Requested: done with it", Deleted: nil})}}},
		"history-terminated": {EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED, Attributes: &historypb.HistoryEvent_WorkflowExecutionTerminatedEventAttributes{
			WorkflowExecutionTerminatedEventAttributes: &historypb.WorkflowExecutionTerminatedEventAttributes{Reason: "by mistake", Identity: "dave@desk"}}},
		"history-failed": {EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED, Attributes: &historypb.HistoryEvent_WorkflowExecutionFailedEventAttributes{
			WorkflowExecutionFailedEventAttributes: &historypb.WorkflowExecutionFailedEventAttributes{Failure: failed("InvalidInput", "spec.provider: is required")}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			r := aLife(t)
			r.status, r.pending = enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, nil
			delete(r.history, "run-0") // no longer retained
			end.EventTime, end.EventId = timestamppb.New(testNow), 99
			r.history["run-1"] = append(r.history["run-1"], end)
			f.runs["proxy/default/demo"] = r
			newCLI(t, f).golden(name, "proxy", "history", "demo", "--limit", "3")
		})
	}
}

// Without the key the history still shows what is not encrypted, and says why it
// is thin.
func TestHistoryWithoutTheKey(t *testing.T) {
	t.Parallel()
	f := newFake()
	r := running(workflows.TypeProxy, serving())
	x := &tape{t: t, at: testNow}
	x.started(api.ProxyInput{}, "")
	x.events[0].GetWorkflowExecutionStartedEventAttributes().Input.Payloads[0].Metadata["encoding"] = []byte("binary/encrypted")
	x.state(api.PhasePending, api.ReasonPending, false)
	r.history = map[string][]*historypb.HistoryEvent{"run-1": x.events}
	f.runs["proxy/default/demo"] = r
	newCLI(t, f).golden("history-no-key", "proxy", "history", "demo")
}
