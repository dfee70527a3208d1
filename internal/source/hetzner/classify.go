package hetzner

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// longestWait bounds the wait after a 429: the vendor names the time at which the
// whole budget is back, and a part of it is back long before.
const longestWait = time.Minute

// wrap classes a failure of a read. Only the vendor's code and status go into the
// text: a message may repeat what it was sent.
func (s *Source) wrap(op provider.Op, err error) error {
	var classed *provider.Error
	if errors.As(err, &classed) {
		if classed.Provider == "" {
			classed.Provider = s.name
		}
		return classed
	}
	var token *errToken
	if errors.As(err, &token) {
		// A secret that cannot be read now may be readable soon.
		return provider.WithReason(provider.Wrap(provider.Transient, op, s.name, "", token), provider.ReasonUnauthorized)
	}
	var api hcloud.Error
	if errors.As(err, &api) {
		return s.judge(op, api)
	}
	if errors.Is(err, hcloud.ErrStatusCode) {
		text := err.Error()
		status, _ := strconv.Atoi(text[strings.LastIndexByte(text, ' ')+1:])
		out := provider.Wrap(provider.Transient, op, s.name, "", fmt.Errorf("status %d without an explanation", status))
		switch status {
		case http.StatusUnauthorized:
			return provider.WithReason(provider.Wrap(provider.Permanent, op, s.name, "", errors.New("status 401")), provider.ReasonUnauthorized)
		case http.StatusTooManyRequests:
			return provider.Wrap(provider.RateLimited, op, s.name, "", errors.New("status 429"))
		}
		return out
	}
	return provider.Wrap(provider.Transient, op, s.name, "", err)
}

func (s *Source) judge(op provider.Op, api hcloud.Error) error {
	text := fmt.Errorf("the vendor answered with %s", api.Code)
	if r := api.Response(); r != nil && r.Response != nil {
		text = fmt.Errorf("the vendor answered with status %d, %s", r.StatusCode, api.Code)
	}
	class, reason := provider.Transient, ""
	switch api.Code {
	case hcloud.ErrorCodeUnauthorized:
		class, reason = provider.Permanent, provider.ReasonUnauthorized
	case hcloud.ErrorCodeForbidden, "token_readonly":
		class, reason = provider.Permanent, provider.ReasonForbidden
	case hcloud.ErrorCodeNotFound:
		class = provider.NotFound
	case hcloud.ErrorCodeRateLimitExceeded:
		return provider.WithRetryAfter(provider.Wrap(provider.RateLimited, op, s.name, "", text), retryAfter(api))
	case hcloud.ErrorCodeInvalidInput, hcloud.ErrorCodeJSONError, hcloud.ErrorDeprecatedAPIEndpoint, "method_not_allowed":
		class = provider.Permanent
	}
	return provider.WithReason(provider.Wrap(class, op, s.name, "", text), reason)
}

func retryAfter(api hcloud.Error) time.Duration {
	r := api.Response()
	if r == nil || r.Response == nil {
		return 0
	}
	if n, err := strconv.Atoi(r.Header.Get("Retry-After")); err == nil && n > 0 {
		return time.Duration(n) * time.Second
	}
	full, err := strconv.ParseInt(r.Header.Get("RateLimit-Reset"), 10, 64)
	if err != nil {
		return 0
	}
	return min(longestWait, max(time.Second, time.Until(time.Unix(full, 0))))
}
