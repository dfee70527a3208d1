package hetzner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// verdict is what a vendor's error code means to us.
type verdict struct {
	class  provider.Class
	reason string
}

// Codes that the vendor's client has no name for.
const (
	codeUnavailable      hcloud.ErrorCode = "unavailable"
	codeMethodNotAllowed hcloud.ErrorCode = "method_not_allowed"
	codeTokenReadonly    hcloud.ErrorCode = "token_readonly"
	codeMustBeUnassigned hcloud.ErrorCode = "must_be_unassigned"
	codeGroupFull        hcloud.ErrorCode = "already_in_placement_group"
	codeFloatingAssigned hcloud.ErrorCode = "floating_ip_assigned"
)

// verdicts is the table of the vendor's codes. The status says less than the
// code: 403 is a right, a limit or maintenance, 409 a taken name or a retry, 422
// a mistake, a wrong order or a sold-out host.
// Source: https://docs.hetzner.cloud (errors of the reference, read 2026-11) and
// hcloud-go v2.52.0.
var verdicts = map[hcloud.ErrorCode]verdict{
	hcloud.ErrorCodeNotFound: {provider.NotFound, ""},

	hcloud.ErrorCodeResourceLimitExceeded: {provider.QuotaExceeded, ""},
	hcloud.ErrorCodeRateLimitExceeded:     {provider.RateLimited, ""},

	hcloud.ErrorCodeResourceUnavailable:   {provider.CapacityUnavailable, ""},
	hcloud.ErrorCodePlacementError:        {provider.CapacityUnavailable, ""},
	hcloud.ErrorCodeNoSpaceLeftInLocation: {provider.CapacityUnavailable, ""},

	hcloud.ErrorCodeUniquenessError: {provider.Conflict, ""},

	// The vendor is busy or broken.
	hcloud.ErrorCodeConflict:         {provider.Transient, ""},
	hcloud.ErrorCodeLocked:           {provider.Transient, ""},
	hcloud.ErrorCodeMaintenance:      {provider.Transient, ""},
	hcloud.ErrorCodeServerError:      {provider.Transient, ""},
	hcloud.ErrorCodeBadGateway:       {provider.Transient, ""},
	codeUnavailable:                  {provider.Transient, ""},
	hcloud.ErrorCodeTimeout:          {provider.Transient, ""},
	hcloud.ErrorCodeServiceError:     {provider.Transient, ""},
	hcloud.ErrorCodeRobotUnavailable: {provider.Transient, ""},
	hcloud.ErrorCodeUnknownError:     {provider.Transient, ""},

	// Things are not yet in the state that the request needs.
	hcloud.ErrorCodeServerNotStopped:           {provider.Transient, ""},
	codeMustBeUnassigned:                       {provider.Transient, ""},
	hcloud.ErrorCodePrimaryIPAssigned:          {provider.Transient, ""},
	hcloud.ErrorCodePrimaryIPAlreadyAssigned:   {provider.Transient, ""},
	hcloud.ErrorCodeResourceInUse:              {provider.Transient, ""},
	hcloud.ErrorCodeServerAlreadyAttached:      {provider.Transient, ""},
	hcloud.ErrorCodeVolumeAlreadyAttached:      {provider.Transient, ""},
	hcloud.ErrorCodeServerHasIPv4:              {provider.Transient, ""},
	hcloud.ErrorCodeServerHasIPv6:              {provider.Transient, ""},
	hcloud.ErrorCodeServerAlreadyAdded:         {provider.Transient, ""},
	hcloud.ErrorCodeFirewallAlreadyApplied:     {provider.Transient, ""},
	hcloud.ErrorCodeFirewallResourceNotFound:   {provider.Transient, ""},
	hcloud.ErrorCodeIPNotAvailable:             {provider.Transient, ""},
	hcloud.ErrorCodeServerIsLoadBalancerTarget: {provider.Transient, ""},
	codeGroupFull:        {provider.Transient, ""},
	codeFloatingAssigned: {provider.Transient, ""},

	hcloud.ErrorCodeUnauthorized: {provider.Permanent, provider.ReasonUnauthorized},
	hcloud.ErrorCodeForbidden:    {provider.Permanent, provider.ReasonForbidden},
	codeTokenReadonly:            {provider.Permanent, provider.ReasonForbidden},

	// The same request fails again.
	hcloud.ErrorCodeInvalidInput:                   {provider.Permanent, provider.ReasonInvalidSpec},
	hcloud.ErrorCodeInvalidServerType:              {provider.Permanent, provider.ReasonInvalidSpec},
	hcloud.ErrorUnsupportedError:                   {provider.Permanent, provider.ReasonInvalidSpec},
	hcloud.ErrorCodePrimaryIPVersionMismatch:       {provider.Permanent, ""},
	hcloud.ErrorCodePrimaryIPDatacenterMismatch:    {provider.Permanent, ""},
	hcloud.ErrorCodeNetworksOverlap:                {provider.Permanent, ""},
	hcloud.ErrorCodeNoSubnetAvailable:              {provider.Permanent, ""},
	hcloud.ErrorCodeIncompatibleNetworkType:        {provider.Permanent, ""},
	hcloud.ErrorCodePrivateNetOnlyServer:           {provider.Permanent, ""},
	hcloud.ErrorCodeFirewallManagedByLabelSelector: {provider.Permanent, ""},
	hcloud.ErrorCodeProtected:                      {provider.Permanent, ""},
	hcloud.ErrorCodeResourceLocked:                 {provider.Permanent, ""},
	hcloud.ErrorCodeJSONError:                      {provider.Permanent, ""},
	codeMethodNotAllowed:                           {provider.Permanent, ""},
	hcloud.ErrorDeprecatedAPIEndpoint:              {provider.Permanent, ""},
}

