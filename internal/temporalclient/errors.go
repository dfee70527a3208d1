package temporalclient

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc/codes"
)

// UnreachableError says that no Temporal server answered.
type UnreachableError struct {
	Address string
	Timeout time.Duration // what one attempt was given
	TLS     bool          // whether TLS was used
	Err     error         // the last attempt's
}

func (e *UnreachableError) Error() string {
	with, hint := "without TLS", "TEMPORAL_TLS=true if the server wants TLS"
	if e.TLS {
		with, hint = "with TLS", "the TEMPORAL_TLS_* settings, or TEMPORAL_TLS=false if the server has no TLS"
	}
	return fmt.Sprintf("no temporal server answers at %s (%s, waited at most %s): %v; "+
		"check that one runs there (make run starts one at %s), TEMPORAL_ADDRESS or the profile in temporal.toml, and %s",
		e.Address, with, e.Timeout, e.Err, client.DefaultHostPort, hint)
}

func (e *UnreachableError) Unwrap() error { return e.Err }

// explain says what an error of the server means to whoever configures us.
func explain(err error, opts client.Options, timeout time.Duration) error {
	var (
		unavailable *serviceerror.Unavailable
		deadline    *serviceerror.DeadlineExceeded
		canceled    *serviceerror.Canceled
		denied      *serviceerror.PermissionDenied
		noNamespace *serviceerror.NamespaceNotFound
		notFound    *serviceerror.NotFound
	)
	switch {
	case errors.As(err, &noNamespace), errors.As(err, &notFound):
		return fmt.Errorf("namespace %q does not exist at %s: set TEMPORAL_NAMESPACE, or create it with "+
			"`temporal operator namespace create --namespace %s`: %w", opts.Namespace, opts.HostPort, opts.Namespace, err)
	case errors.As(err, &denied), isUnauthenticated(err):
		return fmt.Errorf("temporal at %s refuses the credentials for namespace %q: check TEMPORAL_API_KEY "+
			"or the client certificate in TEMPORAL_TLS_CLIENT_*: %w", opts.HostPort, opts.Namespace, err)
	case errors.As(err, &unavailable), errors.As(err, &deadline), errors.As(err, &canceled):
		return &UnreachableError{
			Address: opts.HostPort, Timeout: timeout, Err: err,
			TLS: opts.ConnectionOptions.TLS != nil || opts.Credentials != nil && !opts.ConnectionOptions.TLSDisabled,
		}
	}
	return fmt.Errorf("connect to temporal at %s: %w", opts.HostPort, err)
}

func isUnauthenticated(err error) bool {
	return serviceerror.ToStatus(err).Code() == codes.Unauthenticated
}
