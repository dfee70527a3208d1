package hetzner

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Options is the block "hetzner" of a provider's configuration.
type Options struct {
	// Token names the secret that holds the API token, a token with the right to
	// read and write. Default: the environment variable HCLOUD_TOKEN.
	Token string `yaml:"token"`
	// Endpoint is the base URL of the API. Default: the environment variable
	// HCLOUD_ENDPOINT, then the vendor's.
	Endpoint string `yaml:"endpoint"`
	// Image is the image of specs that name none: a name such as "debian-13", or
	// the id of an image or snapshot.
	Image string `yaml:"image"`
	// Candidates are the places that a create tries in this order when one is
	// sold out, for what the spec leaves open.
	Candidates []Candidate `yaml:"candidates"`
	// IPv4 and IPv6 say where the public addresses come from: "auto" (with the
	// server), "own" (a primary IP of its own, named and labelled), "none".
	// Default auto.
	IPv4 string `yaml:"ipv4"`
	IPv6 string `yaml:"ipv6"`
	// Address is the one that clients connect to: ipv4, ipv6 or private. Default:
	// the first of these that instances have.
	Address string `yaml:"address"`
	// Firewall says who may connect. Required for instances with a public address
	// unless Firewalls is given.
	Firewall Firewall `yaml:"firewall"`
	// Firewalls are existing firewalls, by name or id, that are applied as well.
	Firewalls []string `yaml:"firewalls"`
	// SSHKeys are put into new instances.
	SSHKeys []SSHKey `yaml:"sshKeys"`
	// Networks are private networks that instances are attached to.
	Networks []Network `yaml:"networks"`
	// Volume is a disk of its own for each instance.
	Volume Volume `yaml:"volume"`
	// Poll is how often the end of an action is looked for. Default 2s.
	Poll time.Duration `yaml:"poll"`
	// CallTimeout bounds each request. Default 30s.
	CallTimeout time.Duration `yaml:"callTimeout"`
	// WaitLimit is how long a delete waits for the vendor's actions before it is
	// tried again later. Default 50s.
	WaitLimit time.Duration `yaml:"waitLimit"`
}

// Candidate is a place and a kind of server.
type Candidate struct {
	Location   string `yaml:"location"`
	ServerType string `yaml:"serverType"`
}

func (c Candidate) String() string { return c.Location + "/" + c.ServerType }

// Firewall lets clients in.
type Firewall struct {
	// AllowFrom are the networks that may connect to the proxy's port, those of
	// the workers, which probe, among them.
	AllowFrom []string `yaml:"allowFrom"`
	// SSHFrom are the networks that may connect to port 22. Default none.
	SSHFrom []string `yaml:"sshFrom"`
}

// SSHKey is a public key that is made in the project unless it is there.
type SSHKey struct {
	Name      string `yaml:"name"`
	PublicKey string `yaml:"publicKey"`
}

// Network is an existing private network.
type Network struct {
	// Name is its name or id.
	Name string `yaml:"name"`
	// Gateway, when set, is an address of the network through which instances
	// reach the internet: a default route to it is added to the network.
	Gateway string `yaml:"gateway"`
}

// Volume is a disk that comes and goes with its instance.
type Volume struct {
	// SizeGB is 10 to 10240; 0 means none.
	SizeGB int `yaml:"sizeGB"`
	// Format is ext4 or xfs, mounted by the guest; empty means not formatted.
	Format string `yaml:"format"`
}

// Ways to get a public address.
const (
	fromServer = "auto"
	fromOwn    = "own"
	fromNone   = "none"
)

// Addresses that clients connect to.
const (
	addrIPv4    = "ipv4"
	addrIPv6    = "ipv6"
	addrPrivate = "private"
)

