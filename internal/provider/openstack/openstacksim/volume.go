package openstacksim

import (
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
)

type volume struct {
	id, name, project, user, status, server, typ, image string
	zone                                                string
	size, wanted                                        int // wanted is what it is extended to
	bootable                                            bool
	metadata                                            map[string]string
	created, updated, due                               time.Time
	attached                                            time.Time
	attachment                                          string
}

// become changes the volume's state.
func (v *volume) become(status string, now time.Time) { v.status, v.updated = status, now }

// tickVolume brings what takes time to its end.
func (s *Sim) tickVolume(r *region, v *volume) {
	now := s.now()
	if now.Before(v.due) || s.heldActions && v.status == "extending" {
		return
	}
	switch {
	case s.failVolumes && v.status == "creating":
		v.become("error", now)
	case s.failVolumes && v.status == "deleting":
		v.become("error_deleting", now)
	case s.failVolumes && v.status == "extending":
		v.become("error_extending", now)
	case v.status == "creating":
		v.bootable = v.image != ""
		v.become("available", now)
	case v.status == "extending":
		v.size = v.wanted
		v.become(v.free(), now)
	case v.status == "deleting":
		r.volumes = slices.DeleteFunc(r.volumes, func(o *volume) bool { return o == v })
	}
}

// free is the status of a volume that nothing happens to.
func (v *volume) free() string {
	if v.server != "" {
		return "in-use"
	}
	return "available"
}

func (c *call) showVolume(v *volume) any {
	on := []any{}
	if v.server != "" {
		on = append(on, map[string]any{"id": v.id, "volume_id": v.id, "server_id": v.server, "device": "/dev/vdb",
			"attachment_id": v.attachment, "host_name": nil, "attached_at": micros(v.attached)})
	}
	meta, typ := v.metadata, v.typ
	if meta == nil {
		meta = map[string]string{}
	}
	if typ == "" {
		typ = "__DEFAULT__"
	}
	bootable := "false"
	if v.bootable {
		bootable = "true"
	}
	out := map[string]any{"id": v.id, "name": v.name, "status": v.status, "size": v.size, "metadata": meta, "attachments": on, "user_id": v.user,
		"created_at": micros(v.created), "updated_at": orNull(v.updated), "volume_type": typ, "availability_zone": v.zone,
		"bootable": bootable, "description": nil, "encrypted": false, "multiattach": false, "snapshot_id": nil, "source_volid": nil,
		"replication_status": nil, "consistencygroup_id": nil}
	if c.r.Method == http.MethodGet {
		out["os-vol-tenant-attr:tenant_id"] = v.project
	}
	return out
}

func (c *call) createVolume() {
	var req struct {
		Size     int               `json:"size"`
		Name     string            `json:"name"`
		Type     string            `json:"volume_type"`
		Zone     string            `json:"availability_zone"`
		Image    string            `json:"imageRef"`
		Metadata map[string]string `json:"metadata"`
		// Not simulated; clients send them as null.
		Description any `json:"description"`
		Snapshot    any `json:"snapshot_id"`
		Source      any `json:"source_volid"`
		Group       any `json:"consistencygroup_id"`
		Backup      any `json:"backup_id"`
	}
	if !c.read("volume", &req) {
		return
	}
	if !c.room(req.Size) {
		return
	}
	if req.Size < 1 {
		c.fail(http.StatusBadRequest, "badRequest", "Invalid input received: Invalid volume size provided for create request: %d", req.Size)
		return
	}
	if req.Zone == "" {
		req.Zone = c.sim.opt.VolumeZones[0]
	}
	if !slices.Contains(c.sim.opt.VolumeZones, req.Zone) {
		c.fail(http.StatusBadRequest, "badRequest", "Invalid input received: Availability zone '%s' is invalid.", req.Zone)
		return
	}
	v := &volume{id: uuid.NewString(), zone: req.Zone, name: req.Name, project: c.project, user: c.user, status: "creating", size: req.Size, metadata: req.Metadata,
		typ: req.Type, image: req.Image, created: c.sim.now(), due: c.sim.now().Add(c.sim.opt.VolumeTime)}
	c.region.volumes = append(c.region.volumes, v)
	c.answer(http.StatusAccepted, map[string]any{"volume": c.showVolume(v)})
}

// volumeZones are those of the volume service, which need not be the compute
// service's.
func (c *call) volumeZones() {
	c.answer(http.StatusOK, map[string]any{"availabilityZoneInfo": each(c.sim.opt.VolumeZones, func(name string) any {
		return map[string]any{"zoneName": name, "zoneState": map[string]any{"available": true}}
	})})
}

// room checks the quota for so many more GB.
func (c *call) room(more int) bool {
	used := 0
	for _, v := range c.region.volumes {
		if v.project == c.project {
			used += v.size
		}
	}
	if q := c.sim.quotas.VolumeGB; q == 0 || used+more <= q {
		return true
	}
	c.w.Header().Set("Retry-After", "0")
	c.answer(http.StatusRequestEntityTooLarge, map[string]any{"overLimit": map[string]any{"code": 413, "retryAfter": "0",
		"message": "VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed gigabytes quota."}})
	return false
}

