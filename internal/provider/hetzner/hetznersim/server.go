package hetznersim

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// Status words of a server.
const (
	stInitializing = "initializing"
	stStarting     = "starting"
	stRunning      = "running"
	stStopping     = "stopping"
	stOff          = "off"
	stDeleting     = "deleting"
	stMigrating    = "migrating"
	stRebuilding   = "rebuilding"
	stUnknown      = "unknown"
)

var serverStatuses = []string{stRunning, stInitializing, stStarting, stStopping, stOff, stDeleting, stMigrating, stRebuilding, stUnknown}

type server struct {
	base
	Status   string       `json:"status"`
	Type     string       `json:"type"`
	Location string       `json:"location"`
	Image    int64        `json:"image,omitempty"`
	UserData string       `json:"userData,omitempty"`
	IPv4     int64        `json:"ipv4,omitempty"` // primary IPs
	IPv6     int64        `json:"ipv6,omitempty"`
	Nets     []attachment `json:"nets,omitempty"`
	Group    int64        `json:"group,omitempty"`
	Keys     []int64      `json:"keys,omitempty"`
	Disk     int          `json:"disk"`
	Backup   string       `json:"backup,omitempty"` // window
	Rescue   bool         `json:"rescue,omitempty"`
	// Shown, when set, is the status that answers give instead of Status.
	Shown string `json:"shown,omitempty"`
	// ProtectedRebuild is the second protection of servers.
	ProtectedRebuild bool `json:"protectedRebuild,omitempty"`
}

// attachment is a server's or load balancer's leg in a network.
type attachment struct {
	Network int64    `json:"network"`
	IP      string   `json:"ip"`
	Aliases []string `json:"aliases,omitempty"`
	MAC     string   `json:"mac,omitempty"`
}

func (v *server) on() resource { return resource{"server", v.ID} }

func (p *project) serverView(s *Sim, v *server) obj {
	t, _ := findServerType(ref{Name: v.Type})
	pub := obj{"ipv4": nil, "ipv6": nil, "floating_ips": p.floatingOf(v.ID), "firewalls": p.firewallsOf(v.ID)}
	if ip, ok := p.Primary.get(v.IPv4); ok {
		pub["ipv4"] = obj{"id": ip.ID, "ip": ip.IP, "blocked": false, "dns_ptr": ip.pointer()}
	}
	if ip, ok := p.Primary.get(v.IPv6); ok {
		pub["ipv6"] = obj{"id": ip.ID, "ip": ip.IP, "blocked": false, "dns_ptr": list(ip.pointers())}
	}
	nets := []obj{}
	for _, n := range v.Nets {
		nets = append(nets, obj{"network": n.Network, "ip": n.IP, "alias_ips": list(n.Aliases), "mac_address": n.MAC})
	}
	o := obj{"id": v.ID, "name": v.Name, "status": v.Status, "created": stamp(v.Created), "public_net": pub,
		"private_net": nets, "server_type": t.view(s), "location": locationNamed(v.Location).view(), "image": nil,
		"iso": nil, "rescue_enabled": v.Rescue, "locked": p.locked("server", v.ID), "backup_window": nil,
		"outgoing_traffic": 0, "ingoing_traffic": 0, "included_traffic": int64(tebi20),
		"protection": obj{"delete": v.Protected, "rebuild": v.ProtectedRebuild}, "labels": labelsOf(v.Labels),
		"volumes": p.volumesOf(v.ID), "load_balancers": p.balancersOf(v.ID), "primary_disk_size": v.Disk, "placement_group": nil}
	if v.Shown != "" {
		o["status"] = v.Shown
	}
	if img, ok := p.image(ref{ID: v.Image}, ""); ok {
		o["image"] = img.view()
	}
	if v.Backup != "" {
		o["backup_window"] = v.Backup
	}
	if g, ok := p.Groups.get(v.Group); ok {
		o["placement_group"] = p.groupView(g)
	}
	return o
}

func listServers(c *call) (int, any, error) {
	var views []view
	for _, v := range c.p.Servers.seenAt(c.now, c.lag) {
		if c.s.hidden(v) {
			continue
		}
		w := viewOf(&v.base, c.p.serverView(c.s, v))
		w.status = v.Status
		views = append(views, w)
	}
	return c.list(listRules{key: "servers", sort: []string{"id", "name", "created"}, name: true, labels: true,
		statuses: serverStatuses}, views)
}

