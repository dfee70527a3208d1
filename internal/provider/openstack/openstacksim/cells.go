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
	c.answer(http.StatusOK, map[string]any{"servers": slices.Concat([]any{}, down[:min(len(down), max(0, most-len(up)))], up[:min(len(up), most)])})
}
