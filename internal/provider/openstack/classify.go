package openstack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloud"
	"github.com/tollgate-dev/tollgate/internal/provider"
)

// classify is the one place that turns failures into classed errors. Secrets
// that the request held are taken out of the cloud's text.
func (p *Provider) classify(ctx context.Context, op provider.Op, id string, err error, secrets ...provider.Sensitive) error {
	if err == nil {
		return nil
	}
	secrets = append(secrets, p.cloud.Secrets(ctx)...)
	var classed *provider.Error
	if errors.As(err, &classed) {
		clean := provider.RedactError(err, secrets...)
		switch {
		case provider.NotSent(err): // says less than we know
			clean = provider.RedactError(classed.Err, secrets...)
		case clean == err:
			return err
		}
		err = provider.Wrap(classed.Class, op, p.name, id, clean)
		return provider.WithReason(provider.WithRetryAfter(err, classed.RetryAfter), classed.Reason)
	}
	v := p.judge(op, err)
	out := provider.Wrap(v.Class, op, p.name, id, provider.RedactError(cloud.Stable(err), secrets...))
	if v.Reason != "" {
		out = provider.WithReason(out, v.Reason)
	}
	return provider.WithRetryAfter(out, v.Wait)
}

// judge finds the class of a failure.
func (p *Provider) judge(op provider.Op, err error) cloud.Verdict {
	var cred *cloud.CredentialsError
	var place *cloud.PlaceError
	var config *cloud.ConfigError
	switch {
	case errors.As(err, &cred):
		return cloud.Verdict{Class: provider.Transient, Reason: provider.ReasonUnauthorized}
	case errors.As(err, &place):
		return cloud.Verdict{Class: provider.Permanent, Reason: provider.ReasonInvalidSpec}
	case errors.As(err, &config):
		return cloud.Verdict{Class: provider.Permanent}
	case errors.Is(err, errVolume):
		return cloud.Verdict{Class: provider.CapacityUnavailable}
	}
	a, ok := cloud.AnswerOf(err)
	if !ok {
		return cloud.Verdict{Class: provider.Transient}
	}
	v := a.Judge()
	if v.Class == provider.NotFound {
		switch op {
		case provider.OpCreate, provider.OpList, provider.OpListCompanions, opCheck:
			// Something that the spec or the configuration names does not exist.
			return cloud.Verdict{Class: provider.Permanent, Reason: provider.ReasonInvalidSpec}
		case provider.OpGet, provider.OpDelete, provider.OpFind, provider.OpDeleteCompanion:
			// What says that an instance is gone is handled where it is asked for.
			return cloud.Verdict{Class: provider.Transient}
		}
	}
	if v.Reason == provider.ReasonInvalidSpec && op != provider.OpCreate {
		v = cloud.Verdict{Class: provider.Transient} // our request, not the spec: such as a state that does not fit yet
	}
	return v
}

// refused reports whether the cloud has said that it will not do what was
// asked. What it cannot do now does not count: the parts stay for the next try.
func refused(err error) bool {
	if err == nil || provider.NotSent(err) {
		return false
	}
	var place *cloud.PlaceError
	if errors.As(err, &place) || errors.Is(err, errVolume) {
		return true
	}
	a, ok := cloud.AnswerOf(err)
	if !ok || a.Login {
		return false
	}
	switch a.Status {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusTooManyRequests, 498:
		return false
	}
	return a.Status >= 400 && a.Status < 500 && (a.Absent() || a.Status != http.StatusNotFound) ||
		a.Status >= 500 && strings.Contains(strings.ToLower(a.Text), cloud.NoHost)
}

// mayExist reports whether a refusal can be due to a server that exists already.
func mayExist(err error) bool {
	a, ok := cloud.AnswerOf(err)
	return ok && !a.Login && (a.Status == http.StatusConflict || a.Status == http.StatusBadRequest)
}

// badReference reports whether a refusal can be due to an id that is none any more.
func badReference(err error) bool {
	a, ok := cloud.AnswerOf(err)
	return ok && !a.Login && (a.Status == http.StatusBadRequest || a.Absent())
}

// namesGone reports whether a refusal is about something of ours that somebody
// has removed meanwhile.
func namesGone(err error, m made) bool {
	a, ok := cloud.AnswerOf(err)
	if !ok || a.Login || (a.Status != http.StatusBadRequest && a.Status != http.StatusNotFound && a.Status != http.StatusConflict) {
		return false
	}
	for _, id := range []string{m.port, m.floating, m.volume} {
		if id != "" && strings.Contains(a.Text, id) {
			return true
		}
	}
	return false
}

// invalidSpec is a value of the spec that can never be satisfied.
func (p *Provider) invalidSpec(name, format string, args ...any) error {
	return provider.WithReason(provider.Wrap(provider.Permanent, provider.OpCreate, p.name, name,
		fmt.Errorf(format, args...)), provider.ReasonInvalidSpec)
}
