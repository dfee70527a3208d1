package providerhealth

import (
	"fmt"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// throttled puts a used-up request budget into a status. A check that the budget
// refused says nothing about the targets, so they stay as they were.
func throttled(s, before api.ProviderHealthStatus, t provider.ThrottleState) api.ProviderHealthStatus {
	s.Throttled, s.ThrottledUntil = true, t.Until
	refused, failed := false, false
	for _, target := range s.Targets {
		switch {
		case target.Ready:
		case target.Reason == provider.ReasonThrottled, !t.Until.IsZero() && target.Reason == provider.ReasonAPIError:
			// The second is the backend's own refusal, which began the pause.
			refused = true
		default:
			failed = true
		}
	}
	if refused && !failed && before.Checks > 0 {
		s.Ready, s.Targets = before.Ready, before.Targets
	}
	message := "requests are held back: the account's request budget is used up"
	if !t.Until.IsZero() {
		message = fmt.Sprintf("requests are held back until %s, as the backend asked", clock(t.Until))
	}
	if t.Waiting > 0 {
		message += fmt.Sprintf("; %d wait", t.Waiting)
	}
	if s.Ready || refused && !failed {
		s.Reason, s.Message = provider.ReasonThrottled, message
	} else {
		s.Message += "; " + message
	}
	return s
}
