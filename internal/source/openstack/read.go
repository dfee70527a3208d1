package openstack

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloud"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
)

const (
	// pagesPerRead is how many pages of a region one read takes at the most.
	pagesPerRead = 4
	// freshFor is how long ago a sweep may have begun to count as caught up: a sweep
	// of many pages shows nothing of what came up behind it meanwhile.
	freshFor = 2 * time.Minute
	// markerTries is how often a sweep is begun anew because the entry that the next
	// page begins after is gone.
	markerTries = 4
)

// Source reads the feed of one kind. It is safe for concurrent use.
type Source struct {
	name, account string
	o             Options
	kind          spec
	cloud         *cloud.Cloud
	known         source.Known
	open          source.Open
	now           func() time.Time
	pages         int
	log           *slog.Logger

	sizes    sizeMemory
	troubles troubles
	blind    sync.Once // it was said that cells cannot be seen
}

var (
	_ source.Source = (*Source)(nil)
	_ source.Lister = (*Source)(nil)
)

// spec is one kind of resource.
type spec struct {
	source.Kind
	// path is the collection, and key what its entries are under.
	path, key string
	client    func(*cloud.Region) *gophercloud.ServiceClient
	// all is the query for everything, and changed what narrows it to what has changed
	// since a time, nil where nothing does.
	all     func(allProjects bool, project string) url.Values
	changed func(q url.Values, from time.Time)
	// adrift reports whether an entry has no place in the order yet: no page can begin
	// after it. Nil means that all have one.
	adrift func(raw json.RawMessage) bool
	// take makes events of a page of the feed.
	take func(ctx context.Context, r *reading, entries []entry) error
	// reopen looks at an unfinished entry that the feed has not shown. Gone means that
	// the cloud has forgotten it.
	reopen func(ctx context.Context, r *reading, id string) (gone bool, err error)
	// forgot reports whether an entry that was read is gone for good; nil for kinds
	// that leave nothing behind.
	forgot func(ctx context.Context, r *reading, id string) (bool, error)
	// derive makes the events of a resource again.
	derive func(ctx context.Context, r *reading, id string) error
	// find looks for a resource by its id, and says which project it is of if it is
	// there.
	find func(ctx context.Context, r *reading, id string) (project string, there bool, err error)
	// existing reads an entry of a listing.
	existing func(raw json.RawMessage) (x source.Existing, project string)
}

// entry is an entry of a feed.
type entry struct {
	id  string
	raw json.RawMessage
}

// reading is one read of the feed of a region.
type reading struct {
	s      *Source
	region *cloud.Region
	at     *place
	w      *walk
	out    *source.Page
	begun  time.Time
	sizes  map[sizeKey]event.Size // that it has seen
	// shown are the entries that this read has seen, held says that the sweep does not
	// count as one.
	shown map[string]bool
	held  bool
	// all takes whatever there is, said or not.
	all bool
}

// Next implements source.Source. All regions are read at once. One that cannot be
// read is left where it was, and said to be broken; it holds up no other.
func (s *Source) Next(ctx context.Context, c source.Cursor) (source.Page, error) {
	p, err := s.decode(source.OpNext, c)
	if err != nil {
		return source.Page{}, err
	}
	ctx = provider.ContextWithOp(ctx, source.OpNext)
	s.sizes.commit(c)
	regions := s.regions()
	for _, name := range regions {
		if p.Regions[name] == nil {
			p.Regions[name] = &place{Since: p.Since}
		}
	}
	parts := s.parts(ctx, p, regions)
	if err := ctx.Err(); err != nil {
		return source.Page{}, s.wrap(ctx, source.OpNext, err)
	}
	out, sizes := source.Page{CaughtUp: true}, map[sizeKey]event.Size{}
	for i, name := range regions {
		if err := parts[i].err; err != nil {
			out.Broken = append(out.Broken, source.Broken{Part: name, Err: s.wrap(ctx, source.OpNext, err)})
		} else {
			p.Regions[name] = parts[i].at
			maps.Copy(sizes, parts[i].sizes)
			join(&out, parts[i].out)
		}
		at := p.Regions[name]
		if i == 0 || at.AsOf.Before(out.UpTo) {
			out.UpTo = at.AsOf
		}
		out.Pending += len(at.Open)
	}
	if len(out.Broken) == len(regions) {
		return source.Page{}, out.Broken[0].Err
	}
	slices.SortStableFunc(out.Items, func(a, b source.Item) int { return a.Event.Time.Compare(b.Event.Time) })
	out.Next = p.encode(len(regions))
	s.sizes.stage(out.Next, sizes)
	return out, nil
}

// regions are the configured ones; "" is the default of a configuration that names
// none.
func (s *Source) regions() []string {
	if len(s.o.Regions) == 0 {
		return []string{""}
	}
	return s.o.Regions
}

func (s *Source) reading(ctx context.Context, name string, at *place, out *source.Page) (*reading, error) {
	region, err := s.at(ctx, name)
	if err != nil {
		return nil, err
	}
	return &reading{s: s, region: region, at: at, out: out, begun: s.now().UTC(), shown: map[string]bool{},
		sizes: map[sizeKey]event.Size{}}, nil
}

