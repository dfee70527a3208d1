package hetznersim

import (
	"fmt"
	"maps"
	"slices"
)

type volume struct {
	base
	Size     int    `json:"size"` // GB
	Location string `json:"location"`
	Server   int64  `json:"server,omitempty"`
	Status   string `json:"status"`
	Format   string `json:"format,omitempty"`
}

func (v *volume) on() resource { return resource{"volume", v.ID} }

func (v *volume) view() obj {
	o := obj{"id": v.ID, "created": stamp(v.Created), "name": v.Name, "server": idOrNil(v.Server),
		"location": locationNamed(v.Location).view(), "size": v.Size,
		"linux_device": fmt.Sprintf("/dev/disk/by-id/scsi-0HC_Volume_%d", v.ID), "protection": obj{"delete": v.Protected},
		"labels": labelsOf(v.Labels), "status": v.Status, "format": nil}
	if v.Format != "" {
		o["format"] = v.Format
	}
	return o
}

func (p *project) volumesOf(server int64) []int64 {
	var ids []int64
	for _, v := range p.Volumes.Live {
		if v.Server == server {
			ids = append(ids, v.ID)
		}
	}
	return sortedIDs(ids)
}

func (v *volume) effect(a *action) {
	switch a.Command {
	case "create_volume":
		v.Status = "available"
	case "attach_volume":
		v.Server = a.Args.Other
	case "detach_volume":
		v.Server = 0
	case "resize_volume":
		v.Size = a.Args.Size
	}
}

func listVolumes(c *call) (int, any, error) {
	var views []view
	for _, v := range c.p.Volumes.seenAt(c.now, c.lag) {
		w := viewOf(&v.base, v.view())
		w.status = v.Status
		views = append(views, w)
	}
	return c.list(listRules{key: "volumes", sort: []string{"id", "name", "created"}, name: true, labels: true,
		statuses: []string{"available", "creating"}}, views)
}

func (c *call) volume() (*volume, error) {
	v, ok := c.p.Volumes.get(c.ids[0])
	if !ok {
		return nil, notFound("volume", c.ids[0])
	}
	return v, nil
}

func getVolume(c *call) (int, any, error) {
	v, err := c.volume()
	if err != nil {
		return 0, nil, err
	}
	return 200, obj{"volume": v.view()}, nil
}

// Sizes of volumes in GB.
const (
	minVolume = 10
	maxVolume = 10_240
)

func createVolume(c *call) (int, any, error) {
	var req struct {
		Size      int               `json:"size"`
		Name      string            `json:"name"`
		Labels    map[string]string `json:"labels"`
		Automount bool              `json:"automount"`
		Format    string            `json:"format"`
		Location  ref               `json:"location"`
		Server    int64             `json:"server"`
	}
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	var p problems
	checkName(&p, req.Name, 64)
	checkLabels(&p, req.Labels)
	if req.Size < minVolume || req.Size > maxVolume {
		p.add("size", "must be between %d and %d", minVolume, maxVolume)
	}
	if req.Format != "" && !slices.Contains([]string{"ext4", "xfs"}, req.Format) {
		p.add("format", "%q is not ext4 or xfs", req.Format)
	}
	loc, ok := findLocation(req.Location)
	srv, has := c.p.Servers.get(req.Server)
	switch {
	case req.Server != 0 && !has:
		p.add("server", "server %d not found", req.Server)
	case req.Server != 0 && !req.Location.empty():
		p.add("location", "must not be given with a server")
	case req.Server == 0 && !ok:
		p.add("location", "location %s not found", req.Location)
	}
	if err := p.err(); err != nil {
		return 0, nil, err
	}
	if has {
		loc = locationNamed(srv.Location)
		if err := c.p.lockedErr("server", srv.ID); err != nil {
			return 0, nil, err
		}
	}
	if c.p.Volumes.nameTaken(req.Name, 0) {
		return 0, nil, notUnique("name", "volume name is already used")
	}
	if err := c.p.overLimit("volumes", len(c.p.Volumes.Live), 1); err != nil {
		return 0, nil, err
	}
	if _, full := c.s.sold[loc.name+"/volume"]; full {
		return 0, nil, fail("no_space_left_in_location", "no space left in location %s", loc.name)
	}
	v := &volume{base: base{ID: c.s.id(), Name: req.Name, Labels: maps.Clone(req.Labels), Created: c.now}, Size: req.Size,
		Location: loc.name, Status: "creating", Format: req.Format}
	c.p.Volumes.put(v)
	a := c.start("create_volume", c.s.timing.Action, actionArgs{}, v.on())
	next := []obj{}
	if has {
		next = c.views(c.startAt("attach_volume", a.EndsAt, c.s.timing.Action, actionArgs{Other: srv.ID}, v.on(), srv.on()))
	}
	return 201, obj{"volume": v.view(), "action": a.view(c.now), "next_actions": next}, nil
}

