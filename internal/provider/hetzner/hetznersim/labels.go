package hetznersim

import (
	"regexp"
	"slices"
	"strings"
)

var (
	labelName  = regexp.MustCompile(`^[a-zA-Z0-9]([-_.a-zA-Z0-9]{0,61}[a-zA-Z0-9])?$`)
	labelValue = regexp.MustCompile(`^([a-zA-Z0-9]([-_.a-zA-Z0-9]{0,61}[a-zA-Z0-9])?)?$`)
	dnsPart    = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
)

// validLabelKey applies the vendor's rule: an optional DNS prefix and a slash, a
// name of at most 63 characters; the vendor's own prefix is reserved.
func validLabelKey(key string) bool {
	prefix, name, slash := strings.Cut(key, "/")
	if !slash {
		return labelName.MatchString(key)
	}
	if prefix == "hetzner.cloud" || strings.HasSuffix(prefix, ".hetzner.cloud") || len(prefix) > 253 {
		return false
	}
	for part := range strings.SplitSeq(prefix, ".") {
		if !dnsPart.MatchString(part) {
			return false
		}
	}
	return labelName.MatchString(name)
}

func checkLabels(p *problems, labels map[string]string) {
	for k, v := range labels {
		if !validLabelKey(k) {
			p.add("labels", "key %q is not a valid label key", k)
		}
		if !labelValue.MatchString(v) {
			p.add("labels", "value %q of key %q is not a valid label value", v, k)
		}
	}
}

// requirement is one term of a label selector.
type requirement struct {
	key    string
	op     string // "in", "notin", "exists", "missing"
	values []string
}

// selector is a label selector, its terms joined by AND.
type selector []requirement

// parseSelector reads the vendor's grammar: k=v, k==v, k!=v, k, !k,
// k in (a,b), k notin (a,b).
func parseSelector(text string) (selector, error) {
	bad := func(why string) (selector, error) { return nil, invalid("label_selector", "%s in %q", why, text) }
	var sel selector
	for _, term := range splitTerms(text) {
		term = strings.TrimSpace(term)
		if term == "" {
			return bad("empty term")
		}
		r, ok := parseTerm(term)
		if !ok {
			return bad("cannot read term " + term)
		}
		if !validLabelKey(r.key) {
			return bad("invalid key " + r.key)
		}
		for _, v := range r.values {
			if !labelValue.MatchString(v) {
				return bad("invalid value " + v)
			}
		}
		sel = append(sel, r)
	}
	return sel, nil
}

// splitTerms splits at the commas that are not inside brackets.
func splitTerms(text string) []string {
	var terms []string
	depth, start := 0, 0
	for i, c := range text {
		switch c {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				terms, start = append(terms, text[start:i]), i+1
			}
		}
	}
	return append(terms, text[start:])
}

var setTerm = regexp.MustCompile(`^(\S+)\s+(in|notin)\s*\(([^()]*)\)$`)

func parseTerm(term string) (requirement, bool) {
	if m := setTerm.FindStringSubmatch(term); m != nil {
		var values []string
		for v := range strings.SplitSeq(m[3], ",") {
			values = append(values, strings.TrimSpace(v))
		}
		return requirement{key: m[1], op: m[2], values: values}, true
	}
	if k, v, ok := strings.Cut(term, "!="); ok {
		return requirement{key: strings.TrimSpace(k), op: "notin", values: []string{strings.TrimSpace(v)}}, true
	}
	if k, v, ok := strings.Cut(term, "=="); ok {
		return requirement{key: strings.TrimSpace(k), op: "in", values: []string{strings.TrimSpace(v)}}, true
	}
	if k, v, ok := strings.Cut(term, "="); ok {
		return requirement{key: strings.TrimSpace(k), op: "in", values: []string{strings.TrimSpace(v)}}, true
	}
	if k, ok := strings.CutPrefix(term, "!"); ok {
		return requirement{key: strings.TrimSpace(k), op: "missing"}, true
	}
	return requirement{key: term, op: "exists"}, !strings.ContainsAny(term, " ()")
}

// matches reports whether labels satisfy every term. A term of inequality is
// also true of an object that lacks the key.
func (s selector) matches(labels map[string]string) bool {
	for _, r := range s {
		v, has := labels[r.key]
		ok := false
		switch r.op {
		case "in":
			ok = has && slices.Contains(r.values, v)
		case "notin":
			ok = !has || !slices.Contains(r.values, v)
		case "exists":
			ok = has
		case "missing":
			ok = !has
		}
		if !ok {
			return false
		}
	}
	return true
}
