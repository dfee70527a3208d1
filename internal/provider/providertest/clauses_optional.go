package providertest

import (
	"context"
	"slices"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

func declares(what string, has func(Harness) bool) (when string, applies func(Harness) (bool, string)) {
	return "the driver implements " + what, func(h Harness) (bool, string) {
		return has(h), "the driver does not implement " + what
	}
}

func optionalClauses() []Clause {
	checkWhen, check := declares("Checker", func(h Harness) bool { return h.Checker })
	priceWhen, price := declares("Pricer", func(h Harness) bool { return h.Pricer })
	compWhen, comp := declares("Companions", func(h Harness) bool { return h.Companions })
	return []Clause{
		{
			ID: "PC-57", Slug: "check-targets", Section: secOptional,
			Title: "Check names the same targets in the same order each time",
			Rule:  "Check returns one entry for each target, never none, each with a name of its own, in an order that does not change; with a working backend each is ready with reason Reachable.",
			Why:   "Transitions are told by comparing two rounds, and metrics are labelled by target.",
			When:  checkWhen, applies: check,
			check: func(e *env) {
				c, _ := provider.As[provider.Checker](e.provider())
				first := targets(c.Check(e.ctx()))
				if len(first) == 0 || len(slices.Compact(slices.Sorted(slices.Values(first)))) != len(first) || slices.Contains(first, "") {
					e.Errorf("the targets are %q, want at least one and each with a name of its own", first)
				}
				for range 5 {
					round := c.Check(e.ctx())
					if got := targets(round); !slices.Equal(got, first) {
						e.Errorf("the targets are %q and were %q", got, first)
					}
					for _, st := range round {
						if !st.Ready || st.Reason != provider.ReasonReachable {
							e.Errorf("target %q of a working backend: ready %v, reason %q: %s", st.Target, st.Ready, st.Reason, st.Message)
						}
					}
				}
			},
		},
		{
			ID: "PC-58", Slug: "check-is-prompt", Section: secOptional,
			Title: "Check returns with its context",
			Rule:  "With a context that has ended, and with one that ends while the backend is silent, Check returns promptly and still names every target. A target that did not answer is not ready.",
			Why:   "One timeout covers the round of all providers.",
			When:  checkWhen, applies: check,
			check: checkPromptCheck,
		},
		{
			ID: "PC-59", Slug: "check-tells", Section: secOptional,
			Title: "Check reports bad credentials as such",
			Rule:  "When the backend answers 401, 403 or 500, targets are not ready, with reason Unauthorized, Forbidden and APIError, and a message.",
			Why:   "These are repaired by different people.",
			Needs: []Hook{HookFaults}, When: checkWhen, applies: check,
			check: func(e *env) {
				c, _ := provider.As[provider.Checker](e.provider())
				for kind, reason := range map[FaultKind]string{
					FaultUnauthorized: provider.ReasonUnauthorized, FaultForbidden: provider.ReasonForbidden, FaultInternal: provider.ReasonAPIError,
				} {
					heal := e.undo(e.b.(Faulter).Inject(e, Fault{Kind: kind}))
					for _, st := range c.Check(e.ctx()) {
						if st.Ready || st.Reason != reason || st.Message == "" {
							e.Errorf("target %q with a backend that answers %s: ready %v, reason %q (%s), want reason %q", st.Target, kind, st.Ready, st.Reason, st.Message, reason)
						}
					}
					heal()
				}
			},
		},
		{
			ID: "PC-60", Slug: "price", Section: secOptional,
			Title: "A price is known or said to be unknown",
			Rule:  "PriceEURPerHour gives the same price, not negative, for the same placement; a placement without a price is not known and no error; in an outage it is the same price or an error; asking makes nothing.",
			Why:   "The price feeds a spending limit: unknown taken for zero spends without end.",
			When:  priceWhen, applies: price,
			check: checkPrice,
		},
		{
			ID: "PC-61", Slug: "companions-listed", Section: secOptional,
			Title: "Companions are listed with marks like instances",
			Rule:  "While an instance exists, every other thing that Create made for it is listed by ListCompanions with kind, id, creation time and the instance's owner, attached to the instance; selectors work as for List; an outage is an error and no list.",
			Why:   "What outlives its instance is found by its marks or not at all.",
			When:  compWhen, applies: comp,
			check: checkCompanionsListed,
		},
		{
			ID: "PC-62", Slug: "companions-deleted", Section: secOptional,
			Title: "DeleteCompanion detaches, deletes and is idempotent",
			Rule:  "DeleteCompanion removes a companion, attached or not, and succeeds when it is gone; it leaves the instance and other companions alone.",
			Why:   "Backends refuse to delete what is attached, and a sweep meets what an owner deletes at the same time.",
			When:  compWhen, applies: comp,
			check: checkCompanionsDeleted,
		},
	}
}

func targets(round []provider.TargetStatus) []string {
	out := []string{}
	for _, st := range round {
		out = append(out, st.Target)
	}
	return out
}

func checkPromptCheck(e *env) {
	c, _ := provider.As[provider.Checker](e.provider())
	want := slices.Sorted(slices.Values(targets(c.Check(e.ctx()))))
	round := func(ctx context.Context) (out []provider.TargetStatus) {
		_ = e.prompt(ctx, "Check", func(ctx context.Context) error { out = c.Check(ctx); return nil })
		if got := slices.Sorted(slices.Values(targets(out))); !slices.Equal(got, want) {
			e.Errorf("the targets are %q, want %q", got, want)
		}
		return out
	}
	ctx, cancel := context.WithCancel(e.ctx())
	cancel()
	round(ctx)
	h, ok := e.b.(Hanger)
	if !ok {
		return
	}
	defer e.undo(h.Hang(e))()
	ctx, cancel = context.WithTimeout(e.ctx(), 50*time.Millisecond)
	defer cancel()
	for _, st := range round(ctx) {
		if st.Ready {
			e.Errorf("target %q of a silent backend is ready", st.Target)
		}
	}
}

func checkPrice(e *env) {
	pr, _ := provider.As[provider.Pricer](e.provider())
	before := e.b.Things(e)
	first, known, err := pr.PriceEURPerHour(e.ctx(), e.h.Placement)
	if err != nil || (known && first < 0) {
		e.Errorf("the price of %+v is %v, known %v, %v", e.h.Placement, first, known, err)
	}
	if again, k, err := pr.PriceEURPerHour(e.ctx(), e.h.Placement); again != first || k != known || err != nil {
		e.Errorf("the price of %+v was %v and is %v, known %v, %v", e.h.Placement, first, again, k, err)
	}
	if e.h.Unpriced != (provider.Placement{}) {
		if p, known, err := pr.PriceEURPerHour(e.ctx(), e.h.Unpriced); known || err != nil || p != 0 {
			e.Errorf("a placement without a price costs %v, known %v, %v", p, known, err)
		}
	}
	if f, ok := e.b.(Faulter); ok {
		heal := e.undo(f.Inject(e, Fault{Kind: FaultInternal}))
		if p, k, err := pr.PriceEURPerHour(e.ctx(), e.h.Placement); err == nil && (p != first || k != known) {
			e.Errorf("in an outage the price of %+v is %v, known %v, and was %v, known %v", e.h.Placement, p, k, first, known)
		} else if err != nil {
			e.wantClass("the price in an outage", err, provider.Transient)
		}
		heal()
	}
	e.wantUnchanged(before, "asking for prices")
}

func checkCompanionsListed(e *env) {
	p, req := e.provider(), e.request()
	e.create(p, e.request())
	id := e.create(p, req)
	comp, _ := provider.As[provider.Companions](p)
	made := slices.DeleteFunc(slices.Clone(e.b.Things(e)), func(t Thing) bool {
		return t.Kind == KindInstance || t.Marks.UID != req.Marks.UID
	})
	got, err := comp.ListCompanions(e.ctx(), provider.Selector{Installation: installation, UID: req.Marks.UID})
	if err != nil || len(got) != len(made) {
		e.Errorf("listed %+v, %v; the backend has %+v", got, err, made)
	}
	for _, c := range got {
		if c.Kind == "" || c.ID == "" || !c.Marks.SameOwner(req.Marks) || c.AttachedTo != id || c.CreatedAt.IsZero() {
			e.Errorf("companion %+v, want kind, id, creation time, the owner of %+v, attached to %q", c, req.Marks, id)
		}
	}
	if got, err := comp.ListCompanions(e.ctx(), provider.Selector{Installation: otherInstallation}); err != nil || len(got) != 0 {
		e.Errorf("another installation's companions are %+v, %v; want none", got, err)
	}
	if f, ok := e.b.(Faulter); ok {
		defer e.undo(f.Inject(e, Fault{Kind: FaultInternal}))()
		got, err := comp.ListCompanions(e.ctx(), provider.Selector{})
		e.wantClass("list companions in an outage", err, provider.Transient)
		if len(got) != 0 {
			e.Errorf("%d companions beside the error", len(got))
		}
	}
}

func checkCompanionsDeleted(e *env) {
	p, req := e.provider(), e.request()
	comp, _ := provider.As[provider.Companions](p)
	id := e.create(p, req)
	e.create(p, e.request())
	listed, err := comp.ListCompanions(e.ctx(), provider.Selector{UID: req.Marks.UID})
	if err != nil {
		e.Fatalf("list companions: %v", err)
	}
	others := slices.DeleteFunc(slices.Clone(e.b.Things(e)), func(t Thing) bool {
		return t.Marks.UID == req.Marks.UID && t.Kind != KindInstance
	})
	for _, c := range listed {
		for range 2 {
			if err := comp.DeleteCompanion(e.ctx(), c); err != nil {
				e.Errorf("delete companion %s %s: %v", c.Kind, c.ID, err)
			}
		}
	}
	e.wantUnchanged(others, "deleting the companions of one instance")
	if _, err := p.Get(e.ctx(), id); err != nil {
		e.Errorf("get after its companions were deleted: %v", err)
	}
}
