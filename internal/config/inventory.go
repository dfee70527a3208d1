package config

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Inventory says how what exists at a source is compared with what was reported.
type Inventory struct {
	// Enabled: inventories are made.
	Enabled bool
	// Interval is the time between two inventories.
	Interval time.Duration
	// ConfirmAfter is the time between the two looks of one.
	ConfirmAfter time.Duration
	// MaxEnds is the cap on ends; see api.InventoryInput.
	MaxEnds int
	// Providers are those of the source's account.
	Providers []string
}

// InventoryInput is what the inventories of a source are started with.
func (s Source) InventoryInput() api.InventoryInput {
	return api.InventoryInput{
		Source: s.Name, ConfirmAfter: api.Duration(s.Inventory.ConfirmAfter), MaxEnds: s.Inventory.MaxEnds,
	}
}

type rawInventory struct {
	Enabled      *bool     `yaml:"enabled"`
	Interval     *duration `yaml:"interval"`
	ConfirmAfter *duration `yaml:"confirmAfter"`
	MaxEnds      *int      `yaml:"maxEnds"`
	Providers    []string  `yaml:"providers"`
}

// The time between the two looks is longer than that between two reads of the
// feed, since nothing is concluded that the feed may still tell.
const (
	leastConfirmAfter = 2 * time.Second
	mostConfirmAfter  = 30 * time.Minute
)

func (v *validator) inventory(c *Config, at string, s Source, r *rawInventory) Inventory {
	if r == nil {
		r = &rawInventory{}
	}
	out := Inventory{
		Enabled:  r.Enabled == nil || *r.Enabled,
		Interval: v.duration(at+".interval", r.Interval, api.DefaultInventoryInterval, 5*time.Second, 24*time.Hour),
		ConfirmAfter: v.duration(at+".confirmAfter", r.ConfirmAfter, min(max(2*s.Interval, leastConfirmAfter), mostConfirmAfter),
			leastConfirmAfter, mostConfirmAfter),
		MaxEnds:   between(v, at+".maxEnds", r.MaxEnds, api.DefaultInventoryMaxEnds, 1, 1_000_000),
		Providers: r.Providers,
	}
	for i, name := range r.Providers {
		field := at + ".providers[" + strconv.Itoa(i) + "]"
		switch _, known := c.Provider(name); {
		case !known:
			v.bad(field, "%q is not configured: use one of %s", name, strings.Join(c.Names(), ", "))
		case slices.Contains(r.Providers[:i], name):
			v.bad(field, "%q is there twice", name)
		}
	}
	if r.Providers == nil {
		out.Providers = sameAccount(c, s)
	}
	return out
}

// sameAccount are the providers of the source's type whose account has the
// source's name; without any, the only one of the type.
func sameAccount(c *Config, s Source) []string {
	var all, named []string
	for _, p := range c.Providers {
		if p.Type != s.Type {
			continue
		}
		all = append(all, p.Name)
		if p.Requests.Account == s.Account {
			named = append(named, p.Name)
		}
	}
	if len(named) == 0 && len(all) == 1 {
		return all
	}
	return named
}
