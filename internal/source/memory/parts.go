package memory

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// Part is a feed that is a part of another, such as that of a region.
type Part struct {
	Name string
	Feed *Feed
}

// Parts reads several feeds as one. What cannot be read of them is left where it
// was, and holds up no other. It is safe for concurrent use.
type Parts struct {
	name  string
	parts []*Source
}

var (
	_ source.Source    = (*Parts)(nil)
	_ source.Lister    = (*Parts)(nil)
	_ source.Confirmer = (*Parts)(nil)
)

// Join returns a source of that configured name over the parts, in events of that
// account. Things have different names in different parts.
func Join(name, account string, parts ...Part) *Parts {
	s := &Parts{name: name}
	for _, p := range parts {
		s.parts = append(s.parts, &Source{name: name, account: account, region: p.Name, feed: p.Feed})
	}
	return s
}

// positions is what a cursor of Parts holds, by part.
type positions struct {
	Parts map[string]progress `json:"parts"`
}

// progress is how far a part was read.
type progress struct {
	Cursor  source.Cursor `json:"cursor"`
	UpTo    time.Time     `json:"upTo,omitzero"`
	Pending int           `json:"pending,omitempty"`
}

// Next implements source.Source.
func (s *Parts) Next(ctx context.Context, c source.Cursor) (source.Page, error) {
	var p positions
	if err := source.DecodeCursor(source.OpNext, s.name, c, &p); err != nil {
		return source.Page{}, err
	}
	pages, errs := make([]source.Page, len(s.parts)), make([]error, len(s.parts))
	var wg sync.WaitGroup
	for i, part := range s.parts {
		wg.Go(func() { pages[i], errs[i] = part.Next(ctx, p.Parts[part.region].Cursor) })
	}
	wg.Wait()
	// A read that was broken off says nothing about a part.
	if ctx.Err() != nil {
		return source.Page{}, provider.Wrap(provider.Transient, source.OpNext, s.name, "", context.Cause(ctx))
	}
	out, next := source.Page{CaughtUp: true}, positions{Parts: map[string]progress{}}
	for i, part := range s.parts {
		at, page := p.Parts[part.region], pages[i]
		switch err := errs[i]; {
		case provider.ReasonOf(err) == source.ReasonBadCursor:
			return source.Page{}, err
		case err != nil:
			out.Broken = append(out.Broken, source.Broken{Part: part.region, Err: err})
		default:
			at = progress{Cursor: page.Next, UpTo: page.UpTo, Pending: page.Pending}
			part.add(&out, page)
		}
		// Zero, of a part that was never read, is before everything.
		if i == 0 || at.UpTo.Before(out.UpTo) {
			out.UpTo = at.UpTo
		}
		out.Pending += at.Pending
		next.Parts[part.region] = at
	}
	if len(out.Broken) == len(s.parts) {
		return source.Page{}, out.Broken[0].Err
	}
	slices.SortStableFunc(out.Items, func(a, b source.Item) int { return a.Event.Time.Compare(b.Event.Time) })
	out.Next = source.EncodeCursor(next)
	return out, nil
}

// add adds a page of a part to one of all.
func (s *Source) add(out *source.Page, page source.Page) {
	for _, i := range page.Items {
		i.Ref = s.within(i.Ref)
		out.Items = append(out.Items, i)
	}
	for _, r := range page.Rejected {
		r.Ref = s.within(r.Ref)
		out.Rejected = append(out.Rejected, r)
	}
	out.CaughtUp = out.CaughtUp && page.CaughtUp
	out.Ignored += page.Ignored
	if g := page.Gap; g != nil && out.Gap == nil {
		out.Gap = g
	} else if g != nil {
		if g.From.Before(out.Gap.From) {
			out.Gap.From = g.From
		}
		if g.To.After(out.Gap.To) {
			out.Gap.To = g.To
		}
	}
}

// within is a reference as it leads into a part.
func (s *Source) within(r source.Ref) source.Ref { return source.Ref(s.region + "/" + string(r)) }

// Seek implements source.Source.
func (s *Parts) Seek(ctx context.Context, t time.Time) (source.Cursor, error) {
	p := positions{Parts: map[string]progress{}}
	for _, part := range s.parts {
		c, err := part.Seek(ctx, t)
		if err != nil {
			return "", err
		}
		p.Parts[part.region] = progress{Cursor: c}
	}
	return source.EncodeCursor(p), nil
}

// Derive implements source.Source.
func (s *Parts) Derive(ctx context.Context, r source.Ref) ([]source.Item, error) {
	region, ref, _ := strings.Cut(string(r), "/")
	part := s.part(region)
	if part == nil {
		return nil, source.BadCursor(source.OpDerive, s.name, fmt.Errorf("reference %q: want <part>/<entry>", r))
	}
	items, err := part.Derive(ctx, source.Ref(ref))
	for i := range items {
		items[i].Ref = part.within(items[i].Ref)
	}
	return items, err
}

// List implements source.Lister: all parts, or none.
func (s *Parts) List(ctx context.Context) (source.Snapshot, error) {
	out := source.Snapshot{At: time.Now().UTC()}
	for _, part := range s.parts {
		one, err := part.List(ctx)
		if err != nil {
			return source.Snapshot{}, err
		}
		out.Resources = append(out.Resources, one.Resources...)
	}
	return out, nil
}

// Gone implements source.Confirmer. Nobody knows which part to ask when no region is
// said: it is gone then if it is in none.
func (s *Parts) Gone(ctx context.Context, account, region string, r event.Resource) (bool, error) {
	ask := s.parts
	if region != "" {
		part := s.part(region)
		if part == nil {
			return false, provider.Wrap(provider.Permanent, source.OpGone, s.name, r.ID, fmt.Errorf("region %q: is no part of this source", region))
		}
		ask = []*Source{part}
	}
	for _, part := range ask {
		if gone, err := part.Gone(ctx, account, "", r); !gone {
			return false, err
		}
	}
	return true, nil
}

// part is the part of this name, nil when there is none.
func (s *Parts) part(name string) *Source {
	i := slices.IndexFunc(s.parts, func(p *Source) bool { return p.region == name })
	if i < 0 {
		return nil
	}
	return s.parts[i]
}