func (c *call) getVolume() {
	if v := c.volume(c.r.PathValue("id")); v != nil {
		c.answer(http.StatusOK, map[string]any{"volume": c.showVolume(v)})
		return
	}
	c.notFound("Volume", c.r.PathValue("id"))
}

func (c *call) deleteVolume() {
	v := c.volume(c.r.PathValue("id"))
	switch {
	case v == nil:
		c.notFound("Volume", c.r.PathValue("id"))
		return
	case !slices.Contains([]string{"available", "error", "error_restoring", "error_extending", "error_managing"}, v.status):
		c.fail(http.StatusBadRequest, "badRequest", "Invalid volume: Volume status must be available or error or error_restoring or error_extending "+
			"or error_managing and must not be migrating, attached, belong to a group, have snapshots, awaiting a transfer, or be disassociated from snapshots after volume transfer.")
		return
	}
	v.become("deleting", c.sim.now())
	v.due = c.sim.now().Add(c.sim.opt.VolumeTime)
	c.sim.tick()
	c.w.WriteHeader(http.StatusAccepted)
}

// volumeAction is POST /volumes/{id}/action. One that is in use can be extended
// from 3.42.
func (c *call) volumeAction() {
	v := c.volume(c.r.PathValue("id"))
	if v == nil {
		c.notFound("Volume", c.r.PathValue("id"))
		return
	}
	if _, ok := c.body["os-extend"]; !ok {
		c.fail(http.StatusBadRequest, "badRequest", "There is no such action. Verify the request body and Content-Type header and try again.")
		return
	}
	var req struct {
		Size int `json:"new_size"`
	}
	if !c.read("os-extend", &req) {
		return
	}
	switch {
	case v.status != "available" && (v.status != "in-use" || !c.speaks("3.42")):
		c.fail(http.StatusBadRequest, "badRequest", "Invalid volume: Volume %s status must be '{'status': 'available'}' to extend, currently %s.", v.id, v.status)
		return
	case req.Size <= v.size:
		c.fail(http.StatusBadRequest, "badRequest",
			"Invalid input received: New size for extend must be greater than current size. (current: %d, extended: %d).", v.size, req.Size)
		return
	case !c.room(req.Size - v.size):
		return
	}
	v.become("extending", c.sim.now())
	v.wanted, v.due = req.Size, c.sim.now().Add(c.sim.opt.ActionTime)
	if x := c.region.server(v.server); x != nil {
		a := c.note(x, "extend_volume", "compute_extend_volume")
		a.user, a.project = "cinder", "service" // the volume service asks for it
		a.finish(c.sim.now(), false)
	}
	c.sim.tick()
	c.w.WriteHeader(http.StatusAccepted)
}

// attachVolume is POST os-volume_attachments.
func (c *call) attachVolume() {
	x := c.server(c.r.PathValue("id"))
	if x == nil {
		c.notFound("Instance", c.r.PathValue("id"))
		return
	}
	var req struct {
		Volume string `json:"volumeId"`
	}
	if !c.read("volumeAttachment", &req) {
		return
	}
	v := c.volume(req.Volume)
	switch {
	case v == nil:
		c.fail(http.StatusNotFound, "itemNotFound", "Volume %s could not be found.", req.Volume)
		return
	case v.status != "available":
		c.fail(http.StatusBadRequest, "badRequest", "Invalid volume: volume '%s' status must be 'available'. Currently in '%s'", v.id, v.status)
		return
	}
	c.attach(x, v, false)
	c.note(x, "attach_volume", "compute_attach_volume").finish(c.sim.now(), false)
	c.answer(http.StatusOK, map[string]any{"volumeAttachment": map[string]any{"id": v.id, "serverId": x.id, "volumeId": v.id, "device": "/dev/vdb",
		"tag": nil, "delete_on_termination": false}})
}

func (c *call) attach(x *server, v *volume, deleted bool) {
	x.volumes = append(x.volumes, attached{v.id, deleted})
	v.take(x.id, c.sim.now())
}

// take gives the volume to a server.
func (v *volume) take(server string, now time.Time) {
	v.server, v.attached, v.attachment = server, now, uuid.NewString()
	v.become("in-use", now)
}

func (c *call) detachVolume() {
	x, v := c.server(c.r.PathValue("id")), c.volume(c.r.PathValue("volume"))
	if x == nil || v == nil || v.server != x.id {
		c.notFound("volume_id", c.r.PathValue("volume"))
		return
	}
	x.volumes = slices.DeleteFunc(x.volumes, func(a attached) bool { return a.id == v.id })
	v.server = ""
	v.become("available", c.sim.now())
	c.note(x, "detach_volume", "compute_detach_volume").finish(c.sim.now(), false)
	c.w.WriteHeader(http.StatusAccepted)
}
