// Package decorators wraps drivers with what all of them need and none of them
// should have to do: input checks, a request budget, metrics, a deadline on
// every call and spans.
//
// Chain puts them together, outermost first:
//
//	tracing   one span per call, with the wait for the budget in it
//	checks    refuses bad requests and impossible answers; costs nothing
//	budget    waits for the account's turn; what it refuses is no call
//	metrics   counts and times what reaches the driver
//	deadline  bounds the driver's own time
//	ops       tells the driver's HTTP requests what they are for
//
// Each is a type with an Unwrap method, so that provider.As reaches the optional
// interfaces of the driver. Pricer and Companions cost requests like any other
// method: they are decorated by all but the checks, under the operations price,
// list_companions and delete_companion. Checker is not decorated: a health check
// has the time limit of its round, and has to say how the account is while the
// budget is used up.
package decorators

import (
	"go.opentelemetry.io/otel/trace"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Options are the settings of a chain. Zero fields leave their decorator out,
// Deadlines excepted, which have defaults.
type Options struct {
	// Name is the provider's configured name, as in its errors.
	Name string
	// Installation is the one that requests have to carry.
	Installation string
	// Tracer makes the spans.
	Tracer trace.TracerProvider
	// Budget limits the calls; it may be shared by several chains of one account.
	Budget *Budget
	// Metrics counts the calls.
	Metrics *Metrics
	// Deadlines bound each call.
	Deadlines Deadlines
	// Requests says how the budget of the account's HTTP requests stands, which
	// the driver's own transport keeps to (package budget).
	Requests provider.Throttler
}

// Chain wraps p in the order of the package's documentation.
func Chain(p provider.Provider, o Options) provider.Provider {
	p = WithDeadlines(WithOps(p), o.Deadlines)
	if o.Metrics != nil {
		p = o.Metrics.Wrap(p, o.Name)
	}
	if o.Budget != nil {
		p = o.Budget.Wrap(p, o.Name)
	}
	p = WithChecks(p, o.Name, o.Installation)
	if o.Tracer != nil {
		p = WithTracing(p, o.Name, o.Tracer)
	}
	if o.Requests != nil {
		p = WithThrottle(p, o.Requests)
	}
	return p
}
