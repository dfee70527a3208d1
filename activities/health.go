package activities

import (
	"context"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/tollgate-dev/tollgate/internal/metrics"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Health checks providers; it belongs on the task queue of each provider. The
// fields are set once, before the worker starts.
type Health struct {
	Lookup Lookup
	// Type is the type of a configured provider.
	Type func(providerName string) string
	// Interval is the time between two checks, which says how long their gauges
	// are shown; nil means one minute.
	Interval func() time.Duration
	// Metrics may be nil.
	Metrics *metrics.Metrics
}

// Bounds of a check and of what it may put into a history.
const (
	checkTimeout      = 30 * time.Second
	maxTargets        = 100
	maxTargetText     = 500
	maxTargetDetails  = 16
	checkGaugesRounds = 3
)

// CheckProvider asks the provider how its targets are. Only a provider that is
// not configured makes it fail.
func (a *Health) CheckProvider(ctx context.Context, in CheckProviderInput) (out CheckProviderResult, err error) {
	defer heartbeat(ctx).stop()
	p, _, err := resolve(a.Lookup, in.Provider)
	if err != nil {
		return CheckProviderResult{}, err
	}
	out = CheckProviderResult{Type: a.Type(in.Provider), At: time.Now().UTC()}
	if t, ok := provider.As[provider.Throttler](p); ok {
		defer func() { s := t.Throttle(); out.Throttle = &s }() // the check's own requests included
	}
	checker, ok := provider.As[provider.Checker](p)
	if !ok {
		return out, nil
	}
	cctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	targets := checker.Check(cctx)
	out.Supported, out.Took = true, api.Duration(time.Since(out.At))
	if err := ctx.Err(); err != nil {
		// A check that was cut off says nothing about the targets.
		return CheckProviderResult{}, toTemporal(ctx, err)
	}
	out.Targets = bounded(targets)
	interval := api.DefaultHealthInterval
	if a.Interval != nil {
		interval = a.Interval()
	}
	a.Metrics.Checked(in.Provider, out.Targets, out.At, out.Took.Std(), checkGaugesRounds*interval+checkTimeout)
	return out, nil
}

// bounded keeps what a provider says of its targets small enough for a history.
func bounded(targets []provider.TargetStatus) []provider.TargetStatus {
	out := make([]provider.TargetStatus, 0, min(len(targets), maxTargets))
	for _, t := range targets[:min(len(targets), maxTargets)] {
		t.Message = shorten(t.Message)
		if len(t.Details) > 0 {
			details := make(map[string]string, len(t.Details))
			keys := slices.Sorted(maps.Keys(t.Details))
			for _, k := range keys[:min(len(keys), maxTargetDetails)] {
				details[k] = shorten(t.Details[k])
			}
			t.Details = details
		}
		out = append(out, t)
	}
	return out
}

func shorten(s string) string {
	if len(s) <= maxTargetText {
		return s
	}
	cut := maxTargetText
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}
