package hetzner

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
)

const (
	// valuePrice is where a listing has the price.
	valuePrice = "price_eur_per_hour"
	// priceFor is how long the price list is believed, and priceRetry how long one
	// that could not be read is left alone.
	priceFor   = time.Hour
	priceRetry = 10 * time.Minute
	// hoursPerMonth turns the price of a month into that of an hour.
	hoursPerMonth = 730
)

// priceBook is the price list as read lately. Prices are an extra: without the
// list they are not known, and nothing else is missing.
type priceBook struct {
	mu   sync.Mutex
	read time.Time
	list *hcloud.Pricing // nil is unknown
}

// price adds the prices of what exists, net. A place or type without one has
// none.
func (s *Source) price(ctx context.Context, all []source.Existing) {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	if len(all) > 0 && (s.book.read.IsZero() || s.now().Sub(s.book.read) > priceFor) {
		list, _, err := s.client.Pricing.Get(ctx)
		if ctx.Err() != nil {
			return
		}
		if s.book.read = s.now(); err != nil {
			s.book.read = s.now().Add(priceRetry - priceFor)
			s.log.WarnContext(ctx, "prices could not be read", "error", s.wrap(source.OpList, err))
		} else {
			s.book.list = &list
		}
	}
	if s.book.list == nil || s.book.list.Currency != "EUR" {
		return
	}
	for _, x := range all {
		if v, ok := hourly(s.book.list, x); ok {
			x.Values[valuePrice] = v
		}
	}
}

// hourly finds the price of an hour.
func hourly(list *hcloud.Pricing, x source.Existing) (float64, bool) {
	amount := func(text string, per float64) (float64, bool) {
		v, err := strconv.ParseFloat(text, 64)
		return v / per, err == nil && v >= 0
	}
	switch x.Resource.Type {
	case event.Server:
		for _, t := range list.ServerTypes {
			for _, at := range t.Pricings {
				if t.ServerType != nil && at.Location != nil && t.ServerType.Name == x.Size[event.ServerType].String() && at.Location.Name == x.Region {
					return amount(at.Hourly.Net, 1)
				}
			}
		}
	case event.LoadBalancer:
		for _, t := range list.LoadBalancerTypes {
			for _, at := range t.Pricings {
				if t.LoadBalancerType != nil && at.Location != nil && t.LoadBalancerType.Name == x.Size[event.Kind].String() && at.Location.Name == x.Region {
					return amount(at.Hourly.Net, 1)
				}
			}
		}
	case event.FloatingIP:
		for _, t := range list.FloatingIPs {
			for _, at := range t.Pricings {
				if string(t.Type) == x.Size[event.Kind].String() && at.Location != nil && at.Location.Name == x.Region {
					return amount(at.Monthly.Net, hoursPerMonth)
				}
			}
		}
	case event.Volume:
		if size := x.Size[event.SizeGB].Rat(); size != nil {
			gb, _ := size.Float64()
			v, ok := amount(list.Volume.PerGBMonthly.Net, hoursPerMonth)
			return v * gb, ok
		}
	}
	return 0, false
}
