package hetznersim

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Page sizes of the vendor.
const (
	DefaultPerPage = 25
	MaxPerPage     = 50
)

// view is an object in a listing with what it can be sorted and filtered by.
type view struct {
	id     int64
	name   string
	labels map[string]string
	status string
	// keys are further sort keys, as strings that sort as the values do.
	keys map[string]string
	body obj
}

func viewOf(b *base, body obj) view {
	return view{id: b.ID, name: b.Name, labels: b.Labels, body: body,
		keys: map[string]string{"created": b.Created.UTC().Format("20060102150405.000000000")}}
}

// listRules says which query parameters a listing takes.
type listRules struct {
	key      string   // of the list in the answer
	sort     []string // fields to sort by
	name     bool
	labels   bool
	statuses []string
	// extra are further parameters; the handler has applied them already.
	extra []string
}

// list answers a listing: it checks the parameters, filters, sorts and cuts the
// page.
func (c *call) list(rules listRules, in []view) (int, any, error) {
	q := c.r.URL.Query()
	if err := rules.check(q); err != nil {
		return 0, nil, err
	}
	views, err := rules.filter(q, in)
	if err != nil {
		return 0, nil, err
	}
	rules.order(q["sort"], views)
	from, to, meta, err := c.cut(q, len(views))
	if err != nil {
		return 0, nil, err
	}
	items := make([]obj, 0, to-from)
	for _, v := range views[from:to] {
		items = append(items, v.body)
	}
	return 200, obj{rules.key: items, "meta": obj{"pagination": meta}}, nil
}

// cut finds the page of a list of so many that is asked for.
func (c *call) cut(q url.Values, total int) (from, to int, meta obj, err error) {
	page, perPage, err := pageOf(q)
	if err != nil {
		return 0, 0, nil, err
	}
	if most := c.s.opts.MaxPerPage; most > 0 {
		perPage = min(perPage, most)
	}
	from = min((page-1)*perPage, total)
	to = min(from+perPage, total)
	last := max(1, (total+perPage-1)/perPage)
	meta = obj{"page": page, "per_page": perPage, "previous_page": nil, "next_page": nil,
		"last_page": last, "total_entries": total}
	if page > 1 {
		meta["previous_page"] = min(page-1, last)
	}
	if page < last {
		meta["next_page"] = page + 1
	}
	return from, to, meta, nil
}

// check refuses parameters that the document does not list.
func (rules listRules) check(q url.Values) error {
	allowed := append([]string{"page", "per_page"}, rules.extra...)
	if len(rules.sort) > 0 {
		allowed = append(allowed, "sort")
	}
	if rules.name {
		allowed = append(allowed, "name")
	}
	if rules.labels {
		allowed = append(allowed, "label_selector")
	}
	if rules.statuses != nil {
		allowed = append(allowed, "status")
	}
	var p problems
	for k := range q {
		if !slices.Contains(allowed, k) {
			p.add(k, "unknown parameter")
		}
	}
	for _, s := range q["sort"] {
		field, dir, _ := strings.Cut(s, ":")
		if !slices.Contains(rules.sort, field) || dir != "" && dir != "asc" && dir != "desc" {
			p.add("sort", "%q is not one of %s, with :asc or :desc", s, strings.Join(rules.sort, ", "))
		}
	}
	for _, s := range q["status"] {
		if !slices.Contains(rules.statuses, s) {
			p.add("status", "%q is not one of %s", s, strings.Join(rules.statuses, ", "))
		}
	}
	return p.err()
}

func (rules listRules) filter(q url.Values, in []view) ([]view, error) {
	out := slices.Clone(in)
	if name := q.Get("name"); rules.name && name != "" {
		out = slices.DeleteFunc(out, func(v view) bool { return v.name != name })
	}
	if text := q.Get("label_selector"); rules.labels && text != "" {
		sel, err := parseSelector(text)
		if err != nil {
			return nil, err
		}
		out = slices.DeleteFunc(out, func(v view) bool { return !sel.matches(v.labels) })
	}
	if st := q["status"]; rules.statuses != nil && len(st) > 0 {
		out = slices.DeleteFunc(out, func(v view) bool { return !slices.Contains(st, v.status) })
	}
	return out, nil
}

// order sorts by the given fields and then by id.
func (rules listRules) order(fields []string, views []view) {
	slices.SortStableFunc(views, func(a, b view) int {
		for _, f := range fields {
			field, dir, _ := strings.Cut(f, ":")
			n := a.compare(b, field)
			if dir == "desc" {
				n = -n
			}
			if n != 0 {
				return n
			}
		}
		return cmp.Compare(a.id, b.id)
	})
}

func (v view) compare(o view, field string) int {
	switch field {
	case "id":
		return cmp.Compare(v.id, o.id)
	case "name":
		return cmp.Compare(v.name, o.name)
	case "status":
		return cmp.Compare(v.status, o.status)
	}
	return cmp.Compare(v.keys[field], o.keys[field])
}

func pageOf(q url.Values) (page, perPage int, err error) {
	var p problems
	read := func(name string, def, most int) int {
		text := q.Get(name)
		if text == "" {
			return def
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || most > 0 && n > most {
			p.add(name, "%q is out of range", text)
			return def
		}
		return n
	}
	page, perPage = read("page", 1, 0), read("per_page", DefaultPerPage, MaxPerPage)
	return page, perPage, p.err()
}

// linkHeader is the vendor's Link header for a page, empty when there is only
// one.
func linkHeader(u *url.URL, host string, meta obj) string {
	var links []string
	for _, l := range []struct{ key, rel string }{{"previous_page", "prev"}, {"next_page", "next"}, {"last_page", "last"}} {
		n, ok := meta[l.key].(int)
		if !ok {
			continue
		}
		q := u.Query()
		q.Set("page", strconv.Itoa(n))
		links = append(links, fmt.Sprintf("<http://%s%s?%s>; rel=%q", host, u.Path, q.Encode(), l.rel))
	}
	return strings.Join(links, ", ")
}
