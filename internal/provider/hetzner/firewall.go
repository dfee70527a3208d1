package hetzner

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/gate"
	"github.com/tollgate-dev/tollgate/internal/provider"
)

// The firewall is shared by all instances of the provider with one port: the
// vendor allows 50 firewalls in all and 5 per server, so one per instance would
// end a fleet at 50.
// Source: https://docs.hetzner.com/cloud/firewalls/faq/ (read 2026-11).

// firewallCache remembers the shared firewalls by port, and the ids of the
// configured ones.
type firewallCache struct {
	mu     sync.Mutex
	byPort map[int]cachedID

	making gate.Gate
	named  []int64 // with making
	read   time.Time

	dropping gate.Gate
	dropped  map[int]time.Time // with dropping: when the latest good attempt began, by port
}

func (c *firewallCache) get(port int) cachedID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byPort[port]
}

func (c *firewallCache) put(port int, id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byPort == nil {
		c.byPort = map[int]cachedID{}
	}
	c.byPort[port] = cachedID{id, time.Now()}
}

type cachedID struct {
	id int64
	at time.Time
}

// sharedTTL is how long something shared is believed to be as it was made.
const sharedTTL = 10 * time.Minute

// forget drops what is known of a port's firewall.
func (c *firewallCache) forget(port int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byPort, port)
}

// longestName is the vendor's limit for names.
const longestName = 128

func (p *Provider) firewallName(port int) string {
	name := fmt.Sprintf("tollgate-%s-%s-%d", p.installation, p.name, port)
	if len(name) > longestName {
		sum := sha256.Sum256([]byte(name))
		name = fmt.Sprintf("tollgate-%x-%d", sum[:16], port)
	}
	return name
}

// ensureFirewall returns the shared firewall of a port, made or brought up to
// date where needed. fresh says that this call made it.
func (p *Provider) ensureFirewall(ctx context.Context, port int) (id int64, fresh bool, err error) {
	c := &p.firewall
	if err := c.making.Lock(ctx); err != nil {
		return 0, false, err
	}
	defer c.making.Unlock()
	if e := c.get(port); e.id != 0 && time.Since(e.at) < sharedTTL {
		return e.id, false, nil
	}
	name := p.firewallName(port)
	for range 3 {
		fw, _, err := p.client.Firewall.GetByName(ctx, name)
		if err != nil {
			return 0, false, err
		}
		if fw == nil {
			labels := provider.Marks{Installation: p.installation}.Labels()
			labels[labelProvider], labels[labelPort] = p.name, strconv.Itoa(port)
			res, _, err := p.client.Firewall.Create(ctx, hcloud.FirewallCreateOpts{Name: name, Labels: labels, Rules: p.rules(port)})
			if isCode(err, hcloud.ErrorCodeUniquenessError) {
				continue // somebody was faster
			}
			if err == nil && (res.Firewall == nil || res.Firewall.ID == 0) {
				err = errAnswer
			}
			if err != nil {
				return 0, false, err
			}
			fw, fresh = res.Firewall, true
		} else if fresh = false; marksOf(fw.Labels).Installation != p.installation {
			return 0, false, provider.Wrap(provider.Conflict, provider.OpCreate, p.name, name,
				fmt.Errorf("a firewall named %q exists and is not ours", name))
		} else if !sameRules(fw.Rules, p.rules(port)) {
			if _, _, err := p.client.Firewall.SetRules(ctx, fw, hcloud.FirewallSetRulesOpts{Rules: p.rules(port)}); err != nil {
				if isCode(err, hcloud.ErrorCodeNotFound) {
					continue
				}
				return 0, false, err
			}
		}
		c.put(port, fw.ID)
		return fw.ID, fresh, nil
	}
	return 0, false, provider.Wrap(provider.Transient, provider.OpCreate, p.name, name, fmt.Errorf("firewall %q: %w", name, errMoving))
}

