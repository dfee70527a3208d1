package discovery

import (
	"encoding/json"
	"net/http"
)

// Types of problems. They are part of the API: clients may branch on them.
const (
	problemInvalid      = "urn:tollgate:problem:invalid-parameter"
	problemUnauthorized = "urn:tollgate:problem:unauthorized"
	problemNoProxy      = "urn:tollgate:problem:no-proxy"
	problemUnavailable  = "urn:tollgate:problem:provider-unavailable"
	problemToken        = "urn:tollgate:problem:token-unavailable"
	problemNotFound     = "urn:tollgate:problem:not-found"
	problemMethod       = "urn:tollgate:problem:method-not-allowed"
)

// Problem is an error answer, RFC 9457.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// Parameters are what is wrong with an invalid request.
	Parameters []invalidParam `json:"parameters,omitempty"`
	// Unavailable are the providers of which nothing is known.
	Unavailable []Unavailable `json:"unavailable,omitempty"`
}

func (p Problem) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	// Plain fields cannot fail to encode; a client that has gone is no matter.
	_ = json.NewEncoder(w).Encode(p)
}