func (c *call) server() (*server, error) {
	v, ok := c.p.Servers.get(c.ids[0])
	if !ok || c.s.hidden(v) {
		return nil, notFound("server", c.ids[0])
	}
	return v, nil
}

// hidden reports whether the server is on its way out and not shown.
func (s *Sim) hidden(v *server) bool { return s.opts.HideDeleted && v.Status == stDeleting }

func getServer(c *call) (int, any, error) {
	v, err := c.server()
	if err != nil {
		return 0, nil, err
	}
	return 200, obj{"server": c.p.serverView(c.s, v)}, nil
}

// change is the usual body of a PUT: both fields are optional.
type change struct {
	Name   *string            `json:"name"`
	Labels *map[string]string `json:"labels"`
}

// apply checks the change and makes it.
func (ch change) apply(b *base, check func(*problems, string), taken func(string, int64) bool) error {
	var p problems
	if ch.Name != nil {
		check(&p, *ch.Name)
	}
	if ch.Labels != nil {
		checkLabels(&p, *ch.Labels)
	}
	if err := p.err(); err != nil {
		return err
	}
	if ch.Name != nil {
		if taken(*ch.Name, b.ID) {
			return notUnique("name", "name is already used")
		}
		b.Name = *ch.Name
	}
	if ch.Labels != nil {
		b.Labels = maps.Clone(*ch.Labels)
	}
	return nil
}

func short(p *problems, name string) { checkName(p, name, 128) }

func updateServer(c *call) (int, any, error) {
	v, err := c.server()
	if err != nil {
		return 0, nil, err
	}
	var ch change
	if err := c.decode(&ch); err != nil {
		return 0, nil, err
	}
	if err := ch.apply(&v.base, checkHostname, c.p.Servers.nameTaken); err != nil {
		return 0, nil, err
	}
	return 200, obj{"server": c.p.serverView(c.s, v)}, nil
}

// deleteServer starts the deletion. The server stays visible, its name taken
// and its addresses assigned until the action has ended; a second delete gets
// 404 at once.
func deleteServer(c *call) (int, any, error) {
	v, err := c.server()
	if err != nil {
		return 0, nil, err
	}
	switch {
	case v.Status == stDeleting:
		return 0, nil, notFound("server", v.ID)
	case v.Protected:
		return 0, nil, fail("protected", "server deletion is protected")
	}
	if err := c.p.lockedErr("server", v.ID); err != nil {
		return 0, nil, err
	}
	a := c.start("delete_server", c.s.timing.Delete, actionArgs{Text: v.Status}, v.on())
	v.Status, v.Shown = stDeleting, ""
	c.s.stopBackend(c.p, v)
	return 200, obj{"action": a.view(c.now)}, nil
}

// dropServer removes a deleted server and detaches all that was on it.
func (s *Sim) dropServer(p *project, v *server, at time.Time) {
	for _, vol := range p.Volumes.all() {
		if vol.Server == v.ID {
			vol.Server = 0
		}
	}
	for _, f := range p.Floating.all() {
		if f.Server == v.ID {
			f.Server = 0
		}
	}
	for _, ip := range p.Primary.all() {
		if ip.Assignee != v.ID {
			continue
		}
		ip.Assignee, ip.AssigneeType = 0, ""
		if ip.AutoDelete {
			p.Primary.remove(ip.ID, at)
		}
	}
	for _, f := range p.Firewalls.all() {
		f.Servers = slices.DeleteFunc(f.Servers, func(id int64) bool { return id == v.ID })
	}
	for _, b := range p.Balancers.all() {
		b.Targets = slices.DeleteFunc(b.Targets, func(t target) bool { return t.Server == v.ID })
	}
	for _, i := range p.Images.all() {
		if i.BoundTo == v.ID { // backups go with their server
			p.Images.remove(i.ID, at)
		}
	}
	p.Servers.remove(v.ID, at)
}

// nextIPv4 is an address of the benchmarking range 198.18.0.0/15.
func (s *Sim) nextIPv4() string {
	h := s.st.NextIP
	s.st.NextIP++
	n := h/254<<8 + h%254 + 1 // hosts 1 to 254 of each /24
	return netip.AddrFrom4([4]byte{198, byte(18 + n>>16&1), byte(n >> 8), byte(n)}).String()
}

// nextIPv6 is a /64 of the documentation range.
func (s *Sim) nextIPv6() string {
	s.st.NextIP++
	return fmt.Sprintf("2001:db8:%x:%x::/64", s.st.NextIP>>16, s.st.NextIP&0xffff)
}
