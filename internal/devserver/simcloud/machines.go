// Package simcloud runs simulators of clouds for tollgate-dev: on loopback, in
// this process, with instances that are real forward proxies, so that anyone can
// try a provider without an account.
package simcloud

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
	"github.com/tollgate-dev/tollgate/internal/provider/local/forward"
)

// DefaultPort is where a machine's proxy listens when no firewall says which
// ports are open.
const DefaultPort = 3128

// stopLimit is how long a proxy that is switched off may finish what it does.
const stopLimit = 100 * time.Millisecond

// Machines are real forward proxies behind a simulator's servers: each has an
// address of its own in a network of loopback, and a proxy on every port that
// the server's firewall lets in, 1024 and above. It is safe for concurrent use.
type Machines struct {
	network netip.Prefix
	log     *slog.Logger

	mu      sync.Mutex
	next    netip.Addr
	taken   map[netip.Addr]int64 // by server id, 0 while it is promised
	running map[int64]*machine
}

var _ hetznersim.Backend = (*Machines)(nil)

type machine struct{ proxies []*forward.Server }

// NewMachines returns machines with addresses of a network in 127.0.0.0/8. They
// begin anywhere in it: another program may use it too, and an address that it has
// promised to a server looks free until the server runs.
func NewMachines(network netip.Prefix, log *slog.Logger) *Machines {
	a := network.Masked().Addr().As4()
	n := binary.BigEndian.Uint32(a[:]) + rand.Uint32N(1<<(32-network.Bits()))
	binary.BigEndian.PutUint32(a[:], n)
	return &Machines{network: network, log: log, next: netip.AddrFrom4(a), taken: map[netip.Addr]int64{}, running: map[int64]*machine{}}
}

// Address implements hetznersim.Backend: the next address that nobody has.
func (m *Machines) Address(context.Context, hetznersim.Machine) (netip.Addr, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for range 1 << (32 - m.network.Bits()) {
		if m.next = m.next.Next(); !m.network.Contains(m.next) {
			m.next = m.network.Addr().Next()
		}
		if _, taken := m.taken[m.next]; taken || !free(m.next) {
			continue
		}
		m.taken[m.next] = 0
		return m.next, nil
	}
	return netip.Addr{}, fmt.Errorf("all addresses of %v are taken", m.network)
}

// free reports whether a proxy could listen there: another program of this
// machine may use the network too.
func free(a netip.Addr) bool {
	l, err := net.Listen("tcp", net.JoinHostPort(a.String(), strconv.Itoa(DefaultPort)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// Start implements hetznersim.Backend.
func (m *Machines) Start(ctx context.Context, s hetznersim.Machine) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running[s.ID] != nil || !s.Address.IsValid() {
		return nil
	}
	m.taken[s.Address] = s.ID
	var listeners []net.Listener
	for _, port := range ports(s.OpenTCP) {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(s.Address.String(), strconv.Itoa(port)))
		if err != nil {
			for _, l := range listeners {
				_ = l.Close() // never served
			}
			return fmt.Errorf("the proxy of %s cannot listen: %w", s.Name, err)
		}
		listeners = append(listeners, l)
	}
	up := &machine{}
	for _, l := range listeners {
		p := forward.NewServer(forward.Options{})
		up.proxies = append(up.proxies, p)
		go func() {
			if err := p.Serve(l); err != nil && !errors.Is(err, net.ErrClosed) {
				m.log.Error("simulated proxy ended", "instance", s.Name, "error", err)
			}
		}()
	}
	m.running[s.ID] = up
	m.log.Debug("simulated server runs", "instance", s.Name, "address", s.Address.String())
	return nil
}

// ports are those that a proxy can listen on.
func ports(open []string) []int {
	if open == nil {
		return []int{DefaultPort}
	}
	var out []int
	for _, text := range open {
		if n, err := strconv.Atoi(text); err == nil && n >= 1024 {
			out = append(out, n)
		}
	}
	return out
}

// Stop implements hetznersim.Backend. The address is free again afterwards; a
// machine that is only off gets it back when it starts.
func (m *Machines) Stop(_ context.Context, s hetznersim.Machine) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stop(s.ID)
	delete(m.taken, s.Address)
	return nil
}

func (m *Machines) stop(id int64) {
	up := m.running[id]
	if up == nil {
		return
	}
	delete(m.running, id)
	for _, p := range up.proxies {
		ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
		p.Shutdown(ctx)
		cancel()
	}
}

// Close stops all machines.
func (m *Machines) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range m.running {
		m.stop(id)
	}
}
