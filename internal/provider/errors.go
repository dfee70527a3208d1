package provider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Class says what to do about a failure. The strings are stored in workflow
// histories: they are only ever added to.
type Class string

// The classes.
const (
	// NotFound: the instance does not exist. Nothing else is NotFound: an
	// outage, wrong credentials and "cannot tell" are not.
	NotFound Class = "NotFound"
	// QuotaExceeded: the account's limit is reached; a person has to raise it or
	// something has to be deleted.
	QuotaExceeded Class = "QuotaExceeded"
	// RateLimited: too many requests; Error.RetryAfter says for how long.
	RateLimited Class = "RateLimited"
	// CapacityUnavailable: the backend is sold out here; later or elsewhere.
	CapacityUnavailable Class = "CapacityUnavailable"
	// Transient: network, 5xx, time-outs, cancellation, and all that is unknown.
	Transient Class = "Transient"
	// Permanent: the same request will fail again until the spec, the
	// configuration or the credentials change.
	Permanent Class = "Permanent"
	// Conflict: the name is taken by something that is not this request's.
	Conflict Class = "Conflict"
)

// Classes lists every class in the order of the documentation.
func Classes() []Class {
	return []Class{NotFound, QuotaExceeded, RateLimited, CapacityUnavailable, Transient, Permanent, Conflict}
}

// Error makes a class usable as a target of errors.Is.
func (c Class) Error() string { return string(c) }

// Op names a provider operation in errors, metrics and spans.
type Op string

// The operations.
const (
	OpCreate          Op = "create"
	OpGet             Op = "get"
	OpFind            Op = "find"
	OpDelete          Op = "delete"
	OpList            Op = "list"
	OpPrice           Op = "price"
	OpListCompanions  Op = "list_companions"
	OpDeleteCompanion Op = "delete_companion"
)

// Machine-readable reasons that callers act on beyond the class.
const (
	// ReasonUnauthorized: the credentials are missing, wrong or expired. The
	// account is unhealthy; nothing about the instance is known.
	ReasonUnauthorized = "Unauthorized"
	// ReasonForbidden: the credentials are good and lack the right.
	ReasonForbidden = "Forbidden"
	// ReasonInvalidSpec: a value of the spec can never be satisfied.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonMalformedID: the instance id is none of this provider's.
	ReasonMalformedID = "MalformedInstanceID"
	// ReasonThrottled: refused by our own request budget, before any call.
	ReasonThrottled = "Throttled"
)

// Error is a classed failure of a provider call. Its text is safe to store and
// to show: drivers keep secrets and request ids out of Err.
type Error struct {
	Class    Class
	Op       Op
	Provider string // the configured name, not the type
	ID       string // instance id or name, may be empty
	// Reason is machine-readable and optional.
	Reason string
	// RetryAfter is the least time to wait before the next try; zero when the
	// backend did not say.
	RetryAfter time.Duration
	Err        error
}

// Wrap classes err. op, the provider's configured name and the instance id or
// name say where it happened. A nil err gives nil. Cancellation is Transient
// whatever the caller says, because a cut-off call proves nothing.
func Wrap(class Class, op Op, providerName, id string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		class = Transient
	}
	return &Error{Class: class, Op: op, Provider: providerName, ID: id, Err: err}
}

// WithReason sets the reason of a classed error and returns it.
func WithReason(err error, reason string) error {
	var e *Error
	if errors.As(err, &e) {
		e.Reason = reason
	}
	return err
}

// WithRetryAfter sets the least wait of a classed error and returns it.
func WithRetryAfter(err error, d time.Duration) error {
	var e *Error
	if errors.As(err, &e) {
		e.RetryAfter = d
	}
	return err
}

func (e *Error) Error() string {
	id := ""
	if e.ID != "" {
		id = " " + e.ID
	}
	return fmt.Sprintf("%s: %s%s: %s: %v", e.Provider, e.Op, id, e.Class, e.Err)
}

// Unwrap lets errors.Is match the class and errors.As reach the backend's error.
func (e *Error) Unwrap() []error { return []error{e.Class, e.Err} }

// LogValue groups the fields for slog.
func (e *Error) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("class", string(e.Class)), slog.String("op", string(e.Op)),
		slog.String("provider", e.Provider), slog.String("instance", e.ID),
		slog.String("reason", e.Reason), slog.String("message", e.Err.Error()))
}

// ClassOf returns the class of err; Transient when it was never classed, ""
// for nil.
func ClassOf(err error) Class {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	return Transient
}

// ReasonOf returns the machine-readable reason of err, if any.
func ReasonOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

// RetryAfterOf returns the least wait that err asks for, zero if none.
func RetryAfterOf(err error) time.Duration {
	var e *Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

// ClassRule is one row of the table that says what each class means, what
// Temporal does with it and what a proxy does with it. It is the single source
// of the activities' error conversion and of the documentation.
type ClassRule struct {
	Class Class
	// Meaning is what the driver asserts by returning it.
	Meaning string
	// NonRetryable: Temporal hands the failure to the workflow at once.
	NonRetryable bool
	// Delay is the wait before the next try when the error names none: of the
	// activity when it is retryable, of the workflow when it is not. Zero means
	// the retry policy's backoff, or that the workflow waits for a change.
	Delay time.Duration
	// Proxy is what a proxy does.
	Proxy string
}

// ClassRules returns the table, in the order of Classes.
func ClassRules() []ClassRule {
	return []ClassRule{
		{NotFound, "the instance does not exist", true, 0, "get: recreate, or finish a delete; delete: success"},
		{QuotaExceeded, "the account's limit is reached", true, 5 * time.Minute, "waits with reason QuotaExceeded, tries again every 5 min"},
		{RateLimited, "too many requests", false, 30 * time.Second, "Temporal waits as long as the backend asks"},
		{CapacityUnavailable, "sold out here and now", true, 5 * time.Minute, "waits with reason CapacityUnavailable, tries again every 5 min"},
		{Transient, "network, 5xx, time-out, cancellation, anything unknown", false, 0, "Temporal retries with backoff; after 2 min the status says so and it goes on"},
		{Permanent, "fails again until something is changed", true, 0, "latches until the spec, the provider's configuration or a retry signal changes something; a delete tries again every 5 min"},
		{Conflict, "the name is taken by something that is not ours", true, 0, "latches like Permanent; nothing is adopted or deleted"},
	}
}

// RuleFor returns the row of a class; the row of Transient for an unknown one.
func RuleFor(c Class) ClassRule {
	rules := ClassRules()
	for _, r := range rules {
		if r.Class == c {
			return r
		}
	}
	return RuleFor(Transient)
}
