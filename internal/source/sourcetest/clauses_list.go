package sourcetest

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// Keeper says what exists; it is for streams that can list (source.Lister).
type Keeper interface {
	// Exists are the ids of the stream's resources that exist.
	Exists(tb testing.TB) []string
	// Remove removes the oldest resource that there is.
	Remove(tb testing.TB)
}

// Spoiler has resources of which the platform leaves out what it can.
type Spoiler interface {
	// Spoil makes the platform leave out, or fill with nothing, every optional part
	// of the oldest resource.
	Spoil(tb testing.TB)
}

func listClauses() []Clause {
	return []Clause{
		{
			ID: "SC-21", Slug: "list-everything", Title: "A listing has everything, each once",
			Rule:  "List gives every resource that exists, all pages, each once, with the account of its events; what is deleted is no longer in it. At is when the listing began, by our clock.",
			Why:   "Whatever a listing lacks is taken for deleted.",
			Needs: []Hook{HookList},
			check: func(e *env) {
				l := e.lister()
				e.wantListed(e.list(l), nil)
				e.changes(3*e.b.PageSize(e) + 1)
				before := time.Now()
				s := e.list(l)
				e.wantListed(s, nil)
				if s.At.Before(before.Add(-time.Second)) || s.At.After(time.Now().Add(time.Second)) {
					e.Errorf("the listing began at %v by its own word, and not before %v by our clock", s.At, before)
				}
				e.b.(Keeper).Remove(e)
				e.wantListed(e.list(l), nil)
			},
		},
		{
			ID: "SC-22", Slug: "list-cut", Title: "A listing that is cut short is an error",
			Rule:  "When one of its pages cannot be read, List gives an error of the right class and no resources, whichever page it is. It works again afterwards.",
			Why:   "Taken for the whole, it would end everything on the pages that it lacks.",
			Needs: []Hook{HookList, HookFail},
			check: func(e *env) {
				e.changes(3*e.b.PageSize(e) + 1)
				l := e.lister()
				for kind, class := range map[FaultKind]provider.Class{
					FaultUnauthorized: provider.Permanent, FaultThrottled: provider.RateLimited,
					FaultInternal: provider.Transient, FaultTruncated: provider.Transient,
				} {
					for page := 1; page <= 3; page++ {
						heal := e.b.(Faulter).Fail(e, kind, page, e.cred)
						s, err := l.List(e.ctx())
						heal()
						e.wantClass("list with "+string(kind), err, class)
						if len(s.Resources) > 0 {
							e.Errorf("%s at page %d: %d resources beside the error", kind, page, len(s.Resources))
						}
						if err != nil {
							e.wantQuiet("the error", err.Error())
						}
					}
				}
				e.wantListed(e.list(l), nil)
			},
		},
		{
			ID: "SC-23", Slug: "list-shift", Title: "A listing misses nothing that is there all the time",
			Rule:  "While resources are made and deleted in the middle of a listing, what exists before and after it is in it, once.",
			Why:   "Pages by number move up when something is deleted, and the first entry of the next page is never seen.",
			Needs: []Hook{HookList, HookDuring},
			check: func(e *env) {
				l := e.lister()
				e.changes(4*e.b.PageSize(e) + 1)
				for range 4 {
					var mu sync.Mutex
					var moving []string
					e.b.(Interposer).During(e, func() {
						was := e.b.(Keeper).Exists(e)
						e.b.(Keeper).Remove(e)
						e.changes(1)
						now := e.b.(Keeper).Exists(e)
						mu.Lock()
						defer mu.Unlock()
						moving = append(moving, without(was, now)...)
						moving = append(moving, without(now, was)...)
					})
					s := e.list(l)
					mu.Lock()
					e.wantListed(s, moving)
					mu.Unlock()
				}
			},
		},
		{
			ID: "SC-24", Slug: "list-agrees", Title: "Listings and events speak of the same things",
			Rule:  "A resource that is listed has the account, the type and the id of its events, and, while nothing has changed it, their size and region.",
			Why:   "The two are compared: what differs is repaired with an event.",
			Needs: []Hook{HookList},
			check: func(e *env) {
				ids := e.changes(e.b.PageSize(e) + 1)
				r := e.reader()
				r.until(ids)
				created := map[event.Resource]event.Event{}
				for _, id := range ids {
					items, err := r.s.Derive(e.ctx(), e.refs[id])
					if err != nil {
						e.Fatalf("derive %s: %v", id, err)
					}
					for _, i := range items {
						if i.Event.Type.Effect() == event.Opens {
							created[event.Resource{Type: i.Event.Data.Resource.Type, ID: i.Event.Data.Resource.ID}] = i.Event
						}
					}
				}
				for _, x := range e.list(e.lister()).Resources {
					key := event.Resource{Type: x.Resource.Type, ID: x.Resource.ID}
					c, ok := created[key]
					if !ok {
						continue // made by something else than these changes
					}
					delete(created, key)
					d := c.Data
					if x.Account != d.Account || x.Region != d.Region || len(d.UnknownSize) == 0 && !x.Size.Equal(d.Size) {
						e.Errorf("%s %s is listed with account %q, region %q and size %v, its event says %q, %q and %v",
							key.Type, key.ID, x.Account, x.Region, x.Size, d.Account, d.Region, d.Size)
					}
				}
				for key := range created {
					e.Errorf("%s %s has events and is not listed", key.Type, key.ID)
				}
			},
		},
		{
			ID: "SC-25", Slug: "list-odd", Title: "An odd resource takes none with it",
			Rule:  "A resource of which the platform leaves out every optional part is listed all the same, with what there is, and so are all others.",
			Why:   "Vendors drop fields; a listing that trips over one stops every clean-up, and one that skips it ends it.",
			Needs: []Hook{HookSpoil},
			check: func(e *env) {
				e.changes(e.b.PageSize(e) + 1)
				e.b.(Spoiler).Spoil(e)
				e.wantListed(e.list(e.lister()), nil)
			},
		},
	}
}

