package openstacksim

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
)

// matches applies the filters of the network service: equality, several values
// of one key joined by or, unknown keys ignored.
func (c *call) matches(fields map[string]string) bool {
	for key, want := range c.query {
		if have, known := fields[key]; known && !slices.Contains(want, have) {
			return false
		}
	}
	return true
}

// owned counts what the project has.
func owned[T any](c *call, list []T, project func(T) string) (n int) {
	for _, x := range list {
		if project(x) == c.project {
			n++
		}
	}
	return n
}

// sortable are the attributes of the network service that listings can be sorted
// by; times are not.
var sortable = []string{"id", "name", "status", "description", "floating_ip_address", "project_id", "tenant_id"}

// filterable are the attributes that listings can be filtered by, as far as it is
// simulated.
var filterable = map[string][]string{
	"networks":        {"id", "name", "router:external"},
	"subnets":         {"id", "name", "network_id"},
	"security_groups": {"id", "name", "project_id", "tenant_id"},
	"ports":           {"id", "name", "description", "device_id", "network_id", "project_id", "tenant_id"},
	"floatingips": {"id", "description", "port_id", "floating_network_id", "floating_ip_address", "status", "project_id",
		"tenant_id"},
}

// all answers with a listing. It has pages if asked; a marker that is not there
// begins anew.
func all[T any](c *call, key string, list []T, show func(T) map[string]any, fields func(T) map[string]string) {
	if !c.filters(filterable[key]) {
		return
	}
	list = slices.DeleteFunc(slices.Clone(list), func(x T) bool { return !c.matches(fields(x)) })
	if text := c.query.Get("changed_since"); text != "" {
		since, err := parseTime(text)
		if err != nil {
			c.neutron(http.StatusBadRequest, "InvalidInput",
				"Invalid input for operation: The input changed_since must be in the following format: YYYY-MM-DDTHH:MM:SSZ.")
			return
		}
		list = slices.DeleteFunc(list, func(x T) bool {
			at, err := parseTime(fmt.Sprint(show(x)["updated_at"]))
			return err == nil && at.Before(since)
		})
	}
	limit := 0
	if text := c.query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			c.neutron(http.StatusBadRequest, "BadRequest", "Bad limit request: Limit must be an integer 0 or greater and not '%s'.", text)
			return
		}
		limit = n
	}
	names, dirs, ok := c.sorting(limit > 0)
	if !ok {
		return
	}
	order := keys[T]{}
	for _, name := range names {
		order[name] = by(func(x T) string { return fields(x)[name] })
	}
	if sorted, err := order.order(names, dirs); err == nil && len(names) > 0 {
		slices.SortStableFunc(list, sorted)
	}
	m := c.query.Get("marker")
	if m != "" {
		list = list[slices.IndexFunc(list, func(x T) bool { return fields(x)["id"] == m })+1:]
	}
	full := limit > 0 && len(list) >= limit
	if full {
		list = list[:limit]
	}
	out := []any{}
	for _, x := range list {
		one := show(x)
		if wanted := c.query["fields"]; len(wanted) > 0 {
			maps.DeleteFunc(one, func(k string, _ any) bool { return !slices.Contains(wanted, k) })
		}
		out = append(out, one)
	}
	doc := map[string]any{key: out}
	var links []any
	if full {
		links = c.next(fields(list[limit-1])["id"])
	}
	if limit > 0 && len(list) > 0 {
		back := c.next(fields(list[0])["id"])[0].(map[string]any)
		links = append(links, map[string]any{"rel": "previous", "href": fmt.Sprint(back["href"], "&page_reverse=True")})
	}
	if links != nil {
		doc[key+"_links"] = links
	}
	c.answer(http.StatusOK, doc)
}

// filters refuses what the service cannot filter by, unless it ignores that.
func (c *call) filters(known []string) bool {
	for name := range c.query {
		if slices.Contains(known, name) || slices.Contains([]string{"limit", "marker", "sort_key", "sort_dir", "fields"}, name) || c.sim.opt.LooseFilters {
			continue
		}
		c.neutron(http.StatusBadRequest, "HTTPBadRequest", "['%s'] is invalid attribute for filtering", name)
		return false
	}
	return true
}

// sorting reads sort_key and sort_dir, which go in pairs. Pages are sorted by id
// at last.
func (c *call) sorting(pages bool) (names, dirs []string, ok bool) {
	names, dirs = slices.Clone(c.query["sort_key"]), slices.Clone(c.query["sort_dir"])
	bad := func(format string, args ...any) { c.neutron(http.StatusBadRequest, "HTTPBadRequest", format, args...) }
	if len(names) != len(dirs) {
		bad("The number of sort_keys and sort_dirs must be same")
		return nil, nil, false
	}
	for i, name := range names {
		if !slices.Contains(sortable, name) {
			bad("['%s'] is invalid attribute for sort_keys", name)
			return nil, nil, false
		}
		if dirs[i] != "asc" && dirs[i] != "desc" {
			bad("['%s'] is invalid value for sort_dirs, valid value is 'asc' and 'desc'", dirs[i])
			return nil, nil, false
		}
	}
	if pages && !slices.Contains(names, "id") {
		names, dirs = append(names, "id"), append(dirs, "asc")
	}
	return names, dirs, true
}
