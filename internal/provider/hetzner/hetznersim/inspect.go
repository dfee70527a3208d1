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
		FaultDelay, FaultDelayAnswer, FaultOmit, FaultLag, FaultActionError}
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

// SetServerStatus forces a server's status, such as "off" or a word that no
// client knows yet.
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
