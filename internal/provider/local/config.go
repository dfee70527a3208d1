package local

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Options is the block "local" of a provider's configuration.
type Options struct {
	// Dir holds the instances. Default: the provider's own directory in the state
	// directory. Installations may share one.
	Dir string `yaml:"dir"`
	// Network is the range of 127.0.0.0/8 that addresses come from. Default
	// 127.77.0.0/16.
	Network string `yaml:"network"`
	// Binary is the path of tollgate-proxy. Default: $TOLLGATE_PROXY_BINARY, then
	// beside the running program, then in $PATH.
	Binary string `yaml:"binary"`
	// MaxInstances is how many instances an installation may have in Dir; 0 is
	// no limit.
	MaxInstances int `yaml:"maxInstances"`
	// AllowPorts are the target ports that new proxies let clients reach; empty
	// is all.
	AllowPorts []int `yaml:"allowPorts"`
	// IdleTimeout ends a tunnel without traffic. Default 10m.
	IdleTimeout time.Duration `yaml:"idleTimeout"`
	// Drain is how long open connections may finish when an instance is deleted;
	// at most 10s. Default 1s.
	Drain *time.Duration `yaml:"drain"`
}

// options are checked Options with their defaults.
type options struct {
	dir          string
	network      netip.Prefix
	binary       string
	maxInstances int
	allowPorts   []int
	idleTimeout  time.Duration
	drain        time.Duration
}

const (
	defaultNetwork     = "127.77.0.0/16"
	defaultIdleTimeout = 10 * time.Minute
	defaultDrain       = time.Second
	maxDrain           = 10 * time.Second
)

var loopback = netip.MustParsePrefix("127.0.0.0/8")

func decodeOptions(cfg provider.Config) (options, error) {
	var o Options
	if cfg.Decode != nil {
		if err := cfg.Decode(&o); err != nil {
			return options{}, err
		}
	}
	out := options{
		binary: o.Binary, maxInstances: o.MaxInstances, allowPorts: o.AllowPorts,
		idleTimeout: o.IdleTimeout, drain: defaultDrain,
	}
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if !supported {
		bad("type: %q needs Linux: it rests on open file description locks and the whole of 127.0.0.0/8", TypeName)
	}
	dir := o.Dir
	if dir == "" {
		dir = cfg.StateDir
	}
	if dir == "" {
		bad("dir: is required when there is no state directory")
	} else if abs, err := filepath.Abs(dir); err != nil {
		bad("dir: %q: %w", dir, err)
	} else {
		out.dir = abs
	}
	if o.Network == "" {
		o.Network = defaultNetwork
	}
	network, err := netip.ParsePrefix(o.Network)
	switch {
	case err != nil:
		bad("network: %q is no address range: want one such as %s", o.Network, defaultNetwork)
	case !network.Addr().Is4() || !loopback.Contains(network.Addr()) || network.Bits() < loopback.Bits() || network.Bits() > 30:
		bad("network: %q: want a range of 127.0.0.0/8, no smaller than a /30", o.Network)
	default:
		out.network = network.Masked()
	}
	if o.MaxInstances < 0 {
		bad("maxInstances: %d: want 0 for no limit, or more", o.MaxInstances)
	}
	for i, port := range o.AllowPorts {
		if port < 1 || port > 65535 {
			bad("allowPorts[%d]: %d: want 1 to 65535", i, port)
		}
	}
	switch {
	case o.IdleTimeout == 0:
		out.idleTimeout = defaultIdleTimeout
	case o.IdleTimeout < time.Second:
		bad("idleTimeout: %v: want 1s or more", o.IdleTimeout)
	}
	if o.Drain != nil {
		out.drain = *o.Drain
		if out.drain < 0 || out.drain > maxDrain {
			bad("drain: %v: want 0s to %v", out.drain, maxDrain)
		}
	}
	return out, errors.Join(errs...)
}
