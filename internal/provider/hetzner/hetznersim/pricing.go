package hetznersim

import (
	"fmt"
	"slices"
)

// VATPercent is the simulated account's tax.
const VATPercent = 19

// price renders an amount in ten-thousandths of a euro as the vendor does: two
// decimal strings, net and with tax.
func price(net int) obj {
	gross := net * (100 + VATPercent) // millionths
	return obj{"net": fmt.Sprintf("%d.%04d", net/10_000, net%10_000),
		"gross": fmt.Sprintf("%d.%06d0000000000", gross/1_000_000, gross%1_000_000)}
}

// surcharge is the price of a location in percent of Europe's.
func surcharge(location string, net int) int {
	switch locationNamed(location).zone {
	case "us-east", "us-west":
		return net * 120 / 100
	case "ap-southeast":
		return net * 150 / 100
	}
	return net
}

// hoursPerMonth turns hourly prices into the monthly cap.
const hoursPerMonth = 624

func rentPrices(hourly int, traffic int64, where []string) []obj {
	out := make([]obj, 0, len(where))
	for _, l := range where {
		h := surcharge(l, hourly)
		out = append(out, obj{"location": l, "price_hourly": price(h), "price_monthly": price(h * hoursPerMonth),
			"included_traffic": traffic, "price_per_tb_traffic": price(10_000)})
	}
	return out
}

// tebi20 is the traffic included with servers, in bytes.
const tebi20 = 20 << 40

func (t serverType) prices() []obj { return rentPrices(t.hourly, tebi20, t.locations) }

// Prices of addresses, in ten-thousandths of a euro, net.
const (
	ipv4Hourly  = 8 // 0.0008 EUR
	ipv4Monthly = 5_000
	ipv6Monthly = 10_000
)

func getPricing(c *call) (int, any, error) {
	addresses := func(kind string, hourly int) obj {
		prices := []obj{}
		for _, l := range everywhere {
			prices = append(prices, obj{"location": l, "price_hourly": price(hourly), "price_monthly": price(hourly * hoursPerMonth)})
		}
		return obj{"type": kind, "prices": prices}
	}
	floating := func(kind string, monthly int) obj {
		prices := []obj{}
		for _, l := range everywhere {
			prices = append(prices, obj{"location": l, "price_monthly": price(monthly)})
		}
		return obj{"type": kind, "prices": prices}
	}
	types := []obj{}
	for _, t := range serverTypes {
		if c.s.unpriced[t.name] {
			continue
		}
		prices := slices.DeleteFunc(t.prices(), func(o obj) bool { return c.s.unpriced[o["location"].(string)] })
		types = append(types, obj{"id": t.id, "name": t.name, "prices": prices})
	}
	balancers := []obj{}
	for _, t := range balancerTypes {
		balancers = append(balancers, obj{"id": t.id, "name": t.name, "prices": rentPrices(t.hourly, tebi20, everywhere)})
	}
	return 200, obj{"pricing": obj{
		"currency": "EUR", "vat_rate": fmt.Sprintf("%d.00", VATPercent),
		"primary_ips":  []obj{addresses("ipv4", ipv4Hourly), addresses("ipv6", 0)},
		"floating_ips": []obj{floating("ipv4", ipv4Monthly), floating("ipv6", ipv6Monthly)},
		// The vendor still sends the old object, with empty amounts.
		"floating_ip":         obj{"price_monthly": obj{"net": "", "gross": ""}},
		"image":               obj{"price_per_gb_month": price(110)},
		"volume":              obj{"price_per_gb_month": price(440)},
		"server_backup":       obj{"percentage": "20.00"},
		"server_types":        types,
		"load_balancer_types": balancers,
	}}, nil
}

// Unprice takes a server type or a location out of the price list.
func (s *Sim) Unprice(typeOrLocation string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unpriced[typeOrLocation] = true
}
