package openstack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// answer is what a service says when it refuses.
type answer struct {
	status int
	// kind is the key of the error's object: "forbidden", "overLimit",
	// "NeutronError", "error" of the identity service; empty for an answer without
	// such an object, as gateways in between give it.
	kind string
	// typ is the exception's name, which the network service adds.
	typ  string
	text string
	wait time.Duration
	// login is set for an answer to a login: it says nothing about what was asked
	// for. A credential that was revoked is answered with 404 there.
	login bool
}

// Exceptions of the network service that are told apart.
const (
	typeOverQuota    = "OverQuota"
	typeHasFloating  = "FloatingIPPortAlreadyAssociated"
	typeNoAddress    = "IpAddressGenerationFailure"
	typeNoExternal   = "ExternalIpAddressExhausted"
	typeNoGateway    = "ExternalGatewayForFloatingIPNotFound"
	typeMACGeneratio = "MacAddressGenerationFailure"
)

// answerOf reads the services' errors. ok is false for what is no answer at all.
func answerOf(err error) (a answer, ok bool) {
	var again *gophercloud.ErrUnableToReauthenticate
	if errors.As(err, &again) { // it does not unwrap; why the login failed is what counts
		a, ok = answerOf(again.ErrReauth)
		a.login = true
		return a, ok
	}
	var login *errLogin
	if errors.As(err, &login) {
		a, ok = answerOf(login.err)
		a.login = true
		return a, ok
	}
	var e gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &e) {
		return answer{}, false
	}
	a = answer{status: e.Actual, wait: waitOf(e.ResponseHeader)}
	var body map[string]json.RawMessage
	if json.Unmarshal(e.Body, &body) != nil || len(body) != 1 {
		return a, true
	}
	for kind, raw := range body {
		var obj struct {
			Message string `json:"message"`
			Type    string `json:"type"`
			Detail  any    `json:"detail"`
			Wait    any    `json:"retryAfter"`
		}
		if json.Unmarshal(raw, &obj) != nil {
			var text string // old releases of the network service have a text only
			if json.Unmarshal(raw, &text) != nil {
				return a, true
			}
			obj.Message = text
		}
		a.kind, a.typ, a.text = kind, obj.Type, strings.TrimSpace(obj.Message)
		if n, err := strconv.Atoi(fmt.Sprint(obj.Wait)); err == nil && n > 0 && a.wait == 0 {
			a.wait = time.Duration(n) * time.Second
		}
	}
	return a, true
}

// longestWait bounds the wait that a service asks for.
const longestWait = time.Hour

func waitOf(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if n, err := strconv.Atoi(text); err == nil && n > 0 {
		return min(longestWait, time.Duration(n)*time.Second)
	}
	if at, err := http.ParseTime(text); err == nil {
		now, err := http.ParseTime(h.Get("Date")) // by their clock, so that ours may be wrong
		if err != nil {
			now = time.Now()
		}
		return min(longestWait, max(0, at.Sub(now)))
	}
	return 0
}

func statusOf(err error) int { a, _ := answerOf(err); return a.status }

func typeOf(err error) string { a, _ := answerOf(err); return a.typ }

// notThere reports whether a service says that a thing does not exist. A bare
// 404, as a gateway gives it, says nothing about a thing.
func notThere(err error) bool {
	a, ok := answerOf(err)
	return ok && !a.login && a.status == http.StatusNotFound && a.kind != ""
}

// verdict is what an answer means to us.
type verdict struct {
	class  provider.Class
	reason string
	wait   time.Duration
}

// quotaWords are how the services say that a project's limit is reached. They do
// not agree on a status: compute 403, network 409, volume 413.
// Source: nova/exception.py, neutron_lib/exceptions, cinder/exception.py (Zed) and
// captured answers.
var quotaWords = []string{"quota exceeded", "exceeds allowed", "exceeded quota", "exceeds available", "availablequota", "limitexceeded",
	"maximum number of", "maximum number", "quota has been met", "too many"}

