package hetzner

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sort"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/source"
)

const (
	// perPage is the most that the vendor gives on one page.
	perPage = 50
	// tailPages is how many pages from the newest action down are read before the
	// list is read upwards instead.
	tailPages = 4
	// idsPerCall is how many actions are looked up with one request.
	idsPerCall = 25
	// longest is how long an action takes at the most.
	longest = 48 * time.Hour
)

// Source reads the actions of one kind. It is safe for concurrent use.
type Source struct {
	name, account string
	kind          spec
	client        *hcloud.Client
	known         source.Known
	gapAfter      time.Duration
	now           func() time.Time
	log           *slog.Logger
	// book is shared by the kinds of a source.
	book *priceBook

	sizes sizeCache
}

var _ source.Source = (*Source)(nil)

// reading is one call of Next.
type reading struct {
	s *Source
	position
	begun time.Time
	ended []*hcloud.Action
	out   source.Page
}

// Next implements source.Source.
func (s *Source) Next(ctx context.Context, c source.Cursor) (source.Page, error) {
	p, err := s.decode(source.OpNext, c)
	if err != nil {
		return source.Page{}, err
	}
	ctx = provider.ContextWithOp(ctx, source.OpNext)
	r := &reading{s: s, position: p, begun: s.now().UTC()}
	if err := r.read(ctx); err != nil {
		return source.Page{}, s.wrap(source.OpNext, err)
	}
	if err := r.finish(ctx, c); err != nil {
		return source.Page{}, s.wrap(source.OpNext, err)
	}
	return r.out, nil
}

func (r *reading) read(ctx context.Context) error {
	if r.Tail || len(r.Open) >= maxOpen/2 {
		if err := r.reopen(ctx); err != nil {
			return err
		}
	}
	if r.Tail {
		switch connected, err := r.tail(ctx); {
		case err != nil || connected:
			return err
		}
		r.Tail = false
		if err := r.locate(ctx); err != nil {
			return err
		}
	}
	return r.forward(ctx)
}

// reopen looks up the actions that had not ended.
func (r *reading) reopen(ctx context.Context) error {
	waiting := r.Open
	r.Open = nil
	for ids := range slices.Chunk(waiting, idsPerCall) {
		list, _, err := r.s.client.Action.List(ctx, hcloud.ActionListOpts{ID: ids})
		if err != nil {
			return err
		}
		for _, id := range ids {
			i := slices.IndexFunc(list, func(a *hcloud.Action) bool { return a.ID == id })
			switch {
			case i < 0:
				r.reject(id, "the action vanished before it had ended: nobody knows what became of it")
			case list[i].Status == hcloud.ActionStatusRunning:
				r.Open = append(r.Open, id)
			default:
				r.ended = append(r.ended, list[i])
			}
		}
	}
	return nil
}

// take takes a new action. False means that there is no room for another
// unfinished one.
func (r *reading) take(a *hcloud.Action) bool {
	if !r.fresh(a.ID) {
		return true
	}
	if a.Status == hcloud.ActionStatusRunning {
		if len(r.Open) >= maxOpen {
			return false
		}
		r.Open = append(r.Open, a.ID)
	} else {
		r.ended = append(r.ended, a)
	}
	r.see(a)
	return true
}

// page reads one page of the list; more says that there are further ones.
func (r *reading) page(ctx context.Context, order string, page, size int) (list []*hcloud.Action, more bool, err error) {
	list, resp, err := r.s.kind.list(ctx, r.s.client, hcloud.ActionListOpts{
		ListOpts: hcloud.ListOpts{Page: page, PerPage: size}, Sort: []string{order},
	})
	if err != nil {
		return nil, false, err
	}
	meta := resp.Meta.Pagination
	if meta == nil {
		return list, len(list) == size, nil
	}
	if meta.PerPage > 0 && meta.PerPage < size {
		// The page is not the one that was meant, unless it is the first.
		if r.Clamp = meta.PerPage; page > 1 {
			return nil, false, errClamped
		}
		size = meta.PerPage
	}
	return list, len(list) == size && (meta.NextPage > page || meta.LastPage > page || meta.NextPage == 0 && meta.LastPage == 0), nil
}

// tail reads from the newest action down until it meets enough of what was read
// before. False means that there is too much new.
func (r *reading) tail(ctx context.Context) (connected bool, err error) {
	var fresh []*hcloud.Action
	old, whole := 0, false
	for page := 1; page <= tailPages && !connected; page++ {
		list, more, err := r.page(ctx, "id:desc", page, r.full())
		if err != nil {
			return false, err
		}
		for _, a := range list {
			switch {
			case !r.fresh(a.ID):
				old++
			case !slices.ContainsFunc(fresh, func(f *hcloud.Action) bool { return f.ID == a.ID }):
				fresh = append(fresh, a)
			}
		}
		whole = !more
		connected = whole || old >= max(1, r.full()/2)
	}
	if !connected {
		return false, nil
	}
	sortByID(fresh)
	if whole && old == 0 && len(fresh) > 0 {
		r.suspect(fresh[0])
	}
	r.out.CaughtUp = true
	for _, a := range fresh {
		if !r.take(a) {
			r.out.CaughtUp = false
			break
		}
	}
	return true, nil
}

