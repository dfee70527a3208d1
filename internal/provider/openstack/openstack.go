// Package openstack is the provider of OpenStack clouds: each instance is a
// server (nova) of one project, with a port (neutron) of its own and, as
// configured, a floating IP and a volume (cinder).
//
// Names are not unique there. A create looks for its server by name and by its
// port before it makes one, and looks again afterwards: of two that were made at
// the same time one stays, by a rule that everybody follows.
//
// The marks are in the calls that make things: a server's in its metadata, with
// tags beside them that listings filter by, a volume's in its metadata, a port's
// and a floating IP's in their descriptions.
package openstack

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloud"
	"github.com/tollgate-dev/tollgate/internal/provider"
)

// TypeName is the provider type's name in the configuration.
const TypeName = "openstack"

// Type describes the provider type.
func Type() provider.Type {
	return provider.Type{
		Name:         TypeName,
		Summary:      "servers of an OpenStack project",
		SecretFields: cloud.SecretFields(),
		Profile: provider.Profile{
			Readiness:          "provisioning-window",
			CreateReturn:       "submit",
			DeleteReturn:       "waits",
			IPSource:           "discovered",
			GCMark:             "native-labels",
			CreatedAt:          "backend-timestamp",
			ListPartial:        "fail-whole",
			Quota:              "detected",
			NotFound:           "status-404",
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
			ReadyPoll:          5 * time.Second,
			GonePoll:           5 * time.Second,
			Settle:             30 * time.Second,
			Surge:              true,
		},
		New: func(_ context.Context, cfg provider.Config) (provider.Provider, error) { return New(cfg) },
	}
}

// Provider is one project of an OpenStack cloud, in one or several regions. It
// is safe for concurrent use.
type Provider struct {
	*provider.StateMap
	name         string
	installation string
	opt          options
	log          *slog.Logger

	cloud    *cloud.Cloud
	catalogs sync.Map // *catalog by the region's name

	names    nameLocks
	progress progress
}

var (
	_ provider.Provider      = (*Provider)(nil)
	_ provider.Checker       = (*Provider)(nil)
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
	p := &Provider{name: cfg.Name, installation: cfg.Installation, opt: opt, log: log.With("provider", cfg.Name)}
	p.StateMap = provider.NewStateMap(p.log, states())
	needs := []string{cloud.Network, cloud.Image}
	if opt.Volume.SizeGB > 0 {
		needs = append(needs, cloud.Volume)
	}
	p.cloud = cloud.New(opt.target, cloud.Config{Secret: cfg.Secret, Needs: needs, Wrap: func(base http.RoundTripper) http.RoundTripper {
		return cfg.WithBudget(base, opt.target.Account)
	}})
	if opt.target.Insecure {
		p.log.Warn("the certificates of this provider's API are not checked", "field", "verify")
	}
	return p, nil
}

// states maps nova's words. UNKNOWN is left out: it says nothing.
func states() map[string]provider.State {
	return map[string]provider.State{
		"BUILD":             provider.StateProvisioning,
		"REBUILD":           provider.StateProvisioning,
		"REBOOT":            provider.StateProvisioning,
		"HARD_REBOOT":       provider.StateProvisioning,
		"RESIZE":            provider.StateProvisioning,
		"REVERT_RESIZE":     provider.StateProvisioning,
		"ACTIVE":            provider.StateRunning,
		"PASSWORD":          provider.StateRunning,
		"MIGRATING":         provider.StateRunning,
		"VERIFY_RESIZE":     provider.StateRunning,
		"SHUTOFF":           provider.StateStopped,
		"PAUSED":            provider.StateStopped,
		"SUSPENDED":         provider.StateStopped,
		"RESCUE":            provider.StateStopped,
		"SHELVED":           provider.StateStopped,
		"SHELVED_OFFLOADED": provider.StateStopped,
		"ERROR":             provider.StateStopped,
		"DELETED":           provider.StateTerminated,
		"SOFT_DELETED":      provider.StateTerminated,
	}
}
