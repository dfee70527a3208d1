package hetznersim

import (
	"fmt"
	"net/http"
)

// apiError is an answer of the vendor's error form.
type apiError struct {
	Status  int
	Code    string
	Message string
	Details any
}

func (e *apiError) Error() string { return fmt.Sprintf("%d %s: %s", e.Status, e.Code, e.Message) }

// statusOf is the vendor's table of error codes. Codes that several operations
// share a meaning of, but that the table of an operation lists with another
// status, are given that status where they are raised.
var statusOf = map[string]int{
	"json_error":                     http.StatusBadRequest,
	"unauthorized":                   http.StatusUnauthorized,
	"forbidden":                      http.StatusForbidden,
	"maintenance":                    http.StatusForbidden,
	"resource_limit_exceeded":        http.StatusForbidden,
	"not_found":                      http.StatusNotFound,
	"firewall_resource_not_found":    http.StatusNotFound,
	"method_not_allowed":             http.StatusMethodNotAllowed,
	"uniqueness_error":               http.StatusConflict,
	"conflict":                       http.StatusConflict,
	"deprecated_api_endpoint":        http.StatusGone,
	"resource_unavailable":           http.StatusPreconditionFailed,
	"primary_ip_version_mismatch":    http.StatusPreconditionFailed,
	"source_port_already_used":       http.StatusPreconditionFailed,
	"locked":                         http.StatusLocked,
	"protected":                      http.StatusLocked,
	"rate_limit_exceeded":            http.StatusTooManyRequests,
	"server_error":                   http.StatusInternalServerError,
	"unknown_error":                  http.StatusInternalServerError,
	"bad_gateway":                    http.StatusBadGateway,
	"unavailable":                    http.StatusServiceUnavailable,
	"timeout":                        http.StatusGatewayTimeout,
	"invalid_input":                  http.StatusUnprocessableEntity,
	"service_error":                  http.StatusUnprocessableEntity,
	"unsupported_error":              http.StatusUnprocessableEntity,
	"placement_error":                http.StatusUnprocessableEntity,
	"no_space_left_in_location":      http.StatusUnprocessableEntity,
	"must_be_unassigned":             http.StatusUnprocessableEntity,
	"server_not_stopped":             http.StatusUnprocessableEntity,
	"server_has_ipv4":                http.StatusUnprocessableEntity,
	"server_has_ipv6":                http.StatusUnprocessableEntity,
	"primary_ip_assigned":            http.StatusUnprocessableEntity,
	"primary_ip_already_assigned":    http.StatusUnprocessableEntity,
	"primary_ip_datacenter_mismatch": http.StatusUnprocessableEntity,
	"resource_in_use":                http.StatusUnprocessableEntity,
	"server_is_load_balancer_target": http.StatusUnprocessableEntity,
}

// fail builds the error of a code. The status is that of the vendor's table,
// 422 for the codes of single operations.
func fail(code, format string, args ...any) *apiError {
	status, ok := statusOf[code]
	if !ok {
		status = http.StatusUnprocessableEntity
	}
	return &apiError{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// notFound is the answer for an object that does not exist.
func notFound(kind string, id int64) *apiError {
	return fail("not_found", "%s with ID '%d' not found", kind, id)
}

// notUnique is the answer for a field whose value is taken.
func notUnique(field, message string) *apiError {
	e := fail("uniqueness_error", "%s", message)
	e.Details = obj{"fields": []obj{{"name": field}}}
	return e
}

// overLimit is the answer when a project has as many of a kind as it may.
func overLimit(limit string) *apiError {
	e := fail("resource_limit_exceeded", "%s exceeded", limit)
	e.Details = obj{"limits": []obj{{"name": limit}}}
	return e
}

// problems collects what is wrong with a request, field by field.
type problems struct {
	order []string
	by    map[string][]string
}

func (p *problems) add(field, format string, args ...any) {
	if p.by == nil {
		p.by = map[string][]string{}
	}
	if _, ok := p.by[field]; !ok {
		p.order = append(p.order, field)
	}
	p.by[field] = append(p.by[field], fmt.Sprintf(format, args...))
}

// err is nil when nothing was found, otherwise an invalid_input that names every
// field.
func (p *problems) err() error {
	if len(p.order) == 0 {
		return nil
	}
	fields := make([]obj, 0, len(p.order))
	for _, name := range p.order {
		fields = append(fields, obj{"name": name, "messages": p.by[name]})
	}
	first := p.order[0]
	e := fail("invalid_input", "invalid input in field '%s': %s", first, p.by[first][0])
	e.Details = obj{"fields": fields}
	return e
}

// invalid is an invalid_input about one field.
func invalid(field, format string, args ...any) error {
	var p problems
	p.add(field, format, args...)
	return p.err()
}
