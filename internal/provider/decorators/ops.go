package decorators

import (
	"context"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// WithOps tells the requests that a call makes which operation they are of, for
// the account's request budget (provider.OpOf).
func WithOps(p provider.Provider) provider.Provider {
	return intercept(p, func(ctx context.Context, c *call, do func(context.Context) error) error {
		return do(provider.ContextWithOp(ctx, c.op))
	})
}
