package memory

import (
	"errors"
	"net/http"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// classify is the one place that turns the backend's errors into ours.
func (p *Provider) classify(op provider.Op, id string, err error, secrets ...provider.Sensitive) error {
	if err == nil {
		return nil
	}
	var classed *provider.Error
	if errors.As(err, &classed) {
		return err
	}
	class, reason := provider.Transient, ""
	var api *APIError
	if errors.As(err, &api) {
		class, reason = classOf(op, api)
	}
	out := provider.Wrap(class, op, p.cfg.Name, id, provider.RedactError(err, append(secrets, p.cred)...))
	if reason != "" {
		out = provider.WithReason(out, reason)
	}
	if api != nil {
		out = provider.WithRetryAfter(out, api.RetryAfter)
	}
	return out
}

func classOf(op provider.Op, e *APIError) (provider.Class, string) {
	switch e.Code {
	case "quota":
		return provider.QuotaExceeded, ""
	case "sold_out":
		return provider.CapacityUnavailable, ""
	case "uniqueness":
		return provider.Conflict, ""
	}
	switch e.Status {
	case http.StatusUnauthorized:
		return provider.Permanent, provider.ReasonUnauthorized
	case http.StatusForbidden:
		return provider.Permanent, provider.ReasonForbidden
	case http.StatusNotFound:
		if op == provider.OpCreate {
			// Something that the spec names does not exist.
			return provider.Permanent, provider.ReasonInvalidSpec
		}
		return provider.NotFound, ""
	case http.StatusUnprocessableEntity, http.StatusBadRequest:
		return provider.Permanent, provider.ReasonInvalidSpec
	case http.StatusTooManyRequests:
		return provider.RateLimited, ""
	}
	return provider.Transient, ""
}

func isStatus(err error, status int) bool {
	var api *APIError
	return errors.As(err, &api) && api.Status == status
}

func isCode(err error, code string) bool {
	var api *APIError
	return errors.As(err, &api) && api.Code == code
}
