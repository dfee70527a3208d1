package usage

import (
	"cmp"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
)

// Period is from From until before To.
type Period struct {
	From, To time.Time
	// AsOf is until when lives that have not ended count. Nothing after it does.
	AsOf time.Time
}

// Holds reports whether a moment lies in the period.
func (p Period) Holds(t time.Time) bool { return !t.Before(p.From) && t.Before(p.End()) }

// End is the first moment that does not count: To or AsOf, whichever is earlier.
func (p Period) End() time.Time {
	if p.AsOf.Before(p.To) {
		return p.AsOf
	}
	return p.To
}

// Interval is the part of a span that lies in a period.
type Interval struct {
	From, To time.Time
	State    event.State
	Size     event.Size
	Unknown  []string
	Seconds  Amount
}

// Sums are exact.
type Sums struct {
	// Seconds is for how long.
	Seconds Amount
	// Amounts are, for each numeric size field, its value times the seconds that
	// it had it.
	Amounts map[string]Amount
	// UnknownSeconds are, for each size field, for how long nobody knows it.
	UnknownSeconds map[string]Amount
}

// ResourceUsage is what one resource used in a period.
type ResourceUsage struct {
	Resource  event.Resource
	Region    string
	Intervals []Interval
	Sums
	Counters map[string]Amount
	// Findings are those about the whole life: they may explain the figures.
	Findings []Finding
	// StartUnknown and EndNotBefore are those of a life that has a part in the
	// period; see Life.
	StartUnknown bool
	EndNotBefore *time.Time
}

// Total is the sum over all resources of a type in one state and with the same
// words, such as all active servers of type cx22.
type Total struct {
	ResourceType event.ResourceType
	State        event.State
	Words        event.Size
	Sums
}

// Of is what a resource used in a period; ok is false when that is nothing.
func (t Timeline) Of(p Period) (u ResourceUsage, ok bool) {
	u = ResourceUsage{Resource: t.Resource, Region: t.Region, Findings: t.Findings}
	var s summer
	for _, l := range t.Lives {
		for _, span := range l.Spans {
			from, to := later(span.From, p.From), p.End()
			if !span.To.IsZero() && span.To.Before(to) {
				to = span.To
			}
			if !from.Before(to) {
				continue
			}
			u.StartUnknown = u.StartUnknown || l.StartUnknown && !l.From.Before(p.From)
			if l.EndNotBefore != nil && to.Equal(l.To) {
				u.EndNotBefore = l.EndNotBefore
			}
			in := Interval{From: from, To: to, State: span.State, Size: span.Size, Unknown: span.Unknown}
			in.Seconds = amount(seconds(from, to))
			u.Intervals = append(u.Intervals, in)
			s.add(in)
		}
	}
	u.Sums = s.sums()
	counters := map[string]*big.Rat{}
	for _, c := range t.Counts {
		if !p.Holds(c.Time) {
			continue
		}
		for name, v := range c.Counters.All() {
			addTo(counters, name, v.Rat())
		}
	}
	u.Counters = amounts(counters)
	return u, len(u.Intervals) > 0 || len(u.Counters) > 0
}

// Totals add up what resources used.
type Totals struct {
	groups   map[string]*group
	counters map[event.ResourceType]map[string]*big.Rat
	// Resources counts the resources.
	Resources int
}

type group struct {
	total Total
	sum   summer
}

// Add adds what a resource used.
func (t *Totals) Add(u ResourceUsage) {
	t.Resources++
	for _, in := range u.Intervals {
		t.AddInterval(u.Resource.Type, in)
	}
	for name, a := range u.Counters {
		t.AddCounter(u.Resource.Type, name, a.Rat())
	}
}

