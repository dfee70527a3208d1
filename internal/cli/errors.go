package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/tollgate-dev/tollgate/internal/codec"
	"github.com/tollgate-dev/tollgate/workflows"
)

// Types of the application errors with which the Proxy workflow ends updates.
const (
	updateDeleting = "Deleting"
	updateLatched  = "Latched"
)

// errNoWorker is the cause with which a call is given up that nobody answers.
var errNoWorker = errors.New("no worker is polling")

// translate turns an error of a Temporal call into one that says what it means
// here. what names the object, such as "proxy default/demo".
func (s *session) translate(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	var own *Error
	if errors.As(err, &own) {
		return err
	}
	e := s.classify(ctx, what, err)
	e.Err = err
	return e
}

func (s *session) classify(ctx context.Context, what string, err error) *Error {
	var (
		notFound     *serviceerror.NotFound
		noNamespace  *serviceerror.NamespaceNotFound
		denied       *serviceerror.PermissionDenied
		invalid      *serviceerror.InvalidArgument
		exhausted    *serviceerror.ResourceExhausted
		precondition *serviceerror.FailedPrecondition
		queryFailed  *serviceerror.QueryFailed
		application  *temporal.ApplicationError
		unavailable  *serviceerror.Unavailable
		deadline     *serviceerror.DeadlineExceeded
		unknownKey   *codec.UnknownKeyError
	)
	switch {
	case errors.Is(context.Cause(ctx), errNoWorker), errors.Is(err, errNoWorker):
		return s.noWorkerError()
	case errors.Is(ctx.Err(), context.Canceled):
		return fail(ExitInterrupted, "", "%s: interrupted", what)
	case errors.As(err, &noNamespace):
		return s.namespaceError()
	case errors.As(err, &denied), strings.Contains(err.Error(), "code = Unauthenticated"):
		return fail(ExitUnavailable, "check TEMPORAL_API_KEY, the TLS files or the profile in temporal.toml",
			"temporal at %s refuses this client: %v", s.conn.Address, err)
	case errors.As(err, &application):
		return updateError(what, application)
	case errors.As(err, &unknownKey), errors.Is(err, codec.ErrNotAuthentic),
		errors.Is(err, converter.ErrUnableToDecode), errors.Is(err, converter.ErrEncodingIsNotSupported):
		return s.decodeError(what, err)
	case errors.As(err, &queryFailed):
		return fail(ExitFailure, "", "%s: the workflow could not answer: %s", what, queryFailed.Message)
	case errors.As(err, &notFound):
		return fail(ExitNotFound, "", "%s does not exist", what)
	case errors.As(err, &precondition) && strings.Contains(precondition.Message, "no poller"):
		return s.noWorkerError()
	case errors.As(err, &invalid):
		return s.invalidError(what, invalid.Message)
	case errors.As(err, &exhausted):
		return fail(ExitUnavailable, "try again in a moment", "%s: temporal is busy: %s", what, exhausted.Message)
	case errors.As(err, &unavailable):
		return s.unavailableError(err)
	case errors.As(err, &deadline), errors.Is(err, context.DeadlineExceeded), errors.As(err, new(*client.WorkflowUpdateServiceTimeoutOrCanceledError)):
		return s.deadlineError(what)
	}
	return fail(ExitFailure, "", "%s: %v", what, err)
}

// updateError is how an update ended that the workflow did not carry out.
func updateError(what string, e *temporal.ApplicationError) *Error {
	switch e.Type() {
	case updateDeleting:
		return fail(ExitConflict, "wait for it with: tollgate proxy delete NAME --wait", "%s: %s", what, e.Message())
	case updateLatched:
		return fail(ExitStuck, "change what the message names; tollgate proxy retry NAME tries again at once", "%s: %s", what, e.Message())
	}
	if strings.Contains(e.Message(), "is being deleted") {
		return fail(ExitConflict, "wait for it with: tollgate proxy delete NAME --wait", "%s: refused: %s", what, e.Message())
	}
	return fail(ExitRefused, "", "%s: refused: %s", what, e.Message())
}

func (s *session) noWorkerError() *Error {
	return fail(ExitNoWorker, fmt.Sprintf("start one with make run, or a tollgate-worker for %s, namespace %s", s.conn.Address, s.conn.Namespace),
		"no worker is polling task queue %s: is make run up?", workflows.TaskQueue)
}

func (s *session) namespaceError() *Error {
	return fail(ExitUnavailable, fmt.Sprintf("create it with: temporal operator namespace create -n %s; or choose another with --temporal-namespace or TEMPORAL_NAMESPACE", s.conn.Namespace),
		"temporal at %s has no namespace %q", s.conn.Address, s.conn.Namespace)
}

func (s *session) unavailableError(err error) *Error {
	return fail(ExitUnavailable, "is make run up? Another address is given by --address, TEMPORAL_ADDRESS or a profile in temporal.toml",
		"temporal cannot be reached at %s: %v", s.conn.Address, err)
}

func (s *session) invalidError(what, msg string) *Error {
	if strings.Contains(msg, "search attribute") {
		var b strings.Builder
		for _, a := range workflows.SearchAttributes() {
			fmt.Fprintf(&b, " --name %s --type %s", a.GetName(), a.GetValueType())
		}
		return fail(ExitUnavailable, "a worker adds them when it starts; or run: temporal operator search-attribute create -n "+s.conn.Namespace+b.String(),
			"temporal namespace %q lacks Tollgate's search attributes: %s", s.conn.Namespace, msg)
	}
	return fail(ExitFailure, "", "%s: temporal refuses the request: %s", what, msg)
}

func (s *session) decodeError(what string, err error) *Error {
	var unknownKey *codec.UnknownKeyError
	switch {
	case errors.As(err, &unknownKey), errors.Is(err, codec.ErrNotAuthentic):
		return fail(ExitFailure, "the key that encrypted it is not in the key file: look with tollgate keys list", "%s: the answer cannot be decrypted: %v", what, err)
	case isSealed(err) && !s.conn.Encrypted:
		return fail(ExitFailure, "give the workers' key file with --codec-key-file or TOLLGATE_CODEC_KEYS; tollgate-dev keeps it as "+devKeyFile+" in its state directory",
			"%s: the answer is encrypted, and no key file is given", what)
	}
	return fail(ExitFailure, "are the workers of another version? look with tollgate version", "%s: the answer cannot be read: %v", what, err)
}

// isSealed reports whether an answer could not be read because it is encrypted
// and this client has no key.
func isSealed(err error) bool { return errors.Is(err, converter.ErrEncodingIsNotSupported) }

// mustRead makes sure that a wait will be able to read its answer, before it
// changes anything. With a key file that is taken for granted.
func (s *session) mustRead(ctx context.Context, o object) error {
	if s.conn.Encrypted {
		return nil
	}
	if _, err := s.status(ctx, o); isSealed(err) {
		return err
	}
	return nil
}

// deadlineError tells a late answer from no worker at all.
func (s *session) deadlineError(what string) *Error {
	// The command's own time is over, the question is cheap.
	ctx, cancel := context.WithTimeout(context.Background(), shortCall)
	defer cancel()
	if s.noWorker(ctx) {
		return s.noWorkerError()
	}
	return fail(ExitTimeout, "what was asked for goes on; --timeout gives more time", "%s: no answer within %s", what, s.timeout)
}
