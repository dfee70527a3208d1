package cli

import (
	"errors"
	"fmt"
)

// ExitCode is the process's exit status. The codes are part of the command
// line's contract: scripts act on them.
type ExitCode int

// The exit codes.
const (
	ExitOK ExitCode = 0
	// ExitFailure is any failure without a code of its own.
	ExitFailure ExitCode = 1
	// ExitUsage: the command line or a document is wrong; nothing was changed.
	ExitUsage ExitCode = 2
	// ExitNotFound: the object does not exist.
	ExitNotFound ExitCode = 3
	// ExitConflict: the object exists already, or is being deleted.
	ExitConflict ExitCode = 4
	// ExitUnavailable: Temporal cannot be reached or refuses this client.
	ExitUnavailable ExitCode = 5
	// ExitNoWorker: Temporal answers and no worker polls Tollgate's task queue.
	ExitNoWorker ExitCode = 6
	// ExitRefused: the workflow's validator refused the request; nothing was
	// changed.
	ExitRefused ExitCode = 7
	// ExitTimeout: the time given by --timeout is over. What was asked for goes on.
	ExitTimeout ExitCode = 8
	// ExitStuck: while waiting, the proxy came to a stop until something is
	// changed: the spec, the provider's configuration or what is at the provider.
	ExitStuck ExitCode = 9
	// ExitNeverHealthy: while waiting, an instance was given up because it was
	// not proven in time.
	ExitNeverHealthy ExitCode = 10
	// ExitUnhealthy: the answer is good and the news is bad: a provider is not
	// ready, a sweep could not do its work.
	ExitUnhealthy ExitCode = 11
	// ExitInterrupted: Ctrl-C. What was asked for goes on.
	ExitInterrupted ExitCode = 130
)

// exitMeanings is the one table of the codes, for help and documentation.
var exitMeanings = []struct {
	Code    ExitCode
	Meaning string
}{
	{ExitOK, "done"},
	{ExitFailure, "failed for a reason without a code of its own"},
	{ExitUsage, "the command line or a document is wrong; nothing was changed"},
	{ExitNotFound, "the object does not exist"},
	{ExitConflict, "the object exists already, or is being deleted"},
	{ExitUnavailable, "Temporal cannot be reached, or refuses this client"},
	{ExitNoWorker, "Temporal answers, and no worker polls Tollgate's task queue"},
	{ExitRefused, "the workflow refused the request; nothing was changed"},
	{ExitTimeout, "the time given by --timeout is over; what was asked for goes on"},
	{ExitStuck, "waiting: the proxy stands still until something is changed"},
	{ExitNeverHealthy, "waiting: an instance was given up because it was not proven in time"},
	{ExitUnhealthy, "a provider is not ready, a sweep could not do its work, or dead letters are left"},
	{ExitInterrupted, "interrupted by Ctrl-C; what was asked for goes on"},
}

// Error is a failure with its exit code and, if there is one, advice.
type Error struct {
	Code ExitCode
	// Msg says what is wrong, in lower case and without a full stop.
	Msg string
	// Hint says what to do, or is empty.
	Hint string
	Err  error
}

func (e *Error) Error() string { return e.Msg }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func fail(code ExitCode, hint, format string, args ...any) *Error {
	return &Error{Code: code, Msg: fmt.Sprintf(format, args...), Hint: hint}
}

func usage(format string, args ...any) *Error { return fail(ExitUsage, "", format, args...) }

// usageErr is a wrong document or value whose own text says it all.
func usageErr(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Code: ExitUsage, Msg: err.Error(), Err: err}
}

// codeOf is the exit code for err: of several joined errors, the first.
func codeOf(err error) ExitCode {
	if err == nil {
		return ExitOK
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ExitFailure
}
