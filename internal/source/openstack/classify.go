package openstack

import (
	"context"
	"errors"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloud"
	"github.com/tollgate-dev/tollgate/internal/provider"
)

// wrap is the one place that classes a failure of a read.
func (s *Source) wrap(ctx context.Context, op provider.Op, err error) error {
	var classed *provider.Error
	if errors.As(err, &classed) {
		if classed.Provider == "" {
			classed.Provider = s.name
		}
		return classed
	}
	v := judge(err)
	out := provider.Wrap(v.Class, op, s.name, "", provider.RedactError(cloud.Stable(err), s.cloud.Secrets(ctx)...))
	if v.Reason != "" {
		out = provider.WithReason(out, v.Reason)
	}
	return provider.WithRetryAfter(out, v.Wait)
}

// judge finds the class of a failure. Nothing that a read asks for can be wrong
// with the request itself: a refusal of that kind is tried again.
func judge(err error) cloud.Verdict {
	var cred *cloud.CredentialsError
	var place *cloud.PlaceError
	var config *cloud.ConfigError
	switch {
	case errors.As(err, &cred):
		return cloud.Verdict{Class: provider.Transient, Reason: provider.ReasonUnauthorized}
	case errors.As(err, &place), errors.As(err, &config):
		return cloud.Verdict{Class: provider.Permanent}
	}
	a, ok := cloud.AnswerOf(err)
	if !ok {
		return cloud.Verdict{Class: provider.Transient}
	}
	v := a.Judge()
	switch {
	case v.Reason == provider.ReasonInvalidSpec, v.Class == provider.NotFound, v.Class == provider.QuotaExceeded, v.Class == provider.CapacityUnavailable:
		return cloud.Verdict{Class: provider.Transient, Wait: v.Wait}
	}
	return v
}
