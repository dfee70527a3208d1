package providertest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

func contextClauses() []Clause {
	return []Clause{
		{
			ID: "PC-41", Slug: "ended-context", Section: secContext,
			Title: "A call whose context has ended does nothing",
			Rule:  "With a context that has ended, every method returns promptly with a Transient error, and nothing at the backend changes.",
			Why:   "A cancelled create would make what nobody waits for; a late delete may meet a successor.",
			check: func(e *env) {
				p := e.provider()
				in := e.get(p, e.create(p, e.request()))
				ctx, cancel := context.WithCancel(e.ctx())
				cancel()
				before := e.b.Things(e)
				for _, op := range e.ops(p, in, e.request()) {
					e.wantClass(string(op.name)+" with an ended context", e.prompt(ctx, string(op.name), op.call), provider.Transient)
				}
				e.wantUnchanged(before, "calls whose context had ended")
			},
		},
		{
			ID: "PC-42", Slug: "silent-backend", Section: secContext,
			Title: "A call ends with its deadline when the backend is silent",
			Rule:  "While the backend does not answer, every method returns soon after its context's deadline with a Transient error; afterwards the provider works as before.",
			Why:   "A hung call holds a worker's slot, and a silent backend says nothing about an instance.",
			Needs: []Hook{HookHang},
			check: func(e *env) {
				p := e.provider()
				in := e.get(p, e.create(p, e.request()))
				fresh := e.request()
				release := e.undo(e.b.(Hanger).Hang(e))
				for _, op := range e.ops(p, in, fresh) {
					ctx, cancel := context.WithTimeout(e.ctx(), 50*time.Millisecond)
					e.wantClass(string(op.name)+" of a silent backend", e.prompt(ctx, string(op.name), op.call), provider.Transient)
					cancel()
				}
				release()
				e.create(p, fresh)
				e.wantInstances(fresh.Name, 1)
			},
		},
		{
			ID: "PC-43", Slug: "parallel-use", Section: secContext,
			Title: "All methods are safe for concurrent use",
			Rule:  "Whole lives of instances side by side on one provider, with listings, look-ups and checks in between, end as they would one after the other. Run with the race detector.",
			Why:   "Proxies, watchers, sweeps and health checks share one provider and nothing serialises them.",
			check: checkParallelUse,
		},
	}
}

func checkParallelUse(e *env) {
	p := e.provider()
	before := len(e.b.Things(e))
	const n = 6
	reqs := make([]provider.CreateRequest, n)
	for i := range reqs {
		reqs[i] = e.request()
	}
	ctx := e.ctx()
	var mu sync.Mutex
	var wrong []string
	note := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		wrong = append(wrong, fmt.Sprintf(format, args...))
	}
	inParallel(n, func(i int) {
		req := reqs[i]
		id, err := p.Create(ctx, req)
		if err != nil {
			note("create %d: %v", i, err)
			return
		}
		if in, err := p.Find(ctx, req.Name, req.Marks); err != nil || in.ID != id {
			note("find %d: %q, %v", i, in.ID, err)
		}
		if in, err := p.Get(ctx, id); err != nil || in.Marks != req.Marks {
			note("get %d: %+v, %v", i, in.Marks, err)
		}
		if _, err := p.List(ctx, provider.Selector{Installation: installation}); err != nil {
			note("list %d: %v", i, err)
		}
		if c, ok := provider.As[provider.Checker](p); ok {
			c.Check(ctx)
		}
		if err := p.Delete(ctx, id); err != nil {
			note("delete %d: %v", i, err)
		}
	})
	for _, w := range wrong {
		e.Errorf("%s", w)
	}
	e.eventually("everything is deleted", func() (bool, string) {
		now := e.b.Things(e)
		return len(now) == before, fmt.Sprintf("left %v", now)
	})
}
