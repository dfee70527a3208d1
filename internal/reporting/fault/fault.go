// Package fault sorts what can go wrong with a call to a receiver of events into
// the few classes that callers act on.
package fault

import (
	"errors"
	"fmt"
	"time"
)

// Class says what a caller should do about an error. Values are stored: they are
// only ever added.
type Class string

// Classes.
const (
	// Retryable: the receiver is away or busy, or its answer was lost. The same
	// call with the same event ids may be made again at any time.
	Retryable Class = "Retryable"
	// Rejected: the receiver refuses the call and would refuse it again.
	Rejected Class = "Rejected"
	// Misaddressed: whoever answered a delivery is no receiver of events, or not
	// at this address. It says nothing about the events: none of them is to be
	// given up for it. The same call works once the configuration is right.
	Misaddressed Class = "Misaddressed"
	// Unauthorized: the receiver does not accept the credentials. The same call
	// works once they are replaced; until then it only makes noise.
	Unauthorized Class = "Unauthorized"
)

// Error is an error with a class. Its text holds no credential.
type Error struct {
	Class Class
	// Status is the HTTP status, or 0 when there was no answer.
	Status int
	// Kind is the type of the problem (RFC 9457) when the receiver is a Reporting
	// API; otherwise it is empty.
	Kind string
	// RetryAfter is how long the receiver asks to be left alone; 0 when it does
	// not say.
	RetryAfter time.Duration
	Err        error
}

// Error is the class, the status and the cause.
func (e *Error) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("%s: status %d: %v", e.Class, e.Status, e.Err)
	}
	return fmt.Sprintf("%s: %v", e.Class, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ClassOf is the class of an error. An error of no class counts as Retryable: it
// is unknown whether it arrived, and ids make it safe to send it again. The class
// of nil is empty.
func ClassOf(err error) Class {
	var e *Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.Class
	}
	return Retryable
}

// RetryAfter is how long to wait before the call is made again, or 0 when the
// receiver does not say.
func RetryAfter(err error) time.Duration {
	var e *Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}
