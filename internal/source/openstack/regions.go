package openstack

import (
	"context"
	"slices"
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

// parts reads on in all regions at once. One that has ended its sweep waits for those
// that are in the middle of theirs: sweeps of several pages that began at different
// times would never all have ended on the same page, and nothing would ever be caught
// up. It waits for none that is broken, does not if it is broken itself, and no longer
// than its own sweep is fresh.
func (s *Source) parts(ctx context.Context, p position, regions []string) []part {
	out := make([]part, len(regions))
	now := s.now()
	skip := s.troubles.waiting(now, regions)
	var under, fresh, due []int // in the middle of a sweep, waiting, and beginning one
	for i, name := range regions {
		at := p.Regions[name]
		switch age := now.Sub(at.AsOf); {
		case skip[name] != nil:
			out[i].err = skip[name]
		case at.Walk != nil:
			under = append(under, i)
		case age >= 0 && age < freshFor && !s.troubles.has(name):
			fresh = append(fresh, i)
		default:
			due = append(due, i)
		}
	}
	read := func(which ...int) {
		var wg sync.WaitGroup
		for _, i := range which {
			wg.Go(func() { out[i] = s.part(ctx, regions[i], p.Regions[regions[i]].clone()) })
		}
		wg.Wait()
	}
	if len(under) == 0 {
		read(slices.Concat(fresh, due)...)
		return out
	}
	read(slices.Concat(under, due)...)
	if !slices.ContainsFunc(under, func(i int) bool { return out[i].err == nil }) {
		read(fresh...)
		return out
	}
	for _, i := range fresh {
		out[i] = part{at: p.Regions[regions[i]], out: source.Page{CaughtUp: true}}
	}
	return out
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

// has reports whether a region failed when it was read last.
func (t *troubles) has(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.of[name]
	return ok
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
