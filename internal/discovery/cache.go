package discovery

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Fleet is a provider whose proxies are offered.
type Fleet struct {
	Provider string
	Shards   int
}

// state is what is known of a provider at one moment.
type state struct {
	// at is the start of the reading: everything in it is at least as new.
	at      time.Time
	proxies []Proxy
	err     error
	// version changes with proxies and err.
	version string
}

// cell caches one provider's state. Readers share one reading at a time.
type cell struct {
	fleet  Fleet
	cache  *cache
	mu     sync.Mutex
	last   *state
	flight *flight
}

type flight struct {
	done   chan struct{}
	result *state
}

// cache holds a cell for each provider.
type cache struct {
	source Source
	// maxAge is how old a shared answer may be, maxErrAge how old a failure;
	// timeout bounds one reading.
	maxAge, maxErrAge, timeout time.Duration
	now                        func() time.Time
	metrics                    *metrics

	mu    sync.Mutex
	cells map[string]*cell
}

// read returns the states of the fleets in the order of fleets, none older than
// maxAge when the call began (a failure: maxErrAge, so that a provider that is
// down does not hold up every request). It fails only with ctx.
func (c *cache) read(ctx context.Context, fleets []Fleet) ([]*state, error) {
	return c.readWithin(ctx, fleets, c.maxAge)
}

func (c *cache) readWithin(ctx context.Context, fleets []Fleet, maxAge time.Duration) ([]*state, error) {
	out := make([]*state, len(fleets))
	began := c.now()
	g, ctx := errgroup.WithContext(ctx)
	for i, f := range fleets {
		g.Go(func() (err error) {
			out[i], err = c.cell(f).read(ctx, began, maxAge)
			return err
		})
	}
	return out, g.Wait()
}

func (c *cache) cell(f Fleet) *cell {
	c.mu.Lock()
	defer c.mu.Unlock()
	have, ok := c.cells[f.Provider]
	if !ok || have.fleet != f { // another number of shards: nothing cached counts
		have = &cell{fleet: f, cache: c}
		c.cells[f.Provider] = have
	}
	return have
}

// keep drops the cells of providers that are no longer configured.
func (c *cache) keep(fleets []Fleet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	configured := make(map[string]bool, len(fleets))
	for _, f := range fleets {
		configured[f.Provider] = true
	}
	for name := range c.cells {
		if !configured[name] {
			delete(c.cells, name)
			c.metrics.forget(name)
		}
	}
}

// fresh reports whether s will do for a call that began then.
func (c *cache) fresh(s *state, began time.Time, maxAge time.Duration) bool {
	if s.err != nil {
		maxAge = c.maxErrAge
	}
	return began.Sub(s.at) <= maxAge
}

func (c *cell) read(ctx context.Context, began time.Time, maxAge time.Duration) (*state, error) {
	for {
		c.mu.Lock()
		if c.last != nil && c.cache.fresh(c.last, began, maxAge) {
			defer c.mu.Unlock()
			return c.last, nil
		}
		f := c.flight
		if f == nil {
			f = &flight{done: make(chan struct{})}
			c.flight = f
			// Not bound to this caller's context: others may wait for it too.
			go c.fly(f)
		}
		c.mu.Unlock()
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		// A flight that had begun before this call may be too old; the next one
		// is not.
		if c.cache.fresh(f.result, began, maxAge) {
			return f.result, nil
		}
	}
}

func (c *cell) fly(f *flight) {
	ctx, cancel := context.WithTimeout(context.Background(), c.cache.timeout)
	defer cancel()
	s := &state{at: c.cache.now()}
	s.proxies, s.err = c.tables(ctx)
	s.version = versionOf(s)
	c.cache.metrics.read(c.fleet.Provider, s, c.cache.now().Sub(s.at))
	c.mu.Lock()
	c.last, c.flight = s, nil
	c.mu.Unlock()
	f.result = s
	close(f.done)
}

// tables reads all shards. One that cannot be read makes the whole provider
// unavailable: a part of a fleet would look like all of it.
func (c *cell) tables(ctx context.Context) ([]Proxy, error) {
	tables := make([]api.FleetTable, c.fleet.Shards)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for i := range tables {
		g.Go(func() error {
			t, err := c.cache.source.Table(ctx, c.fleet.Provider, i)
			if err == nil && (t.Provider != c.fleet.Provider || t.Shard != i) {
				err = fmt.Errorf("shard %d of %s answered as shard %d of %s", i, c.fleet.Provider, t.Shard, t.Provider)
			}
			tables[i] = t
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return proxies(c.fleet.Provider, tables), nil
}

func versionOf(s *state) string {
	if s.err != nil {
		return "unavailable: " + s.err.Error()
	}
	b, err := json.Marshal(s.proxies)
	if err != nil { // plain fields cannot fail
		panic(err)
	}
	sum := sha256.Sum256(b)
	return string(sum[:])
}
