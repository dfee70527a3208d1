package activities

import (
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// CheckProviderInput checks one provider.
type CheckProviderInput struct {
	Provider string `json:"provider"`
}

// CheckProviderResult is the outcome of one check.
type CheckProviderResult struct {
	Type string `json:"type,omitempty"`
	// Supported is false when the provider has no check.
	Supported bool                    `json:"supported"`
	Targets   []provider.TargetStatus `json:"targets,omitempty"`
	At        time.Time               `json:"at"`
	Took      api.Duration            `json:"took"`
	// Throttle is how the account's request budget stood; nil when nobody counts.
	Throttle *provider.ThrottleState `json:"throttle,omitempty"`
}