func sortByID(list []*hcloud.Action) {
	slices.SortFunc(list, func(a, b *hcloud.Action) int { return cmp.Compare(a.ID, b.ID) })
}

// suspect says that entries are missing when nothing that was read is in the list
// any more, and it was not read for so long that others may have come and gone.
func (r *reading) suspect(oldest *hcloud.Action) {
	if r.Last.ID == 0 || r.AsOf.IsZero() || oldest.ID <= r.Last.ID || r.begun.Sub(r.AsOf) < r.s.gapAfter {
		return
	}
	if to := oldest.Started.UTC(); to.After(r.Last.At) {
		r.out.Gap = &source.Gap{From: r.Last.At, To: to}
	}
}

// forward reads upwards: the page that overlaps with what was read, by one entry
// at least, and has the most of what was not. The overlap proves that the list has
// not shifted.
func (r *reading) forward(ctx context.Context) error {
	for range 3 {
		list, more, err := r.above(ctx)
		switch {
		case err == errClamped:
			continue
		case err == errShifted:
			if err := r.locate(ctx); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		if r.Pos == 0 && len(list) > 0 {
			r.suspect(list[0])
		}
		for _, a := range list {
			if !r.take(a) {
				return nil
			}
			r.Pos++
			r.Last = mark{a.ID, a.Started.UTC()}
		}
		r.Tail, r.out.CaughtUp = !more, !more
		return nil
	}
	return errUnsteady
}

// above returns the entries above Pos.
func (r *reading) above(ctx context.Context) (list []*hcloud.Action, more bool, err error) {
	if r.Pos == 0 {
		return r.page(ctx, "id:asc", 1, r.full())
	}
	best, gain := 0, 0
	for n := r.full(); n > r.full()/2; n-- {
		if g := n - 1 - (r.Pos-1)%n; g > gain {
			best, gain = n, g
		}
	}
	if best == 0 {
		// No page has both: the next one is read first, and that the list has not
		// shifted until then is seen afterwards.
		n := r.full()
		if list, more, err = r.page(ctx, "id:asc", r.Pos/n+1, n); err != nil {
			return nil, false, err
		}
		before, _, err := r.page(ctx, "id:asc", r.Pos/n, n)
		if err != nil {
			return nil, false, err
		}
		if len(before) != n || before[n-1].ID != r.Last.ID {
			return nil, false, errShifted
		}
		return list, more, nil
	}
	list, more, err = r.page(ctx, "id:asc", (r.Pos-1)/best+1, best)
	if err != nil {
		return nil, false, err
	}
	i := (r.Pos - 1) % best
	if i >= len(list) || list[i].ID != r.Last.ID {
		return nil, false, errShifted
	}
	return list[i+1:], more, nil
}

// locate finds Pos anew: the number of entries up to Last.
func (r *reading) locate(ctx context.Context) error {
	pos, last, err := r.count(ctx, func(a *hcloud.Action) bool { return a.ID <= r.Last.ID })
	if err != nil {
		return err
	}
	if r.Pos = pos; pos > 0 {
		r.Last = mark{last.ID, last.Started.UTC()}
	}
	return nil
}

// count counts the entries from the oldest up to the last one that is below, and
// returns that one. It asks for a logarithm of the number of pages.
func (r *reading) count(ctx context.Context, below func(*hcloud.Action) bool) (n int, last *hcloud.Action, err error) {
	pages := map[int][]*hcloud.Action{}
	read := func(page int) ([]*hcloud.Action, error) {
		if list, ok := pages[page]; ok {
			return list, nil
		}
		list, _, err := r.page(ctx, "id:asc", page, r.full())
		pages[page] = list
		return list, err
	}
	// begins reports whether a page begins below.
	begins := func(page int) (bool, error) {
		list, err := read(page)
		return err == nil && len(list) > 0 && below(list[0]), err
	}
	high := 1
	for {
		ok, err := begins(high)
		if err == errClamped {
			clear(pages)
			continue
		}
		if err != nil {
			return 0, nil, err
		}
		if !ok {
			break
		}
		high *= 2
	}
	// The first page that does not begin below.
	first := high/2 + sort.Search(high-high/2, func(i int) bool {
		if err != nil {
			return true
		}
		var ok bool
		ok, err = begins(high/2 + i)
		return !ok
	})
	if err != nil || first <= 1 {
		return 0, nil, err
	}
	list, err := read(first - 1)
	if err != nil {
		return 0, nil, err
	}
	for _, a := range list {
		if below(a) {
			n, last = n+1, a
		}
	}
	return (first-2)*r.full() + n, last, nil
}
