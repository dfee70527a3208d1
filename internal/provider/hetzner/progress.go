package hetzner

import (
	"sync"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
)

// progress is what operations that were cut off have done. All of it is a hint
// that saves requests: losing it is safe, and ids are never used twice. It is
// safe for concurrent use.
type progress struct {
	mu      sync.Mutex
	deletes map[int64]deletion
	creates map[string]made
}

// deletion is how far the delete of a server came: its action, or that it is
// gone.
type deletion struct {
	action *hcloud.Action
	gone   bool
}

// mostProgress bounds each of the maps; a full one is begun anew.
const mostProgress = 10_000

// deletion returns how far the delete of a server came.
func (p *progress) deletion(server int64) deletion {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deletes[server]
}

// noteDeletion remembers it; the zero deletion forgets.
func (p *progress) noteDeletion(server int64, d deletion) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d == (deletion{}) {
		delete(p.deletes, server)
		return
	}
	if p.deletes == nil || len(p.deletes) >= mostProgress {
		p.deletes = map[int64]deletion{}
	}
	p.deletes[server] = d
}

// takeMade returns what a create of this name has made before it was cut off,
// and forgets it.
func (p *progress) takeMade(name string) made {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.creates[name]
	delete(p.creates, name)
	return m
}

// noteMade remembers what a create has made. By then it is no longer fresh: the
// server may exist.
func (p *progress) noteMade(name string, m made) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.creates == nil || len(p.creates) >= mostProgress {
		p.creates = map[string]made{}
	}
	p.creates[name] = made{at: m.at, v4: m.v4, v6: m.v6, volume: m.volume, usable: m.usable}
}
