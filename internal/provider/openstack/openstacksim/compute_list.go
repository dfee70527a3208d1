package openstacksim

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

const hostID = "f628a8a28d931de85b884f65f7619c0c1af3eb10e043eb3809fd8cfe"

// serverKeys are what servers can be sorted by, as far as it is simulated.
var serverKeys = keys[*server]{
	"created_at": at(func(x *server) time.Time { return x.created }), "updated_at": at(func(x *server) time.Time { return x.updated }),
	"launched_at": at(func(x *server) time.Time { return x.launched }), "terminated_at": at(func(x *server) time.Time { return x.terminated }),
	"uuid": by(func(x *server) string { return x.id }), "display_name": by(func(x *server) string { return x.name }),
	"vm_state": by((*server).vmState), "project_id": by(func(x *server) string { return x.project }),
}

// serverFilters are the parameters of a listing of servers.
var serverFilters = []string{"limit", "marker", "sort_key", "sort_dir", "name", "status", "tags", "changes-since", "changes-before", "all_tenants",
	"project_id", "tenant_id", "deleted"}

// listServers is GET /servers/detail, and GET /servers, which has ids and names
// only.
func (c *call) listServers() {
	since, before, ok := c.changes()
	if !ok || c.speaks("2.75") && !c.known(serverFilters, "'%s' does not match any of the regexes: '^_'") {
		return
	}
	everyone, ok := c.everyone()
	if !ok {
		return
	}
	status := c.query.Get("status")
	switch _, known := vmStates[status]; {
	case status == "DELETED" && !c.admin:
		c.fail(http.StatusForbidden, "forbidden", "Only administrators may list deleted instances")
		return
	case status != "" && !known && !slices.Contains([]string{"REBOOT", "HARD_REBOOT", "REBUILD", "RESIZE", "REVERT_RESIZE", "MIGRATING", "PASSWORD"}, status):
		c.fail(http.StatusBadRequest, "badRequest", "Invalid status value")
		return
	}
	name, err := regexp.Compile(c.query.Get("name"))
	if err != nil {
		c.fail(http.StatusBadRequest, "badRequest", "Invalid regular expression %s", c.query.Get("name"))
		return
	}
	changed := !since.IsZero() || !before.IsZero()
	list := slices.Concat(c.region.servers, c.region.gone)
	list = slices.DeleteFunc(list, func(x *server) bool {
		switch {
		case x.project != c.project && !everyone, !name.MatchString(x.name), x.cut:
			return true
		case everyone && c.query.Get("project_id") != "" && c.query.Get("project_id") != x.project:
			return true
		case !changed:
			if x.status == "DELETED" && status != "DELETED" || x.status == "SOFT_DELETED" {
				return true
			}
		case !x.scheduling() && (x.updated.Before(since) || !before.IsZero() && x.updated.After(before)):
			return true
		}
		for _, t := range strings.Split(c.query.Get("tags"), ",") {
			if t != "" && c.speaks("2.26") && !slices.Contains(x.tags, t) {
				return true
			}
		}
		return status != "" && x.shown() != status
	})
	c.pageServers(list)
}

// everyone reports whether servers of all projects are asked for, which is for
// admins. ok is false when the answer is given.
func (c *call) everyone() (yes, ok bool) {
	if !c.query.Has("all_tenants") {
		return false, true
	}
	switch text := strings.ToLower(c.query.Get("all_tenants")); {
	case no(text):
		return false, true
	case !slices.Contains([]string{"", "1", "t", "true", "y", "yes", "on"}, text):
		c.fail(http.StatusBadRequest, "badRequest", "Unrecognized value '%s', acceptable values are: "+
			"'0', '1', 'f', 'false', 'n', 'no', 'off', 'on', 't', 'true', 'y', 'yes'", text)
		return false, false
	case !c.admin:
		c.forbidden("os_compute_api:servers:detail:get_all_tenants")
		return false, false
	}
	return true, true
}

// no reports whether a parameter says so.
func no(text string) bool {
	return slices.Contains([]string{"0", "f", "false", "n", "no", "off"}, strings.ToLower(text))
}

// pageServers sorts and cuts a listing. Those that no host has taken yet come
// first.
func (c *call) pageServers(list []*server) {
	names, dirs := c.query["sort_key"], c.query["sort_dir"]
	if len(names) == 0 {
		names = []string{"created_at"}
	}
	if len(dirs) == 0 {
		dirs = []string{"desc"}
	}
	if slices.ContainsFunc(dirs, func(d string) bool { return d != "asc" && d != "desc" }) || len(dirs) > len(names) {
		c.fail(http.StatusBadRequest, "badRequest", "Invalid input received: Unknown sort direction, must be 'desc' or 'asc'")
		return
	}
	order, err := serverKeys.order(names, dirs)
	if err != nil {
		c.fail(http.StatusBadRequest, "badRequest", "Invalid input for query parameters sort_key. Value: %v. '%v' is not one of its values", err, err)
		return
	}
	full := func(a, b *server) int {
		if a.scheduling() != b.scheduling() {
			if a.scheduling() {
				return -1
			}
			return 1
		}
		if n := order(a, b); n != 0 {
			return n
		}
		return strings.Compare(a.id, b.id)
	}
	slices.SortFunc(list, full)
	limit, ok := c.limit(c.sim.opt.PageSize)
	if !ok {
		return
	}
	if m := c.query.Get("marker"); m != "" {
		x := c.server(m)
		if x == nil {
			x = c.deleted(m)
		}
		if x == nil {
			c.fail(http.StatusBadRequest, "badRequest", "marker [%s] not found", m)
			return
		}
		list = after(list, x, full)
	}
	show := c.show
	if !strings.HasSuffix(c.r.URL.Path, "/detail") {
		show = func(x *server) any { return map[string]any{"id": x.id, "name": x.name} }
	}
	answerPage(c, "servers", list, limit, func(x *server) string { return x.id }, show)
}

func (c *call) getServer() {
	id := c.r.PathValue("id")
	x := c.server(id)
	switch {
	case x == nil:
		c.notFound("Instance", id)
	case x.cut:
		c.unreachable(x)
	default:
		c.answer(http.StatusOK, map[string]any{"server": c.show(x)})
	}
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
		fl = map[string]any{"vcpus": x.flavor.vcpus, "ram": x.flavor.ram, "disk": x.flavor.disk, "ephemeral": x.flavor.ephemeral, "swap": x.flavor.swap,
			"original_name": x.flavor.name, "extra_specs": map[string]any{}}
	}
	var volumes []any
	for _, v := range x.volumes {
		volumes = append(volumes, map[string]any{"id": v.id, "delete_on_termination": v.delete})
	}
	changed := x.updated
	if x.scheduling() {
		changed = c.sim.now() // it has no such time yet
	}
	var img any = ""
	if x.image != "" {
		img = map[string]any{"id": x.image}
	}
	out := map[string]any{
		"id": x.id, "name": x.name, "status": x.shown(), "tenant_id": x.project, "user_id": x.user, "metadata": x.metadata,
		"created": seconds(x.created), "updated": seconds(changed), "addresses": addresses, "flavor": fl, "image": img,
		"OS-EXT-AZ:availability_zone": x.zone, "OS-EXT-STS:task_state": nil, "OS-EXT-STS:vm_state": x.vmState(),
		"OS-EXT-STS:power_state": x.power(), "config_drive": "",
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
