package provider

import (
	"context"
	"net/http"
	"sync/atomic"
)

// Transport wraps the transport of a driver's HTTP client with the request
// budget of an account, which all providers and all calls of the process that
// use the account share. A driver puts it right above the connection, below
// whatever adds the credentials, so that every request counts once:
//
//	rt := authorized(cfg.Transport(base, ""))
//
// account names the account; empty means that the request's host and
// credentials do. A request that the budget has no room for is not sent: its
// error is an *Error of class RateLimited with the reason Throttled, and the
// vendor's client hands it over wrapped. A driver passes it on as it is.
type Transport func(base http.RoundTripper, account string) http.RoundTripper

// WithBudget wraps base with the configuration's Transport, if it has one.
func (c Config) WithBudget(base http.RoundTripper, account string) http.RoundTripper {
	if c.Transport == nil {
		return base
	}
	return c.Transport(base, account)
}

// NotSent reports whether err is a refusal of our own request budget: the
// request it is about has certainly not been made.
func NotSent(err error) bool { return ReasonOf(err) == ReasonThrottled }

type opKey struct{}

// operation is what a context knows of the provider call it belongs to.
type operation struct {
	op    Op
	begun atomic.Bool
}

// ContextWithOp says which operation the requests made with ctx belong to. The
// decorators set it; each call has one of its own.
func ContextWithOp(ctx context.Context, op Op) context.Context {
	return context.WithValue(ctx, opKey{}, &operation{op: op})
}

// OpOf returns the operation that ctx belongs to, "" when it belongs to none,
// and whether a request of it has been made already.
func OpOf(ctx context.Context) (op Op, begun bool) {
	if o, ok := ctx.Value(opKey{}).(*operation); ok {
		return o.op, o.begun.Load()
	}
	return "", false
}

// BeginOp notes that a request of ctx's operation is made.
func BeginOp(ctx context.Context) {
	if o, ok := ctx.Value(opKey{}).(*operation); ok {
		o.begun.Store(true)
	}
	if n, ok := ctx.Value(countKey{}).(*atomic.Int64); ok {
		n.Add(1)
	}
}

type countKey struct{}

// CountRequests returns a context that counts the requests made with it, as far
// as they go through a request budget.
func CountRequests(ctx context.Context) (context.Context, func() int) {
	n := new(atomic.Int64)
	return context.WithValue(ctx, countKey{}, n), func() int { return int(n.Load()) }
}
