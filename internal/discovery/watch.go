package discovery

import (
	"context"
	"strings"
	"sync"
	"time"
)

// hub wakes long polls when something has changed. However many wait, one
// goroutine reads the tables, and only while somebody waits.
type hub struct {
	cache    *cache
	fleets   func() []Fleet
	interval time.Duration

	mu      sync.Mutex
	waiters int
	changed chan struct{}
	stop    context.CancelFunc
}

// join makes sure that the tables are watched until leave is called.
func (h *hub) join() (leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiters++
	h.cache.metrics.waiters.Inc()
	if h.waiters == 1 {
		ctx, stop := context.WithCancel(context.Background())
		h.stop = stop
		go h.watch(ctx)
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.cache.metrics.waiters.Dec()
		if h.waiters--; h.waiters == 0 {
			h.stop()
		}
	}
}

// next is closed at the next change. Take it before reading what may change.
func (h *hub) next() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.changed == nil {
		h.changed = make(chan struct{})
	}
	return h.changed
}

func (h *hub) announce() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
}

func (h *hub) watch(ctx context.Context) {
	last := ""
	for {
		began := time.Now()
		fleets := h.fleets()
		// Half of the interval: the reading of the round before is too old, one
		// that a request has made since will do.
		states, err := h.cache.readWithin(ctx, fleets, h.interval/2)
		if err != nil {
			return
		}
		var b strings.Builder
		for i, s := range states {
			b.WriteString(fleets[i].Provider + "\x00" + s.version + "\x00")
		}
		if now := b.String(); now != last {
			last = now
			h.announce()
		}
		// Large fleets take a while to read: at most a quarter of the time is
		// spent on it.
		wait := max(h.interval, 4*time.Since(began))
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}
