package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/tollgate-dev/tollgate/workflows/api"
)

// reportActivity tells the fleet of each transition, which says nothing new.
const reportActivity = "ReportFleet"

// activity shows a step when it ends, in one line with its attempts.
func (t *timeline) activity(e *historypb.HistoryEvent) {
	switch e.GetEventType() {
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
		a := e.GetActivityTaskScheduledEventAttributes()
		t.steps[e.GetEventId()] = &step{
			name: a.GetActivityType().GetName(), summary: t.summary(e.GetUserMetadata()), scheduled: e.GetEventTime().AsTime(), attempt: 1,
		}
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED:
		a := e.GetActivityTaskStartedEventAttributes()
		if s := t.steps[a.GetScheduledEventId()]; s != nil {
			s.attempt, s.last = a.GetAttempt(), a.GetLastFailure()
		}
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
		a := e.GetActivityTaskCompletedEventAttributes()
		var out any
		result := ""
		if t.decode(a.GetResult(), &out) {
			result = compact(out)
		}
		t.stepEnded(e, a.GetScheduledEventId(), entryStep, "", result)
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_FAILED:
		a := e.GetActivityTaskFailedEventAttributes()
		t.stepEnded(e, a.GetScheduledEventId(), entryFailure, " failed", t.failure(a.GetFailure()))
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT:
		a := e.GetActivityTaskTimedOutEventAttributes()
		t.stepEnded(e, a.GetScheduledEventId(), entryFailure, " timed out", t.failure(a.GetFailure()))
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_CANCELED:
		t.stepEnded(e, e.GetActivityTaskCanceledEventAttributes().GetScheduledEventId(), entryStep, " given up", "")
	}
}

func (t *timeline) stepEnded(e *historypb.HistoryEvent, id int64, kind, verb, outcome string) {
	s := t.steps[id]
	if s == nil {
		return
	}
	delete(t.steps, id)
	took := elapsed(e.GetEventTime().AsTime().Sub(s.scheduled))
	if s.attempt > 1 {
		took += fmt.Sprintf(", %d attempts", s.attempt)
	}
	last := ""
	if kind == entryStep && s.last != nil {
		last = "before: " + t.failure(s.last)
	}
	if s.name == reportActivity && kind == entryStep {
		kind = entryDetail
	}
	t.put(e, kind, s.name+verb, joinText(s.summary, took, outcome, last), "")
}

// maxResult is how much of a result is shown.
const maxResult = 120

// compact shows a decoded result as key=value pairs.
func compact(v any) string {
	var parts []string
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case nil:
		case map[string]any:
			for _, k := range slices.Sorted(maps.Keys(v)) {
				p := k
				if path != "" {
					p = path + "." + k
				}
				walk(p, v[k])
			}
		case string:
			if v != "" {
				parts = append(parts, path+"="+quoteIfNeeded(v))
			}
		default:
			parts = append(parts, strings.TrimPrefix(fmt.Sprintf("%s=%v", path, v), "="))
		}
	}
	walk("", v)
	text := strings.Join(parts, " ")
	if r := []rune(text); len(r) > maxResult {
		text = string(r[:maxResult]) + "..."
	}
	return text
}

// fieldText shows what a document sets, without secrets and defaults.
func fieldText(p api.Proxy) string {
	is, defaults := fields(p, false), fields(api.Proxy{}, false)
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(is)) {
		if is[k] != defaults[k] {
			parts = append(parts, strings.TrimPrefix(strings.TrimPrefix(k, "spec."), "metadata.")+"="+is[k])
		}
	}
	return strings.Join(parts, " ")
}
