package source

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
)

// Export describes the series that the exporter makes of the resources of one
// type, out of the latest snapshot. Each series carries the labels source and
// stream besides those named here.
type Export struct {
	Type event.ResourceType
	// Prefix begins the names of the metrics. Default: tollgate_<platform>_<type>.
	Prefix string
	// Identity are the labels that tell the resources of a stream apart; every
	// series has them. Default: id. Word says where their values come from.
	Identity []string
	// Families are the metrics, all gauges.
	Families []Family
}

// Family is one metric.
type Family struct {
	// Name follows the prefix and ends with the unit, a base unit: memory_bytes.
	Name string
	// Help is a sentence.
	Help string
	// Labels are those beside the identity.
	Labels []string
	// Optional says that a resource without a sample is in order. Otherwise it
	// counts as one of which the value is not known.
	Optional bool
	// Read gives the samples of a resource, none when the value is not known. It
	// keeps nothing and changes nothing.
	Read func(Existing) []Sample
}

// Sample is one value of a family.
type Sample struct {
	// Labels are the values of the family's labels, in their order.
	Labels []string
	Value  float64
}

// Labels that every series has.
const (
	LabelSource = "source"
	LabelStream = "stream"
)

// GiB is what the clouds call a GB: a guest sees 2^30 bytes for each.
const GiB = 1 << 30

// Word is the value of a label: what Existing says in fields of its own of
// account, id, name, region and state, else the size field of that name, else the
// entry in Info. It is empty when there is none.
func (e Existing) Word(label string) string {
	switch label {
	case "account":
		return e.Account
	case "id":
		return e.Resource.ID
	case "name":
		return e.Resource.Name
	case "region":
		return e.Region
	case "state":
		return string(e.State)
	}
	if v, ok := e.Size[label]; ok {
		return v.String()
	}
	return e.Info[label]
}

// InfoFamily is <prefix>_info, which is always 1 and has what is known of a
// resource in its labels. A label of which nothing is known is empty.
func InfoFamily(labels ...string) Family {
	return Family{
		Name: "info", Help: "Always 1; the labels say what is known of the resource.", Labels: labels,
		Read: func(e Existing) []Sample {
			s := Sample{Value: 1}
			for _, l := range labels {
				s.Labels = append(s.Labels, e.Word(l))
			}
			return []Sample{s}
		},
	}
}

// SizeFamily shows a numeric size field, times factor: the bytes in one of the
// field's unit.
func SizeFamily(field, name, help string, factor float64) Family {
	return Family{Name: name, Help: help, Read: func(e Existing) []Sample {
		v := e.Size[field].Rat()
		if v == nil {
			return nil
		}
		f, _ := v.Float64()
		return []Sample{{Value: f * factor}}
	}}
}

// ValueFamily shows the number of that name in Values.
func ValueFamily(name, help string) Family {
	return Family{Name: name, Help: help, Read: func(e Existing) []Sample {
		v, ok := e.Values[name]
		if !ok {
			return nil
		}
		return []Sample{{Value: v}}
	}}
}

// PriceFamily shows the price in Values["price_eur_per_hour"]. A price that is not
// known has no series.
func PriceFamily() Family {
	return ValueFamily("price_eur_per_hour", "What the resource costs per hour, in euros, net. No series when the price is not known.")
}

// WordFamily is 1 for the word that the label has at present, and has no other
// series: the state of a resource. A resource without the word has none.
func WordFamily(name, help, label string) Family {
	return Family{Name: name, Help: help, Labels: []string{label}, Read: func(e Existing) []Sample {
		w := e.Word(label)
		if w == "" {
			return nil
		}
		return []Sample{{Labels: []string{w}, Value: 1}}
	}}
}

// CreatedFamily shows CreatedAt.
func CreatedFamily() Family {
	return Family{
		Name: "created_timestamp_seconds", Help: "Unix time at which the resource came to be.",
		Read: func(e Existing) []Sample {
			if e.CreatedAt.IsZero() {
				return nil
			}
			return []Sample{{Value: float64(e.CreatedAt.UnixMilli()) / 1000}}
		},
	}
}