func (a answer) quota() bool {
	if a.typ == typeOverQuota {
		return true
	}
	text := strings.ToLower(a.text)
	for _, w := range quotaWords {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// noHost is how the scheduler says that it is full. Mostly it says so later, as
// the fault of a server in ERROR; some clouds answer a create with it.
const noHost = "no valid host"

// judge finds the class of a service's answer.
func (a answer) judge() verdict {
	text := strings.ToLower(a.text)
	switch {
	case a.status == http.StatusUnauthorized, a.login && a.kind != "" && a.status == http.StatusNotFound:
		return verdict{provider.Permanent, provider.ReasonUnauthorized, 0}
	case a.status == http.StatusTooManyRequests, a.status == 498:
		return verdict{provider.RateLimited, "", a.wait}
	case a.status == http.StatusRequestEntityTooLarge && a.wait > 0 && a.kind != "badRequest":
		return verdict{provider.RateLimited, "", a.wait}
	case a.status >= 400 && a.status < 500 && a.quota():
		return verdict{provider.QuotaExceeded, "", 0}
	case a.status == http.StatusForbidden:
		return verdict{provider.Permanent, provider.ReasonForbidden, 0}
	case a.status == http.StatusNotFound && a.kind == "":
		return verdict{provider.Transient, "", a.wait}
	case a.status == http.StatusNotFound && a.typ == typeNoGateway:
		return verdict{provider.Permanent, provider.ReasonInvalidSpec, 0}
	case a.status == http.StatusNotFound:
		return verdict{provider.NotFound, "", 0}
	case a.status == http.StatusConflict && (a.typ == typeNoAddress || a.typ == typeNoExternal),
		a.status == http.StatusConflict && strings.Contains(text, "no more ip addresses"),
		strings.Contains(text, noHost):
		return verdict{provider.CapacityUnavailable, "", 0}
	case a.status == http.StatusConflict && strings.HasSuffix(text, "is locked"):
		return verdict{provider.Permanent, "", 0}
	case a.status == http.StatusConflict:
		return verdict{provider.Transient, "", a.wait}
	case a.status == http.StatusBadRequest, a.status == http.StatusUnprocessableEntity, a.status == http.StatusRequestEntityTooLarge:
		return verdict{provider.Permanent, provider.ReasonInvalidSpec, 0}
	case a.status == http.StatusNotAcceptable, a.status == http.StatusMethodNotAllowed, a.status == http.StatusGone,
		a.status == http.StatusUnsupportedMediaType:
		return verdict{provider.Permanent, "", 0}
	}
	return verdict{provider.Transient, "", a.wait}
}

// classify is the one place that turns failures into classed errors. Secrets
// that the request held are taken out of the cloud's text.
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
	v := p.judge(op, err)
	if _, now, cerr := p.credentials(context.WithoutCancel(ctx)); cerr == nil {
		secrets = append(secrets, now...)
	}
	if s := p.session.Load(); s != nil {
		secrets = append(secrets, s.secrets...)
	}
	if token := p.client.Token(); token != "" {
		secrets = append(secrets, provider.NewSensitive([]byte(token)))
	}
	out := provider.Wrap(v.class, op, p.name, id, provider.RedactError(stable(err), secrets...))
	if v.reason != "" {
		out = provider.WithReason(out, v.reason)
	}
	return provider.WithRetryAfter(out, v.wait)
}

// judge finds the class of a failure.
func (p *Provider) judge(op provider.Op, err error) verdict {
	var cred *errCredentials
	var place *errPlace
	var config *errConfig
	switch {
	case errors.As(err, &cred):
		return verdict{provider.Transient, provider.ReasonUnauthorized, 0}
	case errors.As(err, &place):
		return verdict{provider.Permanent, provider.ReasonInvalidSpec, 0}
	case errors.As(err, &config):
		return verdict{provider.Permanent, "", 0}
	case errors.Is(err, errVolume):
		return verdict{provider.CapacityUnavailable, "", 0}
	}
	a, ok := answerOf(err)
	if !ok {
		return verdict{provider.Transient, "", 0}
	}
	v := a.judge()
	if v.class == provider.NotFound {
		switch op {
		case provider.OpCreate, provider.OpList, provider.OpListCompanions, opCheck:
			// Something that the spec or the configuration names does not exist.
			return verdict{provider.Permanent, provider.ReasonInvalidSpec, 0}
		case provider.OpGet, provider.OpDelete, provider.OpFind, provider.OpDeleteCompanion:
			// What says that an instance is gone is handled where it is asked for.
			return verdict{provider.Transient, "", 0}
		}
	}
	if v.reason == provider.ReasonInvalidSpec && op != provider.OpCreate {
		v = verdict{provider.Transient, "", 0} // our request, not the spec: such as a state that does not fit yet
	}
	return v
}

// stable is the error without what differs between two equal failures: request
// ids, and the library's words around the cloud's.
func stable(err error) error {
	var login *errLogin
	if errors.As(err, &login) {
		return fmt.Errorf("login: %w", login.text)
	}
	var again *gophercloud.ErrUnableToReauthenticate
	if errors.As(err, &again) {
		if errors.As(again.ErrReauth, &login) {
			return fmt.Errorf("login: %w", login.text)
		}
		return fmt.Errorf("login: %w", stable(again.ErrReauth))
	}
	a, ok := answerOf(err)
	if !ok {
		return err
	}
	kind := cmp.Or(a.typ, a.kind)
	if kind != "" {
		kind = ", " + kind
	}
	return fmt.Errorf("%s (%d%s)", cmp.Or(a.text, http.StatusText(a.status), "no message"), a.status, kind)
}

// errLogin is a login that failed, with a text that is safe to show.
type errLogin struct{ text, err error }

func (e *errLogin) Error() string { return "login: " + e.text.Error() }
func (e *errLogin) Unwrap() error { return e.err }

// errConfig is a configuration that does not fit the cloud.
type errConfig struct{ text string }

func (e *errConfig) Error() string { return e.text }

func (p *Provider) badConfig(format string, args ...any) error {
	return &errConfig{fmt.Sprintf(format, args...)}
}

// refused reports whether the cloud has said that it will not do what was
// asked. What it cannot do now does not count: the parts stay for the next try.
func refused(err error) bool {
	if err == nil || provider.NotSent(err) {
		return false
	}
	var place *errPlace
	if errors.As(err, &place) || errors.Is(err, errVolume) {
		return true
	}
	a, ok := answerOf(err)
	if !ok || a.login {
		return false
	}
	switch a.status {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusTooManyRequests, 498:
		return false
	}
	return a.status >= 400 && a.status < 500 && (a.kind != "" || a.status != http.StatusNotFound) ||
		a.status >= 500 && strings.Contains(strings.ToLower(a.text), noHost)
}

// mayExist reports whether a refusal can be due to a server that exists already.
func mayExist(err error) bool {
	a, ok := answerOf(err)
	return ok && !a.login && (a.status == http.StatusConflict || a.status == http.StatusBadRequest)
}

// namesGone reports whether a refusal is about something of ours that somebody
// has removed meanwhile.
func namesGone(err error, m made) bool {
	a, ok := answerOf(err)
	if !ok || a.login || (a.status != http.StatusBadRequest && a.status != http.StatusNotFound && a.status != http.StatusConflict) {
		return false
	}
	for _, id := range []string{m.port, m.floating, m.volume} {
		if id != "" && strings.Contains(a.text, id) {
			return true
		}
	}
	return false
}

// badMarker reports whether a listing was refused because the entry that a page
// begins after is gone.
func badMarker(err error, marker string) bool {
	a, ok := answerOf(err)
	return ok && !a.login && (a.status == http.StatusBadRequest || a.status == http.StatusNotFound) && strings.Contains(a.text, marker)
}

// invalidSpec is a value of the spec that can never be satisfied.
func (p *Provider) invalidSpec(name, format string, args ...any) error {
	return provider.WithReason(provider.Wrap(provider.Permanent, provider.OpCreate, p.name, name,
		fmt.Errorf(format, args...)), provider.ReasonInvalidSpec)
}
