package openstacksim

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

func (c *call) listServers() {
	all := slices.Clone(c.region.servers)
	since, filtered := time.Time{}, c.query.Get("changes-since")
	if filtered != "" {
		var err error
		if since, err = time.Parse(time.RFC3339, filtered); err != nil {
			c.fail(http.StatusBadRequest, "badRequest", "Invalid input for query parameters changes-since. Value: %s.", filtered)
			return
		}
		all = append(all, c.region.gone...)
	}
	name, err := regexp.Compile(c.query.Get("name"))
	if err != nil {
		c.fail(http.StatusBadRequest, "badRequest", "Invalid regular expression %s", c.query.Get("name"))
		return
	}
	all = slices.DeleteFunc(all, func(x *server) bool {
		if x.status == "SOFT_DELETED" && filtered == "" || x.updated.Before(since) || !name.MatchString(x.name) {
			return true
		}
		for _, t := range strings.Split(c.query.Get("tags"), ",") {
			if t != "" && c.speaks("2.26") && !slices.Contains(x.tags, t) {
				return true
			}
		}
		want := c.query.Get("status")
		return want != "" && x.status != want
	})
	slices.SortStableFunc(all, func(a, b *server) int { return b.created.Compare(a.created) })
	page(c, "servers", all, func(x *server) string { return x.id }, func(x *server) any { return c.show(x) })
}

func (c *call) getServer() {
	id := c.r.PathValue("id")
	if x := c.region.server(id); x != nil {
		c.answer(http.StatusOK, map[string]any{"server": c.show(x)})
		return
	}
	c.notFound("Instance", id)
}

// show is a server as the service describes it.
func (c *call) show(x *server) any {
	addresses := map[string][]any{}
	for _, p := range c.region.ports {
		if p.device != x.id || x.status == "BUILD" {
			continue
		}
		one := func(addr, typ string) {
			addresses["private"] = append(addresses["private"], map[string]any{"version": 4, "addr": addr, "OS-EXT-IPS:type": typ,
				"OS-EXT-IPS-MAC:mac_addr": p.mac})
		}
		one(p.address.String(), "fixed")
		for _, f := range c.region.floating {
			if f.port == p.id {
				one(f.address.String(), "floating")
			}
		}
	}
	fl := map[string]any{"id": x.flavor.id}
	if c.speaks("2.47") {
		fl = map[string]any{"vcpus": x.flavor.vcpus, "ram": x.flavor.ram, "disk": x.flavor.disk, "ephemeral": 0, "swap": 0,
			"original_name": x.flavor.name, "extra_specs": map[string]any{}}
	}
	var volumes []any
	for _, v := range x.volumes {
		volumes = append(volumes, map[string]any{"id": v.id, "delete_on_termination": v.delete})
	}
	var img any = ""
	if x.image != "" {
		img = map[string]any{"id": x.image}
	}
	vm := map[string]string{"BUILD": "building", "ACTIVE": "active", "SHUTOFF": "stopped", "ERROR": "error", "SOFT_DELETED": "soft-delete",
		"DELETED": "deleted"}[x.status]
	out := map[string]any{
		"id": x.id, "name": x.name, "status": x.status, "tenant_id": c.sim.project, "user_id": "demo", "metadata": x.metadata,
		"created": seconds(x.created), "updated": seconds(x.updated), "addresses": addresses, "flavor": fl, "image": img,
		"OS-EXT-AZ:availability_zone": x.zone, "OS-EXT-STS:task_state": nil, "OS-EXT-STS:vm_state": vm, "config_drive": "",
		"OS-SRV-USG:launched_at": orNull(x.launched), "OS-SRV-USG:terminated_at": orNull(x.terminated), "key_name": nil,
		"os-extended-volumes:volumes_attached": volumes,
	}
	if x.metadata == nil || x.status == "DELETED" {
		out["metadata"] = map[string]string{}
	}
	if volumes == nil {
		out["os-extended-volumes:volumes_attached"] = []any{}
	}
	if x.task != "" {
		out["OS-EXT-STS:task_state"] = x.task
	}
	if x.keyName != "" {
		out["key_name"] = x.keyName
	}
	if x.configDrive {
		out["config_drive"] = "True"
	}
	if c.speaks("2.26") {
		out["tags"] = append([]string{}, x.tags...)
		out["locked"] = x.locked
	}
	if x.fault != "" {
		out["fault"] = map[string]any{"code": 500, "created": seconds(x.updated), "message": x.fault}
	}
	return out
}
