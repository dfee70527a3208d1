package decorators

import (
	"cmp"
	"context"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Deadlines bound the time of single calls. Zero fields have defaults: 2 min for
// Create and for listings, 1 min for deletes, 30 s for everything else.
type Deadlines struct {
	Create, Get, Find, Delete, List time.Duration
	// Other is for prices.
	Other time.Duration
}

func (d Deadlines) of(op provider.Op) time.Duration {
	switch op {
	case provider.OpCreate:
		return cmp.Or(d.Create, 2*time.Minute)
	case provider.OpGet:
		return cmp.Or(d.Get, 30*time.Second)
	case provider.OpFind:
		return cmp.Or(d.Find, 30*time.Second)
	case provider.OpDelete, provider.OpDeleteCompanion:
		return cmp.Or(d.Delete, time.Minute)
	case provider.OpList, provider.OpListCompanions:
		return cmp.Or(d.List, 2*time.Minute)
	}
	return cmp.Or(d.Other, 30*time.Second)
}

// WithDeadlines gives every call a context that ends after the operation's
// limit at the latest. A call cut off by it fails as the driver says, which is
// Transient by the contract.
func WithDeadlines(p provider.Provider, d Deadlines) provider.Provider {
	return intercept(p, func(ctx context.Context, c *call, do func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, d.of(c.op))
		defer cancel()
		return do(ctx)
	})
}
