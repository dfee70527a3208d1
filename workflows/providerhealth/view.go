package providerhealth

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// judge makes the status that follows from a check. It is pure.
func judge(before api.ProviderHealthStatus, out activities.CheckProviderResult, err error, begun time.Time) api.ProviderHealthStatus {
	s := api.ProviderHealthStatus{
		Type: out.Type, Supported: out.Supported, Targets: out.Targets, Took: out.Took,
		Checks: before.Checks + 1, CheckedAt: begun, Since: before.Since, Conditions: before.Conditions,
	}
	if s.Type == "" {
		s.Type = before.Type
	}
	unready := func(t provider.TargetStatus) bool { return !t.Ready }
	switch {
	case err != nil:
		s.Reason, s.Message = explain(err)
		s.Supported, s.Targets = before.Supported, before.Targets
	case !out.Supported:
		s.Ready, s.Reason, s.Message = true, api.ReasonNotSupported, "a worker serves this provider; it has no check of its own"
	case len(out.Targets) == 0:
		s.Reason, s.Message = api.ReasonCheckFailed, "the provider named no target"
	case slices.ContainsFunc(out.Targets, unready):
		s.Reason = api.ReasonTargetsFailed
		var bad []string
		for _, t := range out.Targets {
			if !t.Ready {
				bad = append(bad, t.Target+": "+t.Reason)
			}
		}
		s.Message = fmt.Sprintf("%d of %d targets not ready: %s", len(bad), len(out.Targets), strings.Join(bad[:min(len(bad), 5)], ", "))
	default:
		s.Ready, s.Reason = true, api.ReasonAllReady
	}
	if t := out.Throttle; err == nil && t != nil && t.Throttled {
		s = throttled(s, before, *t)
	}
	if before.Checks == 0 || before.Ready != s.Ready {
		s.Since = begun
	}
	status := api.False
	if s.Ready {
		status = api.True
	}
	s.Conditions = []api.Condition{{Type: api.CondReady, Status: status, Reason: s.Reason, Message: s.Message, LastTransitionTime: s.Since}}
	if s.Throttled {
		s.Conditions = append(s.Conditions, api.Condition{Type: api.CondThrottled, Status: api.True, Reason: provider.ReasonThrottled, LastTransitionTime: begun})
	}
	return s
}

// explain says why a check could not be made.
func explain(err error) (reason, message string) {
	var app *temporal.ApplicationError
	var timeout *temporal.TimeoutError
	switch {
	case errors.As(err, &app) && app.Type() == activities.ErrProviderNotConfigured:
		return api.ReasonProviderNotConfigured, app.Message()
	case errors.As(err, &app):
		return api.ReasonCheckFailed, app.Message()
	case errors.As(err, &timeout) && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START:
		return api.ReasonNoWorker, "no worker took the check: none serves this provider"
	case errors.As(err, &timeout):
		return api.ReasonCheckFailed, "the check took too long (" + timeout.TimeoutType().String() + ")"
	}
	return api.ReasonCheckFailed, err.Error()
}

func (h *health) view() api.ProviderHealth {
	return api.ProviderHealth{
		APIVersion: api.APIVersion, Kind: api.KindProviderHealth,
		Metadata: api.Metadata{Name: h.provider, CreationTimestamp: h.CreatedAt},
		Spec:     api.HealthConfig{Interval: api.Duration(h.interval()), ConfigHash: h.Config.ConfigHash}, Status: h.Status,
	}
}

// shown is what the search attributes say.
type shown struct {
	set    bool
	ready  bool
	reason string
}

func shownOf(s api.ProviderHealthStatus) shown {
	return shown{set: s.Checks > 0, ready: s.Ready, reason: s.Reason}
}

// show keeps what people see up to date.
func (h *health) show() {
	workflow.SetCurrentDetails(h.ctx, details(h.view()))
	now := shownOf(h.Status)
	if !now.set || now == h.shown {
		return
	}
	h.shown = now
	err := workflow.UpsertTypedSearchAttributes(h.ctx, workflows.AttrHealthy.ValueSet(now.ready), workflows.AttrReason.ValueSet(now.reason))
	if err != nil {
		h.log.Warn("search attributes not set", "error", err)
	}
}

// details is the summary of the run for the Temporal UI, in Markdown.
func details(v api.ProviderHealth) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	s := v.Status
	if s.Checks == 0 {
		line("**%s**: not checked yet", v.Metadata.Name)
		return b.String()
	}
	word := "not ready"
	if s.Ready {
		word = "ready"
	}
	line("**%s**: %s since %s", v.Metadata.Name, word, clock(s.Since))
	line("")
	if !s.Ready || s.Throttled {
		line("> **%s.** %s", s.Reason, s.Message)
		line("")
	}
	for _, t := range s.Targets {
		word := "ready"
		if !t.Ready {
			word = "**not ready**: " + t.Reason
			if t.Message != "" {
				word += ": " + t.Message
			}
		}
		line("- `%s`: %s", t.Target, word)
	}
	line("- last check: %s, took %s, one every %s", clock(s.CheckedAt), s.Took.Std().Round(time.Millisecond), v.Spec.Interval)
	return b.String()
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }
