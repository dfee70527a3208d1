package openstacksim

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

type volume struct {
	id, name, status, server, typ, image string
	size                                 int
	metadata                             map[string]string
	created, due                         time.Time
}

func (c *call) showVolume(v *volume) any {
	on := []any{}
	if v.server != "" {
		on = append(on, map[string]any{"id": v.id, "volume_id": v.id, "server_id": v.server, "device": "/dev/vdb"})
	}
	return map[string]any{"id": v.id, "name": v.name, "status": v.status, "size": v.size, "metadata": v.metadata, "attachments": on,
		"created_at": micros(v.created), "volume_type": v.typ, "availability_zone": zoneName, "bootable": "false"}
}

func (c *call) listVolumes() {
	list := slices.Clone(c.region.volumes)
	if n := c.query.Get("name"); n != "" {
		list = slices.DeleteFunc(list, func(v *volume) bool { return v.name != n })
	}
	slices.Reverse(list)
	page(c, "volumes", list, func(v *volume) string { return v.id }, c.showVolume)
}

func (c *call) createVolume() {
	var req struct {
		Size     int               `json:"size"`
		Name     string            `json:"name"`
		Type     string            `json:"volume_type"`
		Zone     string            `json:"availability_zone"`
		Image    string            `json:"imageRef"`
		Metadata map[string]string `json:"metadata"`
	}
	if !c.read("volume", &req) {
		return
	}
	used := 0
	for _, v := range c.region.volumes {
		used += v.size
	}
	if q := c.sim.quotas.VolumeGB; q > 0 && used+req.Size > q {
		c.w.Header().Set("Retry-After", "0")
		c.answer(http.StatusRequestEntityTooLarge, map[string]any{"overLimit": map[string]any{"code": 413, "retryAfter": "0",
			"message": "VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed gigabytes quota."}})
		return
	}
	if req.Size < 1 {
		c.fail(http.StatusBadRequest, "badRequest", "Invalid input received: Invalid volume size provided for create request: %d", req.Size)
		return
	}
	v := &volume{id: uuid.NewString(), name: req.Name, status: "creating", size: req.Size, metadata: req.Metadata, typ: req.Type, image: req.Image,
		created: c.sim.now(), due: c.sim.now().Add(c.sim.opt.VolumeTime)}
	c.region.volumes = append(c.region.volumes, v)
	c.answer(http.StatusAccepted, map[string]any{"volume": c.showVolume(v)})
}

func (c *call) getVolume() {
	if v := c.region.volumeByID(c.r.PathValue("id")); v != nil {
		c.answer(http.StatusOK, map[string]any{"volume": c.showVolume(v)})
		return
	}
	c.notFound("Volume", c.r.PathValue("id"))
}

func (c *call) deleteVolume() {
	v := c.region.volumeByID(c.r.PathValue("id"))
	switch {
	case v == nil:
		c.notFound("Volume", c.r.PathValue("id"))
		return
	case v.status != "available" && v.status != "error":
		c.fail(http.StatusBadRequest, "badRequest", "Invalid volume: Volume status must be available or error or error_restoring or error_extending "+
			"or error_managing and must not be migrating, attached, belong to a group, have snapshots, awaiting a transfer, or be disassociated from snapshots after volume transfer.")
		return
	}
	v.status, v.due = "deleting", c.sim.now().Add(c.sim.opt.VolumeTime)
	c.sim.tick()
	c.w.WriteHeader(http.StatusAccepted)
}

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
