package discovery

import (
	"hash/fnv"
	"math/rand/v2"
	"sync"
)

// picker chooses one proxy of several. What it remembers is of this process
// only: behind a load balancer, each replica has a memory of its own.
type picker struct {
	mu sync.Mutex
	// used says when a proxy was last handed out, in hand-outs since the start.
	used  map[string]uint64
	clock uint64
}

// maxUsed bounds the memory of a picker.
const maxUsed = 100_000

// pick chooses one of items, which must not be empty.
func (p *picker) pick(items []Proxy, strategy, key string) Proxy {
	var chosen Proxy
	switch strategy {
	case strategyHash:
		chosen = byHash(items, key)
	case strategyLeastRecent:
		return p.leastRecent(items)
	default:
		chosen = items[rand.IntN(len(items))]
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note(chosen.UID)
	return chosen
}

// leastRecent is the one that was handed out longest ago, by whatever strategy.
func (p *picker) leastRecent(items []Proxy) Proxy {
	p.mu.Lock()
	defer p.mu.Unlock()
	chosen := items[0]
	for _, it := range items[1:] {
		if p.used[it.UID] < p.used[chosen.UID] {
			chosen = it
		}
	}
	p.note(chosen.UID)
	return chosen
}

func (p *picker) note(uid string) {
	if len(p.used) >= maxUsed || p.used == nil {
		p.used = map[string]uint64{}
	}
	p.clock++
	p.used[uid] = p.clock
}

// byHash is the proxy with the highest hash of key and uid (rendezvous hashing):
// a key keeps its proxy as long as that one is healthy, and only the keys of a
// proxy that leaves move.
func byHash(items []Proxy, key string) Proxy {
	best, bestHash := items[0], uint64(0)
	for i, it := range items {
		h := fnv.New64a()
		_, _ = h.Write([]byte(it.UID + "\x00" + key)) // never fails
		if v := mix(h.Sum64()); i == 0 || v > bestHash || v == bestHash && it.UID < best.UID {
			best, bestHash = it, v
		}
	}
	return best
}

// mix spreads the bits of FNV, whose high ones are poor for short inputs.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
