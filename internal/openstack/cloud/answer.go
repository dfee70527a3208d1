package cloud

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Answer is what a service says when it refuses.
type Answer struct {
	Status int
	// Kind is the key of the error's object: "forbidden", "overLimit",
	// "NeutronError", "error" of the identity service; empty for an answer without
	// such an object, as gateways in between give it.
	Kind string
	// Type is the exception's name, which the network service adds.
	Type string
	Text string
	// Wait is how long it asks to wait, an hour at the most; 0 if it does not.
	Wait time.Duration
	// Login is set for an answer to a login: it says nothing about what was asked
	// for. A credential that was revoked is answered with 404 there.
	Login bool
}

// Exceptions of the network service that are told apart.
const (
	TypeOverQuota     = "OverQuota"
	TypeHasFloating   = "FloatingIPPortAlreadyAssociated"
	TypeNoAddress     = "IpAddressGenerationFailure"
	TypeNoExternal    = "ExternalIpAddressExhausted"
	TypeNoGateway     = "ExternalGatewayForFloatingIPNotFound"
	TypeMACGeneration = "MacAddressGenerationFailure"
	TypeNoResource    = "HTTPNotFound"
)

// AnswerOf reads the services' errors. ok is false for what is no answer at all.
func AnswerOf(err error) (a Answer, ok bool) {
	var again *gophercloud.ErrUnableToReauthenticate
	if errors.As(err, &again) { // it does not unwrap; why the login failed is what counts
		a, ok = AnswerOf(again.ErrReauth)
		a.Login = true
		return a, ok
	}
	var login *LoginError
	if errors.As(err, &login) {
		a, ok = AnswerOf(login.Err)
		a.Login = true
		return a, ok
	}
	var e gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &e) {
		return Answer{}, false
	}
	a = Answer{Status: e.Actual, Wait: waitOf(e.ResponseHeader)}
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
			if json.Unmarshal(raw, &text) != nil || kind != "NeutronError" {
				return a, true
			}
			obj.Message = text
		}
		a.Kind, a.Type, a.Text = kind, obj.Type, strings.TrimSpace(obj.Message)
		if n, err := strconv.Atoi(fmt.Sprint(obj.Wait)); err == nil && n > 0 && a.Wait == 0 {
			a.Wait = time.Duration(n) * time.Second
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

// StatusOf is the HTTP status of a refusal, 0 for what is no answer.
func StatusOf(err error) int { a, _ := AnswerOf(err); return a.Status }

// TypeOf is the network service's exception, "" for anything else.
func TypeOf(err error) string { a, _ := AnswerOf(err); return a.Type }

// Absent reports whether a service says that a thing does not exist: in the words
// of the compute and the volume service, or of the network service. Any other 404,
// as gateways in front of them give it with texts of their own, says nothing about
// a thing.
func (a Answer) Absent() bool {
	return a.Status == http.StatusNotFound && !a.Login && (a.Kind == "itemNotFound" || a.Kind == "NeutronError")
}

// NotThere reports whether an error is an answer that says Absent.
func NotThere(err error) bool {
	a, ok := AnswerOf(err)
	return ok && a.Absent()
}

// Verdict is what an answer means to us.
type Verdict struct {
	Class  provider.Class
	Reason string
	Wait   time.Duration
}

// quotaWords are how the services say that a project's limit is reached. They do
// not agree on a status: compute 403, network 409, volume 413.
// Source: nova/exception.py, neutron_lib/exceptions, cinder/exception.py (Zed) and
// captured answers.
var quotaWords = []string{"quota exceeded", "exceeds allowed", "exceeded quota", "exceeds available", "availablequota", "limitexceeded",
	"maximum number of", "maximum number", "quota has been met", "too many"}

// Quota reports whether a limit of the project is reached.
func (a Answer) Quota() bool {
	if a.Type == TypeOverQuota {
		return true
	}
	text := strings.ToLower(a.Text)
	for _, w := range quotaWords {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// NoHost is how the scheduler says that it is full. Mostly it says so later, as
// the fault of a server in ERROR; some clouds answer a create with it.
const NoHost = "no valid host"

// Judge finds the class of a service's answer.
func (a Answer) Judge() Verdict {
	text := strings.ToLower(a.Text)
	switch {
	case a.Status == http.StatusUnauthorized, a.Login && a.Kind != "" && a.Status == http.StatusNotFound:
		return Verdict{provider.Permanent, provider.ReasonUnauthorized, 0}
	case a.Status == http.StatusTooManyRequests, a.Status == 498:
		return Verdict{provider.RateLimited, "", a.Wait}
	case a.Status == http.StatusRequestEntityTooLarge && a.Wait > 0 && a.Kind != "badRequest":
		return Verdict{provider.RateLimited, "", a.Wait}
	case a.Status >= 400 && a.Status < 500 && a.Quota():
		return Verdict{provider.QuotaExceeded, "", 0}
	case a.Status == http.StatusForbidden:
		return Verdict{provider.Permanent, provider.ReasonForbidden, 0}
	case a.Status == http.StatusNotFound && !a.Absent():
		return Verdict{provider.Transient, "", a.Wait}
	case a.Status == http.StatusNotFound && a.Type == TypeNoGateway:
		return Verdict{provider.Permanent, provider.ReasonInvalidSpec, 0}
	case a.Status == http.StatusNotFound:
		return Verdict{provider.NotFound, "", 0}
	case a.Status == http.StatusConflict && (a.Type == TypeNoAddress || a.Type == TypeNoExternal),
		a.Status == http.StatusConflict && strings.Contains(text, "no more ip addresses"),
		strings.Contains(text, NoHost):
		return Verdict{provider.CapacityUnavailable, "", 0}
	case a.Status == http.StatusConflict && strings.HasSuffix(text, "is locked"):
		return Verdict{provider.Permanent, "", 0}
	case a.Status == http.StatusConflict:
		return Verdict{provider.Transient, "", a.Wait}
	case a.Status == http.StatusBadRequest, a.Status == http.StatusUnprocessableEntity, a.Status == http.StatusRequestEntityTooLarge:
		return Verdict{provider.Permanent, provider.ReasonInvalidSpec, 0}
	case a.Status == http.StatusNotAcceptable, a.Status == http.StatusMethodNotAllowed, a.Status == http.StatusGone,
		a.Status == http.StatusUnsupportedMediaType:
		return Verdict{provider.Permanent, "", 0}
	}
	return Verdict{provider.Transient, "", a.Wait}
}

// Stable is the error without what differs between two equal failures: request
// ids, and the library's words around the cloud's.
func Stable(err error) error {
	var login *LoginError
	if errors.As(err, &login) {
		return fmt.Errorf("login: %w", login.Text)
	}
	var again *gophercloud.ErrUnableToReauthenticate
	if errors.As(err, &again) {
		if errors.As(again.ErrReauth, &login) {
			return fmt.Errorf("login: %w", login.Text)
		}
		return fmt.Errorf("login: %w", Stable(again.ErrReauth))
	}
	a, ok := AnswerOf(err)
	if !ok {
		return err
	}
	kind := cmp.Or(a.Type, a.Kind)
	if kind != "" {
		kind = ", " + kind
	}
	var after *gophercloud.ErrErrorAfterReauthentication
	var e gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &after) && a.Status == http.StatusUnauthorized && errors.As(err, &e) {
		return fmt.Errorf("the login is good and %s %s is refused all the same (401): do the access rules of the credential leave it out?",
			e.Method, pathOf(e.URL))
	}
	return fmt.Errorf("%s (%d%s)", cmp.Or(a.Text, http.StatusText(a.Status), "no message"), a.Status, kind)
}

// pathOf is the path of a URL, without what is asked for.
func pathOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "the request"
	}
	return u.Path
}

