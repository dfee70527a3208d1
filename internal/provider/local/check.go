package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strconv"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Reasons of this provider beside the shared ones.
const (
	reasonBinaryMissing   = "BinaryMissing"
	reasonDirUnusable     = "DirectoryUnusable"
	reasonNetworkUnusable = "NetworkUnusable"
)

// Targets of the health check.
const (
	targetBinary    = "binary"
	targetDirectory = "directory"
	targetNetwork   = "network"
)

// Check looks at the proxy program, the directory and the address range.
func (p *Provider) Check(ctx context.Context) []provider.TargetStatus {
	return []provider.TargetStatus{
		check(ctx, targetBinary, reasonBinaryMissing, p.checkBinary),
		check(ctx, targetDirectory, reasonDirUnusable, p.checkDirectory),
		check(ctx, targetNetwork, reasonNetworkUnusable, p.checkNetwork),
	}
}

func check(ctx context.Context, target, failed string, look func(context.Context) (map[string]string, error)) provider.TargetStatus {
	start := time.Now()
	s := provider.TargetStatus{Target: target}
	err := ctx.Err()
	if err == nil {
		s.Details, err = look(ctx)
	}
	s.Latency = time.Since(start)
	switch {
	case err == nil:
		s.Ready, s.Reason = true, provider.ReasonReachable
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		s.Reason, s.Message = provider.ReasonTimeout, err.Error()
	default:
		s.Reason, s.Message = failed, err.Error()
	}
	return s
}

func (p *Provider) checkBinary(context.Context) (map[string]string, error) {
	path, err := p.findBinary()
	return map[string]string{"path": path}, err
}

// checkDirectory writes a file where instances are made, and reads every
// meta.json: one that cannot be read fails every listing.
func (p *Provider) checkDirectory(context.Context) (map[string]string, error) {
	details := map[string]string{"dir": p.opt.dir}
	if err := p.checkRoot(); err != nil {
		return details, err
	}
	if err := os.MkdirAll(p.opt.dir, 0o700); err != nil {
		return details, err
	}
	f, err := os.CreateTemp(p.opt.dir, ".check-")
	if err != nil {
		return details, err
	}
	_, err = f.WriteString("x")
	err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	_, unreadable, eerr := p.survey()
	return details, errors.Join(err, unreadable, eerr)
}

// checkNetwork listens for a moment on an address of the range that no instance
// has, on a port that the system chooses.
func (p *Provider) checkNetwork(ctx context.Context) (map[string]string, error) {
	used, _, err := p.survey()
	n := capacity(p.opt.network)
	details := map[string]string{
		"network": p.opt.network.String(), "addresses": strconv.Itoa(n), "inUse": strconv.Itoa(len(used)),
	}
	if err != nil {
		return details, err
	}
	for addr := range candidates(p.opt.network, "check") {
		if err := ctx.Err(); err != nil {
			return details, err
		}
		pl, err := takePlace(ctx, addr, 0)
		if err != nil {
			return details, err
		}
		if pl != nil {
			pl.close()
			return details, nil
		}
	}
	return details, fmt.Errorf("network: all %d addresses of %v are taken", n, p.opt.network)
}

// survey returns the addresses of the range that instances have, and what is
// wrong with instances that cannot be read.
func (p *Provider) survey() (used []netip.Addr, unreadable, err error) {
	err = p.each(func(i instance) error {
		switch m, err := i.meta(); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			unreadable = errors.Join(unreadable, err)
		case p.opt.network.Contains(m.Address):
			used = append(used, m.Address)
		}
		return nil
	})
	return used, unreadable, err
}