// classify is the one place that turns failures into classed errors. Secrets
// that the request held are taken out of the vendor's text.
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
	v, wait := p.judge(ctx, op, err)
	if token, terr := p.tokenSecret(context.WithoutCancel(ctx)); terr == nil {
		secrets = append(secrets, token)
	}
	out := provider.Wrap(v.class, op, p.name, id, provider.RedactError(stable(err), secrets...))
	if v.reason != "" {
		out = provider.WithReason(out, v.reason)
	}
	return provider.WithRetryAfter(out, wait)
}

// judge finds the class of a failure and the wait that it asks for.
func (p *Provider) judge(ctx context.Context, op provider.Op, err error) (verdict, time.Duration) {
	var token *errToken
	if errors.As(err, &token) {
		return verdict{provider.Transient, provider.ReasonUnauthorized}, 0
	}
	code, ok := codeOf(err)
	if !ok {
		return bareStatus(err), 0
	}
	v, known := verdicts[code]
	if !known {
		p.warnOnce(ctx, "code "+string(code), "unknown error code, taken for transient", "code", string(code))
		v = verdict{provider.Transient, ""}
	}
	switch {
	case v.class == provider.NotFound && (op == provider.OpCreate || op == provider.OpList || op == provider.OpListCompanions):
		// Something that the spec or the configuration names does not exist.
		return verdict{provider.Permanent, provider.ReasonInvalidSpec}, 0
	case v.class == provider.RateLimited:
		return v, retryAfter(err)
	case code == hcloud.ErrorCodeLocked, code == hcloud.ErrorCodeConflict:
		return v, p.opt.Poll
	}
	return v, 0
}

// bareStatus judges an answer without the vendor's error body, as gateways in
// between give it. Such a 404 says nothing about an instance.
func bareStatus(err error) verdict {
	switch statusOf(err) {
	case http.StatusUnauthorized:
		return verdict{provider.Permanent, provider.ReasonUnauthorized}
	case http.StatusTooManyRequests:
		return verdict{provider.RateLimited, ""}
	}
	return verdict{provider.Transient, ""}
}

// statusOf is the status of an answer that had no error body, 0 for any other
// failure. The vendor's client hands it over in the text only.
func statusOf(err error) int {
	if !errors.Is(err, hcloud.ErrStatusCode) {
		return 0
	}
	text := err.Error()
	n, _ := strconv.Atoi(text[strings.LastIndexByte(text, ' ')+1:])
	return n
}

// actionError is an action of the vendor that ended in error.
type actionError struct{ code, text string }

func (e *actionError) Error() string { return fmt.Sprintf("%s (%s)", e.text, e.code) }

// codeOf is the vendor's code of a failure.
func codeOf(err error) (hcloud.ErrorCode, bool) {
	var api hcloud.Error
	if errors.As(err, &api) {
		return api.Code, true
	}
	var action *actionError
	if errors.As(err, &action) {
		return hcloud.ErrorCode(action.code), true
	}
	return "", false
}

func isCode(err error, codes ...hcloud.ErrorCode) bool {
	code, ok := codeOf(err)
	return ok && slices.Contains(codes, code)
}

// longestWait bounds the wait after a 429. The vendor names the time at which
// the whole budget is back, up to an hour; a part of it is back long before.
const longestWait = time.Minute

// retryAfter is the wait that a 429 asks for, zero when it says nothing.
func retryAfter(err error) time.Duration {
	var api hcloud.Error
	if !errors.As(err, &api) || api.Response() == nil || api.Response().Response == nil {
		return 0
	}
	h := api.Response().Header
	if s, err := strconv.Atoi(h.Get("Retry-After")); err == nil && s > 0 {
		return time.Duration(s) * time.Second
	}
	full, err := strconv.ParseInt(h.Get("RateLimit-Reset"), 10, 64)
	if err != nil {
		return 0
	}
	// By the vendor's clock where it is told, so that ours may be wrong.
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return min(longestWait, max(time.Second, time.Unix(full, 0).Sub(now)))
}

// stable is the error without what differs between two equal failures: the
// vendor's correlation id. Fields that the vendor names stay.
func stable(err error) error {
	var api hcloud.Error
	if !errors.As(err, &api) {
		return err
	}
	text := cmp.Or(api.Message, "no message")
	if d, ok := api.Details.(hcloud.ErrorDetailsInvalidInput); ok {
		for _, f := range d.Fields {
			text += fmt.Sprintf("; %s: %s", f.Name, strings.Join(f.Messages, ", "))
		}
	}
	return fmt.Errorf("%s (%s)", text, api.Code)
}

// fieldsOf are the request's fields that an invalid_input is about.
func fieldsOf(err error) []string {
	var api hcloud.Error
	if !errors.As(err, &api) {
		return nil
	}
	d, _ := api.Details.(hcloud.ErrorDetailsInvalidInput)
	var out []string
	for _, f := range d.Fields {
		out = append(out, f.Name)
	}
	return out
}

// refused reports whether the vendor has certainly not done what was asked.
func refused(err error) bool {
	code, ok := codeOf(err)
	if !ok {
		return false
	}
	switch code {
	case hcloud.ErrorCodeServerError, hcloud.ErrorCodeBadGateway, codeUnavailable, hcloud.ErrorCodeTimeout, hcloud.ErrorCodeUnknownError:
		return false
	}
	return true
}

// invalidSpec is a value of the spec that can never be satisfied.
func (p *Provider) invalidSpec(name, format string, args ...any) error {
	return provider.WithReason(provider.Wrap(provider.Permanent, provider.OpCreate, p.name, name,
		fmt.Errorf(format, args...)), provider.ReasonInvalidSpec)
}
