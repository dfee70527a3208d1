package openstack

import (
	"context"
	"sync"

	"github.com/tollgate-dev/tollgate/internal/gate"
)

// nameLocks lets one create of a name run at a time in this process, so that it
// does not race with itself; other processes are met at the backend. The zero
// value is ready.
type nameLocks struct {
	mu    sync.Mutex
	gates map[string]*nameGate
}

type nameGate struct {
	gate.Gate
	users int
}

// lock waits for the name; the func that it returns gives it free.
func (n *nameLocks) lock(ctx context.Context, name string) (func(), error) {
	n.mu.Lock()
	if n.gates == nil {
		n.gates = map[string]*nameGate{}
	}
	g := n.gates[name]
	if g == nil {
		g = &nameGate{}
		n.gates[name] = g
	}
	g.users++
	n.mu.Unlock()
	leave := func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if g.users--; g.users == 0 {
			delete(n.gates, name)
		}
	}
	if err := g.Lock(ctx); err != nil {
		leave()
		return nil, err
	}
	return func() { g.Unlock(); leave() }, nil
}

// progress remembers what creates that were cut off have made, so that the next
// attempt goes on there: under a drained request budget one that begins anew
// each time would never end. It is a hint; losing it is safe.
type progress struct {
	mu   sync.Mutex
	made map[string]made
}

// mostProgress bounds it; a full one is begun anew.
const mostProgress = 10_000

func (p *progress) note(name string, m made) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.made == nil || len(p.made) >= mostProgress {
		p.made = map[string]made{}
	}
	p.made[name] = m
}

// take returns what is known and forgets it.
func (p *progress) take(name string) made {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.made[name]
	delete(p.made, name)
	return m
}
