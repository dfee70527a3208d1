package gardener

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// isAnonymous reports that an API server calls its caller anonymous: it cannot
// check the credential yet.
func isAnonymous(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && strings.Contains(status.Status().Message, `"system:anonymous"`)
}

// Classify classes a failure of a call. name is the configured name of whoever
// called, id what the call was about, if it was one object. Only status and reason
// of the API server go into the text: a message may repeat what it was sent. What
// is classed already stays as it is.
func Classify(op provider.Op, name, id string, err error) error {
	if err == nil {
		return nil
	}
	var classed *provider.Error
	if errors.As(err, &classed) {
		if classed.Provider == "" {
			classed.Provider = name
		}
		return classed
	}
	wrap := func(class provider.Class, reason string, text error) error {
		return provider.WithReason(provider.Wrap(class, op, name, id, text), reason)
	}
	var config *errConfig
	var credential *errCredential
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &config):
		return wrap(provider.Permanent, provider.ReasonUnauthorized, config)
	case errors.As(err, &credential):
		// What cannot be read now may be readable soon.
		return wrap(provider.Transient, provider.ReasonUnauthorized, credential)
	case !errors.As(err, &status):
		return wrap(provider.Transient, "", err)
	}
	s := status.Status()
	text := fmt.Errorf("the API server answered with status %d, %s", s.Code, s.Reason)
	switch s.Code {
	case http.StatusUnauthorized:
		return wrap(provider.Permanent, provider.ReasonUnauthorized, text)
	case http.StatusForbidden:
		if isAnonymous(err) {
			// An API server that has just started does not know its callers yet.
			return wrap(provider.Transient, provider.ReasonUnauthorized, fmt.Errorf("%w, to an anonymous caller", text))
		}
		return wrap(provider.Permanent, provider.ReasonForbidden, text)
	case http.StatusNotFound:
		if IsNotFound(err) {
			return wrap(provider.NotFound, "", text)
		}
		// An API that is not served now: its server may be starting.
		return wrap(provider.Transient, "", fmt.Errorf("%w: it does not serve this API now", text))
	case http.StatusConflict:
		return wrap(provider.Conflict, "", text)
	case http.StatusTooManyRequests:
		return provider.WithRetryAfter(wrap(provider.RateLimited, "", text), retryAfter(s))
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return wrap(provider.Permanent, "", text)
	}
	return provider.WithRetryAfter(wrap(provider.Transient, "", text), retryAfter(s))
}

func retryAfter(s metav1.Status) time.Duration {
	if s.Details == nil {
		return 0
	}
	return time.Duration(s.Details.RetryAfterSeconds) * time.Second
}

// IsNotFound reports that the object that was asked for does not exist. An API
// that is not served is another matter.
func IsNotFound(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	s := status.Status()
	return s.Code == http.StatusNotFound && s.Details != nil && s.Details.Name != "" &&
		!apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// IsExpired reports that the API server no longer has a resourceVersion: 410 of a
// list, or an ERROR event of a watch.
func IsExpired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// IsFuture reports that the API server has not come to a resourceVersion yet: it
// lags behind another one, or was restored from a backup.
func IsFuture(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}
