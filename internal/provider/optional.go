package provider

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Checker is implemented by providers that can tell whether they are usable.
type Checker interface {
	// Check looks at everything that can fail independently (an API server, a
	// project, a host) and returns one entry per target in a stable order. It
	// never fails as a whole, returns promptly once ctx ends, and uses the
	// credentials and scope of List and Create.
	Check(ctx context.Context) []TargetStatus
}

// TargetStatus is the health of one target.
type TargetStatus struct {
	Target  string        `json:"target"`
	Ready   bool          `json:"ready"`
	Reason  string        `json:"reason"`
	Message string        `json:"message,omitempty"`
	Latency time.Duration `json:"latency,omitempty"`
	// Details are facts for triage: versions, capacity, the account in use.
	Details map[string]string `json:"details,omitempty"`
}

// Reasons of a TargetStatus shared by all providers.
const (
	ReasonReachable   = "Reachable"
	ReasonTimeout     = "Timeout"
	ReasonUnreachable = "Unreachable"
	ReasonAPIError    = "APIError"
)

// MicroEUR is money in millionths of a euro.
type MicroEUR int64

func (m MicroEUR) String() string {
	sign := ""
	if m < 0 {
		sign, m = "-", -m
	}
	return fmt.Sprintf("%s%d.%06d", sign, m/1e6, m%1e6)
}

// Pricer is implemented by providers that know what an instance costs.
type Pricer interface {
	// PriceEURPerHour is the price of one instance with all that Create makes for
	// it, net, per hour. known is false when the backend has no price for the
	// placement; that is not an error.
	PriceEURPerHour(ctx context.Context, p Placement) (price MicroEUR, known bool, err error)
}

// Placer is implemented by providers that fill in what a placement leaves open.
type Placer interface {
	// Placements are those where an instance that is asked for at p may come to be,
	// with the defaults and candidates of the configuration and as List would show
	// them, as far as that can be said without a call.
	Placements(p Placement) []Placement
}

// Companion is something a driver makes beside an instance and that can
// outlive it: a port, an address, a volume, a firewall, a key.
type Companion struct {
	Kind      string    `json:"kind"`
	ID        string    `json:"id"`
	Name      string    `json:"name,omitempty"`
	Marks     Marks     `json:"marks"`
	CreatedAt time.Time `json:"createdAt,omitzero"`
	// AttachedTo is the instance that uses it, empty when none does.
	AttachedTo InstanceID `json:"attachedTo,omitempty"`
}

// Companions is implemented by providers whose instances have companions.
type Companions interface {
	// ListCompanions has the guarantees of List.
	ListCompanions(ctx context.Context, sel Selector) ([]Companion, error)
	// DeleteCompanion detaches and deletes it; absent is success.
	DeleteCompanion(ctx context.Context, c Companion) error
}

// Unwrapper is implemented by decorators.
type Unwrapper interface{ Unwrap() Provider }

// As finds an optional interface on p or on what p decorates.
func As[T any](p Provider) (T, bool) {
	for {
		if t, ok := p.(T); ok {
			return t, true
		}
		u, ok := p.(Unwrapper)
		if !ok {
			var zero T
			return zero, false
		}
		p = u.Unwrap()
	}
}

// ReapOlderThan deletes every instance that matches sel and is older than
// maxAge at now. It is the cost safety net for throw-away fleets: ownership is
// not asked. It returns the instances it deleted (or, with dryRun, would) and
// goes on after a failed delete; the error joins the failures. An instance
// without a creation time is left alone, since its age is unknown.
func ReapOlderThan(ctx context.Context, p Provider, sel Selector, maxAge time.Duration, now time.Time, dryRun bool) ([]Instance, error) {
	all, err := p.List(ctx, sel)
	if err != nil {
		return nil, err
	}
	var reaped []Instance
	var errs []error
	for _, in := range all {
		if in.CreatedAt.IsZero() || now.Sub(in.CreatedAt) <= maxAge {
			continue
		}
		if !dryRun {
			if err := p.Delete(ctx, in.ID); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		reaped = append(reaped, in)
	}
	return reaped, errors.Join(errs...)
}
