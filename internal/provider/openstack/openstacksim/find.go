package openstacksim

import "slices"

func (r *region) server(id string) *server {
	if i := slices.IndexFunc(r.servers, func(x *server) bool { return x.id == id }); i >= 0 {
		return r.servers[i]
	}
	return nil
}

func (r *region) portByID(id string) *port {
	if i := slices.IndexFunc(r.ports, func(x *port) bool { return x.id == id }); i >= 0 {
		return r.ports[i]
	}
	return nil
}

func (r *region) volumeByID(id string) *volume {
	if i := slices.IndexFunc(r.volumes, func(x *volume) bool { return x.id == id }); i >= 0 {
		return r.volumes[i]
	}
	return nil
}

// server is one of the project's, or of anybody's for an admin, that is not
// deleted.
func (c *call) server(id string) *server {
	if x := c.region.server(id); x != nil && c.sees(x.project) {
		return x
	}
	return nil
}

// deleted is a server that is, as long as the database has it.
func (c *call) deleted(id string) *server {
	if i := slices.IndexFunc(c.region.gone, func(x *server) bool { return x.id == id && c.sees(x.project) }); i >= 0 {
		return c.region.gone[i]
	}
	return nil
}

func (c *call) port(id string) *port {
	if p := c.region.portByID(id); p != nil && c.sees(p.project) {
		return p
	}
	return nil
}

func (c *call) volume(id string) *volume {
	if v := c.region.volumeByID(id); v != nil && c.sees(v.project) {
		return v
	}
	return nil
}

// sees reports whether the client may see what is a project's.
func (c *call) sees(project string) bool { return c.admin || project == c.project }

// count is how many servers the project has.
func (c *call) count() (n int) {
	for _, x := range c.region.servers {
		if x.project == c.project {
			n++
		}
	}
	return n
}