// options are checked Options with their defaults.
type options struct {
	Options
	tokenEnv  bool // the token comes from the environment
	allow     []netip.Prefix
	ssh       []netip.Prefix
	open      bool // allow holds everybody
	keys      []publicKey
	gateways  []netip.Addr // of Networks, by index
	addresses []string     // preference of addresses
}

const (
	envToken    = "HCLOUD_TOKEN" //nolint:gosec // the name of a variable
	envEndpoint = "HCLOUD_ENDPOINT"
	maxCands    = 16
)

func (o options) public() bool { return o.IPv4 != fromNone || o.IPv6 != fromNone }

func decodeOptions(cfg provider.Config) (options, error) {
	var o options
	if cfg.Decode != nil {
		if err := cfg.Decode(&o.Options); err != nil {
			return options{}, err
		}
	}
	c := check{}
	o.checkAccess(&c)
	o.checkPlaces(&c)
	o.checkAddresses(&c)
	o.checkFirewall(&c)
	o.checkParts(&c)
	o.checkTimes(&c)
	return o, errors.Join(c...)
}

// check collects what is wrong with a configuration.
type check []error

func (c *check) bad(format string, args ...any) { *c = append(*c, fmt.Errorf(format, args...)) }

func (o *options) checkAccess(c *check) {
	if o.Token == "" {
		if os.Getenv(envToken) == "" {
			c.bad("token: is required: the name of a secret with an API token, unless $%s holds one", envToken)
		}
		o.tokenEnv = true
	} else if err := provider.ValidateName("token", o.Token); err != nil {
		c.bad("%w", err)
	}
	if o.Endpoint == "" {
		o.Endpoint = os.Getenv(envEndpoint)
	}
	if o.Endpoint == "" {
		o.Endpoint = hcloud.Endpoint
	}
	if u, err := url.Parse(o.Endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		c.bad("endpoint: %q is no URL: want one such as %s", o.Endpoint, hcloud.Endpoint)
	} else if u.User != nil || u.RawQuery != "" {
		c.bad("endpoint: must hold neither credentials nor a query: use token")
	}
}

func (o *options) checkPlaces(c *check) {
	if len(o.Candidates) > maxCands {
		c.bad("candidates: %d are too many: want at most %d", len(o.Candidates), maxCands)
	}
	for i, cand := range o.Candidates {
		if cand.Location == "" && cand.ServerType == "" {
			c.bad("candidates[%d]: location or serverType is required", i)
		}
		if slices.Contains(o.Candidates[:i], cand) {
			c.bad("candidates[%d]: %s is there twice", i, cand)
		}
	}
}

func (o *options) checkAddresses(c *check) {
	for _, f := range []struct {
		name  string
		value *string
	}{{"ipv4", &o.IPv4}, {"ipv6", &o.IPv6}} {
		switch *f.value {
		case "":
			*f.value = fromServer
		case fromServer, fromOwn, fromNone:
		default:
			c.bad("%s: %q: want one of %s, %s, %s", f.name, *f.value, fromServer, fromOwn, fromNone)
		}
	}
	has := map[string]bool{addrIPv4: o.IPv4 != fromNone, addrIPv6: o.IPv6 != fromNone, addrPrivate: len(o.Networks) > 0}
	order := []string{addrIPv4, addrIPv6, addrPrivate}
	if o.Address != "" {
		if !slices.Contains(order, o.Address) {
			c.bad("address: %q: want one of %s", o.Address, strings.Join(order, ", "))
		} else if !has[o.Address] {
			c.bad("address: instances have no address %q: see ipv4, ipv6 and networks", o.Address)
		}
		o.addresses = append(o.addresses, o.Address)
	}
	for _, a := range order {
		if a != o.Address {
			o.addresses = append(o.addresses, a)
		}
	}
	if !o.public() && len(o.Networks) == 0 {
		c.bad("networks: is required when ipv4 and ipv6 are %s: instances would have no network", fromNone)
	}
}

