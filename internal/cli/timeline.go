package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Kinds of entries of a timeline.
const (
	entryAsked   = "asked"   // somebody wanted something
	entrySeen    = "seen"    // the fleet watch saw something
	entryState   = "state"   // the proxy came to another state
	entryStep    = "step"    // a step was done
	entryFailure = "failure" // a step failed
	entryWait    = "wait"    // the proxy waits for a time
	entryAnswer  = "answer"  // a caller got an answer
	entryEnd     = "end"     // the workflow came to its end
	entryDetail  = "detail"  // shown with --all only
)

// entry is one line of a proxy's history.
type entry struct {
	Time   time.Time `json:"time"`
	Kind   string    `json:"kind"`
	What   string    `json:"what"`
	Detail string    `json:"detail,omitempty"`
	// By is who asked: the identity of a client or worker.
	By      string `json:"by,omitempty"`
	RunID   string `json:"runID"`
	EventID int64  `json:"eventID"`
}

// timeline reads the events of a chain of runs. It keeps what later events refer
// to.
type timeline struct {
	converter converter.DataConverter
	failures  converter.FailureConverter
	run       string

	entries []entry

	steps    map[int64]*step   // by the id of the scheduling event
	timers   map[int64]timer   // that run, by the id of the starting event
	asked    map[string]string // update name by update id
	state    string
	broken   string // cause of the latest failed workflow task, said once
	unusable int    // payloads that could not be decoded
}

type step struct {
	name, summary string
	scheduled     time.Time
	attempt       int32
	last          *failurepb.Failure
}

// timer is a wait. It is worth a line if it was not cut short.
type timer struct {
	entry int
	ends  time.Time
}

func newTimeline(dc converter.DataConverter, fc converter.FailureConverter) *timeline {
	return &timeline{converter: dc, failures: fc, asked: map[string]string{}}
}

// add reads the events of the next run.
func (t *timeline) add(runID string, events []*historypb.HistoryEvent) {
	t.run, t.steps, t.timers = runID, map[int64]*step{}, map[int64]timer{}
	for _, e := range events {
		t.event(e)
	}
}

func (t *timeline) put(e *historypb.HistoryEvent, kind, what, detail, by string) {
	t.entries = append(t.entries, entry{
		Time: e.GetEventTime().AsTime(), Kind: kind, What: what, Detail: detail, By: by, RunID: t.run, EventID: e.GetEventId(),
	})
}

func (t *timeline) event(e *historypb.HistoryEvent) {
	switch e.GetEventType() {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
		t.started(e)
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
		t.signaled(e)
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED:
		a := e.GetWorkflowExecutionUpdateAcceptedEventAttributes()
		in := a.GetAcceptedRequest().GetInput()
		t.asked[a.GetAcceptedRequest().GetMeta().GetUpdateId()] = in.GetName()
		t.put(e, entryAsked, in.GetName(), t.request(in.GetName(), in.GetArgs()), a.GetAcceptedRequest().GetMeta().GetIdentity())
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED:
		t.updateCompleted(e)
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED:
		a := e.GetWorkflowExecutionCancelRequestedEventAttributes()
		t.put(e, entryAsked, "cancel", a.GetCause(), a.GetIdentity())
	case enumspb.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES:
		t.attributes(e)
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED, enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED,
		enumspb.EVENT_TYPE_ACTIVITY_TASK_FAILED, enumspb.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT, enumspb.EVENT_TYPE_ACTIVITY_TASK_CANCELED:
		t.activity(e)
	case enumspb.EVENT_TYPE_TIMER_STARTED:
		a := e.GetTimerStartedEventAttributes()
		t.put(e, entryDetail, "waits "+a.GetStartToFireTimeout().AsDuration().String(), t.summary(e.GetUserMetadata()), "")
		t.timers[e.GetEventId()] = timer{len(t.entries) - 1, e.GetEventTime().AsTime().Add(a.GetStartToFireTimeout().AsDuration())}
	case enumspb.EVENT_TYPE_TIMER_FIRED:
		t.waited(e.GetTimerFiredEventAttributes().GetStartedEventId())
	case enumspb.EVENT_TYPE_TIMER_CANCELED:
		delete(t.timers, e.GetTimerCanceledEventAttributes().GetStartedEventId())
	case enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED:
		a := e.GetWorkflowTaskFailedEventAttributes()
		if cause := a.GetCause().String(); cause != t.broken {
			t.broken = cause
			t.put(e, entryFailure, "workflow task failed", cause+": "+t.failure(a.GetFailure()), a.GetIdentity())
		}
	case enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
		t.broken = ""
	case enumspb.EVENT_TYPE_MARKER_RECORDED:
		t.put(e, entryDetail, "marker "+e.GetMarkerRecordedEventAttributes().GetMarkerName(), t.summary(e.GetUserMetadata()), "")
	default:
		t.closed(e)
	}
}

// waited makes a line of a wait that came to its end.
func (t *timeline) waited(id int64) {
	if w, ok := t.timers[id]; ok {
		t.entries[w.entry].Kind = entryWait
		delete(t.timers, id)
	}
}

func (t *timeline) started(e *historypb.HistoryEvent) {
	a := e.GetWorkflowExecutionStartedEventAttributes()
	if a.GetContinuedExecutionRunId() != "" {
		t.put(e, entryDetail, "continued as new", "run "+t.run, "")
		return
	}
	var in api.ProxyInput
	detail := ""
	if t.decode(a.GetInput(), &in) {
		p := api.Proxy{Spec: in.Spec, Metadata: api.Metadata{Labels: in.Labels}}
		detail = fieldText(p)
	}
	t.put(e, entryAsked, "create", detail, a.GetIdentity())
}

