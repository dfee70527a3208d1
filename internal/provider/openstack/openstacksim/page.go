package openstacksim

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// keys are what a listing can be sorted by.
type keys[T any] map[string]func(a, b T) int

// by compares text that an entry has.
func by[T any](text func(T) string) func(a, b T) int {
	return func(a, b T) int { return cmp.Compare(text(a), text(b)) }
}

// at compares times.
func at[T any](when func(T) time.Time) func(a, b T) int {
	return func(a, b T) int { return when(a).Compare(when(b)) }
}

// order makes one comparison of several keys. A direction that is not given is
// the first one that is.
func (k keys[T]) order(names, dirs []string) (func(a, b T) int, error) {
	var all []func(a, b T) int
	for i, name := range names {
		f := k[name]
		if f == nil {
			return nil, fmt.Errorf("%s", name)
		}
		dir := dirs[0]
		if i < len(dirs) {
			dir = dirs[i]
		}
		if dir == "desc" {
			up := f
			f = func(a, b T) int { return up(b, a) }
		}
		all = append(all, f)
	}
	return func(a, b T) int {
		for _, f := range all {
			if n := f(a, b); n != 0 {
				return n
			}
		}
		return 0
	}, nil
}

// after is what follows the marker in a sorted listing. The marker need not be in
// it any more.
func after[T any](list []T, marker T, order func(a, b T) int) []T {
	return slices.DeleteFunc(list, func(x T) bool { return order(x, marker) <= 0 })
}

// limit is how many entries a page of the compute service has. ok is false when
// the answer is given.
func (c *call) limit(most int) (n int, ok bool) {
	text := c.query.Get("limit")
	if text == "" {
		return most, true
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		c.fail(http.StatusBadRequest, "badRequest", "Invalid input for query parameters limit. Value: %s. '%s' does not match '^[0-9]*$'", text, text)
		return 0, false
	}
	return min(n, most), true
}

// next is the link to the page that starts after marker.
func (c *call) next(marker string) []any {
	q := c.r.URL.Query()
	q.Set("marker", marker)
	return []any{map[string]any{"rel": "next", "href": "http://" + c.r.Host + c.r.URL.Path + "?" + q.Encode()}}
}

// answerPage answers with a page. The link to the next one is there when the page
// is full, be there more or not.
func answerPage[T any](c *call, key string, list []T, limit int, id func(T) string, show func(T) any) {
	list = list[:min(limit, len(list))]
	out := make([]any, 0, len(list))
	for _, x := range list {
		out = append(out, show(x))
	}
	doc := map[string]any{key: out}
	if limit > 0 && len(list) == limit {
		doc[key+"_links"] = c.next(id(list[limit-1]))
	}
	c.answer(http.StatusOK, doc)
}

// known refuses parameters that the compute service does not know.
func (c *call) known(allowed []string, refusal string) bool {
	for name := range c.query {
		if !slices.Contains(allowed, name) {
			c.fail(http.StatusBadRequest, "badRequest", refusal, name)
			return false
		}
	}
	return true
}

// changes reads changes-since, and changes-before from 2.66.
func (c *call) changes() (since, before time.Time, ok bool) {
	for name, into := range map[string]*time.Time{"changes-since": &since, "changes-before": &before} {
		text := c.query.Get(name)
		if text == "" || name == "changes-before" && !c.speaks("2.66") {
			continue
		}
		t, err := parseTime(text)
		if err != nil {
			c.fail(http.StatusBadRequest, "badRequest", "Invalid input for query parameters %s. Value: %s. '%s' is not a 'date-time'", name, text, text)
			return since, before, false
		}
		*into = t
	}
	if !since.IsZero() && !before.IsZero() && before.Before(since) {
		c.fail(http.StatusBadRequest, "badRequest", "The value of changes-since must be less than or equal to changes-before.")
		return since, before, false
	}
	return since, before, true
}

// parseTime reads a time as the services do: without a zone it is UTC.
func parseTime(text string) (time.Time, error) {
	var err error
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"} {
		var t time.Time
		if t, err = time.Parse(layout, strings.ReplaceAll(text, " ", "+")); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, err
}
