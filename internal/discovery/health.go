package discovery

import (
	"context"
	"encoding/json"
	"net/http"
)

// Check is one thing that must be so for a process to be ready.
type Check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Detail says what is missing, for people.
	Detail string `json:"detail,omitempty"`
}

// Health is the answer of /healthz and /readyz.
type Health struct {
	Status string  `json:"status"` // "ok" or "not ready"
	Checks []Check `json:"checks,omitempty"`
}

// RegisterHealth adds /healthz, which answers as long as the process lives, and
// /readyz, which answers 503 while a check fails. Neither asks for a token, so
// details hold nothing that is not for everybody.
func RegisterHealth(mux *http.ServeMux, ready func(ctx context.Context) []Check) {
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, r *http.Request) {
		writeHealth(w, http.StatusOK, Health{Status: "ok"})
	})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, r *http.Request) {
		h, code := Health{Status: "ok", Checks: ready(r.Context())}, http.StatusOK
		for _, c := range h.Checks {
			if !c.OK {
				h.Status, code = "not ready", http.StatusServiceUnavailable
			}
		}
		writeHealth(w, code, h)
	})
}

func writeHealth(w http.ResponseWriter, code int, h Health) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(h) // a client that has gone is no matter
}
