package hetznersim

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"time"
)

// check refuses a fault that could never strike.
func (f Fault) check() error {
	kinds := []FaultKind{FaultError, FaultErrorAfter, FaultLoseRequest, FaultLoseAnswer, FaultCutBody, FaultTruncate, FaultMalformed,
		FaultDelay, FaultDelayAnswer, FaultHang, FaultOmit, FaultLag, FaultActionError}
	if !slices.Contains(kinds, f.Kind) {
		return fmt.Errorf("fault.kind: %q: want one of %v", f.Kind, kinds)
	}
	return nil
}

// Server is what a test sees of a simulated server.
type Server struct {
	ID       int64
	Name     string
	Status   string
	Type     string
	Location string
	IPv4     string // address, empty without one
	IPv6     string // network, empty without one
	Labels   map[string]string
	UserData string
	Created  time.Time
}

// Servers lists the servers of a project by id, those on their way out
// included.
func (s *Sim) Servers(token string) []Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(s.now())
	p, ok := s.st.Projects[token]
	if !ok {
		return nil
	}
	var out []Server
	for _, v := range p.Servers.all() {
		x := Server{ID: v.ID, Name: v.Name, Status: v.Status, Type: v.Type, Location: v.Location,
			Labels: maps.Clone(v.Labels), UserData: v.UserData, Created: v.Created}
		if ip, ok := p.Primary.get(v.IPv4); ok {
			x.IPv4 = ip.IP
		}
		if ip, ok := p.Primary.get(v.IPv6); ok {
			x.IPv6 = ip.IP
		}
		out = append(out, x)
	}
	return out
}

// UserData is what a server was created with, byte for byte.
func (s *Sim) UserData(id int64) (data string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.st.Projects {
		if v, ok := p.Servers.get(id); ok {
			return v.UserData, true
		}
	}
	return "", false
}

// ShowStatus lets answers call a server's status word, whatever happens to it,
// until it is deleted; an empty word ends that.
func (s *Sim) ShowStatus(id int64, word string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.st.Projects {
		if v, ok := p.Servers.get(id); ok {
			v.Shown = word
		}
	}
}

// SetServerStatus changes a server's status, as something at the vendor would.
func (s *Sim) SetServerStatus(id int64, status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(s.now())
	for _, p := range s.st.Projects {
		if v, ok := p.Servers.get(id); ok {
			v.Status = status
		}
	}
}

// RemoveServer takes a server away at once, as somebody at the console would,
// with all that a deletion detaches.
func (s *Sim) RemoveServer(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(s.now())
	for _, p := range s.st.Projects {
		if v, ok := p.Servers.get(id); ok {
			s.stopBackend(p, v)
			s.dropServer(p, v, s.now())
		}
	}
}

// Leftovers counts what a project holds, kind by kind, without zeros: a test
// that has deleted everything expects it to be empty.
func (s *Sim) Leftovers(token string) map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(s.now())
	out := map[string]int{}
	p, ok := s.st.Projects[token]
	if !ok {
		return out
	}
	for kind, n := range map[string]int{"servers": len(p.Servers.Live), "volumes": len(p.Volumes.Live),
		"floating_ips": len(p.Floating.Live), "primary_ips": len(p.Primary.Live), "networks": len(p.Networks.Live),
		"firewalls": len(p.Firewalls.Live), "load_balancers": len(p.Balancers.Live), "ssh_keys": len(p.Keys.Live),
		"placement_groups": len(p.Groups.Live), "images": len(p.Images.Live)} {
		if n > 0 {
			out[kind] = n
		}
	}
	return out
}

// Hold keeps actions of a command, such as "start_server" or "delete_server",
// from ending until release is called.
func (s *Sim) Hold(command string) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[command] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.held, command)
		s.schedule()
	}
}

// PlaceServer puts a running server into a project, as somebody else would
// have made it.
func (s *Sim) PlaceServer(token, name string, labels map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	s.advance(now)
	c := &call{s: s, p: s.addProject(token, token), now: now, fails: func(string) *actionError { return nil }}
	t, img := serverTypes[1], systemImages[0]
	v := &server{base: base{ID: s.id(), Name: name, Labels: maps.Clone(labels), Created: now}, Status: stRunning,
		Type: t.name, Location: t.locations[0], Image: img.ID, Disk: t.disk}
	v.IPv4 = c.newPrimaryIP("ipv4", "", v.Location).ID
	ip, _ := c.p.Primary.get(v.IPv4)
	ip.Assignee, ip.AssigneeType = v.ID, "server"
	c.p.Servers.put(v)
}

// Object is anything in a project, for a test that looks at everything.
type Object struct {
	Kind   string // "server", "primary_ip", ...
	ID     int64
	Name   string
	Labels map[string]string
}

// Objects lists everything in all projects, by kind and id.
func (s *Sim) Objects() []Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(s.now())
	var out []Object
	for _, token := range s.tokens() {
		p := s.st.Projects[token]
		out = append(out, objects("server", p.Servers)...)
		out = append(out, objects("volume", p.Volumes)...)
		out = append(out, objects("floating_ip", p.Floating)...)
		out = append(out, objects("primary_ip", p.Primary)...)
		out = append(out, objects("network", p.Networks)...)
		out = append(out, objects("firewall", p.Firewalls)...)
		out = append(out, objects("load_balancer", p.Balancers)...)
		out = append(out, objects("ssh_key", p.Keys)...)
		out = append(out, objects("placement_group", p.Groups)...)
		out = append(out, objects("image", p.Images)...)
	}
	return out
}

func objects[T object](kind string, s store[T]) (out []Object) {
	for _, o := range s.all() {
		b := o.meta()
		out = append(out, Object{Kind: kind, ID: b.ID, Name: b.Name, Labels: maps.Clone(b.Labels)})
	}
	return out
}

// Transport answers requests in this process, without a socket: for
// benchmarks, and for tests whose clock is not the real one. A request whose
// context ends is still carried out, as a real server would.
func (s *Sim) Transport() http.RoundTripper { return transport{s} }

type transport struct{ s *Sim }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	type outcome struct {
		resp *http.Response
		err  error
	}
	done := make(chan outcome, 1)
	in := r.Clone(r.Context())
	if in.Body == nil {
		in.Body = http.NoBody
	}
	go func() {
		rec := httptest.NewRecorder()
		defer func() {
			if v := recover(); v != nil {
				done <- outcome{nil, fmt.Errorf("connection reset: %v", v)}
			}
		}()
		t.s.ServeHTTP(rec, in)
		resp := rec.Result()
		resp.Request = r
		done <- outcome{resp, nil}
	}()
	select {
	case o := <-done:
		return o.resp, o.err
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// DropAutoDelete lets the addresses of a project outlive their servers, as
// somebody at the console would.
func (s *Sim) DropAutoDelete(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.st.Projects[token]; ok {
		for _, ip := range p.Primary.Live {
			ip.AutoDelete = ip.AutoDelete && len(ip.Labels) == 0
		}
	}
}
