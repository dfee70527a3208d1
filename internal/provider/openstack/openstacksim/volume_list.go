package openstacksim

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// volumeKeys are what volumes can be sorted by, as far as it is simulated.
var volumeKeys = keys[*volume]{
	"id": by(func(v *volume) string { return v.id }), "name": by(func(v *volume) string { return v.name }),
	"status": by(func(v *volume) string { return v.status }), "size": func(a, b *volume) int { return a.size - b.size },
	"created_at": at(func(v *volume) time.Time { return v.created }), "updated_at": at(func(v *volume) time.Time { return v.updated }),
}

// listVolumes is GET /volumes/detail. Only an admin sees those of other projects,
// and asking for them is no error.
func (c *call) listVolumes() {
	if !c.volumeFilters() {
		return
	}
	created, ok1 := c.times("created_at")
	updated, ok2 := c.times("updated_at")
	if !ok1 || !ok2 {
		return
	}
	everyone := c.admin && c.query.Has("all_tenants") && !no(c.query.Get("all_tenants"))
	list := slices.DeleteFunc(slices.Clone(c.region.volumes), func(v *volume) bool {
		for field, have := range map[string]string{"name": v.name, "status": v.status} {
			if want := c.query.Get(field); want != "" && want != have {
				return true
			}
		}
		return v.project != c.project && !everyone || !created(v.created) || !updated(v.updated)
	})
	names, dirs, ok := c.volumeOrder()
	if !ok {
		return
	}
	order, err := volumeKeys.order(append(names, "id"), append(dirs, dirs[0]))
	if err != nil {
		c.fail(http.StatusBadRequest, "badRequest", "Invalid input received: Invalid sort key")
		return
	}
	slices.SortFunc(list, order)
	limit := c.sim.opt.PageSize
	if text := c.query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			c.fail(http.StatusBadRequest, "badRequest", "limit param must be positive")
			return
		}
		limit = min(limit, n)
	}
	if m := c.query.Get("marker"); m != "" {
		v := c.volume(m)
		if v == nil {
			c.notFound("Volume", m)
			return
		}
		list = after(list, v, order)
	}
	answerPage(c, "volumes", list, limit, func(v *volume) string { return v.id }, c.showVolume)
}

// volumeFilters refuses filters that the operator does not allow. Older
// microversions ignore them.
func (c *call) volumeFilters() bool {
	for name := range c.query {
		if slices.Contains([]string{"limit", "marker", "sort", "sort_key", "sort_dir", "all_tenants"}, name) ||
			!c.sim.opt.NoVolumeFilters && slices.Contains([]string{"name", "status", "created_at", "updated_at"}, name) {
			continue
		}
		if c.speaks("3.31") {
			c.fail(http.StatusBadRequest, "badRequest", "Invalid filters %s are found in query options.", name)
			return false
		}
	}
	return true
}

// volumeOrder reads sort, or sort_key and sort_dir.
func (c *call) volumeOrder() (names, dirs []string, ok bool) {
	text := c.query.Get("sort")
	if text != "" && (c.query.Has("sort_key") || c.query.Has("sort_dir")) {
		c.fail(http.StatusBadRequest, "badRequest", "The 'sort_key' and 'sort_dir' parameters are deprecated and cannot be used with the 'sort' parameter.")
		return nil, nil, false
	}
	if text == "" {
		name, dir := c.query.Get("sort_key"), c.query.Get("sort_dir")
		if name == "" {
			name = "created_at"
		}
		text = name + ":" + dir
	}
	for _, one := range strings.Split(text, ",") {
		name, dir, _ := strings.Cut(one, ":")
		if dir == "" {
			dir = "desc"
		}
		if dir != "asc" && dir != "desc" {
			c.fail(http.StatusBadRequest, "badRequest", "Invalid input received: Unknown sort direction, must be 'desc' or 'asc'.")
			return nil, nil, false
		}
		names, dirs = append(names, name), append(dirs, dir)
	}
	return names, dirs, true
}

// times is the filter of a time, such as gte:2026-11-30T10:00:00Z,lt:..., which the
// service has from 3.60.
func (c *call) times(field string) (pass func(time.Time) bool, ok bool) {
	pass = func(time.Time) bool { return true }
	text := c.query.Get(field)
	if text == "" || !c.speaks("3.60") {
		return pass, true
	}
	for _, one := range strings.Split(text, ",") {
		op, when, _ := strings.Cut(one, ":")
		test, known := map[string]func(n int) bool{
			"gt": func(n int) bool { return n > 0 }, "gte": func(n int) bool { return n >= 0 }, "lt": func(n int) bool { return n < 0 },
			"lte": func(n int) bool { return n <= 0 }, "eq": func(n int) bool { return n == 0 }, "neq": func(n int) bool { return n != 0 },
		}[op]
		if !known {
			c.fail(http.StatusBadRequest, "badRequest", "Invalid %s operator", op)
			return nil, false
		}
		t, err := parseTime(when)
		if err != nil {
			c.fail(http.StatusBadRequest, "badRequest", "Invalid %s value", when)
			return nil, false
		}
		before := pass
		pass = func(have time.Time) bool { return before(have) && !have.IsZero() && test(have.Compare(t)) }
	}
	return pass, true
}
