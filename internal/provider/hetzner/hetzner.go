// Package hetzner is the provider of Hetzner Cloud: each instance is a server of
// one project.
//
// A create is one request that carries the marks as labels; it returns when the
// vendor has taken it. What is made beside a server (addresses of its own, a
// volume, the firewall) is named after it, carries the same marks and is removed
// with it. The package's state is a cache: of the vendor's catalogue and prices,
// the ids of things that instances share, what was sold out lately, and what
// operations that were cut off have done.
//
// While a project's request budget is used up, an operation of several requests
// may be cut off between any two of them. A worker therefore remembers how far
// it came: an attempt that begins anew each time would never end.
//
// The vendor's client neither retries nor polls on its own here: Temporal
// retries, and the few waits of a delete follow the configured interval.
package hetzner

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// TypeName is the provider type's name in the configuration.
const TypeName = "hetzner"

// Type describes the provider type.
func Type() provider.Type {
	return provider.Type{
		Name:         TypeName,
		Summary:      "servers of a Hetzner Cloud project",
		SecretFields: []string{"token"},
		Profile: provider.Profile{
			Readiness:          "provisioning-window",
			CreateReturn:       "submit",
			DeleteReturn:       "waits",
			IPSource:           "assigned-at-create",
			GCMark:             "native-labels",
			CreatedAt:          "backend-timestamp",
			ListPartial:        "fail-whole",
			Quota:              "detected",
			NotFound:           "error-code",
			PrimaryKey:         "allocated-id",
			ProvisioningState:  "native",
			AsyncOps:           "backend-lock",
			SecondaryResources: "explicit",
			Credentials:        "environment",
			ClientKind:         "vendor-sdk",
			Timeouts:           "per-call",
			Logging:            "outcome-only",
			ChildSpans:         "transport-wrapper",
			BackendTest:        "integration-tag",
			ReadyPoll:          10 * time.Second,
			GonePoll:           10 * time.Second,
			Settle:             15 * time.Second,
			Surge:              true,
		},
		New: func(_ context.Context, cfg provider.Config) (provider.Provider, error) { return New(cfg) },
	}
}

// Provider is one project of Hetzner Cloud. It is safe for concurrent use.
type Provider struct {
	*provider.StateMap
	name         string
	installation string
	opt          options
	log          *slog.Logger
	secret       func(ctx context.Context, name string) (provider.Sensitive, error)
	client       *hcloud.Client
	rate         atomic.Pointer[RateLimit]

	catalog  catalog
	prices   prices
	soldOut  soldOut
	firewall firewallCache
	keys     keyCache
	networks networkCache
	progress progress

	// cascades is set once an address that came with a server was seen to go with
	// it; writable once the token was seen to have the right to write.
	cascades atomic.Bool
	writable atomic.Bool
	warned   sync.Map // what was warned of, so that it is said once
}

var (
	_ provider.Provider      = (*Provider)(nil)
	_ provider.Checker       = (*Provider)(nil)
	_ provider.Pricer        = (*Provider)(nil)
	_ provider.Placer        = (*Provider)(nil)
	_ provider.Companions    = (*Provider)(nil)
	_ provider.UnknownStater = (*Provider)(nil)
)

// New builds a provider. It fails on bad configuration only and makes no
// request.
func New(cfg provider.Config) (*Provider, error) {
	opt, err := decodeOptions(cfg)
	if err != nil {
		return nil, err
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	p := &Provider{name: cfg.Name, installation: cfg.Installation, opt: opt, secret: cfg.Secret, log: log.With("provider", cfg.Name)}
	p.StateMap = provider.NewStateMap(p.log, states())
	p.client = p.newClient(cfg)
	if opt.open {
		p.log.Warn("the proxies of this provider can be reached from everywhere", "field", "firewall.allowFrom")
	}
	return p, nil
}

// states maps the vendor's words. "unknown" is left out: it says nothing.
func states() map[string]provider.State {
	return map[string]provider.State{
		string(hcloud.ServerStatusInitializing): provider.StateProvisioning,
		string(hcloud.ServerStatusStarting):     provider.StateProvisioning,
		string(hcloud.ServerStatusMigrating):    provider.StateProvisioning,
		string(hcloud.ServerStatusRebuilding):   provider.StateProvisioning,
		string(hcloud.ServerStatusStopping):     provider.StateProvisioning,
		string(hcloud.ServerStatusRunning):      provider.StateRunning,
		string(hcloud.ServerStatusOff):          provider.StateStopped,
		string(hcloud.ServerStatusDeleting):     provider.StateTerminated,
	}
}

// warnOnce logs a warning the first time that key is met.
func (p *Provider) warnOnce(ctx context.Context, key, msg string, args ...any) {
	if _, seen := p.warned.LoadOrStore(key, true); !seen {
		p.log.WarnContext(ctx, msg, args...)
	}
}
