package hetznersim

import (
	"crypto/rand"
	"fmt"
	"slices"
	"time"
)

// onServer wraps an action of a server: it must exist, not be on its way out
// and not be locked.
func onServer(h func(c *call, v *server) (int, any, error)) handler {
	return func(c *call) (int, any, error) {
		v, err := c.server()
		if err != nil {
			return 0, nil, err
		}
		if v.Status == stDeleting {
			return 0, nil, notFound("server", v.ID)
		}
		if err := c.p.lockedErr("server", v.ID); err != nil {
			return 0, nil, err
		}
		return h(c, v)
	}
}

// power is an action that switches a server: during is its status meanwhile,
// only a server in one of from is touched; any other ends at once and changes
// nothing.
func power(command string, took func(Timing) time.Duration, during string, from ...string) handler {
	return onServer(func(c *call, v *server) (int, any, error) {
		if !slices.Contains(from, v.Status) {
			a := c.start(command, 0, actionArgs{Text: v.Status}, v.on())
			c.s.advance(c.now)
			return c.answer(a)
		}
		a := c.start(command, took(c.s.timing), actionArgs{Text: v.Status}, v.on())
		if during != "" {
			v.Status = during
		}
		return c.answer(a)
	})
}

func startTime(t Timing) time.Duration  { return t.Start }
func stopTime(t Timing) time.Duration   { return t.Stop }
func actionTime(t Timing) time.Duration { return t.Action }

// stopped is the answer for what a running server cannot do, nil when it is
// off.
func stopped(v *server) error {
	if v.Status != stOff {
		return fail("server_not_stopped", "server must be off, it is %s", v.Status)
	}
	return nil
}

func changeServerType(c *call, v *server) (int, any, error) {
	var req struct {
		ServerType  ref   `json:"server_type"`
		UpgradeDisk *bool `json:"upgrade_disk"`
	}
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	var p problems
	required(&p, "server_type", req.ServerType.empty())
	required(&p, "upgrade_disk", req.UpgradeDisk == nil)
	t, ok := findServerType(req.ServerType)
	if !ok && !req.ServerType.empty() {
		p.add("server_type", "server type %s not found", req.ServerType)
	}
	if err := p.err(); err != nil {
		return 0, nil, err
	}
	if err := stopped(v); err != nil {
		return 0, nil, err
	}
	old, _ := findServerType(ref{Name: v.Type})
	switch {
	case t.arch != old.arch, t.disk < v.Disk, t.outdated(v.Location, c.now), t.name == old.name,
		!slices.Contains(t.locations, v.Location):
		return 0, nil, fail("invalid_server_type", "server type %s does not fit", t.name)
	}
	if err := c.s.orderable(t, v.Location, c.now); err != nil {
		return 0, nil, err
	}
	args := actionArgs{Text: t.name}
	if *req.UpgradeDisk {
		args.Size = t.disk
	}
	a := c.start("change_server_type", c.s.timing.Start, args, v.on())
	v.Status = stMigrating
	return c.answer(a)
}

func rebuildServer(c *call, v *server) (int, any, error) {
	var req struct {
		Image    ref    `json:"image"`
		UserData string `json:"user_data"`
	}
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	if v.ProtectedRebuild {
		return 0, nil, fail("protected", "server rebuild is protected")
	}
	t, _ := findServerType(ref{Name: v.Type})
	img, ok := c.p.image(req.Image, t.arch)
	if !ok || img.Arch != t.arch {
		return 0, nil, invalid("image", "image %s not found for architecture %s", req.Image, t.arch)
	}
	a := c.start("rebuild_server", c.s.timing.Init, actionArgs{Other: img.ID}, v.on())
	v.Status = stRebuilding
	answer := obj{"action": a.view(c.now), "root_password": nil}
	if len(v.Keys) == 0 {
		answer["root_password"] = password()
	}
	return 201, answer, nil
}

func protectServer(c *call, v *server) (int, any, error) {
	var req struct{ Delete, Rebuild *bool }
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	if value(req.Delete) != value(req.Rebuild) && req.Delete != nil && req.Rebuild != nil {
		return 0, nil, invalid("rebuild", "must be the same as delete")
	}
	if req.Delete != nil {
		v.Protected = *req.Delete
	}
	if req.Rebuild != nil {
		v.ProtectedRebuild = *req.Rebuild
	}
	return c.answer(c.start("change_protection", 0, actionArgs{}, v.on()))
}

// simple is an action with no request and an effect that is seen at once.
func simple(command string, apply func(*call, *server) error, more func(*call) obj) handler {
	return onServer(func(c *call, v *server) (int, any, error) {
		if err := apply(c, v); err != nil {
			return 0, nil, err
		}
		a := c.start(command, c.s.timing.Action, actionArgs{}, v.on())
		answer := obj{"action": a.view(c.now)}
		if more != nil {
			for k, x := range more(c) {
				answer[k] = x
			}
		}
		return 201, answer, nil
	})
}