func updateVolume(c *call) (int, any, error) {
	v, err := c.volume()
	if err != nil {
		return 0, nil, err
	}
	var ch change
	if err := c.decode(&ch); err != nil {
		return 0, nil, err
	}
	if err := ch.apply(&v.base, func(p *problems, n string) { checkName(p, n, 64) }, c.p.Volumes.nameTaken); err != nil {
		return 0, nil, err
	}
	return 200, obj{"volume": v.view()}, nil
}

// deleteVolume has no action: the volume is gone when the call returns.
func deleteVolume(c *call) (int, any, error) {
	v, err := c.volume()
	if err != nil {
		return 0, nil, err
	}
	switch {
	case v.Protected:
		return 0, nil, fail("protected", "volume deletion is protected")
	case v.Server != 0:
		return 0, nil, fail("resource_in_use", "volume is attached to server %d", v.Server)
	}
	if err := c.p.lockedErr("volume", v.ID); err != nil {
		return 0, nil, err
	}
	c.p.Volumes.remove(v.ID, c.now)
	return 204, nil, nil
}

// onVolume wraps an action of a volume that must not be locked.
func onVolume(h func(c *call, v *volume) (int, any, error)) handler {
	return func(c *call) (int, any, error) {
		v, err := c.volume()
		if err != nil {
			return 0, nil, err
		}
		if err := c.p.lockedErr("volume", v.ID); err != nil {
			return 0, nil, err
		}
		return h(c, v)
	}
}

func attachVolume(c *call, v *volume) (int, any, error) {
	var req struct {
		Server    int64 `json:"server"`
		Automount bool  `json:"automount"`
	}
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	srv, ok := c.p.Servers.get(req.Server)
	switch {
	case !ok || srv.Status == stDeleting:
		return 0, nil, invalid("server", "server %d not found", req.Server)
	case v.Server != 0:
		return 0, nil, fail("volume_already_attached", "volume is attached to server %d", v.Server)
	case srv.Location != v.Location:
		return 0, nil, invalid("server", "server %d is in location %s", srv.ID, srv.Location)
	}
	if err := c.p.lockedErr("server", srv.ID); err != nil {
		return 0, nil, err
	}
	return c.answer(c.start("attach_volume", c.s.timing.Action, actionArgs{Other: srv.ID}, v.on(), srv.on()))
}

func detachVolume(c *call, v *volume) (int, any, error) {
	if v.Server == 0 {
		return 0, nil, invalid("server", "volume is not attached")
	}
	return c.answer(c.start("detach_volume", c.s.timing.Action, actionArgs{}, v.on(), resource{"server", v.Server}))
}

func resizeVolume(c *call, v *volume) (int, any, error) {
	var req struct {
		Size int `json:"size"`
	}
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	if req.Size <= v.Size || req.Size > maxVolume {
		return 0, nil, invalid("size", "must be more than %d and at most %d", v.Size, maxVolume)
	}
	return c.answer(c.start("resize_volume", c.s.timing.Action, actionArgs{Size: req.Size}, v.on()))
}

// protect is the change_protection of everything but servers.
func (c *call) protect(b *base, on resource) (int, any, error) {
	var req struct{ Delete *bool }
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	if req.Delete != nil {
		b.Protected = *req.Delete
	}
	return c.answer(c.start("change_protection", 0, actionArgs{}, on))
}