// rules let the configured networks reach the proxy, and port 22 if wanted.
// Nothing else comes in; everything goes out.
func (p *Provider) rules(port int) []hcloud.FirewallRule {
	in := func(port int, from []netip.Prefix, what string) hcloud.FirewallRule {
		r := hcloud.FirewallRule{Direction: hcloud.FirewallRuleDirectionIn, Protocol: hcloud.FirewallRuleProtocolTCP,
			Port: hcloud.Ptr(strconv.Itoa(port)), Description: hcloud.Ptr(what)}
		for _, n := range from {
			r.SourceIPs = append(r.SourceIPs, net.IPNet{IP: n.Addr().AsSlice(), Mask: net.CIDRMask(n.Bits(), n.Addr().BitLen())})
		}
		return r
	}
	out := []hcloud.FirewallRule{in(port, p.opt.allow, "proxy")}
	if len(p.opt.ssh) > 0 {
		out = append(out, in(22, p.opt.ssh, "ssh"))
	}
	return out
}

func sameRules(a, b []hcloud.FirewallRule) bool {
	key := func(r hcloud.FirewallRule) string {
		var nets []string
		for _, n := range append(slices.Clone(r.SourceIPs), r.DestinationIPs...) {
			nets = append(nets, n.String())
		}
		slices.Sort(nets)
		port := ""
		if r.Port != nil {
			port = *r.Port
		}
		return fmt.Sprint(r.Direction, r.Protocol, port, nets)
	}
	return slices.EqualFunc(a, b, func(x, y hcloud.FirewallRule) bool { return key(x) == key(y) })
}

// dropFirewall removes a port's firewall unless a server still uses it. Of many
// deletes at once, one asks for all that were waiting.
func (p *Provider) dropFirewall(ctx context.Context, port int) error {
	c := &p.firewall
	since := time.Now()
	if err := c.dropping.Lock(ctx); err != nil {
		return err
	}
	defer c.dropping.Unlock()
	if c.dropped[port].After(since) {
		return nil
	}
	began := time.Now()
	if err := p.dropFirewallNow(ctx, port); err != nil {
		return err
	}
	if c.dropped == nil {
		c.dropped = map[int]time.Time{}
	}
	c.dropped[port] = began
	return nil
}

func (p *Provider) dropFirewallNow(ctx context.Context, port int) error {
	c := &p.firewall
	id := c.get(port).id
	if id == 0 {
		fw, _, err := p.client.Firewall.GetByName(ctx, p.firewallName(port))
		if err != nil || fw == nil || marksOf(fw.Labels).Installation != p.installation {
			return err
		}
		id = fw.ID
	}
	_, err := p.client.Firewall.Delete(ctx, &hcloud.Firewall{ID: id})
	if isCode(err, hcloud.ErrorCodeResourceInUse) {
		return nil
	}
	if c.get(port).id == id {
		c.forget(port)
	}
	return unlessCode(err, hcloud.ErrorCodeNotFound)
}

// namedFirewalls resolves the configured existing firewalls.
func (p *Provider) namedFirewalls(ctx context.Context) ([]int64, error) {
	c := &p.firewall
	if err := c.making.Lock(ctx); err != nil {
		return nil, err
	}
	defer c.making.Unlock()
	if len(p.opt.Firewalls) == 0 || !c.read.IsZero() && time.Since(c.read) < sharedTTL {
		return slices.Clone(c.named), nil
	}
	var ids []int64
	for i, name := range p.opt.Firewalls {
		fw, _, err := p.client.Firewall.Get(ctx, name)
		if err != nil {
			return nil, err
		}
		if fw == nil {
			return nil, provider.Wrap(provider.Permanent, provider.OpCreate, p.name, "", fmt.Errorf("firewalls[%d]: there is no firewall %q in the project", i, name))
		}
		ids = append(ids, fw.ID)
	}
	c.named, c.read = ids, time.Now()
	return slices.Clone(ids), nil
}
