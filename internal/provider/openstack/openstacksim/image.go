package openstacksim

import (
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"
)

func showImage(i image) map[string]any {
	return map[string]any{"id": i.id, "name": i.name, "status": "active", "created_at": seconds(i.created), "os_hidden": i.hidden}
}

// listImages has the newest first, if asked. Hidden images, and those of a
// community, are not in it.
func (c *call) listImages() {
	list := slices.DeleteFunc(slices.Clone(c.region.images), func(i image) bool { return i.hidden })
	if n := c.query.Get("name"); n != "" {
		list = slices.DeleteFunc(list, func(i image) bool { return i.name != n })
	}
	if id := strings.TrimPrefix(c.query.Get("id"), "in:"); id != "" {
		list = slices.DeleteFunc(list, func(i image) bool { return i.id != id })
	}
	slices.SortStableFunc(list, func(a, b image) int { return b.created.Compare(a.created) })
	out := []any{}
	for _, i := range list {
		out = append(out, showImage(i))
	}
	c.answer(http.StatusOK, map[string]any{"images": out, "schema": "/v2/schemas/images"})
}

// getImage has an answer of its own for what is not there: three members, and no
// object around them.
func (c *call) getImage() {
	id := c.r.PathValue("id")
	if at := slices.IndexFunc(c.region.images, func(i image) bool { return i.id == id }); at >= 0 {
		c.answer(http.StatusOK, showImage(c.region.images[at]))
		return
	}
	c.answer(http.StatusNotFound, map[string]any{"message": "No image found with ID " + id + "<br /><br />\n\n\n", "code": "404 Not Found",
		"title": "Not Found"})
}

// AddImage makes an image in each region and returns their ids. A hidden one is used
// by its id only.
func (s *Sim) AddImage(name string, hidden bool) (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.opt.Regions {
		i := image{object: object{uuid.NewString(), name}, created: s.now(), hidden: hidden}
		s.regions[n].images = append(s.regions[n].images, i)
		ids = append(ids, i.id)
	}
	return ids
}

// RemoveImages removes all images of a name.
func (s *Sim) RemoveImages(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.regions {
		r.images = slices.DeleteFunc(r.images, func(i image) bool { return i.name == name })
	}
}
