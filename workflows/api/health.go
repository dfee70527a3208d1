package api

import (
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// DefaultHealthInterval is the time between two checks of a provider.
const DefaultHealthInterval = time.Minute

// ProviderHealthInput starts a ProviderHealth workflow. The workflow id must be
// health/<provider>.
type ProviderHealthInput struct {
	Provider string       `json:"provider"`
	Config   HealthConfig `json:"config,omitzero"`
	// ContinueAfter is the number of history events after which the workflow
	// continues as new; 0 leaves it to the server's advice. For tests.
	ContinueAfter int `json:"continueAfter,omitempty"`
	// Carried is the state of the run before, set by continue-as-new only.
	Carried *CarriedHealth `json:"carried,omitempty"`
}

// HealthConfig is the payload of the signal "configure".
type HealthConfig struct {
	// Interval is the time between two checks. 0 means one minute.
	Interval Duration `json:"interval,omitempty"`
	// ConfigHash changes when the provider's block or its secrets change; then
	// the provider is checked at once.
	ConfigHash string `json:"configHash,omitempty"`
}

// CarriedHealth is the whole state of a ProviderHealth workflow.
type CarriedHealth struct {
	Config    HealthConfig         `json:"config"`
	CreatedAt time.Time            `json:"createdAt"`
	NextCheck time.Time            `json:"nextCheck,omitzero"`
	Status    ProviderHealthStatus `json:"status"`
}

// ProviderHealth is the answer of a ProviderHealth workflow to the query
// "status" and to the update "Check".
type ProviderHealth struct {
	APIVersion string               `json:"apiVersion"`
	Kind       string               `json:"kind"`
	Metadata   Metadata             `json:"metadata"`
	Spec       HealthConfig         `json:"spec"`
	Status     ProviderHealthStatus `json:"status"`
}

// ProviderHealthStatus is what is.
type ProviderHealthStatus struct {
	// Type is the provider's type.
	Type string `json:"type,omitempty"`
	// Supported is false when the provider has no check; then Ready says only
	// whether a worker serves it.
	Supported bool `json:"supported"`
	// Ready: the latest check found every target ready.
	Ready   bool                    `json:"ready"`
	Reason  string                  `json:"reason,omitempty"`
	Message string                  `json:"message,omitempty"`
	Targets []provider.TargetStatus `json:"targets,omitempty"`
	// Checks counts the checks; CheckedAt is the start of the latest one and
	// Took its duration.
	Checks    int64     `json:"checks"`
	CheckedAt time.Time `json:"checkedAt,omitzero"`
	Took      Duration  `json:"took,omitempty"`
	// Since is when Ready last changed.
	Since time.Time `json:"since,omitzero"`
	// Throttled: requests to the account are held back or refused by its budget;
	// ThrottledUntil is the end of a pause that the backend asked for.
	Throttled      bool        `json:"throttled,omitempty"`
	ThrottledUntil time.Time   `json:"throttledUntil,omitzero"`
	Conditions     []Condition `json:"conditions,omitempty"`
}

// Condition types of a ProviderHealth.
const (
	CondReady = "Ready"
	// CondThrottled is True while requests to the account are held back.
	CondThrottled = "Throttled"
)

// Reasons of a ProviderHealth beside those of its targets.
const (
	ReasonAllReady      = "AllTargetsReady"
	ReasonNotChecked    = "NotChecked"
	ReasonNotSupported  = "NotSupported"
	ReasonNoWorker      = "NoWorker"
	ReasonCheckFailed   = "CheckFailed"
	ReasonTargetsFailed = "TargetsNotReady"
)
