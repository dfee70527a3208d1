package provider

import "time"

// ThrottleState says how the request budget of a provider stands.
type ThrottleState struct {
	// Throttled: calls are being held back or refused, because the backend asked
	// for a pause or the budget is used up.
	Throttled bool `json:"throttled"`
	// Until is the end of a pause that the backend asked for, zero without one.
	Until time.Time `json:"until,omitzero"`
	// PerHour is how many requests per hour the account may make, 0 while nobody has
	// said.
	PerHour int `json:"perHour,omitempty"`
	// Waiting is how many calls wait for the budget.
	Waiting int `json:"waiting,omitempty"`
}

// Throttler is implemented by the decorator that keeps a request budget; As
// finds it.
type Throttler interface{ Throttle() ThrottleState }
