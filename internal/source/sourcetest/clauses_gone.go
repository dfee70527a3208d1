package sourcetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// Hider leaves out of lists what is there; it is for streams that can be asked about
// one resource (source.Confirmer). Its faults are those of that question, too.
type Hider interface {
	// Hide leaves the oldest resource out of all lists until show is called. It is
	// there all the same, and the platform says so of its id.
	Hide(tb testing.TB) (show func())
}

func goneClauses() []Clause {
	return []Clause{
		{
			ID: "SC-31", Slug: "gone", Title: "Gone is what was deleted, and nothing that is there",
			Rule:  "Gone is false for what exists, also when it is in no list, and true for what was deleted; both by the account, region and resource that a listing gave, and from a source that was built anew.",
			Why:   "Services leave out of lists what they still know by its id, and the inventory ends what is gone.",
			Needs: []Hook{HookList, HookHide},
			check: checkGone,
		},
		{
			ID: "SC-32", Slug: "gone-unclear", Title: "An answer that fails, or is unclear, is never gone",
			Rule:  "When the question fails, Gone is an error of the right class, without the credential, and never true: of what is there, and of what was deleted. A 404 that is not the platform's own, and an answer that does not speak of the resource, are such failures. The right answer comes afterwards.",
			Why:   "In an outage of the platform everything would end.",
			Needs: []Hook{HookList, HookHide, HookFail},
			check: checkGoneUnclear,
		},
		{
			ID: "SC-33", Slug: "gone-context", Title: "A cut-off question returns",
			Rule:  "Gone returns promptly once its context has ended, with a Transient error and never true, and can be asked again.",
			Why:   "A worker that stops waits for its activities.",
			Needs: []Hook{HookList, HookHide, HookHang},
			check: checkGoneContext,
		},
		{
			ID: "SC-34", Slug: "gone-part", Title: "What is in a broken part is not gone",
			Rule:  "While a part of the feed cannot be asked, Gone is an error for what is in it, and still right for what is in the others. Asked without a region, or in one that the source does not have, it never says gone of what is in any part, and without a region not while one cannot be asked.",
			Why:   "A part that was asked for what is in another knows nothing of it.",
			Needs: []Hook{HookList, HookHide, HookParts},
			check: checkGonePart,
		},
		{
			ID: "SC-35", Slug: "gone-concurrency", Title: "Many may be asked for at once",
			Rule:  "Gone, asked for many resources at once while the source reads and lists, answers each for itself.",
			Why:   "The inventory asks for several at the same time.",
			Needs: []Hook{HookList, HookHide},
			check: checkGoneConcurrency,
		},
	}
}

// asked is a source whose resources can be asked for.
type asked struct {
	source.Lister
	source.Confirmer
}

func (e *env) confirmer() asked {
	e.Helper()
	s := e.open()
	c, ok := s.(source.Confirmer)
	l, lists := s.(source.Lister)
	if !ok || !lists {
		e.Fatalf("the source is no source.Confirmer that lists")
	}
	return asked{l, c}
}

func (e *env) gone(c asked, x source.Existing) (bool, error) {
	return c.Gone(e.ctx(), x.Account, x.Region, x.Resource)
}

// wantGone asks for everything that was listed: gone is what has one of these ids.
func (e *env) wantGone(when string, c asked, was []source.Existing, ids ...string) {
	e.Helper()
	for _, x := range was {
		want := slices.Contains(ids, x.Resource.ID)
		if got, err := e.gone(c, x); err != nil || got != want {
			e.Errorf("%s, gone of %s: %v, %v; want %v", when, x.Resource.ID, got, err, want)
		}
	}
}

// remove removes so many resources and returns their ids.
func (e *env) remove(n int) []string {
	e.Helper()
	was := e.b.(Keeper).Exists(e)
	for range n {
		e.b.(Keeper).Remove(e)
	}
	return without(was, e.b.(Keeper).Exists(e))
}

func idsListed(list []source.Existing) (ids []string) {
	for _, x := range list {
		ids = append(ids, x.Resource.ID)
	}
	return ids
}

func checkGone(e *env) {
	e.changes(e.b.PageSize(e) + 1)
	c := e.confirmer()
	was := e.list(c).Resources
	if len(was) == 0 {
		e.Fatalf("nothing is listed")
	}
	e.wantGone("while all are there", c, was)
	show := e.b.(Hider).Hide(e)
	hidden := without(idsListed(was), idsListed(e.list(c).Resources))
	if len(hidden) != 1 {
		e.Fatalf("the lists leave out %d resources, want the one that is hidden", len(hidden))
	}
	e.wantGone("while "+hidden[0]+" is in no list", c, was)
	e.wantGone("while "+hidden[0]+" is in no list, by a source that was built anew", e.confirmer(), was)
	show()
	removed := e.remove(2)
	e.wantGone("after a deletion", c, was, removed...)
	e.wantGone("after a deletion, by a source that was built anew", e.confirmer(), was, removed...)
}

