package local

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
)

// maxBusyPorts is on how many free addresses a port may be in use until it is
// believed to be in use on all: a program that listens on 0.0.0.0 has it on
// every address.
const maxBusyPorts = 8

// place is an address taken for one instance: reserved on this machine, its
// port bound and listening. Both are given up when the files are closed.
type place struct {
	addr        netip.Addr
	listener    *os.File
	reservation *os.File
}

func (pl *place) close() {
	_ = pl.listener.Close()
	_ = pl.reservation.Close()
}

// errPortBusy and errNoAddress say that nothing is free just now.
var (
	errPortBusy  = errors.New("port in use")
	errNoAddress = errors.New("no free address")
)

// findPlace takes the preferred address if it is valid and free, and otherwise
// the first free one from a start that follows from the name. Addresses in used
// are passed over.
func (p *Provider) findPlace(ctx context.Context, name string, port int, preferred netip.Addr, used map[netip.Addr]bool) (*place, error) {
	busy := 0
	try := func(addr netip.Addr) (*place, error) {
		if used[addr] {
			return nil, nil
		}
		pl, err := takePlace(ctx, addr, port)
		if errors.Is(err, syscall.EADDRINUSE) {
			if busy++; busy < maxBusyPorts {
				return nil, nil
			}
			return nil, fmt.Errorf("%w: port: another program of this machine has %d on %d addresses of %v tried: "+
				"stop it, or choose another port", errPortBusy, port, busy, p.opt.network)
		}
		return pl, err
	}
	if preferred.IsValid() {
		if pl, err := try(preferred); pl != nil || err != nil {
			return pl, err
		}
	}
	for addr := range candidates(p.opt.network, name) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if pl, err := try(addr); pl != nil || err != nil {
			return pl, err
		}
	}
	if busy > 0 {
		return nil, fmt.Errorf("%w: port: another program of this machine has %d on the %d addresses of %v that are free: "+
			"stop it, or choose another port", errPortBusy, port, busy, p.opt.network)
	}
	return nil, fmt.Errorf("%w: network: all %d addresses of %v are taken", errNoAddress, capacity(p.opt.network), p.opt.network)
}

// takePlace reserves one address and listens there. nil: the address is taken.
// EADDRINUSE: it is free, but the port is not.
func takePlace(ctx context.Context, addr netip.Addr, port int) (*place, error) {
	reservation, err := reserve(addr)
	if reservation == nil || err != nil {
		return nil, err
	}
	listener, err := listen(ctx, addr, port)
	if err != nil {
		return nil, errors.Join(err, reservation.Close())
	}
	return &place{addr: addr, listener: listener, reservation: reservation}, nil
}

func listen(ctx context.Context, addr netip.Addr, port int) (*os.File, error) {
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	l, err := lc.Listen(ctx, "tcp4", net.JoinHostPort(addr.String(), strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	f, err := l.(*net.TCPListener).File()
	return f, errors.Join(err, l.Close())
}

// hosts is the range of numbers of a network's usable addresses: not its first,
// not its last, and nothing of 127.0.0.0/24, which other software uses.
func hosts(network netip.Prefix) (first, n uint32) {
	base := network.Addr().As4()
	start := binary.BigEndian.Uint32(base[:])
	size := uint32(1) << (32 - network.Bits())
	first, last := start+1, start+size-2
	if reserved := uint32(127)<<24 | 255; first <= reserved {
		first = reserved + 1
	}
	if first > last {
		return first, 0
	}
	return first, last - first + 1
}

func capacity(network netip.Prefix) int {
	_, n := hosts(network)
	return int(n)
}

// candidates yields every usable address once, from a start that follows from
// the name.
func candidates(network netip.Prefix, name string) func(yield func(netip.Addr) bool) {
	return func(yield func(netip.Addr) bool) {
		first, n := hosts(network)
		h := fnv.New32a()
		_, _ = h.Write([]byte(name))
		for i := range n {
			var b [4]byte
			binary.BigEndian.PutUint32(b[:], first+uint32((uint64(h.Sum32())+uint64(i))%uint64(n)))
			if !yield(netip.AddrFrom4(b)) {
				return
			}
		}
	}
}
