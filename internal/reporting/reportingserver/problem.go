package reportingserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/tollgate-dev/tollgate/internal/reporting/api"
	"github.com/tollgate-dev/tollgate/internal/reporting/reportingserver/store"
)

// problem is an error answer.
type problem struct {
	typ    api.ProblemType
	status int
	title  string
	detail string
}

// Error is the detail.
func (p problem) Error() string { return p.detail }

func (p problem) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.status)
	// Plain fields cannot fail to encode; a client that has gone is no matter.
	_ = json.NewEncoder(w).Encode(api.Problem{Type: p.typ, Title: p.title, Status: p.status, Detail: p.detail})
}

func invalid(format string, args ...any) problem {
	return problem{api.UrnTollgateProblemInvalidRequest, http.StatusBadRequest, "Invalid request", fmt.Sprintf(format, args...)}
}

func notFound(format string, args ...any) problem {
	return problem{api.UrnTollgateProblemNotFound, http.StatusNotFound, "Not found", fmt.Sprintf(format, args...)}
}

func tooLarge(format string, args ...any) problem {
	return problem{api.UrnTollgateProblemTooLarge, http.StatusRequestEntityTooLarge, "Too large", fmt.Sprintf(format, args...)}
}

// fail answers an error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	var p problem
	switch {
	case errors.As(err, &p):
	case errors.Is(err, store.ErrNotFound):
		p = notFound("%v", err)
	case errors.Is(err, store.ErrConflict):
		p = problem{api.UrnTollgateProblemConflict, http.StatusConflict, "Conflict", err.Error()}
	case errors.Is(err, store.ErrInvalid):
		p = invalid("%v", err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		w.Header().Set("Retry-After", "1")
		p = problem{api.UrnTollgateProblemUnavailable, http.StatusServiceUnavailable, "Unavailable", "the request ended before its answer"}
	default:
		s.opts.Logger.ErrorContext(r.Context(), "request failed", "route", r.Pattern, "error", err)
		p = problem{api.UrnTollgateProblemInternal, http.StatusInternalServerError, "Internal error", "the log of the server says why"}
	}
	p.write(w)
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that has gone is no matter
}