// LoginError is a login that failed, with a text that is safe to show.
type LoginError struct{ Text, Err error }

// Error implements error.
func (e *LoginError) Error() string { return "login: " + e.Text.Error() }

// Unwrap gives the identity service's error.
func (e *LoginError) Unwrap() error { return e.Err }

// ConfigError is a configuration that does not fit the cloud.
type ConfigError struct{ Text string }

// Error implements error.
func (e *ConfigError) Error() string { return e.Text }

// BadConfig makes a ConfigError.
func BadConfig(format string, args ...any) error {
	return &ConfigError{fmt.Sprintf(format, args...)}
}

// MissingError is a configured region that the cloud's catalogue does not have
// enough of, while it has others. It may be mistyped; it may as well be taken out
// for a while, so that waiting for it makes sense.
type MissingError struct{ Text string }

// Error implements error.
func (e *MissingError) Error() string { return e.Text }

// PlaceError is a value that the cloud does not know.
type PlaceError struct{ Field, Value, Want string }

// BadPlace makes a PlaceError.
func BadPlace(field, value, want string) error { return &PlaceError{field, value, want} }

// Error implements error.
func (e *PlaceError) Error() string { return fmt.Sprintf("%s: %q: %s", e.Field, e.Value, e.Want) }

// ErrAnswer is an answer that is no JSON of the form that was asked for.
var ErrAnswer = errors.New("the answer lacks the object that was asked for")

// BadMarker reports whether a listing was refused because the entry that a page
// begins after is gone.
func BadMarker(err error, marker string) bool {
	a, ok := AnswerOf(err)
	return ok && !a.Login && (a.Status == http.StatusBadRequest || a.Status == http.StatusNotFound) && strings.Contains(a.Text, marker)
}
