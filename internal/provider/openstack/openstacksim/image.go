package openstacksim

import (
	"net/http"
	"slices"
	"strings"
)

// listImages has the newest first, if asked.
func (c *call) listImages() {
	list := slices.Clone(c.region.images)
	if n := c.query.Get("name"); n != "" {
		list = slices.DeleteFunc(list, func(i image) bool { return i.name != n })
	}
	if id := strings.TrimPrefix(c.query.Get("id"), "in:"); id != "" {
		list = slices.DeleteFunc(list, func(i image) bool { return i.id != id })
	}
	slices.SortStableFunc(list, func(a, b image) int { return b.created.Compare(a.created) })
	out := []any{}
	for _, i := range list {
		out = append(out, map[string]any{"id": i.id, "name": i.name, "status": "active", "created_at": seconds(i.created)})
	}
	c.answer(http.StatusOK, map[string]any{"images": out, "schema": "/v2/schemas/images"})
}
