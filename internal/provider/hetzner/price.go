package hetzner

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/gate"
	"github.com/tollgate-dev/tollgate/internal/provider"
)

// priceTTL is how long the price list is believed.
const priceTTL = time.Hour

// hoursPerMonth turns the price of a month into that of an hour.
const hoursPerMonth = 730

// prices is the price list as read lately.
type prices struct {
	gate gate.Gate
	list *hcloud.Pricing
	read time.Time
}

// PriceEURPerHour implements provider.Pricer: the net price of the server, its
// public addresses and its volume. When the placement leaves several candidates,
// it is that of the dearest, and not known when one of them has no price. It is
// not known either when the project's currency is not the euro.
func (p *Provider) PriceEURPerHour(ctx context.Context, pl provider.Placement) (provider.MicroEUR, bool, error) {
	list, err := p.priceList(ctx)
	if err != nil {
		return 0, false, p.classify(ctx, provider.OpPrice, "", err)
	}
	if list.currency != "EUR" {
		p.warnOnce(ctx, "currency", "prices are not in euros, so they are unknown", "currency", list.currency)
		return 0, false, nil
	}
	var most *big.Rat
	for _, c := range p.candidates(pl) {
		price, known, err := p.priceOf(list, c)
		if err != nil {
			return 0, false, p.classify(ctx, provider.OpPrice, c.String(), err)
		}
		if !known {
			return 0, false, nil
		}
		if most == nil || price.Cmp(most) > 0 {
			most = price
		}
	}
	return microEUR(most), true, nil
}

// priceList is the part of the vendor's list that we need, by name.
type priceList struct {
	currency string
	servers  map[Candidate]string
	ipv4     map[string]string // by location
	ipv6     map[string]string
	gbMonth  string
}

func (p *Provider) priceList(ctx context.Context) (priceList, error) {
	c := &p.prices
	if err := c.gate.Lock(ctx); err != nil {
		return priceList{}, err
	}
	defer c.gate.Unlock()
	if c.list == nil || time.Since(c.read) > priceTTL {
		list, _, err := p.client.Pricing.Get(ctx)
		if err != nil {
			return priceList{}, err
		}
		if list.Currency == "" {
			return priceList{}, errAnswer
		}
		c.list, c.read = &list, time.Now()
	}
	out := priceList{currency: c.list.Currency, servers: map[Candidate]string{}, ipv4: map[string]string{}, ipv6: map[string]string{},
		gbMonth: c.list.Volume.PerGBMonthly.Net}
	for _, t := range c.list.ServerTypes {
		for _, at := range t.Pricings {
			if t.ServerType != nil && at.Location != nil {
				out.servers[Candidate{at.Location.Name, t.ServerType.Name}] = at.Hourly.Net
			}
		}
	}
	for _, ip := range c.list.PrimaryIPs {
		for _, at := range ip.Pricings {
			switch ip.Type {
			case string(hcloud.PrimaryIPTypeIPv4):
				out.ipv4[at.Location] = at.Hourly.Net
			case string(hcloud.PrimaryIPTypeIPv6):
				out.ipv6[at.Location] = at.Hourly.Net
			}
		}
	}
	return out, nil
}

// priceOf adds up what an instance at a candidate costs per hour.
func (p *Provider) priceOf(list priceList, c Candidate) (sum *big.Rat, known bool, err error) {
	sum = new(big.Rat)
	add := func(text string, there bool, times *big.Rat) bool {
		if !there || text == "" {
			return false
		}
		v, ok := new(big.Rat).SetString(text)
		if !ok || v.Sign() < 0 {
			err = errors.Join(err, fmt.Errorf("price %q is no amount", text))
			return false
		}
		sum.Add(sum, v.Mul(v, times))
		return true
	}
	one := big.NewRat(1, 1)
	text, there := list.servers[c]
	known = add(text, there, one)
	if p.opt.IPv4 != fromNone {
		text, there = list.ipv4[c.Location]
		known = add(text, there, one) && known
	}
	if p.opt.IPv6 != fromNone {
		if text, there = list.ipv6[c.Location]; there { // none has ever cost anything
			known = add(text, there, one) && known
		}
	}
	if gb := p.opt.Volume.SizeGB; gb > 0 {
		known = add(list.gbMonth, true, big.NewRat(int64(gb), hoursPerMonth)) && known
	}
	return sum, known, err
}

// microEUR rounds up, so that a sum of prices is never below the bill.
func microEUR(eur *big.Rat) provider.MicroEUR {
	micro := new(big.Rat).Mul(eur, big.NewRat(1_000_000, 1))
	n := new(big.Int).Quo(micro.Num(), micro.Denom())
	if !micro.IsInt() {
		n.Add(n, big.NewInt(1))
	}
	return provider.MicroEUR(n.Int64())
}
