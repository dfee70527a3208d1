package hetzner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/source"
)

var (
	errUnsorted   = errors.New("the list is not in the order of numbers that was asked for")
	errIncomplete = errors.New("the list has fewer entries than the vendor says there are")
)

// listTries is how often a list is read from its beginning when it shifts.
const listTries = 3

var _ source.Lister = (*Source)(nil)

// List implements source.Lister. The list has page numbers only, which shift when
// something before is deleted: a page counts only if it overlaps with what was read
// before.
func (s *Source) List(ctx context.Context) (source.Snapshot, error) {
	ctx = provider.ContextWithOp(ctx, source.OpList)
	for range listTries {
		l := &listing{s: s, size: perPage, out: source.Snapshot{At: s.now().UTC()}}
		err := l.read(ctx)
		if errors.Is(err, errShifted) {
			continue
		}
		if err != nil {
			return source.Snapshot{}, s.wrap(source.OpList, err)
		}
		s.price(ctx, l.out.Resources)
		return l.out, nil
	}
	return source.Snapshot{}, s.wrap(source.OpList, fmt.Errorf("resources vanish faster than they can be listed: %w", errShifted))
}

// listing is one reading of a list.
type listing struct {
	s    *Source
	size int // of pages
	// count is how many entries there are up to the last one that was read. last is
	// the highest number that was read; odd says that the last entry has none.
	count int
	last  int64
	odd   bool
	out   source.Snapshot
}

func (l *listing) read(ctx context.Context) error {
	for {
		page, size, overlaps := l.next()
		list, meta, err := l.page(ctx, page, size)
		if err != nil {
			return err
		}
		if meta != nil && meta.PerPage > 0 && meta.PerPage < size {
			// The page is not the one that was meant, unless it is the first.
			if l.size = meta.PerPage; page > 1 {
				continue
			}
			size = meta.PerPage
		}
		more := len(list) >= size
		if meta != nil && meta.NextPage > page {
			more = true
		}
		if !overlaps {
			if err := l.follows(ctx, page-1, size); err != nil {
				return err
			}
		}
		had := l.count
		if err := l.take(list, (page-1)*size, page == 1 || !overlaps); err != nil {
			return err
		}
		if !more {
			if meta != nil && meta.TotalEntries > l.count {
				return errIncomplete
			}
			return nil
		}
		if l.count <= had {
			return errIncomplete // there is more, and it is not shown
		}
	}
}

// next is the page that has the last entry and the most of those behind it. When
// there is none, which is rare, it is the page behind, without an overlap.
func (l *listing) next() (page, size int, overlaps bool) {
	if l.count == 0 {
		return 1, l.size, true
	}
	best, gain := 0, 0
	for n := l.size; n > 1; n-- {
		if g := n - 1 - (l.count-1)%n; g > gain {
			best, gain = n, g
		}
	}
	if best == 0 {
		return l.count/l.size + 1, l.size, false
	}
	return (l.count-1)/best + 1, best, true
}

// follows checks, after the page behind was read, that a page still ends with what
// was read last.
func (l *listing) follows(ctx context.Context, page, size int) error {
	list, _, err := l.page(ctx, page, size)
	if err != nil {
		return err
	}
	if n := len(list); n != size {
		return errShifted
	} else if id, ok := idOf(list[n-1]); id != l.last && (ok || !l.odd) {
		return errShifted
	}
	return nil
}

// idOf reads the number of an entry.
func idOf(raw json.RawMessage) (int64, bool) {
	var e struct {
		ID int64 `json:"id"`
	}
	err := json.Unmarshal(raw, &e)
	return e.ID, err == nil && e.ID > 0
}

// take takes the entries of a page, the first of which is at this place in the
// list, that were not read yet. connected says that the page is known to follow
// what was read; otherwise an entry that was read proves it.
func (l *listing) take(list []json.RawMessage, at int, connected bool) error {
	var before int64
	had, odd := l.count, l.odd
	for i, raw := range list {
		id, ok := idOf(raw)
		switch l.odd = !ok; {
		case !ok && at+i == had-1 && odd:
			connected = true
		case !ok && at+i >= had:
			l.out.Unreadable = append(l.out.Unreadable, "an entry without a number")
		case !ok:
		case id <= before:
			return errUnsorted
		case id <= l.last:
			before, connected = id, true
		case !connected:
			return errShifted
		default:
			before, l.last = id, id
			x := l.s.kind.existing(raw)
			x.Account, x.Resource.Type, x.Resource.ID = l.s.account, l.s.kind.Type, strconv.FormatInt(id, 10)
			l.out.Resources = append(l.out.Resources, x)
		}
	}
	if len(list) > 0 && !connected {
		return errShifted
	}
	l.count = at + len(list)
	return nil
}

// page reads one page, each entry by itself: one that is odd takes no other with
// it.
func (l *listing) page(ctx context.Context, page, size int) ([]json.RawMessage, *hcloud.Pagination, error) {
	q := url.Values{"page": {strconv.Itoa(page)}, "per_page": {strconv.Itoa(size)}, "sort": {"id:asc"}}
	name := string(l.s.kind.Type) + "s"
	req, err := l.s.client.NewRequest(ctx, http.MethodGet, "/"+name+"?"+q.Encode(), nil)
	if err != nil {
		return nil, nil, err
	}
	var body map[string]json.RawMessage
	resp, err := l.s.client.Do(req, &body)
	if err != nil {
		return nil, nil, err
	}
	l.clock(resp.Header.Get("Date"))
	var list []json.RawMessage
	raw, there := body[name]
	if !there {
		return nil, nil, fmt.Errorf("the answer has no %s", name)
	}
	if err := json.Unmarshal(raw, &list); err != nil || list == nil {
		return nil, nil, fmt.Errorf("the answer's %s is no list", name)
	}
	return list, resp.Meta.Pagination, nil
}

// clock takes the vendor's time from an answer.
func (l *listing) clock(date string) {
	t, err := http.ParseTime(date)
	if err != nil {
		return
	}
	if l.out.PlatformUntil = t.UTC(); l.out.PlatformAt.IsZero() {
		l.out.PlatformAt = t.UTC()
	}
}
