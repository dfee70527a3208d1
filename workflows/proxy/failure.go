package proxy

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/provider"
)

// failure is what a proxy knows of a failed step.
type failure struct {
	// kind is the ApplicationError's type; empty for a time-out nobody answered.
	kind string
	// class is kind where that is a provider class; Permanent for failures that
	// only a change of spec or configuration can mend; otherwise Transient.
	class      provider.Class
	reason     string
	message    string
	retryAfter time.Duration
	probe      activities.ProbeResult
}

// maxMessage bounds what a backend's text may take up in the state.
const maxMessage = 1000

func short(s string) string {
	if len(s) > maxMessage {
		return s[:maxMessage] + "..."
	}
	return s
}

func failureOf(err error) failure {
	f := failure{class: provider.Transient, reason: string(provider.Transient), message: err.Error()}
	var ae *temporal.ApplicationError
	if !errors.As(err, &ae) {
		var te *temporal.TimeoutError
		if errors.As(err, &te) {
			f.message = "no answer in time: " + te.TimeoutType().String()
		}
		return f
	}
	f.kind, f.message = ae.Type(), short(ae.Message())
	f.reason = f.kind
	switch f.kind {
	case activities.ErrNotProven:
		_ = ae.Details(&f.probe) // without details the class stays empty
	case activities.ErrProviderNotConfigured, activities.ErrSecretUnavailable:
		f.class = provider.Permanent
	case activities.ErrNotReady, activities.ErrStopped, activities.ErrStillExists:
	default:
		for _, c := range provider.Classes() {
			if f.kind == string(c) {
				f.class = c
			}
		}
		var d activities.FailureDetails
		if ae.HasDetails() && ae.Details(&d) == nil {
			f.retryAfter = d.RetryAfter
			if d.Reason != "" && (f.class == provider.Permanent || d.Reason == provider.ReasonSpendCap) {
				f.reason = d.Reason
			}
		}
	}
	return f
}
