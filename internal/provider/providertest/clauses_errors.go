package providertest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

func errorClauses() []Clause {
	quotaWhen, quota := profileIs("quota", "detected")
	return []Clause{
		{
			ID: "PC-44", Slug: "error-shape", Section: secErrors,
			Title: "Every error names its class, operation, provider and instance",
			Rule:  "Every error of a method is a *provider.Error with the method's operation, the configured name of the provider and, except for List, the id or name that it was about.",
			Why:   "An error that is not classed is tried again for ever, and one without a name sends people to the wrong account.",
			check: checkErrorShape,
		},
		{
			ID: "PC-45", Slug: "unauthorized", Section: secErrors,
			Title: "Bad credentials are Permanent with reason Unauthorized",
			Rule:  "When the backend answers 401, every method fails with Permanent and reason Unauthorized.",
			Why:   "The account is unusable; nothing is known about the instance, so it is neither gone nor broken.",
			Needs: []Hook{HookFaults},
			check: func(e *env) {
				e.wantFault(Fault{Kind: FaultUnauthorized}, provider.ReasonUnauthorized, provider.Permanent)
			},
		},
		{
			ID: "PC-46", Slug: "forbidden", Section: secErrors,
			Title: "A missing right is Permanent with reason Forbidden",
			Rule:  "When the backend answers 403 without saying that it is about a limit, every method fails with Permanent and reason Forbidden.",
			Why:   "See PC-45; the two are repaired by different people.",
			Needs: []Hook{HookFaults},
			check: func(e *env) {
				e.wantFault(Fault{Kind: FaultForbidden}, provider.ReasonForbidden, provider.Permanent)
			},
		},
		{
			ID: "PC-47", Slug: "create-not-found", Section: secErrors,
			Title: "Create is never NotFound",
			Rule:  "When the backend answers a create with 404, Create fails with Permanent: something that the spec or the configuration names does not exist.",
			Why:   "NotFound means 'the instance is gone' and is answered by creating.",
			Needs: []Hook{HookFaults},
			check: func(e *env) { e.wantCreateFault(FaultNotFound, "", provider.Permanent) },
		},
		{
			ID: "PC-48", Slug: "create-conflict", Section: secErrors,
			Title: "A 409 that is not about the name is not final",
			Rule:  "When the backend answers a create with 409 and no instance has the name, Create fails with Transient, or with Conflict if the backend calls it that; it never succeeds and is never Permanent.",
			Why:   "Backends answer so while they are busy with the account.",
			Needs: []Hook{HookFaults},
			check: func(e *env) { e.wantCreateFault(FaultConflict, "", provider.Transient, provider.Conflict) },
		},
		{
			ID: "PC-49", Slug: "create-invalid", Section: secErrors,
			Title: "A refused request is Permanent with reason InvalidSpec",
			Rule:  "When the backend answers a create with 422 or what it has for 'invalid', Create fails with Permanent and reason InvalidSpec.",
			Why:   "The same request fails for ever and costs a request each time.",
			Needs: []Hook{HookFaults},
			check: func(e *env) { e.wantCreateFault(FaultInvalid, provider.ReasonInvalidSpec, provider.Permanent) },
		},
		{
			ID: "PC-50", Slug: "rate-limited", Section: secErrors,
			Title: "Too many requests is RateLimited with the wait that was asked for",
			Rule:  "When the backend answers 429 and names a wait, every method fails at once with RateLimited and a RetryAfter of at least that wait; no method sleeps through it.",
			Why:   "Coming back early keeps an account locked; sleeping in a driver hides the wait from everybody.",
			Needs: []Hook{HookFaults},
			check: checkRateLimited,
		},
		{
			ID: "PC-51", Slug: "server-errors", Section: secErrors,
			Title: "An outage is Transient and proves nothing",
			Rule:  "When the backend answers 500 or 503, every method fails with Transient. Get and Find never say NotFound, Delete never says done, and List never gives a list.",
			Why:   "An outage that reads as 'gone' creates doubles and loses instances.",
			Needs: []Hook{HookFaults},
			check: func(e *env) {
				e.wantFault(Fault{Kind: FaultInternal}, "", provider.Transient)
				e.wantFault(Fault{Kind: FaultUnavailable}, "", provider.Transient)
			},
		},
		{
			ID: "PC-52", Slug: "truncated-reply", Section: secErrors,
			Title: "A reply that is cut off is Transient",
			Rule:  "When a reply ends in the middle of its body, Create, Get, Find and List fail with Transient and return nothing that was read until then.",
			Why:   "Half a list is a list in which half the fleet is gone.",
			Needs: []Hook{HookFaults},
			check: func(e *env) { e.wantFault(Fault{Kind: FaultTruncated}, "", provider.Transient) },
		},
		{
			ID: "PC-53", Slug: "quota", Section: secErrors,
			Title: "A used-up account is QuotaExceeded",
			Rule:  "When the backend refuses a create because the account's limit is reached, Create fails with QuotaExceeded, whatever status the backend uses for it.",
			Why:   "It needs a person, not a faster retry.",
			Needs: []Hook{HookFaults}, When: quotaWhen, applies: quota,
			check: func(e *env) { e.wantCreateFault(FaultQuota, "", provider.QuotaExceeded) },
		},
		{
			ID: "PC-54", Slug: "sold-out", Section: secErrors,
			Title: "A sold-out backend is CapacityUnavailable",
			Rule:  "When the backend has no capacity for a create, Create fails with CapacityUnavailable, and succeeds once there is some.",
			Why:   "Later or elsewhere it works: it is neither the account's limit nor a mistake in the spec.",
			Needs: []Hook{HookSellOut},
			check: func(e *env) {
				p, req := e.provider(), e.request()
				restock := e.undo(e.b.(SoldOuter).SellOut(e))
				_, err := p.Create(e.ctx(), req)
				e.wantClass("create while sold out", err, provider.CapacityUnavailable)
				e.wantInstances(req.Name, 0)
				restock()
				e.create(p, req)
			},
		},
	}
}

