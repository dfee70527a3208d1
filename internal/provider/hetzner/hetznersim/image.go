package hetznersim

import (
	"slices"
	"strconv"
	"time"
)

type image struct {
	base
	Type        string    `json:"type"`
	Status      string    `json:"status"`
	Description string    `json:"description"`
	Arch        string    `json:"arch"`
	OS          string    `json:"os"`
	Version     string    `json:"version,omitempty"`
	Disk        int       `json:"disk"`
	FromID      int64     `json:"fromId,omitempty"`
	FromName    string    `json:"fromName,omitempty"`
	BoundTo     int64     `json:"boundTo,omitempty"`
	Deprecated  time.Time `json:"deprecated,omitzero"`
}

func system(id int64, name, os, version, arch, description string) *image {
	return &image{base: base{ID: id, Name: name, Created: time.Date(2024, 4, 25, 13, 26, 27, 0, time.UTC)}, Type: "system",
		Status: "available", Description: description, Arch: arch, OS: os, Version: version, Disk: 5}
}

// systemImages are the vendor's, one per architecture under one name.
var systemImages = []*image{
	system(161547269, "ubuntu-24.04", "ubuntu", "24.04", "x86", "Ubuntu 24.04"),
	system(161547270, "ubuntu-24.04", "ubuntu", "24.04", "arm", "Ubuntu 24.04"),
	system(67794396, "ubuntu-22.04", "ubuntu", "22.04", "x86", "Ubuntu 22.04"),
	system(103908130, "ubuntu-22.04", "ubuntu", "22.04", "arm", "Ubuntu 22.04"),
	system(114690387, "debian-12", "debian", "12", "x86", "Debian 12"),
	system(114690389, "debian-12", "debian", "12", "arm", "Debian 12"),
	system(310557660, "debian-13", "debian", "13", "x86", "Debian 13"),
	system(310557661, "debian-13", "debian", "13", "arm", "Debian 13"),
	oldImage(15512617, "ubuntu-20.04", "20.04", "x86"),
}

func oldImage(id int64, name, version, arch string) *image {
	i := system(id, name, "ubuntu", version, arch, "Ubuntu "+version)
	i.Deprecated = time.Date(2025, 5, 31, 0, 0, 0, 0, time.UTC)
	return i
}

func (i *image) view() obj {
	o := obj{"id": i.ID, "type": i.Type, "status": i.Status, "name": nil, "description": i.Description, "image_size": nil,
		"disk_size": i.Disk, "created": stamp(i.Created), "created_from": nil, "bound_to": idOrNil(i.BoundTo), "os_flavor": i.OS,
		"os_version": nil, "rapid_deploy": i.Type == "system", "protection": obj{"delete": i.Protected},
		"deprecated": stampOrNil(i.Deprecated), "deleted": nil, "labels": labelsOf(i.Labels), "architecture": i.Arch}
	if i.Name != "" {
		o["name"] = i.Name
	}
	if i.Version != "" {
		o["os_version"] = i.Version
	}
	if i.FromID != 0 {
		o["created_from"] = obj{"id": i.FromID, "name": i.FromName}
	}
	if i.Type != "system" && i.Status == "available" {
		o["image_size"] = 2.3
	}
	return o
}

// images are the vendor's and the project's own.
func (p *project) images() []*image { return append(slices.Clone(systemImages), p.Images.all()...) }

// image finds an image. A name means the one of the architecture if there is
// one, so that a wrong architecture can be told from a wrong name.
func (p *project) image(r ref, arch string) (*image, bool) {
	var found *image
	for _, i := range p.images() {
		if r.is(i.ID, i.Name) && (found == nil || i.Arch == arch) {
			found = i
		}
	}
	return found, found != nil
}

func listImages(c *call) (int, any, error) {
	q := c.r.URL.Query()
	var p problems
	old := q.Get("include_deprecated")
	if old != "" && old != "true" && old != "false" {
		p.add("include_deprecated", "%q is not true or false", old)
	}
	kinds, bound, arch := q["type"], q["bound_to"], q["architecture"]
	for _, k := range kinds {
		if !slices.Contains([]string{"system", "app", "snapshot", "backup"}, k) {
			p.add("type", "%q is not an image type", k)
		}
	}
	for _, a := range arch {
		if a != "x86" && a != "arm" {
			p.add("architecture", "%q is not x86 or arm", a)
		}
	}
	if err := p.err(); err != nil {
		return 0, nil, err
	}
	var views []view
	for _, i := range c.p.images() {
		switch {
		case len(kinds) > 0 && !slices.Contains(kinds, i.Type),
			len(arch) > 0 && !slices.Contains(arch, i.Arch),
			len(bound) > 0 && !slices.Contains(bound, strconv.FormatInt(i.BoundTo, 10)),
			!i.Deprecated.IsZero() && old != "true":
			continue
		}
		v := viewOf(&i.base, i.view())
		v.status = i.Status
		views = append(views, v)
	}
	return c.list(listRules{key: "images", sort: []string{"id", "name", "created"}, name: true, labels: true,
		statuses: []string{"available", "creating", "unavailable"},
		extra:    []string{"type", "bound_to", "include_deprecated", "architecture"}}, views)
}

func getImage(c *call) (int, any, error) {
	i, ok := c.p.image(ref{ID: c.ids[0]}, "")
	if !ok {
		return 0, nil, notFound("image", c.ids[0])
	}
	return 200, obj{"image": i.view()}, nil
}

// ownImage is an image that the project may change.
func (c *call) ownImage() (*image, error) {
	if i, ok := c.p.Images.get(c.ids[0]); ok {
		return i, nil
	}
	if _, ok := c.p.image(ref{ID: c.ids[0]}, ""); ok {
		return nil, fail("forbidden", "only snapshots and backups can be changed")
	}
	return nil, notFound("image", c.ids[0])
}

func updateImage(c *call) (int, any, error) {
	i, err := c.ownImage()
	if err != nil {
		return 0, nil, err
	}
	var req struct {
		Description *string            `json:"description"`
		Type        *string            `json:"type"`
		Labels      *map[string]string `json:"labels"`
	}
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	if req.Type != nil && *req.Type != "snapshot" {
		return 0, nil, invalid("type", "%q is not snapshot", *req.Type)
	}
	if err := (change{Labels: req.Labels}).apply(&i.base, nil, nil); err != nil {
		return 0, nil, err
	}
	if req.Description != nil {
		i.Description = *req.Description
	}
	if req.Type != nil {
		i.Type, i.BoundTo = *req.Type, 0
	}
	return 200, obj{"image": i.view()}, nil
}

func deleteImage(c *call) (int, any, error) {
	i, err := c.ownImage()
	if err != nil {
		return 0, nil, err
	}
	if i.Protected {
		return 0, nil, fail("protected", "image deletion is protected")
	}
	if err := c.p.lockedErr("image", i.ID); err != nil {
		return 0, nil, err
	}
	c.p.Images.remove(i.ID, c.now)
	return 204, nil, nil
}

func protectImage(c *call) (int, any, error) {
	i, err := c.ownImage()
	if err != nil {
		return 0, nil, err
	}
	return c.protect(&i.base, resource{"image", i.ID})
}
