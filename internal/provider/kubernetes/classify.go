package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// verdict is what a failure means to us.
type verdict struct {
	class  provider.Class
	reason string
}

var (
	transient    = verdict{provider.Transient, ""}
	unauthorized = verdict{provider.Permanent, provider.ReasonUnauthorized}
	forbidden    = verdict{provider.Permanent, provider.ReasonForbidden}
	invalid      = verdict{provider.Permanent, provider.ReasonInvalidSpec}
)

// classify is the one place that turns failures into classed errors. Secrets
// that the request held are taken out of the API server's text.
func (p *Provider) classify(ctx context.Context, op provider.Op, id string, err error, secrets ...provider.Sensitive) error {
	if err == nil {
		return nil
	}
	var classed *provider.Error
	if errors.As(err, &classed) {
		if provider.NotSent(err) { // says less than we know
			err = provider.Wrap(classed.Class, op, p.name, id, classed.Err)
			return provider.WithReason(provider.WithRetryAfter(err, classed.RetryAfter), classed.Reason)
		}
		return err
	}
	v := judge(op, err)
	secrets = append(secrets, p.conn.credentials()...)
	out := provider.Wrap(v.class, op, p.name, id, provider.RedactError(stable(err), secrets...))
	if v.reason != "" {
		out = provider.WithReason(out, v.reason)
	}
	return provider.WithRetryAfter(out, retryAfter(err))
}

// judge finds the class of a failure. The status decides less than the text:
// 403 is a right, a quota, an admission's refusal or an API server that has not
// read its own rights yet.
// Source: answers of kube-apiserver 1.35, see the table of classify_test.go.
func judge(op provider.Op, err error) verdict {
	var access *errAccess
	if errors.As(err, &access) {
		return verdict{provider.Transient, provider.ReasonUnauthorized}
	}
	var early *starting
	if errors.As(err, &early) {
		return verdict{provider.Transient, provider.ReasonForbidden}
	}
	st, ok := statusOf(err)
	if !ok {
		return transient
	}
	switch {
	case bare(st):
		return judgeBare(st)
	case st.Code == http.StatusUnauthorized:
		return unauthorized
	case st.Code == http.StatusForbidden:
		return judgeForbidden(op, st)
	case st.Code == http.StatusTooManyRequests:
		return verdict{provider.RateLimited, ""}
	case st.Code >= 500:
		return transient
	case st.Reason == metav1.StatusReasonAlreadyExists:
		return verdict{provider.Conflict, ""}
	case st.Code == http.StatusConflict:
		return transient
	case portTaken(st):
		return verdict{provider.CapacityUnavailable, ""}
	case (op == provider.OpCreate || op == opCheck) && names404(st):
		// The namespace, or whatever else the request names.
		return verdict{provider.Permanent, ""}
	case isNotFound(err):
		return verdict{provider.NotFound, ""}
	case st.Code == http.StatusBadRequest, st.Code == http.StatusUnprocessableEntity, st.Code == http.StatusRequestEntityTooLarge:
		return invalid
	case st.Code == http.StatusMethodNotAllowed, st.Code == http.StatusNotAcceptable, st.Code == http.StatusUnsupportedMediaType:
		return verdict{provider.Permanent, ""}
	}
	return transient
}

// judgeBare judges an answer that is no Status of an API server, as gateways in
// between give it. Such a 404 says nothing about an instance.
func judgeBare(st metav1.Status) verdict {
	switch st.Code {
	case http.StatusUnauthorized:
		return unauthorized
	case http.StatusTooManyRequests:
		return verdict{provider.RateLimited, ""}
	}
	return transient
}

// judgeForbidden tells the refusals apart.
func judgeForbidden(op provider.Op, st metav1.Status) verdict {
	text := st.Message
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(s string) bool { return strings.Contains(text, s) })
	}
	switch {
	case has("exceeded quota:"):
		return verdict{provider.QuotaExceeded, ""}
	case has("system:anonymous"), has("RBAC: ") && has("not found"):
		// We show credentials with each request: an API server that takes us for
		// nobody, or knows of a role and not what is in it, is not ready, whatever it
		// says of itself.
		return verdict{provider.Transient, provider.ReasonForbidden}
	case has("status unknown for quota", "not yet ready to handle request"):
		return transient
	case has(`error looking up service account`) && has(`serviceaccount "default" not found`):
		return transient // of a namespace that was made just now
	case slices.ContainsFunc(causes(st), func(c metav1.StatusCause) bool { return string(c.Type) == "NamespaceTerminating" }):
		return verdict{provider.Permanent, ""}
	case op != provider.OpCreate && op != opCheck, rightDenied(text):
		return forbidden
	}
	// Who may create and is refused nevertheless is so by admission: a policy, a
	// LimitRange, a webhook, in words that every cluster has others of.
	return invalid
}

