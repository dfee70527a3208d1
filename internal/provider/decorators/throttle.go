package decorators

import "github.com/tollgate-dev/tollgate/internal/provider"

// WithThrottle makes p a provider.Throttler that joins what others say: it is
// throttled when one of them, or a budget that p has already, is.
func WithThrottle(p provider.Provider, others ...provider.Throttler) provider.Provider {
	if own, ok := provider.As[provider.Throttler](p); ok {
		others = append([]provider.Throttler{own}, others...)
	}
	return &throttled{p, others}
}

type throttled struct {
	provider.Provider
	by []provider.Throttler
}

var (
	_ provider.Provider  = (*throttled)(nil)
	_ provider.Unwrapper = (*throttled)(nil)
	_ provider.Throttler = (*throttled)(nil)
)

// Unwrap returns the provider that is decorated.
func (t *throttled) Unwrap() provider.Provider { return t.Provider }

// Throttle implements provider.Throttler.
func (t *throttled) Throttle() provider.ThrottleState {
	var out provider.ThrottleState
	for _, by := range t.by {
		s := by.Throttle()
		out.Throttled = out.Throttled || s.Throttled
		out.Waiting += s.Waiting
		out.PerHour = max(out.PerHour, s.PerHour)
		if s.Until.After(out.Until) {
			out.Until = s.Until
		}
	}
	return out
}
