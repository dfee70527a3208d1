package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Requests bounds the HTTP requests of an account per hour, for providers that
// speak HTTP.
type Requests struct {
	// PerHour is the most that each worker makes; 0 means what the backend's
	// answers say.
	PerHour int
	// Reserve is how many of the backend's limit are left to others; nil means a
	// tenth.
	Reserve *int
	// Account, when set, joins the providers of equal accounts.
	Account string
}

// Reap is one schedule that deletes what is old.
type Reap struct {
	Provider  string
	Selector  provider.Selector
	OlderThan time.Duration
	Interval  time.Duration
}

// Input is that of the workflow that the schedule starts.
func (r Reap) Input() api.ReaperInput {
	return api.ReaperInput{Provider: r.Provider, Selector: r.Selector, OlderThan: api.Duration(r.OlderThan)}
}

// money is an amount in euros whose mistakes are reported by the validator.
type money string

// UnmarshalYAML takes the text of a number as it is written, so that none of its
// digits is lost.
func (m *money) UnmarshalYAML(n *yaml.Node) error {
	*m = money(n.Value)
	return nil
}

type rawReap struct {
	Provider string `yaml:"provider"`
	Selector struct {
		Namespace string `yaml:"namespace"`
		Proxy     string `yaml:"proxy"`
		UID       string `yaml:"uid"`
	} `yaml:"selector"`
	OlderThan *duration `yaml:"olderThan"`
	Interval  *duration `yaml:"interval"`
}

func (v *validator) requests(at string, r rawProvider) Requests {
	b := r.Budget
	q := Requests{PerHour: between(v, at+".budget.requestsPerHour", b.RequestsPerHour, 0, 1, 100_000_000), Account: b.Account}
	if b.Reserve != nil {
		most := 100_000_000
		if q.PerHour > 0 {
			most = q.PerHour / 2
		}
		n := between(v, at+".budget.reserve", b.Reserve, 0, 0, most)
		q.Reserve = &n
	}
	if q.Account != "" {
		v.name(at+".budget.account", q.Account)
	}
	return q
}

// spendCap reads the most that the instances of a provider may cost; 0 means
// that there is no cap.
func (v *validator) spendCap(at string, r rawProvider) provider.MicroEUR {
	if r.SpendCap == nil {
		return 0
	}
	field := at + ".spendCap.eurPerHour"
	if r.SpendCap.EURPerHour == "" {
		v.bad(field, `is required: the most that the provider's instances may cost together, in euros per hour, such as "1.50"`)
		return 0
	}
	m, err := provider.ParseMicroEUR(string(r.SpendCap.EURPerHour))
	switch {
	case err != nil:
		v.bad(field, "%v", err)
	case m == 0:
		v.bad(field, `"%s" lets nothing be created: use a larger amount, or leave spendCap out for no cap`, r.SpendCap.EURPerHour)
	}
	return m
}

// prices reads what instances cost. An entry that never counts is a mistake.
func (v *validator) prices(at string, raw []rawPrice) (list provider.PriceList) {
	for i, r := range raw {
		field := fmt.Sprintf("%s.prices[%d]", at, i)
		e := provider.PriceEntry{Region: r.Region, Zone: r.Zone, MachineType: r.MachineType}
		if r.EURPerHour == "" {
			v.bad(field+".eurPerHour", `is required: what one instance costs with all that is made for it, in euros per hour, such as "0.0125"`)
		} else if m, err := provider.ParseMicroEUR(string(r.EURPerHour)); err != nil {
			v.bad(field+".eurPerHour", "%v", err)
		} else {
			e.EURPerHour = m
		}
		if j := slices.IndexFunc(list, func(o provider.PriceEntry) bool { return o.Covers(e) }); j >= 0 {
			v.bad(field, "never counts, since prices[%d] fits wherever it does: put what is more special first", j)
		}
		list = append(list, e)
	}
	return list
}

// Bounds of a Reap.
const (
	leastReapAge    = api.MinReapAge
	mostReapAge     = 365 * 24 * time.Hour
	defReapInterval = 15 * time.Minute
)

// age reads a duration that has no default.
func (v *validator) age(field string, d *duration) time.Duration {
	switch allowed := fmt.Sprintf("use %s to %s, such as 6h", short(leastReapAge), short(mostReapAge)); {
	case d == nil:
		v.bad(field, "is required: the age from which on instances are deleted: %s", allowed)
		return 0
	case d.err != nil:
		v.bad(field, "%q is no duration with a unit: %s", d.text, allowed)
	case d.d < leastReapAge || d.d > mostReapAge:
		v.bad(field, "%s is out of range: %s", short(d.d), allowed)
	}
	return d.d
}

func (v *validator) reap(c *Config, rs []rawReap) {
	for i, r := range rs {
		at := fmt.Sprintf("reap[%d]", i)
		out := Reap{
			Provider:  r.Provider,
			Selector:  provider.Selector{Namespace: r.Selector.Namespace, Proxy: r.Selector.Proxy, UID: r.Selector.UID},
			OlderThan: v.age(at+".olderThan", r.OlderThan),
			Interval:  v.duration(at+".interval", r.Interval, defReapInterval, 5*time.Second, 24*time.Hour),
		}
		switch _, known := c.Provider(r.Provider); {
		case r.Provider == "":
			v.bad(at+".provider", "is required: use one of %s", strings.Join(c.Names(), ", "))
		case !known:
			v.bad(at+".provider", "%q is not configured: use one of %s", r.Provider, strings.Join(c.Names(), ", "))
		}
		if out.Selector == (provider.Selector{}) {
			v.bad(at+".selector", "is required: what to delete, by namespace, proxy or uid")
		}
		for field, value := range map[string]string{"namespace": out.Selector.Namespace, "proxy": out.Selector.Proxy} {
			if value != "" {
				v.name(at+".selector."+field, value)
			}
		}
		same := func(o Reap) bool { return o.Provider == out.Provider && o.Selector == out.Selector }
		if slices.ContainsFunc(c.Reap, same) {
			v.bad(at+".selector", "provider %s is reaped by this selector already: one entry each", out.Provider)
		}
		c.Reap = append(c.Reap, out)
	}
}