// LeavingFamily is 1 while the resource is being deleted, else 0.
func LeavingFamily() Family {
	return Family{Name: "leaving", Help: "1 while the resource is being deleted, else 0.", Read: func(e Existing) []Sample {
		v := 0.0
		if e.Leaving {
			v = 1
		}
		return []Sample{{Value: v}}
	}}
}

// EachValue makes a sample of each entry of Values whose name begins with prefix,
// with the rest of the name as the label: the pools of a cluster. None is in
// order.
func EachValue(name, help, label, prefix string) Family {
	return Family{Name: name, Help: help, Labels: []string{label}, Optional: true, Read: func(e Existing) (out []Sample) {
		for _, k := range slices.Sorted(maps.Keys(e.Values)) {
			if rest, ok := strings.CutPrefix(k, prefix); ok {
				out = append(out, Sample{Labels: []string{rest}, Value: e.Values[k]})
			}
		}
		return out
	}}
}

// EachWord makes a sample of value 1 of each entry of Info whose name begins with
// prefix; the rest of the name and the entry are its labels. None is in order.
func EachWord(name, help, label, word, prefix string) Family {
	return Family{Name: name, Help: help, Labels: []string{label, word}, Optional: true, Read: func(e Existing) (out []Sample) {
		for _, k := range slices.Sorted(maps.Keys(e.Info)) {
			if rest, ok := strings.CutPrefix(k, prefix); ok {
				out = append(out, Sample{Labels: []string{rest, e.Info[k]}, Value: 1})
			}
		}
		return out
	}}
}

// PrefixOf is the beginning of the names of an Export of this type.
func (t Type) PrefixOf(x Export) string {
	if x.Prefix != "" {
		return x.Prefix
	}
	return "tollgate_" + string(t.Platform()) + "_" + string(x.Type)
}

// IdentityOf are the labels that tell the resources of an Export apart.
func (x Export) IdentityOf() []string {
	if len(x.Identity) > 0 {
		return x.Identity
	}
	return []string{"id"}
}

// LabelsOf are all labels of the series of a family, in the order of values:
// source, stream, identity, the family's own.
func (x Export) LabelsOf(f Family) []string {
	return slices.Concat([]string{LabelSource, LabelStream}, x.IdentityOf(), f.Labels)
}

var (
	metricName = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	// badUnits are the ends of names that Prometheus's conventions do without,
	// because they are no base units, or mean another type of metric.
	badUnits = regexp.MustCompile(`(^|_)(total|sum|bucket|milliseconds|ms|minutes|hours|days|kb|mb|gb|tb|gib|mib|kilobytes|megabytes|gigabytes|percent)$`)
)

// CheckExports says what is wrong with the exports of a type.
func CheckExports(t Type) error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("source type %q: "+format, append([]any{t.Name}, args...)...))
	}
	names := map[string]bool{}
	for i, x := range t.Exports {
		if !slices.ContainsFunc(t.Kinds, func(k Kind) bool { return k.Type == x.Type }) {
			bad("Exports[%d]: %q is no kind", i, x.Type)
		}
		if slices.ContainsFunc(t.Exports[:i], func(o Export) bool { return o.Type == x.Type }) {
			bad("Exports[%d]: %q is there twice", i, x.Type)
		}
		if len(x.Families) == 0 {
			bad("Exports[%d]: Families is empty", i)
		}
		for _, f := range x.Families {
			name := t.PrefixOf(x) + "_" + f.Name
			switch {
			case !metricName.MatchString(name):
				bad("metric %q: want lower-case words with '_' between them", name)
			case badUnits.MatchString(f.Name):
				bad("metric %q: gauges end in a base unit such as bytes or seconds", name)
			case names[name]:
				bad("metric %q is there twice", name)
			case !strings.HasSuffix(f.Help, "."):
				bad("metric %q: help %q is no sentence", name, f.Help)
			case f.Read == nil:
				bad("metric %q: Read is nil", name)
			}
			names[name] = true
			labels := x.LabelsOf(f)
			for j, l := range labels {
				if !metricName.MatchString(l) || slices.Contains(labels[:j], l) {
					bad("metric %q: label %q is there twice or no word", name, l)
				}
			}
		}
	}
	return errors.Join(errs...)
}
