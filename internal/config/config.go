// Package config reads Tollgate's one configuration file: strictly, with every
// problem reported at its line, and again whenever the file changes.
//
// Secrets are held by reference only: the file names an environment variable or
// a file, and the value is read when somebody asks for it.
package config

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/strictyaml"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Defaults of the settings that a file may leave out.
const (
	DefaultShards         = 1
	DefaultRate           = 20.0
	DefaultBurst          = 40
	DefaultLocalRate      = 1000.0 // of types without an API that could be overrun
	DefaultDriftInterval  = 2 * time.Minute
	DefaultProbeInterval  = 30 * time.Second
	DefaultProbeTimeout   = 5 * time.Second
	DefaultUnhealthyAfter = 3
	DefaultHealthyAfter   = 1
	DefaultBrakeFraction  = 0.2
	DefaultBrakeMin       = 3
	DefaultConcurrency    = 64
	DefaultGCInterval     = 10 * time.Minute
	DefaultGCMinAge       = api.DefaultOrphanMinAge
	DefaultGCConfirmAfter = api.DefaultOrphanConfirmAfter
	DefaultGCCap          = api.DefaultOrphanCap
	DefaultHealthInterval = api.DefaultHealthInterval
)

// Config is one version of the configuration file with its defaults filled in.
// It is never modified after Load, so it may be shared between goroutines.
type Config struct {
	// Installation is the id that the marks of every instance carry.
	Installation string
	// Providers are in the order of the file; names are unique.
	Providers []Provider
	// Sources and Sinks are in the order of the file; names are unique among each.
	Sources []Source
	Sinks   []Sink
	// Secrets are what secretRef may name.
	Secrets map[string]Secret
	Probe   Probe
	GC      GC
	Health  Health
	// Reap are the schedules that delete what is old, in the order of the file.
	Reap []Reap
	// Discovery configures the HTTP API for clients.
	Discovery Discovery
	Codec     Codec
	Log       Log

	// File is the path that was read, and Version a hash of its bytes.
	File    string
	Version string

	// secrets is the version of the secrets' contents when the file was read:
	// whoever reads them later has these or newer ones.
	secrets string
}

// Provider is one configured provider.
type Provider struct {
	Name string
	Type string
	// Shards is the number of shards of the provider's fleet table.
	Shards int
	// Budget limits the calls to this account.
	Budget Budget
	// Requests limits the HTTP requests to this account.
	Requests Requests
	// SpendCap is the most that the provider's instances may cost per hour; 0 means
	// no cap.
	SpendCap provider.MicroEUR
	// Prices are what its instances cost, where the backend does not say it.
	Prices provider.PriceList
	// DriftInterval is the time between two listings of the provider.
	DriftInterval time.Duration

	// field is the path of the block, and line where the provider stands.
	file, field string
	line        int
	block       *strictyaml.Document // nil when the file has none
}

// Budget is a rate of calls to one account, shared by all workers as far as the
// server enforces it and by all calls of one worker.
type Budget struct {
	RequestsPerSecond float64
	// Burst is how many calls one worker may make at once.
	Burst int
}

// Secret says where a secret value comes from: exactly one field is set.
type Secret struct {
	// File is a path; the configuration file's folder is already put in front of
	// a relative one.
	File string
	// Env is the name of an environment variable.
	Env string
}

// Probe configures the CONNECT probe.
type Probe struct {
	// Target is host:port of what probes connect to through a proxy. Empty means
	// the worker's own HTTP server, which only proxies on this machine can reach.
	Target   string
	Interval time.Duration
	Timeout  time.Duration
	// UnhealthyAfter and HealthyAfter are consecutive results.
	UnhealthyAfter int
	HealthyAfter   int
	TLS            ProbeTLS
	// BrakeFraction (0 to 1] and BrakeMin: when so many fail at once, nobody is
	// replaced.
	BrakeFraction float64
	BrakeMin      int
	// Concurrency bounds the probes that one worker makes at once.
	Concurrency int
}

// ProbeTLS asks for a verified TLS handshake with the target through the proxy.
type ProbeTLS struct {
	Enabled bool
	// ServerName is what the certificate must be for; empty means the target's
	// host.
	ServerName string
	// CAFile holds PEM certificates; empty means the system's.
	CAFile string
}

// GC configures the sweeps.
type GC struct {
	Interval     time.Duration
	MinAge       time.Duration
	ConfirmAfter time.Duration
	// Cap is the most that one sweep deletes; with more candidates it deletes
	// nothing.
	Cap int
}

// Health configures the checks of the providers.
type Health struct{ Interval time.Duration }

// Discovery configures the HTTP API for clients.
type Discovery struct {
	// Token names the secret that holds the bearer token; empty means that the
	// API asks for none.
	Token string
}

// Codec configures the encryption of payloads.
type Codec struct {
	// KeyFile is the keyring; empty means the one in the state directory.
	KeyFile string
	// Token names the secret with which people and the web UI reach the codec
	// endpoint; empty means that there is no endpoint.
	Token string
	// UIURL is the address of Temporal's web UI, which may call the endpoint from
	// a browser.
	UIURL string
}

// Log configures the log.
type Log struct {
	Level  slog.Level
	Format string // text or json
}

// Decode reads the provider's own block strictly into a pointer to a struct with
// yaml tags; into keeps its values where the block is silent. Errors name file,
// line and field.
func (p Provider) Decode(into any) error {
	if p.block == nil {
		return nil
	}
	return p.block.Decode(into)
}

// Annotate gives file, line and path to what the provider's type says of its
// block: errors that start with a field of the block and a colon, joined or not.
func (p Provider) Annotate(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var out []error
		for _, e := range joined.Unwrap() {
			out = append(out, p.Annotate(e))
		}
		return errors.Join(out...)
	}
	var located *strictyaml.Error
	switch {
	case err == nil, errors.As(err, &located):
		return err
	case p.block == nil:
		return &strictyaml.Error{File: p.file, Line: p.line, Path: p.field, Msg: err.Error(), Err: err}
	}
	return p.block.Annotate(fmt.Errorf("%s.%w", p.field, err))
}

// Provider returns the provider of that name.
func (c *Config) Provider(name string) (Provider, bool) {
	for _, p := range c.Providers {
		if p.Name == name {
			return p, true
		}
	}
	return Provider{}, false
}

// Names returns the configured names of the providers, in the order of the
// file.
func (c *Config) Names() []string {
	names := make([]string, len(c.Providers))
	for i, p := range c.Providers {
		names[i] = p.Name
	}
	return names
}

// HealthConfig is what the health of a provider is told, given its hash.
func (c *Config) HealthConfig(hash string) api.HealthConfig {
	return api.HealthConfig{Interval: api.Duration(c.Health.Interval), ConfigHash: hash}
}

// FleetConfig is what the fleet of p is told, given p's hash (see ProviderHash).
func (c *Config) FleetConfig(p Provider, hash string) api.FleetConfig {
	return api.FleetConfig{
		ConfigHash:     hash,
		Shards:         p.Shards,
		DriftInterval:  api.Duration(p.DriftInterval),
		ProbeInterval:  api.Duration(c.Probe.Interval),
		UnhealthyAfter: c.Probe.UnhealthyAfter,
		HealthyAfter:   c.Probe.HealthyAfter,
		BrakeFraction:  c.Probe.BrakeFraction,
		BrakeMin:       c.Probe.BrakeMin,
		SpendCap:       p.SpendCap,
	}
}
