package hetzner

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
)

const (
	// maxGets is how many resources of one page are read one by one; with more,
	// the whole list is.
	maxGets = 8
	// maxCached bounds the cache of sizes.
	maxCached = 20000
)

// sizeCache remembers the sizes of what was seen, so that those of what is gone
// are known to sinks that cannot be asked. It only helps: it is thrown away
// whenever somebody else has read on, and filled again from a listing.
type sizeCache struct {
	mu sync.Mutex
	// at is the cursor that the latest page of this process led to.
	at    source.Cursor
	warm  bool
	sizes map[int64]event.Size
	// past is a listing for changes that are older than it.
	past *pastList
}

// sizer finds the sizes for one page. Changes of one resource are handled in
// their order.
type sizer struct {
	s    *Source
	from source.Cursor
	// page are the sizes after the latest change of this page; nil is gone. All
	// others are in the cache, if that has come as far as from.
	page   map[int64]*event.Size
	states map[int64]*state // as read for this page; nil is gone
	warmed bool
}

// sizer begins a page that follows c.
func (s *Source) sizer(c source.Cursor) *sizer {
	z := &sizer{s: s, from: c, page: map[int64]*event.Size{}, states: map[int64]*state{}}
	s.sizes.mu.Lock()
	defer s.sizes.mu.Unlock()
	z.warmed = c != "" && s.sizes.at == c && s.sizes.warm
	return z
}

// before is the size after the latest change that was handled, put or cached.
func (z *sizer) before(id int64) (size event.Size, known bool) {
	if p, ok := z.page[id]; ok {
		if p == nil {
			return nil, false
		}
		return *p, true
	}
	z.s.sizes.mu.Lock()
	defer z.s.sizes.mu.Unlock()
	if z.from == "" || z.s.sizes.at != z.from {
		return nil, false
	}
	size, known = z.s.sizes.sizes[id]
	return size, known
}

func (z *sizer) set(id int64, size event.Size) { z.page[id] = &size }

func (z *sizer) put(id int64, st state) { z.set(id, st.size) }

// commit keeps what is known for the page that follows.
func (z *sizer) commit(next source.Cursor, caughtUp bool) {
	c := &z.s.sizes
	c.mu.Lock()
	defer c.mu.Unlock()
	if caughtUp {
		c.past = nil
	}
	switch {
	case c.at == next && next != z.from:
		return // somebody else has read the same page
	case z.from == "" || c.at != z.from:
		c.sizes = map[int64]event.Size{}
	}
	for range 2 {
		for id, size := range z.page {
			if size == nil {
				delete(c.sizes, id)
			} else {
				c.sizes[id] = *size
			}
		}
		if len(c.sizes) <= maxCached {
			break
		}
		clear(c.sizes) // but for what is on this page
		z.warmed = false
	}
	c.at, c.warm = next, z.warmed
}

// warm reads the sizes of all that exists, once, for the time when some of it is
// gone. What cannot be read now is tried again with the next page.
func (z *sizer) warm(ctx context.Context) {
	if z.warmed {
		return
	}
	all, err := z.list(ctx)
	if err != nil {
		z.s.log.WarnContext(ctx, "sizes could not be listed", "error", z.s.wrap(source.OpNext, err))
		return
	}
	for id, st := range all {
		if _, known := z.before(id); !known {
			z.set(id, st.size)
		}
	}
	z.warmed = true
}

func (z *sizer) list(ctx context.Context) (map[int64]state, error) {
	out := map[int64]state{}
	for page := 1; ; page++ {
		list, resp, err := z.s.kind.all(ctx, z.s.client, hcloud.ListOpts{Page: page, PerPage: perPage})
		if err != nil {
			return nil, err
		}
		maps.Copy(out, list)
		if resp.Meta.Pagination == nil || resp.Meta.Pagination.NextPage == 0 {
			return out, nil
		}
	}
}

// items makes the events of changes. bulk says that many more pages follow.
func (z *sizer) items(ctx context.Context, changes []change, bulk bool) ([]source.Item, error) {
	reported, err := z.reported(ctx, changes)
	if err != nil {
		return nil, err
	}
	if err := z.fetch(ctx, changes, bulk); err != nil {
		return nil, err
	}
	var out []source.Item
	handled := map[int64]bool{}
	for _, ch := range changes {
		was, _ := z.before(ch.id)
		// What was reported of a later time, or of this very change, is not the size
		// before it. A delete changes no size.
		if r, ok := reported[ch.id]; ok && !handled[ch.id] && (r.Since.Before(ch.at) || ch.verb == source.VerbDelete && r.Since.Equal(ch.at)) {
			was = r.Size
		}
		handled[ch.id] = true
		item, err := z.item(ctx, ch, was)
		if err != nil {
			return nil, err
		}
		out = append(out, item)
	}
	return out, nil
}