// AddInterval adds a time in which resources of a type were all the same. Seconds
// is what counts of it: it may be that of many resources.
func (t *Totals) AddInterval(r event.ResourceType, in Interval) {
	words := event.Size{}
	key := []string{string(r), string(in.State)}
	for name, v := range in.Size.All() {
		if !v.IsNumber() {
			words[name] = v
			key = append(key, name, v.String())
		}
	}
	if t.groups == nil {
		t.groups = map[string]*group{}
	}
	k := strings.Join(key, "\x00")
	if t.groups[k] == nil {
		t.groups[k] = &group{total: Total{ResourceType: r, State: in.State, Words: words}}
	}
	t.groups[k].sum.add(in)
}

// AddCounter adds to a counter of resources of a type.
func (t *Totals) AddCounter(r event.ResourceType, name string, amount *big.Rat) {
	if t.counters == nil {
		t.counters = map[event.ResourceType]map[string]*big.Rat{}
	}
	of := t.counters[r]
	if of == nil {
		of = map[string]*big.Rat{}
		t.counters[r] = of
	}
	addTo(of, name, amount)
}

// Groups are the totals, ordered by resource type, state and words.
func (t *Totals) Groups() []Total {
	var all []Total
	for _, k := range slices.Sorted(maps.Keys(t.groups)) {
		g := t.groups[k]
		total := g.total
		total.Sums = g.sum.sums()
		all = append(all, total)
	}
	return all
}

// CounterTotal is the sum of one counter over all resources of a type.
type CounterTotal struct {
	ResourceType event.ResourceType
	Counter      string
	Amount       Amount
}

// Counters are the sums of counters, ordered by resource type and name.
func (t *Totals) Counters() []CounterTotal {
	var all []CounterTotal
	for _, r := range slices.Sorted(maps.Keys(t.counters)) {
		for _, name := range slices.Sorted(maps.Keys(t.counters[r])) {
			all = append(all, CounterTotal{r, name, amount(t.counters[r][name])})
		}
	}
	return all
}

// summer adds up intervals exactly.
type summer struct {
	seconds          big.Rat
	amounts, unknown map[string]*big.Rat
}

func (s *summer) add(in Interval) {
	if s.amounts == nil {
		s.amounts, s.unknown = map[string]*big.Rat{}, map[string]*big.Rat{}
	}
	sec := in.Seconds.Rat()
	s.seconds.Add(&s.seconds, sec)
	for name, v := range in.Size {
		if v.IsNumber() {
			addTo(s.amounts, name, new(big.Rat).Mul(v.Rat(), sec))
		}
	}
	for _, name := range in.Unknown {
		addTo(s.unknown, name, sec)
	}
}

func (s *summer) sums() Sums {
	return Sums{Seconds: amount(&s.seconds), Amounts: amounts(s.amounts), UnknownSeconds: amounts(s.unknown)}
}

func addTo(m map[string]*big.Rat, name string, r *big.Rat) {
	if m[name] == nil {
		m[name] = new(big.Rat)
	}
	m[name].Add(m[name], r)
}

func amounts(m map[string]*big.Rat) map[string]Amount {
	out := make(map[string]Amount, len(m))
	for name, r := range m {
		out[name] = amount(r)
	}
	return out
}

func seconds(from, to time.Time) *big.Rat {
	return big.NewRat(to.Sub(from).Nanoseconds(), int64(time.Second))
}

func later(a, b time.Time) time.Time {
	if cmp.Compare(a.UnixNano(), b.UnixNano()) < 0 {
		return b
	}
	return a
}

// Amount is an exact decimal number as text, without an exponent and without
// trailing zeros.
type Amount string

// Rat is the number.
func (a Amount) Rat() *big.Rat {
	r, ok := new(big.Rat).SetString(string(a))
	if !ok {
		return new(big.Rat)
	}
	return r
}

// digits is more than a product of a size and a time can have: nine for the
// nanoseconds and as many as a size holds.
const digits = 60

// AmountOf is the amount of an exact decimal.
func AmountOf(r *big.Rat) Amount { return amount(r) }

// amount is exact: values are decimals and times have nine.
func amount(r *big.Rat) Amount {
	s := r.FloatString(digits)
	return Amount(strings.TrimSuffix(strings.TrimRight(s, "0"), "."))
}
