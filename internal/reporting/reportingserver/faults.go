package reportingserver

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting/api"
)

// Fault is what goes wrong with a request. The zero Fault is nothing.
type Fault struct {
	// Delay passes before anything else, or until the client is gone.
	Delay time.Duration
	// Status, when set, is answered at once: nothing is done. RetryAfter, in
	// seconds, goes with it when it is set.
	Status     int
	RetryAfter int
	// LoseAnswer does what was asked and then breaks the connection.
	LoseAnswer bool
	// CutAnswer does what was asked, sends half of the answer and breaks the
	// connection.
	CutAnswer bool
	// AllDuplicates is answered instead of 200 when every event of a delivery
	// was stored before, as other receivers do with 400 or 409.
	AllDuplicates int
}

// faulty does to requests what Options.Fault says.
func (s *Server) faulty(next http.Handler) http.Handler {
	if s.opts.Fault == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := s.opts.Fault(r)
		if f.Delay > 0 {
			select {
			case <-time.After(f.Delay):
			case <-r.Context().Done():
				return
			}
		}
		switch {
		case f.Status != 0:
			if f.RetryAfter > 0 {
				w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
			}
			problem{api.UrnTollgateProblemUnavailable, f.Status, "Fault", "this answer was asked for"}.write(w)
		case f.LoseAnswer:
			next.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		case f.CutAnswer:
			rec := httptest.NewRecorder()
			next.ServeHTTP(rec, r)
			w.Header().Set("Content-Type", rec.Header().Get("Content-Type"))
			w.Header().Set("Content-Length", strconv.Itoa(rec.Body.Len()))
			w.WriteHeader(rec.Code)
			_, _ = w.Write(rec.Body.Bytes()[:rec.Body.Len()/2]) // the rest is missing on purpose
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case f.AllDuplicates != 0:
			next.ServeHTTP(w, r.WithContext(withDuplicateStatus(r.Context(), f.AllDuplicates)))
		default:
			next.ServeHTTP(w, r)
		}
	})
}
