package openstack

import (
	"errors"
	"fmt"
	"time"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloud"
	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Options is the block "openstack" of a provider's configuration.
type Options struct {
	// Access says how to get into the cloud. Regions are those that placements may
	// name.
	cloud.Access `yaml:",inline"`

	// Flavor, Image and Zone are for specs that name none.
	Flavor string `yaml:"flavor"`
	Image  string `yaml:"image"`
	Zone   string `yaml:"zone"`
	// Network is where instances have their port, by name or id. Required.
	Network string `yaml:"network"`
	// Subnet, when set, is where the port's address comes from, by name or id.
	Subnet string `yaml:"subnet"`
	// FloatingNetwork is where each instance gets a floating IP from, by name or
	// id. Default: none.
	FloatingNetwork string `yaml:"floatingNetwork"`
	// IPVersion is that of the fixed address that clients connect to: 4 or 6.
	// Default 4.
	IPVersion int `yaml:"ipVersion"`
	// SecurityGroups are those of the port, by name or id. Default: the project's
	// default group.
	SecurityGroups []string `yaml:"securityGroups"`
	// KeyName is an existing key pair.
	KeyName string `yaml:"keyName"`
	// ConfigDrive hands cloud-init over on a drive rather than by the metadata
	// service.
	ConfigDrive bool `yaml:"configDrive"`
	// Volume is a disk of its own for each instance.
	Volume Volume `yaml:"volume"`

	// Poll is how often the end of something is looked for. Default 2s.
	Poll time.Duration `yaml:"poll"`
	// WaitLimit is how long an operation waits for the cloud before it is tried
	// again later. Default 50s.
	WaitLimit time.Duration `yaml:"waitLimit"`
	// PageSize is how many servers or volumes are asked for at once. Default 500.
	PageSize int `yaml:"pageSize"`
}

// Volume is a disk that comes and goes with its instance.
type Volume struct {
	// SizeGB is 1 to 16384; 0 means none.
	SizeGB int `yaml:"sizeGB"`
	// Type is the volume type. Default: the cloud's.
	Type string `yaml:"type"`
	// Zone is its availability zone. Default: the server's, if the volume service has
	// one of that name, and else the cloud's.
	Zone string `yaml:"zone"`
	// Boot makes it the root disk, with the image on it, for flavors without a
	// disk. Otherwise it is an empty second disk.
	Boot bool `yaml:"boot"`
}

// options are checked Options with their defaults.
type options struct {
	Options
	target cloud.Target
}

func decodeOptions(cfg provider.Config) (options, error) {
	var o options
	if cfg.Decode != nil {
		if err := cfg.Decode(&o.Options); err != nil {
			return options{}, err
		}
	}
	c := check{}
	o.target = o.Access.Check(TypeName, c.bad)
	o.Access = o.target.Access
	o.checkParts(&c)
	o.checkTimes(&c)
	return o, errors.Join(c...)
}

// check collects what is wrong with a configuration.
type check []error

func (c *check) bad(format string, args ...any) { *c = append(*c, fmt.Errorf(format, args...)) }

func (o *options) checkParts(c *check) {
	if o.Network == "" {
		c.bad("network: is required: the name or id of the network that instances are in")
	}
	for i, g := range o.SecurityGroups {
		if g == "" {
			c.bad("securityGroups[%d]: is empty: want a name or id", i)
		}
	}
	switch o.IPVersion {
	case 0:
		o.IPVersion = 4
	case 4:
	case 6:
		if o.FloatingNetwork != "" {
			c.bad("ipVersion: 6 with floatingNetwork: floating IPs are IPv4, and clients connect to them")
		}
	default:
		c.bad("ipVersion: %d: want 4 or 6", o.IPVersion)
	}
	switch v := o.Volume; {
	case v.SizeGB < 0 || v.SizeGB > 16_384:
		c.bad("volume.sizeGB: %d: want 1 to 16384, or leave it out for none", v.SizeGB)
	case v.SizeGB == 0 && (v.Type != "" || v.Zone != "" || v.Boot):
		c.bad("volume.sizeGB: is required with volume.type, volume.zone and volume.boot")
	}
	switch {
	case o.PageSize == 0:
		o.PageSize = 500
	case o.PageSize < 1 || o.PageSize > 1000:
		c.bad("pageSize: %d: want 1 to 1000", o.PageSize)
	}
}

func (o *options) checkTimes(c *check) {
	for _, f := range []struct {
		name            string
		value           *time.Duration
		def, least, top time.Duration
	}{
		{"poll", &o.Poll, 2 * time.Second, time.Millisecond, time.Minute},
		{"waitLimit", &o.WaitLimit, 50 * time.Second, time.Second, 10 * time.Minute},
	} {
		if *f.value == 0 {
			*f.value = f.def
		} else if *f.value < f.least || *f.value > f.top {
			c.bad("%s: %v: want %v to %v", f.name, *f.value, f.least, f.top)
		}
	}
}

// partsFor is what the configuration makes beside a server.
func (o options) parts() parts {
	return parts{port: true, floating: o.FloatingNetwork != "", volume: o.Volume.SizeGB > 0}
}