func checkGoneUnclear(e *env) {
	e.changes(3)
	c := e.confirmer()
	was := e.list(c).Resources
	removed := e.remove(1)
	for _, kind := range []FaultKind{FaultUnauthorized, FaultThrottled, FaultInternal, FaultTruncated, FaultGateway, FaultBlank} {
		for _, x := range was {
			heal := e.b.(Faulter).Fail(e, kind, 1, e.cred)
			got, err := e.gone(c, x)
			heal()
			what := fmt.Sprintf("gone of %s with %s", x.Resource.ID, kind)
			if got {
				e.Errorf("%s: true", what)
			}
			if class, ok := faults()[kind]; ok {
				e.wantClass(what, err, class)
			} else if err == nil {
				e.Errorf("%s: no error", what)
			}
			e.wantQuiet("the error", fmt.Sprintf("%v %+v", err, err))
			// A question of several requests that fails at the second.
			heal = e.b.(Faulter).Fail(e, kind, 2, e.cred)
			got, err = e.gone(c, x)
			heal()
			if got && (err != nil || !slices.Contains(removed, x.Resource.ID)) {
				e.Errorf("%s at the second request: true, %v", what, err)
			}
		}
		e.wantGone("after "+string(kind), c, was, removed...)
	}
	e.wantQuiet("the log", e.logs.String())
}

func checkGoneContext(e *env) {
	e.changes(2)
	c := e.confirmer()
	was := e.list(c).Resources
	removed := e.remove(1)
	release := e.b.(Hanger).Hang(e)
	for _, x := range was {
		ctx, cancel := context.WithTimeoutCause(e.ctx(), 20*time.Millisecond, errors.New("enough"))
		type result struct {
			gone bool
			err  error
		}
		done := make(chan result, 1)
		go func() {
			got, err := c.Gone(ctx, x.Account, x.Region, x.Resource)
			done <- result{got, err}
		}()
		var got result
		select {
		case got = <-done:
		case <-time.After(20*time.Millisecond + e.h.Prompt):
			e.Errorf("gone did not return within %v of its deadline", e.h.Prompt)
			release()
			got = <-done
		}
		cancel()
		e.wantClass("gone with a deadline", got.err, provider.Transient)
		if got.gone {
			e.Errorf("gone of %s, which nobody has answered: true", x.Resource.ID)
		}
	}
	release()
	e.wantGone("afterwards", c, was, removed...)
}

func checkGonePart(e *env) {
	d, parts := e.parts()
	c := e.confirmer()
	in := map[string][]source.Existing{}
	var was []source.Existing
	for _, part := range parts {
		e.changesIn(2, part)
		now := e.list(c).Resources
		for _, x := range now {
			if !slices.Contains(idsListed(was), x.Resource.ID) {
				in[part] = append(in[part], x)
			}
		}
		was = now
	}
	never := func(when string, list []source.Existing, region string) {
		e.Helper()
		for _, x := range list {
			if got, err := c.Gone(e.ctx(), x.Account, region, x.Resource); got {
				e.Errorf("%s, gone of %s in region %q: true, %v", when, x.Resource.ID, region, err)
			}
		}
	}
	removed := []string{}
	for range 2 {
		there := slices.DeleteFunc(slices.Clone(was), func(x source.Existing) bool { return slices.Contains(removed, x.Resource.ID) })
		never("while no part is broken", there, "")
		never("while no part is broken", was, "no-such-region")
		for _, broken := range parts {
			heal := d.FailPart(e, broken, FaultInternal, 1, e.cred)
			for part, list := range in {
				if part != broken {
					e.wantGone("while "+broken+" is broken", c, list, removed...)
					continue
				}
				for _, x := range list {
					got, err := e.gone(c, x)
					e.wantClass("gone of what is in a broken part", err, provider.Transient)
					if got {
						e.Errorf("gone of %s in %q, which is broken: true", x.Resource.ID, broken)
					}
				}
			}
			never("while "+broken+" is broken", was, "")
			heal()
		}
		e.wantGone("afterwards", c, was, removed...)
		removed = e.remove(1)
	}
}

func checkGoneConcurrency(e *env) {
	e.changes(e.b.PageSize(e) + 1)
	c := e.confirmer()
	was := e.list(c).Resources
	removed := e.remove(2)
	type result struct {
		gone bool
		err  error
	}
	var wg sync.WaitGroup
	got := make([]result, 3*len(was))
	for i := range got {
		x := was[i%len(was)]
		wg.Go(func() { got[i].gone, got[i].err = e.gone(c, x) })
	}
	var readErr, listErr error
	wg.Go(func() { _, readErr = c.Lister.(source.Source).Next(e.ctx(), "") })
	wg.Go(func() { _, listErr = c.List(e.ctx()) })
	wg.Wait()
	if readErr != nil || listErr != nil {
		e.Errorf("beside the questions: next %v, list %v", readErr, listErr)
	}
	for i, r := range got {
		id := was[i%len(was)].Resource.ID
		if want := slices.Contains(removed, id); r.err != nil || r.gone != want {
			e.Errorf("gone of %s, among %d at once: %v, %v; want %v", id, len(got), r.gone, r.err, want)
		}
	}
}
