package sourcetest

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// Clauses returns the contract.
func Clauses() []Clause {
	return slices.Concat(readClauses(), crashClauses(), feedClauses(), errorClauses(), listClauses(), partClauses(), goneClauses())
}

func readClauses() []Clause {
	return []Clause{
		{
			ID: "SC-01", Slug: "empty", Title: "An empty feed is caught up",
			Rule: "Next from the empty cursor of an empty feed gives no events, a cursor, and CaughtUp. What happens later is read from there.",
			Why:  "A reader that takes an empty page for the end, or for an error, stops.",
			check: func(e *env) {
				r := e.reader()
				if p := r.page(); len(p.Items)+len(p.Rejected) > 0 || !p.CaughtUp || p.Gap != nil {
					e.Errorf("an empty feed gives %+v", p)
				}
				r.page()
				ids := e.changes(1)
				r.until(ids)
				r.want(ids, true)
			},
		},
		{
			ID: "SC-02", Slug: "everything-once", Title: "Everything is read, each event once",
			Rule: "Read from page to page, a feed of several pages gives every event exactly once, however often it is looked at again.",
			Why:  "A change that is not read is never billed; one read for ever again is work for ever.",
			check: func(e *env) {
				ids := e.changes(3*e.b.PageSize(e) + 1)
				r := e.reader()
				r.until(ids)
				r.drain()
				more := e.changes(e.b.PageSize(e) + 1)
				r.until(more)
				for range 3 {
					r.drain()
				}
				r.want(append(ids, more...), true)
			},
		},
		{
			ID: "SC-03", Slug: "cursor-round-trip", Title: "Cursors outlive the process",
			Rule: "A cursor that was stored as JSON is read by a source that was built anew, and goes on where it was.",
			Why:  "Workers are replaced at any time, and the next page may be read by any of them.",
			check: func(e *env) {
				ids := e.changes(2*e.b.PageSize(e) + 1)
				r := e.reader()
				for range maxPages {
					if r.page().CaughtUp && len(r.missing(ids)) == 0 {
						break
					}
					r.s = e.open()
				}
				r.s = e.open()
				r.drain()
				r.want(ids, true)
			},
		},
		{
			ID: "SC-04", Slug: "caught-up", Title: "CaughtUp is true when it is, and only then",
			Rule: "A page with CaughtUp has everything that was finished before it was read. UpTo is never later than the time of the read.",
			Why:  "Lag and alarms rest on it.",
			check: func(e *env) {
				ids := e.changes(2*e.b.PageSize(e) + 1)
				r := e.reader()
				r.drain()
				if m := r.missing(ids); len(m) > 0 {
					e.Errorf("caught up with %d of %d events missing", len(m), len(ids))
				}
				if up := r.last.UpTo; up.IsZero() || time.Until(up) > time.Minute {
					e.Errorf("caught up to %v", up)
				}
			},
		},
		{
			ID: "SC-05", Slug: "seek", Title: "Seek finds a time again",
			Rule: "From Seek(t), everything that finished at t or later is read. Nothing that was read before gets another id.",
			Why:  "Rewinding and backfilling are how people repair what went wrong.",
			check: func(e *env) {
				before := e.changes(e.b.PageSize(e))
				r := e.reader()
				r.until(before)
				end := e.latest(r.s, before)
				after := e.changes(e.b.PageSize(e) + 1)
				for _, from := range []struct {
					t    time.Time
					want []string
				}{{end, after}, {time.Unix(0, 0), append(slices.Clone(before), after...)}} {
					c, err := r.s.Seek(e.ctx(), from.t)
					if err != nil {
						e.Fatalf("seek: %v", err)
					}
					again := e.reader()
					again.c = c
					again.until(from.want)
					if m := again.missing(from.want); len(m) > 0 {
						e.Errorf("from %v on, %d events are missing: %s", from.t, len(m), some(m))
					}
					for id := range again.got {
						if !slices.Contains(before, id) && !slices.Contains(after, id) {
							e.Errorf("from %v on, there is an event that nobody caused: %s", from.t, id)
						}
					}
				}
			},
		},
		{
			ID: "SC-06", Slug: "derive", Title: "A reference leads back to the event",
			Rule: "Derive with an item's reference gives an event of the same id. A reference that nobody made is refused.",
			Why:  "What could not be delivered is kept as a reference only.",
			check: func(e *env) {
				r := e.reader()
				ids := e.changes(3)
				r.until(ids)
				for _, id := range ids {
					items, err := e.open().Derive(e.ctx(), e.refs[id])
					if err != nil || !slices.ContainsFunc(items, func(i source.Item) bool { return i.Event.ID == id }) {
						e.Errorf("derive %s from %q: %d events, %v", id, e.refs[id], len(items), err)
					}
				}
				_, err := r.s.Derive(e.ctx(), "no such reference")
				e.wantClass("derive from nonsense", err, provider.Permanent)
			},
		},
		{
			ID: "SC-07", Slug: "bad-cursor", Title: "A strange cursor is refused",
			Rule: "Next with a cursor that the source did not make is Permanent with ReasonBadCursor.",
			Why:  "Taken for the beginning, it would read years again; taken for the end, it would skip them.",
			check: func(e *env) {
				e.changes(1)
				for _, c := range []source.Cursor{"nonsense", "{}", "bm90IGpzb24"} {
					_, err := e.open().Next(e.ctx(), c)
					e.wantClass("next from "+string(c), err, provider.Permanent)
					if err != nil && provider.ReasonOf(err) != source.ReasonBadCursor {
						e.Errorf("next from %q: reason %q, want %s", c, provider.ReasonOf(err), source.ReasonBadCursor)
					}
				}
			},
		},
	}
}