// wantFault injects the fault and checks the class and reason that every method
// gives, and that nothing comes with the error.
func (e *env) wantFault(f Fault, reason string, class provider.Class) {
	e.Helper()
	p := e.provider()
	in := e.get(p, e.create(p, e.request()))
	fresh := e.request()
	heal := e.undo(e.b.(Faulter).Inject(e, f))
	for _, op := range e.ops(p, in, fresh) {
		err := op.call(e.ctx())
		if op.name == provider.OpDelete && f.Kind == FaultTruncated && err == nil {
			continue // a delete is answered by the status alone
		}
		what := fmt.Sprintf("%s answered with %s", op.name, f.Kind)
		e.wantClass(what, err, class)
		if got := provider.ReasonOf(err); reason != "" && got != reason {
			e.Errorf("%s: reason %q, want %q", what, got, reason)
		}
	}
	all, err := p.List(e.ctx(), provider.Selector{})
	if err != nil && len(all) > 0 {
		e.Errorf("list answered with %s gives %d instances beside the error", f.Kind, len(all))
	}
	if got, err := p.Get(e.ctx(), in.ID); err != nil && got != (provider.Instance{}) {
		e.Errorf("get answered with %s gives %+v beside the error", f.Kind, got)
	}
	heal()
	e.create(p, fresh)
	e.wantInstances(fresh.Name, 1)
}

// wantCreateFault injects a fault that only creates meet.
func (e *env) wantCreateFault(kind FaultKind, reason string, class ...provider.Class) {
	e.Helper()
	p, req := e.provider(), e.request()
	heal := e.undo(e.b.(Faulter).Inject(e, Fault{Kind: kind}))
	id, err := p.Create(e.ctx(), req)
	what := "create answered with " + string(kind)
	e.wantClass(what, err, class...)
	if id != "" {
		e.Errorf("%s gives the id %q", what, id)
	}
	if got := provider.ReasonOf(err); reason != "" && got != reason {
		e.Errorf("%s: reason %q, want %q", what, got, reason)
	}
	e.wantInstances(req.Name, 0)
	heal()
	e.create(p, req)
}

func checkRateLimited(e *env) {
	const wait = 7 * time.Second
	p := e.provider()
	in := e.get(p, e.create(p, e.request()))
	defer e.undo(e.b.(Faulter).Inject(e, Fault{Kind: FaultThrottled, RetryAfter: wait}))()
	for _, op := range e.ops(p, in, e.request()) {
		ctx, cancel := context.WithTimeout(e.ctx(), min(e.h.Prompt, wait/2))
		err := e.prompt(ctx, string(op.name), op.call)
		if ctx.Err() != nil {
			e.Errorf("%s answered with 429 did not return at once", op.name)
		}
		cancel()
		e.wantClass(string(op.name)+" answered with 429", err, provider.RateLimited)
		if got := provider.RetryAfterOf(err); got < wait || got > wait+5*time.Second {
			e.Errorf("%s: RetryAfter %v, want the %v that the backend asked for", op.name, got, wait)
		}
	}
}

func checkErrorShape(e *env) {
	p := e.provider()
	in := e.get(p, e.create(p, e.request()))
	gone := e.request()
	goneID := e.create(p, gone)
	e.remove(p, goneID)
	want := func(op provider.Op, id string, err error) {
		var pe *provider.Error
		switch {
		case err == nil:
			return // whether it should have failed is another clause's affair
		case !errors.As(err, &pe):
			e.Errorf("%s: %T is not a *provider.Error: %v", op, err, err)
		case pe.Op != op || pe.Provider != providerName || (op != provider.OpList && pe.ID != id) || pe.Err == nil:
			e.Errorf("%s of %q: the error says operation %q, provider %q, instance %q; want %q, %q, %q", op, id, pe.Op, pe.Provider, pe.ID, op, providerName, id)
		}
	}
	_, err := p.Get(e.ctx(), goneID)
	want(provider.OpGet, string(goneID), err)
	_, err = p.Get(e.ctx(), "no/such/thing/at/all")
	want(provider.OpGet, "no/such/thing/at/all", err)
	want(provider.OpDelete, "no/such/thing/at/all", p.Delete(e.ctx(), "no/such/thing/at/all"))
	_, err = p.Find(e.ctx(), gone.Name, gone.Marks)
	want(provider.OpFind, gone.Name, err)
	other := gone
	other.Name, other.Marks.SpecHash = in.Name, "spec-b"
	_, err = p.Create(e.ctx(), other)
	want(provider.OpCreate, in.Name, err)
	ctx, cancel := context.WithCancel(e.ctx())
	cancel()
	fresh := e.request()
	ids := map[provider.Op]string{
		provider.OpCreate: fresh.Name, provider.OpFind: in.Name, provider.OpGet: string(in.ID), provider.OpDelete: string(in.ID),
	}
	for _, op := range e.ops(p, in, fresh) {
		want(op.name, ids[op.name], e.prompt(ctx, string(op.name), op.call))
	}
}
