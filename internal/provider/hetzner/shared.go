package hetzner

import (
	"context"
	"crypto/md5" //nolint:gosec // the vendor's fingerprints are MD5
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/gate"
	"github.com/tollgate-dev/tollgate/internal/provider"
)

// publicKey is a configured key with the vendor's fingerprint of it.
type publicKey struct {
	SSHKey
	fingerprint string
}

// parsePublicKey checks a key in authorized_keys form.
func parsePublicKey(k SSHKey) (publicKey, error) {
	if k.Name == "" {
		return publicKey{}, errors.New("name: is required")
	}
	f := strings.Fields(k.PublicKey)
	if len(f) < 2 || !strings.HasPrefix(f[0], "ssh-") && !strings.HasPrefix(f[0], "ecdsa-") {
		return publicKey{}, fmt.Errorf("publicKey: of %q is no public key: want one such as \"ssh-ed25519 AAAA...\"", k.Name)
	}
	blob, err := base64.StdEncoding.DecodeString(f[1])
	if err != nil {
		return publicKey{}, fmt.Errorf("publicKey: of %q is no public key: %w", k.Name, err)
	}
	sum := md5.Sum(blob) //nolint:gosec // see the import
	hex := make([]string, len(sum))
	for i, b := range sum {
		hex[i] = fmt.Sprintf("%02x", b)
	}
	return publicKey{SSHKey: k, fingerprint: strings.Join(hex, ":")}, nil
}

// keyCache remembers the ids of the configured keys.
type keyCache struct {
	gate gate.Gate
	ids  []int64
	read time.Time
}

// ensureKeys returns the configured SSH keys, found by fingerprint, since the
// project has each key once whatever its name; a missing one is made. Keys are
// settings of the project and stay when instances go.
func (p *Provider) ensureKeys(ctx context.Context) ([]*hcloud.SSHKey, error) {
	if len(p.opt.keys) == 0 {
		return nil, nil
	}
	c := &p.keys
	if err := c.gate.Lock(ctx); err != nil {
		return nil, err
	}
	defer c.gate.Unlock()
	if c.read.IsZero() || time.Since(c.read) > sharedTTL {
		var ids []int64
		for _, k := range p.opt.keys {
			id, err := p.ensureKey(ctx, k)
			if err != nil {
				return nil, fmt.Errorf("SSH key %q: %w", k.Name, err)
			}
			ids = append(ids, id)
		}
		c.ids, c.read = ids, time.Now()
	}
	out := make([]*hcloud.SSHKey, 0, len(c.ids))
	for _, id := range c.ids {
		out = append(out, &hcloud.SSHKey{ID: id})
	}
	return out, nil
}

func (p *Provider) ensureKey(ctx context.Context, k publicKey) (int64, error) {
	name := k.Name
	for range 3 {
		have, _, err := p.client.SSHKey.GetByFingerprint(ctx, k.fingerprint)
		if err != nil {
			return 0, err
		}
		if have != nil {
			return have.ID, nil
		}
		labels := provider.Marks{Installation: p.installation}.Labels()
		labels[labelProvider] = p.name
		made, _, err := p.client.SSHKey.Create(ctx, hcloud.SSHKeyCreateOpts{Name: name, PublicKey: k.PublicKey, Labels: labels})
		switch {
		case err == nil && made != nil && made.ID != 0:
			return made.ID, nil
		case err == nil:
			return 0, errAnswer
		case !isCode(err, hcloud.ErrorCodeUniquenessError):
			return 0, err
		}
		// Another key has the name, or somebody made this one just now.
		name = k.Name + "-" + strings.ReplaceAll(k.fingerprint, ":", "")[:8]
	}
	return 0, errMoving
}

// networkCache remembers the configured networks.
type networkCache struct {
	gate gate.Gate
	list []*hcloud.Network
	read time.Time
}

// ensureNetworks returns the configured private networks for a location, with
// their default routes in place.
func (p *Provider) ensureNetworks(ctx context.Context, at *hcloud.Location) ([]*hcloud.Network, error) {
	if len(p.opt.Networks) == 0 {
		return nil, nil
	}
	c := &p.networks
	if err := c.gate.Lock(ctx); err != nil {
		return nil, err
	}
	defer c.gate.Unlock()
	if c.read.IsZero() || time.Since(c.read) > sharedTTL {
		var list []*hcloud.Network
		for i, n := range p.opt.Networks {
			have, _, err := p.client.Network.Get(ctx, n.Name)
			if err != nil {
				return nil, err
			}
			if have == nil {
				return nil, p.networkErr(i, "there is no network %q in the project", n.Name)
			}
			if err := p.ensureRoute(ctx, i, have); err != nil {
				return nil, err
			}
			list = append(list, have)
		}
		c.list, c.read = list, time.Now()
	}
	out := make([]*hcloud.Network, 0, len(c.list))
	for i, n := range c.list {
		if !slices.ContainsFunc(n.Subnets, func(s hcloud.NetworkSubnet) bool { return s.NetworkZone == at.NetworkZone }) {
			return nil, p.networkErr(i, "%q has %w %s of %s", n.Name, errZone, at.NetworkZone, at.Name)
		}
		out = append(out, &hcloud.Network{ID: n.ID})
	}
	return out, nil
}

// errZone is a network that does not reach a location.
var errZone = errors.New("no subnet in the network zone")

func (p *Provider) networkErr(i int, format string, args ...any) error {
	return provider.Wrap(provider.Permanent, provider.OpCreate, p.name, "",
		fmt.Errorf("networks["+strconv.Itoa(i)+"]: "+format, args...))
}

// everywhere is the destination of a default route.
var everywhere = netip.MustParsePrefix("0.0.0.0/0")

// ensureRoute adds the default route through the configured gateway.
func (p *Provider) ensureRoute(ctx context.Context, i int, n *hcloud.Network) error {
	gw := p.opt.gateways[i]
	if !gw.IsValid() {
		return nil
	}
	for _, r := range n.Routes {
		if r.Destination == nil || r.Destination.String() != everywhere.String() {
			continue
		}
		if r.Gateway.String() == gw.String() {
			return nil
		}
		return p.networkErr(i, "%q has a default route through %s, not through %s", n.Name, r.Gateway, gw)
	}
	_, _, err := p.client.Network.AddRoute(ctx, n, hcloud.NetworkAddRouteOpts{Route: hcloud.NetworkRoute{
		Destination: &net.IPNet{IP: everywhere.Addr().AsSlice(), Mask: net.CIDRMask(0, 32)}, Gateway: gw.AsSlice(),
	}})
	if err == nil {
		p.log.InfoContext(ctx, "default route added", "network", n.Name, "gateway", gw.String())
	}
	return err
}