// latest is the time of the latest of these events.
func (e *env) latest(s source.Source, ids []string) (out time.Time) {
	e.Helper()
	for _, id := range ids {
		items, err := s.Derive(e.ctx(), e.refs[id])
		if err != nil {
			e.Fatalf("derive %s: %v", id, err)
		}
		for _, i := range items {
			if i.Event.Time.After(out) {
				out = i.Event.Time
			}
		}
	}
	return out
}

func crashClauses() []Clause {
	return []Clause{
		{
			ID: "SC-08", Slug: "read-again", Title: "A page can be read again",
			Rule: "The page behind a cursor gives the same ids however often it is read, by a source that was built anew as well.",
			Why:  "A worker that dies after the delivery and before the cursor was stored costs a repetition, and repetitions are recognized by their ids.",
			check: func(e *env) {
				ids := e.changes(2*e.b.PageSize(e) + 1)
				r := e.reader()
				for range maxPages {
					one := e.next(r.s, r.c)
					two := e.next(e.open(), r.c)
					if a, b := idsOf(one), idsOf(two); !subset(a, b) {
						e.Errorf("a page read twice: %s, then %s", some(a), some(b))
					}
					r.take(two)
					if r.c = two.Next; two.CaughtUp && len(r.missing(ids)) == 0 {
						break
					}
				}
				r.want(ids, true)
			},
		},
		{
			ID: "SC-09", Slug: "crash-anywhere", Title: "Crashes lose nothing",
			Rule:  "While changes begin, end and are read, the reader may lose its page and its process at any point: in the end it has every event and no other.",
			Why:   "This is the promise of the whole.",
			Needs: []Hook{HookBegin},
			check: func(e *env) {
				rng := rand.New(rand.NewPCG(rand.Uint64(), 1))
				r := e.reader()
				var ids []string
				var open []func() []string
				for range 60 {
					switch rng.IntN(6) {
					case 0:
						ids = append(ids, e.changes(1+rng.IntN(e.b.PageSize(e)))...)
					case 1:
						if len(open) < 10 {
							open = append(open, e.b.(Starter).Begin(e))
						}
					case 2:
						if n := len(open); n > 0 {
							i := rng.IntN(n)
							ids = append(ids, open[i]()...)
							open = slices.Delete(open, i, i+1)
						}
					case 3: // delivered, and died before the cursor was stored
						r.take(e.next(r.s, r.c))
						r.s = e.open()
					case 4:
						r.s = e.open()
					default:
						r.page()
					}
				}
				for _, finish := range open {
					ids = append(ids, finish()...)
				}
				r.until(ids)
				r.want(ids, false)
			},
		},
	}
}

func idsOf(p source.Page) []string {
	ids := make([]string, 0, len(p.Items))
	for _, i := range p.Items {
		ids = append(ids, i.Event.ID)
	}
	return ids
}

// subset reports whether all of a are in b.
func subset(a, b []string) bool {
	return !slices.ContainsFunc(a, func(id string) bool { return !slices.Contains(b, id) })
}
