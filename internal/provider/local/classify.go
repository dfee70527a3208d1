package local

import (
	"errors"
	"io/fs"
	"os/exec"
	"syscall"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// invalid marks a value of a request that can never be satisfied.
type invalid struct{ error }

func (e invalid) Unwrap() error { return e.error }

// errQuota is a reached maxInstances.
var errQuota = errors.New("limit of instances reached")

// classify gives an error of this machine its class and reason.
func classify(err error) (provider.Class, string) {
	var bad invalid
	switch {
	case errors.As(err, &bad):
		return provider.Permanent, provider.ReasonInvalidSpec
	case errors.Is(err, errQuota):
		return provider.QuotaExceeded, ""
	case errors.Is(err, errPortBusy), errors.Is(err, errNoAddress):
		return provider.CapacityUnavailable, ""
	case errors.Is(err, errNoBinary), errors.Is(err, exec.ErrNotFound), errors.Is(err, syscall.ENOEXEC):
		return provider.Permanent, reasonBinaryMissing
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return provider.Permanent, reasonNetworkUnusable
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOTDIR):
		return provider.Permanent, provider.ReasonForbidden
	case isAny(err, syscall.ENOSPC, syscall.EDQUOT, syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE):
		return provider.CapacityUnavailable, ""
	default:
		return provider.Transient, ""
	}
}

func isAny(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}

// wrap classes an error of an operation; one that has a class keeps it.
func (p *Provider) wrap(op provider.Op, id string, err error) error {
	var classed *provider.Error
	if err == nil || errors.As(err, &classed) {
		return err
	}
	class, reason := classify(err)
	return provider.WithReason(provider.Wrap(class, op, p.name, id, err), reason)
}
