package activities

import "github.com/tollgate-dev/tollgate/workflows/api"

// ReapResult is what one look at a provider found and deleted.
type ReapResult struct {
	Matched    int `json:"matched"`
	UnknownAge int `json:"unknownAge,omitempty"`
	Count      int `json:"count"`
	Failed     int `json:"failed,omitempty"`
	// Reaped are at most api.MaxReaped, the oldest first.
	Reaped []api.Reaped `json:"reaped,omitempty"`
}

// ReapDoneInput records the end of a run in the metrics and the log.
type ReapDoneInput struct {
	Provider string          `json:"provider"`
	Outcome  api.ReapOutcome `json:"outcome"`
	Deleted  int             `json:"deleted"`
	Message  string          `json:"message,omitempty"`
}