func mustRun(_ *call, v *server) error {
	if v.Status != stRunning {
		return fail("unsupported_error", "server must be running, it is %s", v.Status)
	}
	return nil
}

func password() string { return rand.Text() }

// disableBackup also deletes the server's backups.
func disableBackup(c *call, v *server) error {
	v.Backup = ""
	for _, i := range c.p.Images.all() {
		if i.BoundTo == v.ID {
			c.p.Images.remove(i.ID, c.now)
		}
	}
	return nil
}

func enableRescue(c *call, v *server) error {
	var req struct {
		Type    string `json:"type"`
		SSHKeys []ref  `json:"ssh_keys"`
	}
	if err := c.decode(&req); err != nil {
		return err
	}
	if req.Type != "" && req.Type != "linux64" {
		return invalid("type", "%q is not linux64", req.Type)
	}
	v.Rescue = true
	return nil
}

func setDNSPtr(c *call, command string, on resource, has func(ip string) bool, set func(ip, name string)) (int, any, error) {
	var req struct {
		IP     string  `json:"ip"`
		DNSPtr *string `json:"dns_ptr"`
	}
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	if !has(req.IP) {
		return 0, nil, invalid("ip", "%q is none of its addresses", req.IP)
	}
	set(req.IP, value(req.DNSPtr))
	return c.answer(c.start(command, c.s.timing.Action, actionArgs{}, on))
}

func serverDNSPtr(c *call, v *server) (int, any, error) {
	find := func(ip string) *primaryIP {
		for _, id := range []int64{v.IPv4, v.IPv6} {
			if p, ok := c.p.Primary.get(id); ok && p.contains(ip) {
				return p
			}
		}
		return nil
	}
	return setDNSPtr(c, "change_dns_ptr", v.on(), func(ip string) bool { return find(ip) != nil },
		func(ip, name string) { find(ip).setPointer(ip, name) })
}

func createImage(c *call, v *server) (int, any, error) {
	var req struct {
		Description string            `json:"description"`
		Type        string            `json:"type"`
		Labels      map[string]string `json:"labels"`
	}
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	var p problems
	checkLabels(&p, req.Labels)
	if req.Type == "" {
		req.Type = "snapshot"
	}
	if req.Type != "snapshot" && req.Type != "backup" {
		p.add("type", "%q is not snapshot or backup", req.Type)
	}
	if req.Type == "backup" && v.Backup == "" {
		p.add("type", "backups are not enabled for the server")
	}
	if err := p.err(); err != nil {
		return 0, nil, err
	}
	src, _ := c.p.image(ref{ID: v.Image}, "")
	img := &image{base: base{ID: c.s.id(), Labels: req.Labels, Created: c.now}, Type: req.Type, Status: "creating",
		Description: req.Description, Disk: v.Disk, FromID: v.ID, FromName: v.Name, OS: "unknown"}
	if src != nil {
		img.Arch, img.OS, img.Version = src.Arch, src.OS, src.Version
	}
	if img.Description == "" {
		img.Description = fmt.Sprintf("%s-%d", v.Name, c.now.Unix())
	}
	if req.Type == "backup" {
		img.BoundTo = v.ID
	}
	c.p.Images.put(img)
	a := c.start("create_image", c.s.timing.Action, actionArgs{Other: img.ID}, v.on(), resource{"image", img.ID})
	return 201, obj{"image": img.view(), "action": a.view(c.now)}, nil
}

func addToGroup(c *call, v *server) (int, any, error) {
	var req struct {
		PlacementGroup int64 `json:"placement_group"`
	}
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	g, ok := c.p.Groups.get(req.PlacementGroup)
	switch {
	case !ok:
		return 0, nil, invalid("placement_group", "placement group %d not found", req.PlacementGroup)
	case v.Group != 0:
		return 0, nil, fail("already_in_placement_group", "server is already part of a placement group")
	case len(c.p.serversOfGroup(g.ID)) >= maxServersPerGroup:
		return 0, nil, fail("placement_error", "placement group %d is full", g.ID)
	}
	if err := stopped(v); err != nil {
		return 0, nil, err
	}
	v.Group = g.ID
	return c.answer(c.start("add_to_placement_group", c.s.timing.Action, actionArgs{}, v.on(), resource{"placement_group", g.ID}))
}

func removeFromGroup(c *call, v *server) (int, any, error) {
	if v.Group == 0 {
		return 0, nil, invalid("placement_group", "server is in no placement group")
	}
	g := v.Group
	v.Group = 0
	return c.answer(c.start("remove_from_placement_group", c.s.timing.Action, actionArgs{}, v.on(), resource{"placement_group", g}))
}
