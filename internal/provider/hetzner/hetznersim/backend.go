package hetznersim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

// Backend puts something real behind the simulated servers, such as a proxy
// process on this machine. The simulator calls it with its state locked, one
// call at a time: a Backend must be quick and must not call the simulator.
type Backend interface {
	// Address picks the public IPv4 address of a new server. An error makes the
	// create answer 412 resource_unavailable.
	Address(ctx context.Context, m Machine) (netip.Addr, error)
	// Start lets the machine run at its address. It is called when a server
	// becomes running, and after a restart of the simulator for each that was; a
	// machine that runs already is left alone. An error ends the start action in
	// error.
	Start(ctx context.Context, m Machine) error
	// Stop ends the machine; one that does not run is success. It is called when
	// a server is switched off and before it is deleted.
	Stop(ctx context.Context, m Machine) error
}

// Machine is what a Backend is told of a server.
type Machine struct {
	ID       int64
	Project  string
	Name     string
	Address  netip.Addr // zero in Backend.Address, and without a public IPv4 address
	UserData string
	Labels   map[string]string
	Type     string
	Location string
	// OpenTCP are the TCP ports that the applied firewalls let in; nil without a
	// firewall.
	OpenTCP []string
}

func (p *project) machine(v *server) Machine {
	return Machine{ID: v.ID, Project: p.Name, Name: v.Name, Address: p.address(v), UserData: v.UserData,
		Labels: maps.Clone(v.Labels), Type: v.Type, Location: v.Location, OpenTCP: p.openTCP(v.ID)}
}

// backendAddress asks for the address of a new server; empty without a backend.
func (s *Sim) backendAddress(p *project, v *server) (string, error) {
	if s.opts.Backend == nil {
		return "", nil
	}
	a, err := s.opts.Backend.Address(context.Background(), p.machine(v))
	if err != nil {
		return "", err
	}
	if !a.IsValid() {
		return "", errors.New("the backend gave no address")
	}
	return a.String(), nil
}

func (s *Sim) startBackend(p *project, v *server) error {
	if s.opts.Backend == nil || v.IPv4 == 0 {
		return nil
	}
	if err := s.opts.Backend.Start(context.Background(), p.machine(v)); err != nil {
		s.log.Error("simulated server does not start", "instance", v.Name, "error", err)
		return fmt.Errorf("starting: %w", err)
	}
	return nil
}

func (s *Sim) stopBackend(p *project, v *server) {
	if s.opts.Backend == nil || v.IPv4 == 0 {
		return
	}
	if err := s.opts.Backend.Stop(context.Background(), p.machine(v)); err != nil {
		s.log.Error("simulated server does not stop", "instance", v.Name, "error", err)
	}
}

// restartBackend starts what ran when the state was written.
func (s *Sim) restartBackend() {
	for _, token := range s.tokens() {
		p := s.st.Projects[token]
		for _, v := range p.Servers.all() {
			if v.Status != stRunning {
				continue
			}
			if err := s.startBackend(p, v); err != nil {
				v.Status = stOff
			}
		}
	}
}

// StopAll stops every machine of the backend; the servers are off afterwards.
func (s *Sim) StopAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopAll()
}

func (s *Sim) stopAll() {
	for _, token := range s.tokens() {
		p := s.st.Projects[token]
		for _, v := range p.Servers.all() {
			if slices.Contains([]string{stRunning, stStarting, stStopping}, v.Status) {
				s.stopBackend(p, v)
				v.Status = stOff
			}
		}
	}
}