func (o *options) checkFirewall(c *check) {
	o.allow = parseNets(c, "firewall.allowFrom", o.Firewall.AllowFrom)
	o.ssh = parseNets(c, "firewall.sshFrom", o.Firewall.SSHFrom)
	o.open = slices.ContainsFunc(o.allow, func(n netip.Prefix) bool { return n.Bits() == 0 })
	switch {
	case o.public() && len(o.Firewall.AllowFrom) == 0 && len(o.Firewalls) == 0:
		c.bad("firewall.allowFrom: is required for instances with a public address: the networks that may use the proxies, " +
			"such as 203.0.113.0/24; 0.0.0.0/0 and ::/0 let everybody in")
	case !o.public() && (len(o.Firewall.AllowFrom) > 0 || len(o.Firewalls) > 0):
		c.bad("firewall: is for public addresses only, and ipv4 and ipv6 are %s", fromNone)
	case len(o.Firewall.AllowFrom) == 0 && len(o.Firewall.SSHFrom) > 0:
		c.bad("firewall.allowFrom: is required with firewall.sshFrom")
	}
	if n := len(o.Firewalls); n > 4 {
		c.bad("firewalls: %d are too many: a server has at most 5, and one is ours", n)
	}
}

func parseNets(c *check, field string, texts []string) []netip.Prefix {
	var out []netip.Prefix
	for i, text := range texts {
		n, err := netip.ParsePrefix(text)
		if err != nil {
			if a, aerr := netip.ParseAddr(text); aerr == nil {
				n, err = netip.PrefixFrom(a, a.BitLen()), nil
			}
		}
		if err != nil {
			c.bad("%s[%d]: %q is no network: want one such as 203.0.113.0/24 or 2001:db8::/32", field, i, text)
			continue
		}
		out = append(out, n.Masked())
	}
	if len(out) > 100 {
		c.bad("%s: %d networks are too many: want at most 100", field, len(out))
	}
	return out
}

func (o *options) checkParts(c *check) {
	for i, k := range o.SSHKeys {
		key, err := parsePublicKey(k)
		if err != nil {
			c.bad("sshKeys[%d].%w", i, err)
		}
		o.keys = append(o.keys, key)
	}
	for i, n := range o.Networks {
		if n.Name == "" {
			c.bad("networks[%d].name: is required: the name or id of an existing network", i)
		}
		var gw netip.Addr
		if n.Gateway != "" {
			var err error
			if gw, err = netip.ParseAddr(n.Gateway); err != nil || !gw.IsPrivate() || !gw.Is4() {
				c.bad("networks[%d].gateway: %q is no address of a private network", i, n.Gateway)
			}
		}
		o.gateways = append(o.gateways, gw)
	}
	switch v := o.Volume; {
	case v.SizeGB != 0 && (v.SizeGB < 10 || v.SizeGB > 10_240):
		c.bad("volume.sizeGB: %d: want 10 to 10240, or leave it out for none", v.SizeGB)
	case v.Format != "" && v.SizeGB == 0:
		c.bad("volume.sizeGB: is required with volume.format")
	case v.Format != "" && v.Format != "ext4" && v.Format != "xfs":
		c.bad("volume.format: %q: want ext4 or xfs", v.Format)
	}
}

func (o *options) checkTimes(c *check) {
	for _, f := range []struct {
		name            string
		value           *time.Duration
		def, least, top time.Duration
	}{
		{"poll", &o.Poll, 2 * time.Second, time.Millisecond, time.Minute},
		{"callTimeout", &o.CallTimeout, 30 * time.Second, time.Second, 5 * time.Minute},
		{"waitLimit", &o.WaitLimit, 50 * time.Second, time.Second, 10 * time.Minute},
	} {
		if *f.value == 0 {
			*f.value = f.def
		} else if *f.value < f.least || *f.value > f.top {
			c.bad("%s: %v: want %v to %v", f.name, *f.value, f.least, f.top)
		}
	}
}