// reported asks what was reported last of resources whose size before the page
// matters. Those whose changes were read by this process, without a break, are
// left out: there is nothing about them that was reported and is not remembered.
func (z *sizer) reported(ctx context.Context, changes []change) (map[int64]source.Reported, error) {
	var ask []event.Resource
	ids := map[event.Resource]int64{}
	for _, ch := range changes {
		if _, known := z.before(ch.id); known {
			continue
		}
		res := z.s.resource(ch.id)
		if _, twice := ids[res]; !twice && (ch.verb == source.VerbDelete || sized(ch.verb)) {
			ids[res] = ch.id
			ask = append(ask, res)
		}
	}
	if z.s.known == nil || len(ask) == 0 {
		return nil, nil
	}
	sizes, err := z.s.known(ctx, TypeName, z.s.account, ask)
	if err != nil {
		return nil, err
	}
	out := map[int64]source.Reported{}
	for res, size := range sizes {
		out[ids[event.Resource{Type: res.Type, ID: res.ID}]] = size
	}
	return out, nil
}

// fetch reads the resources whose size after a change is wanted, as they are.
func (z *sizer) fetch(ctx context.Context, changes []change, bulk bool) error {
	var want []int64
	var latest time.Time
	for _, ch := range changes {
		if (ch.verb == source.VerbCreate || sized(ch.verb)) && !slices.Contains(want, ch.id) {
			want = append(want, ch.id)
		}
		if ch.at.After(latest) {
			latest = ch.at
		}
	}
	if len(want) == 0 {
		return nil
	}
	all, ok, err := z.past(ctx, latest, bulk)
	if err == nil && !ok && len(want) > maxGets {
		all, err = z.list(ctx)
		ok = true
	}
	switch {
	case err != nil:
		return err
	case ok:
		for _, id := range want {
			z.states[id] = nil
			if st, there := all[id]; there {
				z.states[id] = &st
			}
		}
		return nil
	}
	for _, id := range want {
		st, err := z.s.kind.get(ctx, z.s.client, id)
		if err != nil {
			return err
		}
		z.states[id] = st
	}
	return nil
}

func (z *sizer) item(ctx context.Context, ch change, was event.Size) (source.Item, error) {
	d := event.Data{Platform: TypeName, Account: z.s.account, Resource: z.s.resource(ch.id), Change: ch.change(), Sequence: ch.action}
	verb := ch.verb
	switch {
	case verb == source.VerbDelete:
		d.Size = was
		z.page[ch.id] = nil
	case verb == source.VerbCreate || sized(verb):
		if st := z.states[ch.id]; st != nil {
			d.Resource.Name, d.Region = st.name, st.region
		}
		size, err := z.after(ctx, ch)
		if err != nil {
			return source.Item{}, err
		}
		d.Size = size
		if verb != source.VerbCreate {
			d.PreviousSize = previous(was, size)
		}
		if verb == verbResize && z.s.kind.Type == event.Server {
			verb = direction(d.PreviousSize, size)
		}
		z.set(ch.id, size)
	}
	if ch.verb == source.VerbCreate || ch.verb == source.VerbDelete || sized(ch.verb) {
		d.UnknownSize = source.UnknownFields(TypeName, z.s.kind.Type, d.Size)
	}
	return source.Item{
		Ref:   source.Ref(refAction + strconv.FormatInt(ch.action, 10)),
		Event: event.New(z.s.kind.EventType(verb), ch.at, d),
	}, nil
}

// after is the size that a change has led to: that of the resource as it was read
// afterwards, unless anything has changed it since. Nothing means that nobody
// knows.
func (z *sizer) after(ctx context.Context, ch change) (event.Size, error) {
	st := z.states[ch.id]
	if st == nil || z.s.kind.silent {
		return nil, nil
	}
	// The list is read after the resource, so that no change falls in between.
	for page := 1; ; page++ {
		list, resp, err := z.s.kind.listFor(ctx, z.s.client, ch.id, hcloud.ActionListOpts{
			ListOpts: hcloud.ListOpts{Page: page, PerPage: perPage}, Sort: []string{"id:desc"}})
		if hcloud.IsError(err, hcloud.ErrorCodeNotFound) {
			return nil, nil // gone meanwhile: what happened before cannot be told
		}
		if err != nil {
			return nil, err
		}
		for _, a := range list {
			if a.ID <= ch.action {
				return maps.Clone(st.size), nil
			}
			if a.Status != hcloud.ActionStatusError && sized(z.s.kind.verbs[a.Command]) {
				return nil, nil
			}
		}
		if resp.Meta.Pagination == nil || resp.Meta.Pagination.NextPage == 0 {
			return maps.Clone(st.size), nil
		}
	}
}

// previous is the size before a change that has led to size. One that equals what
// came of the change was read too late, and says nothing.
func previous(was, size event.Size) event.Size {
	if len(was) == 0 || was.Equal(size) {
		return nil
	}
	return was
}

// direction tells an upgrade from a downgrade; what is larger in one respect and
// smaller in another goes by the first that differs.
func direction(was, size event.Size) string {
	for _, f := range []string{event.VCPUs, event.RAMGB, event.DiskGB} {
		a, b := was[f].Rat(), size[f].Rat()
		if a == nil || b == nil {
			return verbResize
		}
		switch b.Cmp(a) {
		case 1:
			return verbUpgrade
		case -1:
			return verbDowngrade
		}
	}
	return verbResize
}
