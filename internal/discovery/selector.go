package discovery

import (
	"fmt"
	"slices"
	"strings"
)

// requirement is one term of a label selector.
type requirement struct {
	key    string
	op     string // "in", "notin", "exists", "absent"
	values []string
}

func (r requirement) matches(labels map[string]string) bool {
	v, ok := labels[r.key]
	switch r.op {
	case "in":
		return ok && slices.Contains(r.values, v)
	case "notin":
		return !ok || !slices.Contains(r.values, v)
	case "exists":
		return ok
	default:
		return !ok
	}
}

const selectorSyntax = "use terms such as team=a, team!=a, team in (a,b), team notin (a,b), team or !team, joined by commas"

// parseSelector reads a label selector in the syntax of Kubernetes. An empty one
// matches everything.
func parseSelector(s string) ([]requirement, error) {
	var out []requirement
	if strings.TrimSpace(s) == "" {
		return nil, nil
	}
	for _, term := range splitTerms(s) {
		r, err := parseTerm(strings.TrimSpace(term))
		if err != nil {
			return nil, fmt.Errorf("%w: %s", err, selectorSyntax)
		}
		out = append(out, r)
	}
	return out, nil
}

// splitTerms splits at the commas outside of parentheses.
func splitTerms(s string) []string {
	var out []string
	depth, start := 0, 0
	for i, c := range s {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			out = append(out, s[start:i])
			start = i + 1
		}
	}
	return append(out, s[start:])
}

func parseTerm(term string) (requirement, error) {
	if list, ok := strings.CutSuffix(term, ")"); ok {
		head, values, ok := strings.Cut(list, "(")
		words := strings.Fields(head)
		if !ok || len(words) != 2 || words[1] != "in" && words[1] != "notin" {
			return requirement{}, fmt.Errorf("%q is no term", term)
		}
		r := requirement{key: words[0], op: words[1]}
		for _, v := range strings.Split(values, ",") {
			r.values = append(r.values, strings.TrimSpace(v))
		}
		return r, r.check(term)
	}
	for _, op := range []struct{ sign, op string }{{"!=", "notin"}, {"==", "in"}, {"=", "in"}} {
		if key, value, ok := strings.Cut(term, op.sign); ok {
			r := requirement{key: strings.TrimSpace(key), op: op.op, values: []string{strings.TrimSpace(value)}}
			return r, r.check(term)
		}
	}
	r := requirement{key: term, op: "exists"}
	if key, ok := strings.CutPrefix(term, "!"); ok {
		r = requirement{key: strings.TrimSpace(key), op: "absent"}
	}
	return r, r.check(term)
}

func (r requirement) check(term string) error {
	if r.key == "" || strings.ContainsAny(r.key, " ()!=,") {
		return fmt.Errorf("%q has no valid key", term)
	}
	for _, v := range r.values {
		if strings.ContainsAny(v, " ()!=,") {
			return fmt.Errorf("%q has the value %q, which no label can have", term, v)
		}
	}
	return nil
}
