package hetznersim

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// obj is a JSON object of an answer.
type obj = map[string]any

// call is one request that a handler answers, with the simulator locked.
type call struct {
	s    *Sim
	p    *project
	r    *http.Request
	ids  []int64 // the numbers in the path, in order
	body []byte
	now  time.Time
	lag  time.Duration // of listings
	// fails is the outcome that a fault plans for an action of this call.
	fails func(command string) *actionError
}

// handler answers a call with a status and a body; a nil body is an empty
// answer.
type handler func(c *call) (int, any, error)

// decode reads the request's body strictly: bad JSON is a json_error, a field
// that the document does not know or of another type is an invalid_input. An
// absent body leaves into as it is.
func (c *call) decode(into any) error {
	if len(bytes.TrimSpace(c.body)) == 0 {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(c.body))
	dec.DisallowUnknownFields()
	err := dec.Decode(into)
	if err == nil {
		if _, err := dec.Token(); !errors.Is(err, io.EOF) {
			return fail("json_error", "invalid JSON input: data after the document")
		}
		return nil
	}
	var typeErr *json.UnmarshalTypeError
	switch {
	case errors.As(err, &typeErr):
		return invalid(typeErr.Field, "must not be a %s", typeErr.Value)
	case strings.HasPrefix(err.Error(), "json: unknown field "):
		name, _ := strconv.Unquote(strings.TrimPrefix(err.Error(), "json: unknown field "))
		return invalid(name, "unknown field")
	}
	var api *apiError
	if errors.As(err, &api) {
		return api
	}
	return fail("json_error", "invalid JSON input")
}

// ref is an id or a name, as several request fields take either.
type ref struct {
	ID   int64
	Name string
}

// UnmarshalJSON reads a number or a string; a string of digits is an id.
func (r *ref) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		if id, err := strconv.ParseInt(s, 10, 64); err == nil {
			r.ID = id
			return nil
		}
		r.Name = s
		return nil
	}
	if string(b) == "null" {
		return nil
	}
	return json.Unmarshal(b, &r.ID)
}

func (r ref) empty() bool { return r.ID == 0 && r.Name == "" }

func (r ref) String() string {
	if r.ID != 0 {
		return strconv.FormatInt(r.ID, 10)
	}
	return r.Name
}

// is reports whether the reference names the object with this id and name.
func (r ref) is(id int64, name string) bool {
	return r.ID != 0 && r.ID == id || r.Name != "" && r.Name == name
}

// checkName applies the rule for names of everything but servers.
func checkName(p *problems, name string, limit int) {
	switch {
	case name == "":
		p.add("name", "is required")
	case utf8.RuneCountInString(name) > limit:
		p.add("name", "must be at most %d characters long", limit)
	case strings.TrimSpace(name) != name:
		p.add("name", "must not start or end with white space")
	}
}

// checkHostname applies the rule for server names: letters, digits, periods and
// dashes as in RFC 1123.
func checkHostname(p *problems, name string) {
	if name == "" {
		p.add("name", "is required")
		return
	}
	if len(name) > 253 {
		p.add("name", "must be at most 253 characters long")
	}
	for part := range strings.SplitSeq(name, ".") {
		if len(part) > 63 || !labelName.MatchString(part) || strings.Contains(part, "_") {
			p.add("name", "must be a valid hostname")
			return
		}
	}
}

// parseNet reads a prefix with no bits set behind its length.
func parseNet(p *problems, field, text string) netip.Prefix {
	n, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		p.add(field, "%q is not a network in CIDR notation", text)
	case n.Masked() != n:
		p.add(field, "%q has bits set behind the prefix", text)
	}
	return n
}

// required reports a missing object or value in a request.
func required(p *problems, field string, missing bool) {
	if missing {
		p.add(field, "is required")
	}
}

// stamp is the vendor's form of a time.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05-07:00") }

// stampOrNil is stamp, or nil for no time.
func stampOrNil(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return stamp(t)
}

// idOrNil is the id, or nil for none.
func idOrNil(id int64) any {
	if id == 0 {
		return nil
	}
	return id
}

// list makes an empty list of a nil one: the vendor never answers null for it.
func list[T any](in []T) []T {
	if in == nil {
		return []T{}
	}
	return in
}

// sortedIDs is a sorted copy for an answer.
func sortedIDs(in []int64) []int64 {
	out := slices.Clone(list(in))
	slices.Sort(out)
	return out
}

// labelsOf makes an empty object of nil labels.
func labelsOf(l map[string]string) map[string]string {
	if l == nil {
		return map[string]string{}
	}
	return l
}
