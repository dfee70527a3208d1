package openstacksim

import (
	"net/http"
	"slices"
)

// DownCell cuts off the cell that these servers are in, all of the cloud without
// ids, until restore is called. The compute service leaves them out of its lists
// without a word; only a list without a query names them, from 2.69.
// Source: nova, servers.py _is_cell_down_supported (Zed).
func (s *Sim) DownCell(ids ...string) (restore func()) {
	set := func(v bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tick()
		for _, r := range s.regions {
			for _, x := range slices.Concat(r.servers, r.gone) {
				if len(ids) == 0 || slices.Contains(ids, x.id) {
					x.cut = v
				}
			}
		}
	}
	set(true)
	return func() { set(false) }
}

// indexServers is GET /servers. Without a query, or with all_tenants alone, servers
// of cells that cannot be reached come first, as far as there is room.
func (c *call) indexServers() {
	cut := slices.ContainsFunc(c.region.servers, func(x *server) bool { return x.cut })
	asked := len(c.query)
	if c.query.Has("all_tenants") {
		asked--
	}
	if !cut || asked > 0 || !c.speaks("2.69") {
		c.listServers()
		return
	}
	everyone, ok := c.everyone()
	if !ok {
		return
	}
	var down, up []any
	for _, x := range slices.Backward(c.region.servers) {
		links := []any{map[string]any{"rel": "self", "href": "http://" + c.r.Host + c.r.URL.Path + "/" + x.id}}
		switch {
		case x.project != c.project && !everyone, x.status == "SOFT_DELETED":
		case x.cut:
			down = append(down, map[string]any{"id": x.id, "status": "UNKNOWN", "links": links})
		default:
			up = append(up, map[string]any{"id": x.id, "name": x.name, "links": links})
		}
	}
	const most = 1000 // of the service, whatever its clients' pages are here
	doc := map[string]any{"servers": slices.Concat([]any{}, down[:min(len(down), max(0, most-len(up)))], up[:min(len(up), most)])}
	if len(down)+len(up) >= most {
		doc["servers_links"] = c.next("more")
	}
	c.answer(http.StatusOK, doc)
}

// listServices is GET /os-services, for administrators. Of a cell that cannot be
// reached there is the name of a host, from 2.69.
func (c *call) listServices() {
	if !c.admin {
		c.forbidden("os_compute_api:os-services:list")
		return
	}
	out := []any{map[string]any{"id": 1, "binary": "nova-compute", "host": "compute-1", "zone": zoneName, "status": "enabled", "state": "up"}}
	if c.speaks("2.69") && slices.ContainsFunc(c.region.servers, func(x *server) bool { return x.cut }) {
		out = append(out, map[string]any{"binary": "nova-compute", "host": "compute-2", "status": "UNKNOWN"})
	}
	c.answer(http.StatusOK, map[string]any{"services": out})
}

// unreachable is a server of a cell that cannot be reached, asked for by its id: what
// is known of it elsewhere from 2.69, and a failure before.
// Source: nova/compute/api.py _get_instance_from_cell (Zed).
func (c *call) unreachable(x *server) {
	if !c.speaks("2.69") {
		c.fail(http.StatusInternalServerError, "computeFault", "Unexpected API Error. Please report this at http://bugs.launchpad.net/nova/ and attach the Nova API log if possible.\n<class 'nova.exception.NovaException'>")
		return
	}
	c.answer(http.StatusOK, map[string]any{"server": map[string]any{"id": x.id, "status": "UNKNOWN", "tenant_id": x.project, "user_id": x.user,
		"created": seconds(x.created), "flavor": map[string]any{}, "image": "", "OS-EXT-AZ:availability_zone": "UNKNOWN", "OS-EXT-STS:power_state": 0}})
}
