package store

import (
	"context"
	"database/sql"
	"slices"
	"sync"

	"github.com/tollgate-dev/tollgate/internal/reporting/usage"
)

// sumsKey names what sums are of: a period, and the state of the database in which
// they were made. As long as nothing comes in, the pages of one answer share them.
type sumsKey struct {
	project, from, end int64
	// events and replaced are the latest of each.
	events, replaced int64
}

func versionOf(ctx context.Context, tx *sql.Tx, p Project, period usage.Period) (sumsKey, error) {
	k := sumsKey{project: p.Num}
	k.from, k.end = bounds(period)
	err := tx.QueryRowContext(ctx, `SELECT coalesce((SELECT max(seq) FROM events), 0), coalesce((SELECT max(seq) FROM replaced_events), 0)`).Scan(&k.events, &k.replaced)
	return k, err
}

// maxSums is how many sums are kept.
const maxSums = 16

// sumsCache keeps the sums that were made last. It is safe for concurrent use; what
// it returns must not be changed.
type sumsCache struct {
	mu   sync.Mutex
	keys []sumsKey // the latest last
	all  map[sumsKey]*Sums
}

func (c *sumsCache) get(k sumsKey) (*Sums, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.all[k]
	return s, ok
}

func (c *sumsCache) put(k sumsKey, s *Sums) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[sumsKey]*Sums{}
	}
	if _, had := c.all[k]; !had {
		c.keys = append(c.keys, k)
	}
	c.all[k] = s
	for len(c.keys) > maxSums {
		delete(c.all, c.keys[0])
		c.keys = slices.Delete(c.keys, 0, 1)
	}
}
