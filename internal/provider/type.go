package provider

import (
	"context"
	"log/slog"
	"time"
)

// Type is one kind of provider: what internal/provider/all lists, one line each.
type Type struct {
	// Name is the type's name in the configuration, a DNS label.
	Name string
	// Summary is one line for tables.
	Summary string
	Profile Profile
	// SecretFields are the fields of the type's block that name entries of secrets,
	// such as auth.password. Those whose key ends in secretRef need not be listed.
	SecretFields []string
	// New builds a provider from its block of the configuration. It fails on bad
	// configuration only and never dials: an unreachable backend must not keep
	// the others from starting.
	New func(ctx context.Context, cfg Config) (Provider, error)
}

// Config is what a provider is built from.
type Config struct {
	// Name is the configured name, which specs refer to.
	Name string
	// Installation is the id that marks carry.
	Installation string
	// StateDir is a directory of the provider's own that survives restarts, for
	// backends on this machine. It may not exist yet.
	StateDir string
	// Decode reads the type's own block strictly into a pointer to a struct with
	// yaml tags. An absent block leaves the struct as it is.
	Decode func(into any) error
	// Secret resolves a reference by its name in the configuration's secrets.
	Secret func(ctx context.Context, name string) (Sensitive, error)
	// Transport counts the requests of drivers that speak HTTP against the budget
	// of their account; nil leaves them uncounted. See WithBudget.
	Transport Transport
	Logger    *slog.Logger
}

// Profile is a type's answer on every axis of the contract; docs/providers and
// the support matrix are checked against it.
type Profile struct {
	Readiness          string // immediate | provisioning-window
	CreateReturn       string // submit | blocking
	DeleteReturn       string // returns-early | waits
	IPSource           string // assigned-at-create | discovered
	GCMark             string // native-labels | written-metadata | mark-window
	CreatedAt          string // backend-timestamp | written-at-create
	ListPartial        string // fail-whole | omit-unreachable
	Quota              string // detected | absent
	NotFound           string // status-404 | error-code | list-and-miss
	PrimaryKey         string // name-is-key | allocated-id
	ProvisioningState  string // native | create-blocks | marker
	AsyncOps           string // none | task-handle | backend-lock
	SecondaryResources string // none | cascade | explicit
	Credentials        string // none | mounted-files | environment | workload-identity
	ClientKind         string // vendor-sdk | thin-client | local-process
	Timeouts           string // per-call | ctx-only
	Logging            string // tiered | outcome-only | none
	ChildSpans         string // sdk-instrumentation | transport-wrapper | span-decorator | none
	BackendTest        string // cluster-e2e | integration-tag | manual-runbook | make-test

	// ReadyPoll is the interval at which a new instance is asked for; GonePoll
	// the one at which a deleted one is.
	ReadyPoll time.Duration
	GonePoll  time.Duration
	// Settle is how long after the end of a create call its instance may still
	// appear. A clean-up after a create of unknown outcome looks again after it.
	Settle time.Duration
	// Surge: two instances of one proxy can exist side by side, so that a
	// replacement can be created before its predecessor is deleted.
	Surge bool
	// Isolated is true when instances are reachable from this machine only.
	Isolated bool
}