// rightDenied reports whether a text is an authorizer's refusal.
func rightDenied(text string) bool {
	return strings.Contains(text, "is forbidden: User ") && strings.Contains(text, " cannot ")
}

func deniesRight(err error) bool {
	st, ok := statusOf(err)
	return ok && !bare(st) && st.Code == http.StatusForbidden && rightDenied(st.Message)
}

func causes(st metav1.Status) []metav1.StatusCause {
	if st.Details == nil {
		return nil
	}
	return st.Details.Causes
}

// statusOf is the API server's word on a failure.
func statusOf(err error) (metav1.Status, bool) {
	var api apierrors.APIStatus
	if errors.As(err, &api) {
		return api.Status(), true
	}
	return metav1.Status{}, false
}

// bare reports whether an answer carried no Status, so that the client library
// made one up from the number.
func bare(st metav1.Status) bool {
	return slices.ContainsFunc(causes(st), func(c metav1.StatusCause) bool { return c.Type == metav1.CauseTypeUnexpectedServerResponse })
}

// isNotFound reports whether the API server says that the object that was asked
// for does not exist. A 404 of somebody else, about a path, or about what the
// object is in (the cluster, as seen by a gateway to many) does not say so.
func isNotFound(err error) bool {
	st, ok := statusOf(err)
	var api *apiError
	return ok && names404(st) && errors.As(err, &api) && api.name != "" && st.Details.Kind == api.resource && st.Details.Name == api.name
}

// names404 reports whether an API server says of something that it names that it
// does not exist.
func names404(st metav1.Status) bool {
	return st.Code == http.StatusNotFound && st.Reason == metav1.StatusReasonNotFound && !bare(st) &&
		st.Details != nil && st.Details.Kind != "" && st.Details.Name != ""
}

func isReason(err error, reason metav1.StatusReason) bool {
	st, ok := statusOf(err)
	return ok && st.Reason == reason && !bare(st)
}

// portTaken reports whether a Service was refused because another one has its
// node port.
func portTaken(st metav1.Status) bool {
	return st.Code == http.StatusUnprocessableEntity && strings.Contains(st.Message, "provided port is already allocated")
}

// refused reports whether the API server has certainly not done what was asked,
// and says so for a reason that need not hold for the object as it exists: it
// looks at quotas and policies before it looks whether the object is there.
func refused(err error) bool {
	st, ok := statusOf(err)
	return ok && !bare(st) && st.Code >= 400 && st.Code < 500 && st.Code != http.StatusUnauthorized && st.Code != http.StatusTooManyRequests
}

// retryAfter is the wait that an answer asks for, zero when it says nothing.
func retryAfter(err error) time.Duration {
	var wait time.Duration
	if st, ok := statusOf(err); ok && st.Details != nil {
		wait = time.Duration(min(max(st.Details.RetryAfterSeconds, 0), maxWait)) * time.Second
	}
	var api *apiError
	if errors.As(err, &api) {
		wait = max(wait, api.retryAfter)
	}
	return wait
}

// stable is the error without what differs between two equal failures.
func stable(err error) error {
	var early *starting
	if errors.As(err, &early) {
		return &starting{stable(early.err)}
	}
	st, ok := statusOf(err)
	if !ok {
		return err
	}
	if bare(st) {
		return fmt.Errorf("status %d without a word of an API server: %s", st.Code, st.Message)
	}
	if st.Reason == "" {
		return fmt.Errorf("%s (%d)", st.Message, st.Code)
	}
	return fmt.Errorf("%s (%d %s)", st.Message, st.Code, st.Reason)
}

// invalidSpec is a value of the spec that can never be satisfied.
func (p *Provider) invalidSpec(name, format string, args ...any) error {
	return provider.WithReason(provider.Wrap(provider.Permanent, provider.OpCreate, p.name, name,
		fmt.Errorf(format, args...)), provider.ReasonInvalidSpec)
}
