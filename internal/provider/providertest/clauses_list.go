package providertest

import (
	"fmt"
	"slices"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

func listClauses() []Clause {
	return []Clause{
		{
			ID: "PC-35", Slug: "list-managed-only", Section: secList,
			Title: "List returns what carries the managed mark and nothing else",
			Rule: "An instance without the managed mark is never listed. One with the mark is listed even when its uid is empty, and then with an " +
				"empty uid.",
			Why:   "A sweep deletes from this list: an unmarked instance on it is somebody's pet.",
			Needs: []Hook{HookPlace},
			check: func(e *env) {
				p, req := e.provider(), e.request()
				e.create(p, req)
				pet, nobody := "pet-"+e.run, "nobody-"+e.run
				e.place(pet, provider.Marks{}, false)
				e.place(nobody, provider.Marks{Installation: installation}, true)
				for _, sel := range []provider.Selector{{}, {Installation: installation}} {
					e.wantListed(p, sel, req.Name, nobody)
				}
				all, err := p.List(e.ctx(), provider.Selector{})
				if err != nil {
					e.Fatalf("list: %v", err)
				}
				for _, in := range all {
					if in.Name == nobody && in.Marks.UID != "" {
						e.Errorf("the instance without a uid is listed with %q", in.Marks.UID)
					}
				}
			},
		},
		{
			ID: "PC-36", Slug: "list-selectors", Section: secList,
			Title: "A selector narrows by each of its fields",
			Rule:  "List returns exactly the managed instances whose installation, uid, namespace and proxy equal the selector's fields, empty fields matching all.",
			Why:   "Two installations share accounts, and one must not see the other's instances as its own.",
			Needs: []Hook{HookPlace},
			check: func(e *env) {
				p, a, b := e.provider(), e.request(), e.request()
				b.Marks.Namespace = "kit-other"
				e.create(p, a)
				e.create(p, b)
				theirs := "theirs-" + e.run
				e.place(theirs, provider.Marks{UID: a.Marks.UID, Installation: otherInstallation, Namespace: namespace, Proxy: a.Marks.Proxy}, true)
				e.wantListed(p, provider.Selector{}, a.Name, b.Name, theirs)
				e.wantListed(p, provider.Selector{Installation: installation}, a.Name, b.Name)
				e.wantListed(p, provider.Selector{Installation: otherInstallation}, theirs)
				e.wantListed(p, provider.Selector{UID: a.Marks.UID}, a.Name, theirs)
				e.wantListed(p, provider.Selector{Installation: installation, Namespace: "kit-other"}, b.Name)
				e.wantListed(p, provider.Selector{Installation: installation, Proxy: a.Marks.Proxy}, a.Name)
				e.wantListed(p, provider.Selector{Installation: installation, UID: a.Marks.UID, Proxy: b.Marks.Proxy})
			},
		},
		{
			ID: "PC-37", Slug: "list-facts", Section: secList,
			Title: "A listed instance has the facts that Get has",
			Rule:  "List gives id, name, state, address, marks and creation time as Get does, and Get and Delete accept the id.",
			Why:   "Sweeps and drift rounds decide by the listing alone.",
			check: func(e *env) {
				p, req := e.provider(), e.request()
				id := e.create(p, req)
				want := e.waitState(p, id, provider.StateRunning)
				var got []provider.Instance
				e.eventually("the instance is listed", func() (bool, string) {
					var err error
					got, err = e.provider().List(e.ctx(), provider.Selector{UID: req.Marks.UID})
					return err == nil && len(got) == 1, fmt.Sprintf("%d listed, %v", len(got), err)
				})
				if got[0].ID != want.ID || got[0].Name != want.Name || got[0].State != want.State || got[0].IP != want.IP ||
					got[0].Marks != want.Marks || !got[0].CreatedAt.Equal(want.CreatedAt) {
					e.Errorf("listed %+v\n\tget gives %+v", got[0], want)
				}
				e.remove(p, got[0].ID)
			},
		},
		{
			ID: "PC-38", Slug: "list-every-page", Section: secList,
			Title: "List reads every page",
			Rule:  "With more instances than fit on two pages, List returns each exactly once.",
			Why:   "What is on a page that nobody read is taken for gone.",
			Needs: []Hook{HookPages},
			check: func(e *env) {
				p := e.provider()
				e.wantListed(p, provider.Selector{Installation: installation}, e.fill(p)...)
			},
		},
		{
			ID: "PC-39", Slug: "list-broken-page", Section: secList,
			Title: "A listing that breaks in the middle is an error, not a shorter list",
			Rule:  "When a page after the first cannot be read, List gives a Transient error and no instances.",
			Why:   "Live nodes have been deleted because a listing that failed half-way was taken for the whole.",
			Needs: []Hook{HookPages},
			check: func(e *env) {
				p := e.provider()
				e.fill(p)
				defer e.undo(e.b.(Pager).BreakPage(e, 2))()
				got, err := p.List(e.ctx(), provider.Selector{Installation: installation})
				e.wantClass("list with a broken page", err, provider.Transient)
				if len(got) > 0 {
					e.Errorf("%d instances beside the error", len(got))
				}
			},
		},
		{
			ID: "PC-40", Slug: "list-settles", Section: secList,
			Title: "A listing is behind by Settle at most",
			Rule: "While listings are behind, a new instance may be missing from List and nothing else may follow from it: Get still knows it and " +
				"a repeated Create finds it. After the profile's Settle, List shows it.",
			Why:   "A driver that looks for existing instances in a listing that is behind makes doubles.",
			Needs: []Hook{HookLag},
			check: func(e *env) {
				lag := e.b.(Lagger)
				lag.LagList(e, e.h.Settle/2)
				e.undo(func() { lag.LagList(e, 0) })
				p, req := e.provider(), e.request()
				start := time.Now()
				id := e.create(p, req)
				created := time.Now()
				if again := e.create(e.provider(), req); again != id {
					e.Errorf("a repeated create while listings are behind gives %q, want %q", again, id)
				}
				e.wantInstances(req.Name, 1)
				e.get(p, id)
				e.eventually("the instance is listed", func() (bool, string) {
					all, err := p.List(e.ctx(), provider.Selector{UID: req.Marks.UID})
					if listed := err == nil && len(all) == 1; listed || time.Since(created) < e.h.Settle+e.h.Prompt {
						return listed, fmt.Sprintf("%d listed, %v", len(all), err)
					}
					e.Fatalf("not listed %v after its create: %d listed, %v", time.Since(start), len(all), err)
					return false, ""
				})
			},
		},
	}
}

// fill makes instances for more than two pages and returns their names.
func (e *env) fill(p provider.Provider) []string {
	e.Helper()
	n := 2*e.b.(Pager).PageSize(e) + 1
	names := make([]string, n)
	for i := range names {
		req := e.request()
		e.create(p, req)
		names[i] = req.Name
	}
	return names
}

// wantListed waits until List gives exactly these names, each once.
func (e *env) wantListed(p provider.Provider, sel provider.Selector, want ...string) {
	e.Helper()
	slices.Sort(want)
	deadline := time.Now().Add(e.h.Settle + e.h.Prompt)
	for {
		got := []string{}
		all, err := p.List(e.ctx(), sel)
		for _, in := range all {
			got = append(got, in.Name)
		}
		slices.Sort(got)
		if err == nil && slices.Equal(got, want) {
			return
		}
		if time.Now().After(deadline) {
			e.Errorf("list %+v gives %v, %v; want %v", sel, got, err, want)
			return
		}
		e.pause(e.h.Poll)
	}
}
