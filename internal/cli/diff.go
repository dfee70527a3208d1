package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/tollgate-dev/tollgate/workflows/api"
)

// change is one field that differs between what is and what is wanted.
type change struct {
	Path string `json:"path"`
	// Old is absent for an added field, New for a removed one.
	Old *string `json:"old,omitempty"`
	New *string `json:"new,omitempty"`
	// Unknown: the field holds a secret, and only the workflow can compare it.
	Unknown bool `json:"unknown,omitempty"`
}

func (c change) String() string {
	switch {
	case c.Unknown:
		return "? " + c.Path + ": given; the present value is not shown"
	case c.Old == nil:
		return "+ " + c.Path + ": " + *c.New
	case c.New == nil:
		return "- " + c.Path + ": " + *c.Old
	}
	return "~ " + c.Path + ": " + *c.Old + " -> " + *c.New
}

// changes compares two proxies in what a document can set. Defaults count as
// given. keepLabels leaves metadata.labels out.
func changes(old, wanted api.Proxy, keepLabels bool) []change {
	was, is := fields(old, keepLabels), fields(wanted, keepLabels)
	keys := slices.Collect(maps.Keys(was))
	for k := range is {
		if _, ok := was[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	var out []change
	for _, k := range keys {
		o, had := was[k]
		n, has := is[k]
		switch {
		case had && has && k == inlinePath:
			if c := wanted.Spec.CloudInit; c.Inline != api.RedactedInline {
				out = append(out, change{Path: k, Unknown: true})
			}
		case had && !has:
			out = append(out, change{Path: k, Old: &o})
		case !had:
			out = append(out, change{Path: k, New: &n})
		case o != n:
			out = append(out, change{Path: k, Old: &o, New: &n})
		}
	}
	return out
}

// additions are the fields of a proxy that does not exist yet.
func additions(wanted api.Proxy) []change {
	is := fields(wanted, false)
	var out []change
	for _, k := range slices.Sorted(maps.Keys(is)) {
		v := is[k]
		out = append(out, change{Path: k, New: &v})
	}
	return out
}

const inlinePath = "spec.cloudInit.inline"

// fields flattens what a document can set into paths and values. Secrets are
// redacted.
func fields(p api.Proxy, noLabels bool) map[string]string {
	out := map[string]string{}
	spec := p.Spec.WithDefaults().Redact()
	flatten(out, "spec", asJSON(spec))
	if !noLabels {
		flatten(out, "metadata.labels", asJSON(p.Metadata.Labels))
	}
	return out
}

// asJSON gives the value as its JSON form has it. The objects are plain data,
// which always encodes.
func asJSON(v any) any {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("cli: encode %T: %v", v, err))
	}
	var out any
	dec := json.NewDecoder(strings.NewReader(string(b)))
	dec.UseNumber()
	if err := dec.Decode(&out); err != nil {
		panic(fmt.Sprintf("cli: decode %T: %v", v, err))
	}
	return out
}

func flatten(out map[string]string, path string, v any) {
	switch v := v.(type) {
	case nil:
	case map[string]any:
		for k, e := range v {
			if strings.HasSuffix(path, "abels") {
				flatten(out, path+"["+k+"]", e)
			} else {
				flatten(out, path+"."+k, e)
			}
		}
	case string:
		out[path] = quoteIfNeeded(v)
	default:
		out[path] = fmt.Sprint(v)
	}
}

// quoteIfNeeded quotes what would read badly bare.
func quoteIfNeeded(s string) string {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return fmt.Sprintf("%q", s)
	}
	return s
}

func writeChanges(w io.Writer, cs []change) {
	for _, c := range cs {
		fmt.Fprintf(w, "  %s\n", c)
	}
}
