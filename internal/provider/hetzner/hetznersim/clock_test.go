package hetznersim

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A clock that is set is the vendor's in every answer, moves forward only, and
// outlives a restart together with what there is.
func TestClockThatIsSet(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 14, 0, 0, 0, 0, time.UTC)
	file := filepath.Join(t.TempDir(), "state.json")
	open := func() *Sim {
		s := New(Options{Clock: NewClock(start), FirstID: 1001, StateFile: file, Timing: Uniform(0), RateLimit: -1})
		s.AddProject("p", "token")
		return s
	}
	ask := func(s *Sim, method, path, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer token")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w
	}
	s := open()
	if w := ask(s, http.MethodPost, "/_sim/clock", `{"now":"2026-03-14T06:00:00Z"}`); w.Code != http.StatusOK {
		t.Fatal(w.Body)
	}
	w := ask(s, http.MethodPost, "/v1/volumes", `{"name":"data","size":10,"location":"fsn1"}`)
	if w.Code != http.StatusCreated || w.Header().Get("Date") != "Sat, 14 Mar 2026 06:00:00 GMT" ||
		!strings.Contains(w.Body.String(), `"id":1001`) || !strings.Contains(w.Body.String(), `"2026-03-14T06:00:00`) {
		t.Errorf("status %d, date %q: %s", w.Code, w.Header().Get("Date"), w.Body)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s = open()
	w = ask(s, http.MethodGet, "/v1/volumes/1001", "")
	if w.Code != http.StatusOK || w.Header().Get("Date") != "Sat, 14 Mar 2026 06:00:00 GMT" {
		t.Errorf("after a restart: status %d, date %q", w.Code, w.Header().Get("Date"))
	}
	w = ask(s, http.MethodPost, "/_sim/clock", `{"now":"2026-03-14T05:59:59Z"}`)
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "2026-03-14T05:59:59Z is past") {
		t.Errorf("a step back: status %d: %s", w.Code, w.Body)
	}
	real := New(Options{})
	if w := ask(real, http.MethodPost, "/_sim/clock", `{"now":"2030-01-01T00:00:00Z"}`); w.Code != http.StatusBadRequest {
		t.Errorf("a real clock was set: %s", w.Body)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