// sweep reads on in the sweep that is under way, or begins one.
func (r *reading) sweep(ctx context.Context) error {
	r.w = r.at.Walk
	if r.w == nil {
		if err := r.s.mayReadAll(ctx, r.region); err != nil {
			return err
		}
		r.w = &walk{Begun: r.begun}
		if !r.at.Since.IsZero() {
			r.w.From = r.at.Since.Add(-r.s.o.Overlap)
		}
		r.at.Walk = r.w
	}
	tries := 0
	for n := 0; n < r.s.pages; {
		p, err := r.page(ctx)
		if err != nil {
			if tries++; r.w.Marker != "" && cloud.BadMarker(err, r.w.Marker) && tries < markerTries {
				r.w.Marker = ""
				continue
			}
			return err
		}
		if r.w.Began.IsZero() {
			again, err := r.begin(ctx, p.Date)
			if err != nil {
				return err
			}
			if again {
				continue
			}
		}
		if err := r.take(ctx, p); err != nil {
			return err
		}
		if n++; !p.More {
			return r.end(ctx)
		}
	}
	r.out.CaughtUp = false
	return nil
}

func (r *reading) page(ctx context.Context) (cloud.Page, error) {
	q, err := r.s.query(ctx)
	if err != nil {
		return cloud.Page{}, err
	}
	q.Set("limit", strconv.Itoa(r.s.o.PageSize))
	if r.w.Marker != "" {
		q.Set("marker", r.w.Marker)
	}
	k := r.s.kind
	if k.changed != nil {
		k.changed(q, r.w.From)
	}
	p, err := cloud.ReadPage(ctx, k.client(r.region), k.path, k.key, q)
	return p, r.s.refused(source.OpNext, err)
}

// query asks for everything of the account.
func (s *Source) query(ctx context.Context) (url.Values, error) {
	session, err := s.cloud.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return s.kind.all(s.o.AllProjects, session.Project), nil
}

// begin notes when the sweep began by the cloud's clock. When that has been set
// back, or forth after changes were made by the old one, the sweep begins anew as
// much earlier. Again says that it does.
func (r *reading) begin(ctx context.Context, date time.Time) (again bool, err error) {
	if r.w.Began = date; date.IsZero() {
		r.w.Began = r.w.Begun
	}
	if r.at.AsOf.IsZero() {
		return false, nil
	}
	away := max(0, r.w.Begun.Sub(r.at.AsOf))
	if away >= r.s.o.GapAfter && r.at.Witness != "" && r.s.kind.forgot != nil {
		if r.w.Forgot, err = r.s.kind.forgot(ctx, r, r.at.Witness); err != nil {
			r.w.Began = time.Time{}
			return false, err
		}
	}
	if since := r.w.Began.Add(-away); since.Before(r.at.Since.Add(-r.s.o.Overlap / 2)) {
		r.w.From = since.Add(-r.s.o.Overlap)
		return true, nil
	}
	return false, nil
}

func (r *reading) take(ctx context.Context, p cloud.Page) error {
	var entries []entry
	for i, id := range p.IDs {
		if id == "" {
			r.reject("", "an entry without an id: "+string(r.s.kind.Type))
			continue
		}
		if !r.shown[id] {
			r.shown[id] = true
			entries = append(entries, entry{id, p.Entries[i]})
		}
		if drifts := r.s.kind.adrift; drifts == nil || !drifts(p.Entries[i]) {
			r.w.Marker = id
		} else if p.More && i == len(p.IDs)-1 {
			r.w.Marker, r.held = id, true
		}
	}
	return r.s.kind.take(ctx, r, entries)
}

// end ends the sweep.
func (r *reading) end(ctx context.Context) error {
	for _, id := range slices.Clone(r.at.Open) {
		if r.shown[id] {
			continue
		}
		gone, err := r.s.kind.reopen(ctx, r, id)
		if err != nil {
			return err
		}
		if gone {
			r.close(id)
			r.reject(id, "it vanished before it was done: nobody knows what became of it")
		}
	}
	if r.s.kind.Type == event.Server {
		down, err := r.s.downCells(ctx, r.region)
		if err != nil {
			return err
		}
		if down > 0 {
			r.held = true
			r.s.log.WarnContext(ctx, "the compute service leaves out servers of cells that it cannot reach", "region", r.region.Name, "servers", down)
		}
	}
	if r.w.Forgot {
		from, to := r.at.Since, r.w.Began
		if r.w.Oldest.After(from) {
			to = r.w.Oldest
		}
		if from.Before(to) {
			r.gap(source.Gap{From: from, To: to})
		}
		r.at.Witness = ""
	} else if err := r.prove(ctx); err != nil {
		return err
	}
	if !r.held {
		r.at.Since, r.at.AsOf = r.w.Began, r.w.Begun
		r.at.Seen.forget(r.w.Begun.Add(-r.s.o.Overlap))
	}
	r.at.Walk = nil
	if r.s.now().Sub(r.w.Begun) > freshFor {
		r.out.CaughtUp = false
	}
	return nil
}

// prove looks for the witness from time to time: what is forgotten while nobody is
// away was read before.
func (r *reading) prove(ctx context.Context) error {
	if r.s.kind.forgot == nil || r.at.Witness == "" || r.begun.Sub(r.at.Proved) < r.s.o.GapAfter {
		return nil
	}
	gone, err := r.s.kind.forgot(ctx, r, r.at.Witness)
	switch {
	case err != nil:
		return err
	case gone:
		r.at.Witness = ""
	default:
		r.at.Proved = r.begun
	}
	return nil
}

func (r *reading) gap(g source.Gap) { r.out.Gap = widest(r.out.Gap, &g) }

// hold keeps an entry in mind until it is done. When there is no room the sweep
// does not count: the next one finds the entry again.
func (r *reading) hold(id string) {
	switch {
	case slices.Contains(r.at.Open, id):
	case len(r.at.Open) >= maxOpen/max(1, len(r.s.regions())):
		r.held = true
	default:
		r.at.Open = append(r.at.Open, id)
	}
}

func (r *reading) isOpen(id string) bool { return slices.Contains(r.at.Open, id) }

func (r *reading) close(id string) {
	r.at.Open = slices.DeleteFunc(r.at.Open, func(o string) bool { return o == id })
}
