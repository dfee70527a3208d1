// Package kubernetes is the provider of a Kubernetes cluster: each instance is a
// Pod of one namespace.
//
// It is a Pod and not a Deployment of one, because the proxy's workflow is its
// controller already: a second one would bring Pods back that the workflow has
// given up, under names and addresses that nobody chose. A Pod's name is fixed
// before its first create, so the API server itself refuses a second one.
//
// What is made beside a Pod, a Secret with cloud-init and passwords and a
// Service, is made after it: it carries the same marks, names the Pod as its
// owner and is removed with it. A Pod that lacks its Secret waits for it, so
// nothing of it ever has no owner, and nothing secret is in the Pod.
//
// The client neither retries nor waits: Temporal does.
package kubernetes

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// TypeName is the provider type's name in the configuration.
const TypeName = "kubernetes"

// Type describes the provider type.
func Type() provider.Type {
	return provider.Type{
		Name:         TypeName,
		Summary:      "Pods of a Kubernetes namespace",
		SecretFields: []string{"token"},
		Profile: provider.Profile{
			Readiness:          "immediate",
			CreateReturn:       "submit",
			DeleteReturn:       "returns-early",
			IPSource:           "discovered",
			GCMark:             "native-labels",
			CreatedAt:          "backend-timestamp",
			ListPartial:        "fail-whole",
			Quota:              "detected",
			NotFound:           "status-404",
			PrimaryKey:         "name-is-key",
			ProvisioningState:  "native",
			AsyncOps:           "none",
			SecondaryResources: "explicit",
			Credentials:        "workload-identity",
			ClientKind:         "vendor-sdk",
			Timeouts:           "per-call",
			Logging:            "outcome-only",
			ChildSpans:         "transport-wrapper",
			BackendTest:        "cluster-e2e",
			ReadyPoll:          2 * time.Second,
			GonePoll:           5 * time.Second,
			// An API server goes on with a request whose caller has left for as long
			// as its admission webhooks may take.
			Settle: 30 * time.Second,
			Surge:  true,
		},
		New: func(_ context.Context, cfg provider.Config) (provider.Provider, error) { return New(cfg) },
	}
}

// Provider is one namespace of a cluster. It is safe for concurrent use.
type Provider struct {
	*provider.StateMap
	name         string
	installation string
	opt          options
	log          *slog.Logger
	conn         *connection
	// permitted is set once every right was seen to be there, admitted once a Pod
	// like ours was seen to pass the cluster's admission.
	permitted, admitted atomic.Bool
}

var (
	_ provider.Provider      = (*Provider)(nil)
	_ provider.Checker       = (*Provider)(nil)
	_ provider.Companions    = (*Provider)(nil)
	_ provider.UnknownStater = (*Provider)(nil)
)

// New builds a provider. It fails on bad configuration only, makes no request
// and reads no credentials.
func New(cfg provider.Config) (*Provider, error) {
	opt, err := decodeOptions(cfg)
	if err != nil {
		return nil, err
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	log = log.With("provider", cfg.Name)
	return &Provider{
		StateMap: provider.NewStateMap(log, states()),
		name:     cfg.Name, installation: cfg.Installation, opt: opt, log: log,
		conn: newConnection(cfg, opt, log),
	}, nil
}
