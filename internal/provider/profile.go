package provider

import (
	"errors"
	"fmt"
	"iter"
	"strings"
)

// AxisValue is one allowed answer on an axis.
type AxisValue struct {
	Value   string
	Meaning string
}

// Axis is one question that a driver's author answers in the type's Profile. An
// answer picks one of the allowed ways to meet the contract; it never excuses
// from a clause.
type Axis struct {
	// Code is the axis' name in tables, "create-return".
	Code     string
	Question string
	Values   []AxisValue
	field    func(*Profile) *string
}

// Allowed lists the axis' values.
func (a Axis) Allowed() []string {
	out := make([]string, len(a.Values))
	for i, v := range a.Values {
		out[i] = v.Value
	}
	return out
}

// Of returns the profile's answer on the axis, empty when it has none.
func (a Axis) Of(p Profile) string { return *a.field(&p) }

// Axes returns every axis in the order of the documentation. It is the one
// table: validation, the generated page and the check of docs/providers use it.
func Axes() []Axis {
	v := func(pairs ...string) (out []AxisValue) {
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, AxisValue{pairs[i], pairs[i+1]})
		}
		return out
	}
	return []Axis{
		{"readiness", "How long after Create does an instance run?",
			v("immediate", "it runs at once",
				"provisioning-window", "it boots for a while, and is Provisioning in that time"),
			func(p *Profile) *string { return &p.Readiness }},
		{"create-return", "When does Create return?",
			v("submit", "as soon as the backend has taken the request",
				"blocking", "when the instance runs; the wait honours ctx and a cut-off create can be repeated"),
			func(p *Profile) *string { return &p.CreateReturn }},
		{"delete-return", "When does Delete return?",
			v("returns-early", "when the backend has taken the request; Get shows the instance until it is gone",
				"waits", "when nothing is left"),
			func(p *Profile) *string { return &p.DeleteReturn }},
		{"ip-source", "Where does the address come from?",
			v("assigned-at-create", "the backend names it with the instance",
				"discovered", "it is found later; no address yet is Provisioning, never an error"),
			func(p *Profile) *string { return &p.IPSource }},
		{"gc-mark", "Where are the marks?",
			v("native-labels", "in labels or tags that the backend can filter by",
				"written-metadata", "in a text that the create call writes; listings filter themselves",
				"mark-window", "written by a second call within seconds; the page says how long"),
			func(p *Profile) *string { return &p.GCMark }},
		{"created-at", "Who knows when an instance was created?",
			v("backend-timestamp", "the backend", "written-at-create", "the create call writes it beside the marks"),
			func(p *Profile) *string { return &p.CreatedAt }},
		{"list-partial", "What does List do when a part of its scope does not answer?",
			v("fail-whole", "it fails", "omit-unreachable", "it leaves that part out and logs it"),
			func(p *Profile) *string { return &p.ListPartial }},
		{"quota", "Can the driver tell an exhausted account from other failures?",
			v("detected", "yes, as QuotaExceeded", "absent", "no, the backend has no such limit or does not say"),
			func(p *Profile) *string { return &p.Quota }},
		{"not-found", "How does the driver know that an instance is gone?",
			v("status-404", "by a status of its own", "error-code", "by a code or text, matched exactly",
				"list-and-miss", "by its absence from a listing that is never partial"),
			func(p *Profile) *string { return &p.NotFound }},
		{"primary-key", "What does the backend find an instance by?",
			v("name-is-key", "by its name", "allocated-id", "by an id that it allocates; Create looks for the name first"),
			func(p *Profile) *string { return &p.PrimaryKey }},
		{"provisioning-state", "How is 'not started yet' told from 'stopped'?",
			v("native", "the backend has a state for it", "create-blocks", "Create returns only when it has started",
				"marker", "by something that Create writes down"),
			func(p *Profile) *string { return &p.ProvisioningState }},
		{"async-ops", "Does the backend work in tasks of its own?",
			v("none", "calls are complete when they return", "task-handle", "it names a task that can be asked for",
				"backend-lock", "it locks the instance; Get gives the last state or Transient meanwhile"),
			func(p *Profile) *string { return &p.AsyncOps }},
		{"secondary-resources", "What else does Create make, and who removes it?",
			v("none", "nothing", "cascade", "the backend removes it with the instance",
				"explicit", "the driver removes it, and lists it as companions"),
			func(p *Profile) *string { return &p.SecondaryResources }},
		{"credentials", "Where do credentials come from?",
			v("none", "there are none", "mounted-files", "files named in the configuration",
				"environment", "the environment, through the configuration's secrets",
				"workload-identity", "the identity that the platform gives the process"),
			func(p *Profile) *string { return &p.Credentials }},
		{"client-kind", "What talks to the backend?",
			v("vendor-sdk", "the vendor's library, its own retries switched off",
				"thin-client", "an HTTP client in the driver's package",
				"local-process", "the operating system; there is no API that could fail half-way"),
			func(p *Profile) *string { return &p.ClientKind }},
		{"timeouts", "What bounds a single request to the backend?",
			v("per-call", "a limit of its own", "ctx-only", "the caller's context"),
			func(p *Profile) *string { return &p.Timeouts }},
		{"logging", "What does the driver log?",
			v("tiered", "outcomes at debug, requests below that", "outcome-only", "outcomes at debug", "none", "nothing"),
			func(p *Profile) *string { return &p.Logging }},
		{"child-spans", "How do single requests show under the operation's span?",
			v("sdk-instrumentation", "the vendor's library makes spans",
				"transport-wrapper", "the HTTP transport makes spans when there is a parent",
				"span-decorator", "a wrapper around the client makes spans", "none", "they do not"),
			func(p *Profile) *string { return &p.ChildSpans }},
		{"backend-test", "How is the driver proven against the real backend?",
			v("cluster-e2e", "in the end-to-end suite on a cluster", "integration-tag", "by a tagged test with credentials",
				"manual-runbook", "by hand, as written down", "make-test", "in every test run, since it is here"),
			func(p *Profile) *string { return &p.BackendTest }},
	}
}

// Axes yields every axis with the profile's answer.
func (p Profile) Axes() iter.Seq2[Axis, string] {
	return func(yield func(Axis, string) bool) {
		for _, a := range Axes() {
			if !yield(a, a.Of(p)) {
				return
			}
		}
	}
}

// Validate checks every answer against its axis, that the answers agree with
// each other, and the intervals. The error joins all that is wrong.
func (p Profile) Validate() error {
	var errs []error
	for a, got := range p.Axes() {
		if err := oneOf("profile "+a.Code, got, a.Allowed()); err != nil {
			errs = append(errs, err)
		}
	}
	if p.NotFound == "list-and-miss" && p.ListPartial != "fail-whole" {
		errs = append(errs, fmt.Errorf("profile not-found: list-and-miss with list-partial %q: want fail-whole, "+
			"or a part that does not answer reads as gone", p.ListPartial))
	}
	if p.ReadyPoll <= 0 {
		errs = append(errs, fmt.Errorf("profile ReadyPoll: %v: must be positive", p.ReadyPoll))
	}
	if p.GonePoll <= 0 {
		errs = append(errs, fmt.Errorf("profile GonePoll: %v: must be positive", p.GonePoll))
	}
	if p.Settle < 0 {
		errs = append(errs, fmt.Errorf("profile Settle: %v: must not be negative", p.Settle))
	}
	return errors.Join(errs...)
}

func oneOf(field, got string, allowed []string) error {
	for _, a := range allowed {
		if got == a {
			return nil
		}
	}
	return fmt.Errorf("%s: %q: want one of %s", field, got, strings.Join(allowed, ", "))
}