func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(id string) bool { return slices.Contains(b, id) })
}

func (e *env) lister() source.Lister {
	e.Helper()
	l, ok := e.open().(source.Lister)
	if !ok {
		e.Fatalf("the source is no source.Lister")
	}
	return l
}

// list makes a listing that must succeed.
func (e *env) list(l source.Lister) source.Snapshot {
	e.Helper()
	s, err := l.List(e.ctx())
	if err != nil {
		e.Fatalf("list: %v", err)
	}
	if len(s.Unreadable) > 0 {
		e.Errorf("unreadable: %v", s.Unreadable)
	}
	return s
}

// wantListed checks that exactly what exists is listed. Either is right of what
// was moving meanwhile.
func (e *env) wantListed(s source.Snapshot, moving []string) {
	e.Helper()
	got := map[string]int{}
	for _, x := range s.Resources {
		if got[x.Resource.ID]++; got[x.Resource.ID] > 1 {
			e.Errorf("%s is listed %d times", x.Resource.ID, got[x.Resource.ID])
		}
		if x.Account != Account && !strings.HasPrefix(x.Account, Account+"/") {
			e.Errorf("%s is listed with account %q, want %q or a part of it", x.Resource.ID, x.Account, Account)
		}
		if !slices.ContainsFunc(e.h.Type.Kinds, func(k source.Kind) bool { return k.Type == x.Resource.Type }) {
			e.Errorf("%s is listed as a %q, which is no kind of the source", x.Resource.ID, x.Resource.Type)
		}
		for f := range x.Size {
			if !event.Takes(e.h.Type.Platform(), x.Resource.Type, f) {
				e.Errorf("%s is listed with %s, which is no size field", x.Resource.ID, f)
			}
		}
	}
	exists := e.b.(Keeper).Exists(e)
	var lost, strange []string
	for _, id := range exists {
		if got[id] == 0 && !slices.Contains(moving, id) {
			lost = append(lost, id)
		}
	}
	for id := range got {
		if !slices.Contains(exists, id) && !slices.Contains(moving, id) {
			strange = append(strange, id)
		}
	}
	if len(lost) > 0 {
		e.Errorf("%d of %d resources are not listed: %s", len(lost), len(exists), some(lost))
	}
	if len(strange) > 0 {
		e.Errorf("%d resources are listed that do not exist: %s", len(strange), some(strange))
	}
}
