// Package local is the provider of this machine: each instance is a forward
// proxy in a process of its own, on an address of its own in 127.0.0.0/8.
//
// What exists is what is on disk and in the kernel; the package holds no state
// of its own, so any number of workers and installations can share a directory.
//
//   - An instance exists while its directory has a meta.json. It is the last file
//     that a create writes (in one rename, with the marks in it) and the last one
//     that a delete removes. A directory without it is the rest of a cut-off call
//     and is swept.
//   - An instance's process lives while the lock on its process.lock is held. The
//     lock belongs to the open file that the process inherits from the worker's
//     fork, so it is held without a gap, and nobody can start a second process,
//     whatever moment the worker is killed at.
//   - Whoever changes an instance holds the lock of its name, which the kernel
//     releases when the holder dies.
package local

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// TypeName is the provider type's name in the configuration.
const TypeName = "local"

// Region is the one region there is.
const Region = "local"

// callTimeout bounds every operation, whatever the caller's context says.
const callTimeout = 30 * time.Second

// Type describes the provider type.
func Type() provider.Type {
	return provider.Type{
		Name:    TypeName,
		Summary: "forward proxies as processes of this machine, on loopback addresses",
		Profile: provider.Profile{
			Readiness:          "immediate",
			CreateReturn:       "submit",
			DeleteReturn:       "waits",
			IPSource:           "assigned-at-create",
			GCMark:             "written-metadata",
			CreatedAt:          "written-at-create",
			ListPartial:        "fail-whole",
			Quota:              "detected",
			NotFound:           "error-code",
			PrimaryKey:         "name-is-key",
			ProvisioningState:  "marker",
			AsyncOps:           "none",
			SecondaryResources: "none",
			Credentials:        "none",
			ClientKind:         "local-process",
			Timeouts:           "per-call",
			Logging:            "outcome-only",
			ChildSpans:         "span-decorator",
			BackendTest:        "make-test",
			ReadyPoll:          100 * time.Millisecond,
			GonePoll:           100 * time.Millisecond,
			Settle:             500 * time.Millisecond,
			Surge:              true,
			Isolated:           true,
		},
		New: func(_ context.Context, cfg provider.Config) (provider.Provider, error) { return New(cfg) },
	}
}

// Provider runs proxies on this machine. It is safe for concurrent use, also
// with other processes on the same directory.
type Provider struct {
	name string
	opt  options
	log  *slog.Logger

	// rootSeen is set once the directory was there. From then on its absence is
	// a failure and no proof that nothing exists.
	rootSeen  atomic.Bool
	lastSweep atomic.Int64 // Unix nanoseconds
	// step is called between any two effects of an operation; tests end the
	// process there.
	step func(name string)
}

var (
	_ provider.Provider = (*Provider)(nil)
	_ provider.Checker  = (*Provider)(nil)
	_ provider.Pricer   = (*Provider)(nil)
)

// New builds a provider. It fails on bad configuration only, and touches
// neither the disk nor the network.
func New(cfg provider.Config) (*Provider, error) {
	opt, err := decodeOptions(cfg)
	if err != nil {
		return nil, err
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Provider{
		name: cfg.Name, opt: opt, step: func(string) {},
		log: log.With("provider", cfg.Name),
	}, nil
}

func (p *Provider) instancesDir() string { return filepath.Join(p.opt.dir, "instances") }
func (p *Provider) locksDir() string     { return filepath.Join(p.opt.dir, "locks") }

// PriceEURPerHour is zero: this machine is paid for already.
func (p *Provider) PriceEURPerHour(context.Context, provider.Placement) (provider.MicroEUR, bool, error) {
	return 0, true, nil
}