func (t *timeline) signaled(e *historypb.HistoryEvent) {
	a := e.GetWorkflowExecutionSignaledEventAttributes()
	if a.GetSignalName() == workflows.SignalObserved {
		var o api.Observation
		if t.decode(a.GetInput(), &o) {
			t.put(e, entrySeen, string(o.Kind), joinText(string(o.InstanceID), o.Reason, o.Message), a.GetIdentity())
			return
		}
	}
	t.put(e, entryAsked, a.GetSignalName(), t.request(a.GetSignalName(), a.GetInput()), a.GetIdentity())
}

// request is what matters of the input of a signal or an update.
func (t *timeline) request(name string, args *commonpb.Payloads) string {
	if name == workflows.UpdateSetSpec {
		var in api.SetSpecInput
		if t.decode(args, &in) {
			return fieldText(api.Proxy{Spec: in.Spec, Metadata: api.Metadata{Labels: in.Labels}})
		}
		return ""
	}
	var raw any
	if len(args.GetPayloads()) == 0 || !t.decode(args, &raw) {
		return ""
	}
	switch v := raw.(type) {
	case string:
		return v
	case map[string]any:
		reason, _ := v["reason"].(string)
		return reason
	}
	return ""
}

func (t *timeline) updateCompleted(e *historypb.HistoryEvent) {
	a := e.GetWorkflowExecutionUpdateCompletedEventAttributes()
	name := t.asked[a.GetMeta().GetUpdateId()]
	if name == "" {
		name = "update"
	}
	if f := a.GetOutcome().GetFailure(); f != nil {
		t.put(e, entryAnswer, name+" failed", t.failure(f), "")
		return
	}
	var out any
	detail := ""
	if t.decode(a.GetOutcome().GetSuccess(), &out) {
		detail = compact(out)
	}
	t.put(e, entryAnswer, name+" done", detail, "")
}

// attributes shows a change of the state by what the proxy sets for lists.
func (t *timeline) attributes(e *historypb.HistoryEvent) {
	f := e.GetUpsertWorkflowSearchAttributesEventAttributes().GetSearchAttributes().GetIndexedFields()
	text := func(name string) string {
		var s string
		if p := f[name]; p != nil && len(p.GetData()) > 0 && json.Unmarshal(p.GetData(), &s) != nil {
			return ""
		}
		return s
	}
	var healthy bool
	if p := f[workflows.AttrHealthy.GetName()]; p != nil {
		_ = json.Unmarshal(p.GetData(), &healthy) // false is what is shown of anything else
	}
	phase := text(workflows.AttrPhase.GetName())
	if phase == "" {
		return
	}
	health := "not healthy"
	if healthy {
		health = "healthy"
	}
	reason := text(workflows.AttrReason.GetName())
	if reason == phase {
		reason = ""
	}
	detail := joinText(reason, health, text(workflows.AttrInstance.GetName()), text(workflows.AttrIP.GetName()))
	if state := phase + detail; state != t.state {
		t.state = state
		t.put(e, entryState, phase, detail, "")
	}
}

func (t *timeline) closed(e *historypb.HistoryEvent) {
	switch e.GetEventType() {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
		var r api.ProxyResult
		detail := ""
		if t.decode(e.GetWorkflowExecutionCompletedEventAttributes().GetResult(), &r) {
			detail = r.Reason
			if len(r.Deleted) > 0 {
				detail += fmt.Sprintf("; deleted at the provider: %v", r.Deleted)
			}
		}
		t.put(e, entryEnd, "deleted", detail, "")
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED:
		t.put(e, entryEnd, "deleted", "canceled", "")
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
		t.put(e, entryEnd, "workflow failed", t.failure(e.GetWorkflowExecutionFailedEventAttributes().GetFailure()), "")
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT:
		t.put(e, entryEnd, "workflow timed out", "", "")
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
		a := e.GetWorkflowExecutionTerminatedEventAttributes()
		t.put(e, entryEnd, "workflow terminated", joinText(a.GetReason(), "the instance is left to the next sweep"), a.GetIdentity())
	default:
		return
	}
}

// decode reads the first payload. What cannot be decoded is counted.
func (t *timeline) decode(p *commonpb.Payloads, into any) bool {
	if len(p.GetPayloads()) == 0 {
		return false
	}
	if err := t.converter.FromPayload(p.GetPayloads()[0], into); err != nil {
		t.unusable++
		return false
	}
	return true
}

func (t *timeline) summary(m *sdkpb.UserMetadata) string {
	var s string
	if m.GetSummary() != nil && t.converter.FromPayload(m.GetSummary(), &s) != nil {
		t.unusable++
	}
	return s
}

// failure is a failure in one line, with its class.
func (t *timeline) failure(f *failurepb.Failure) string {
	if f == nil {
		return ""
	}
	err := t.failures.FailureToError(f)
	for f.GetCause() != nil && f.GetApplicationFailureInfo() == nil {
		f = f.GetCause()
	}
	class := f.GetApplicationFailureInfo().GetType()
	msg := causeText(err)
	if class != "" && !strings.Contains(msg, class) {
		msg = class + ": " + msg
	}
	return oneLine(msg)
}

// causeText is the innermost message, without the SDK's words around it.
func causeText(err error) string {
	if a, ok := asApplication(err); ok {
		return a.Message()
	}
	return err.Error()
}

func asApplication(err error) (*temporal.ApplicationError, bool) {
	for err != nil {
		if a, ok := err.(*temporal.ApplicationError); ok {
			return a, true
		}
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			return nil, false
		}
		err = u.Unwrap()
	}
	return nil, false
}

func joinText(parts ...string) string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, ", ")
}
