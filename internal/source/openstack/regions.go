package openstack

import (
	"context"
	"sync"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// part is what one region has given to a page.
type part struct {
	at    *place
	out   source.Page
	sizes map[sizeKey]event.Size
	err   error
}

// part reads on in a region.
func (s *Source) part(ctx context.Context, name string, at *place) part {
	began := s.now()
	p := part{at: at, out: source.Page{CaughtUp: true}}
	r, err := s.reading(ctx, name, at, &p.out)
	if err == nil {
		p.sizes = r.sizes
		err = r.sweep(ctx)
	}
	p.err = err
	if ctx.Err() == nil {
		s.troubles.note(name, err, s.now(), s.now().Sub(began), provider.RetryAfterOf(s.wrapped(ctx, err)))
	}
	return p
}

// wrapped is nil for no error.
func (s *Source) wrapped(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	return s.wrap(ctx, source.OpNext, err)
}

// join adds what a region has given to a page of all.
func join(out *source.Page, p source.Page) {
	out.Items = append(out.Items, p.Items...)
	out.Rejected = append(out.Rejected, p.Rejected...)
	out.CaughtUp = out.CaughtUp && p.CaughtUp
	out.Gap = widest(out.Gap, p.Gap)
	out.Ignored += p.Ignored
}

// widest is a gap with both in it; either may be nil.
func widest(a, b *source.Gap) *source.Gap {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	g := *a
	if b.From.Before(g.From) {
		g.From = b.From
	}
	if b.To.After(g.To) {
		g.To = b.To
	}
	return &g
}

// A region that fails slowly would slow down the others, which wait for it: it is
// left alone for this many times as long as it took to fail, and no longer than
// longestRest.
const (
	slow        = time.Second
	restFactor  = 5
	longestRest = 5 * time.Minute
)

// troubles remember which regions failed, and until when each is left alone. A
// process that is new asks them all. The zero value is ready.
type troubles struct {
	mu sync.Mutex
	of map[string]trouble
}

type trouble struct {
	until time.Time
	err   error
}

// note remembers how a read of a region ended.
func (t *troubles) note(name string, err error, now time.Time, took, asked time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		delete(t.of, name)
		return
	}
	if t.of == nil {
		t.of = map[string]trouble{}
	}
	if took < slow {
		took = 0 // the next read may as well ask
	}
	t.of[name] = trouble{now.Add(min(longestRest, max(restFactor*took, asked))), err}
}

// waiting are the regions to be left alone, with the error of each. When that is
// all of them, none is: whoever reads has waited already.
func (t *troubles) waiting(now time.Time, regions []string) map[string]error {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[string]error{}
	for _, name := range regions {
		if x, ok := t.of[name]; ok && now.Before(x.until) {
			out[name] = x.err
		}
	}
	if len(out) == len(regions) {
		return nil
	}
	return out
}
