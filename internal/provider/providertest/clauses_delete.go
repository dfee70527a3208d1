package providertest

import (
	"fmt"
	"slices"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

func deleteClauses() []Clause {
	earlyWhen, early := profileIs("delete-return", "returns-early")
	waitsWhen, waits := profileIs("delete-return", "waits")
	return []Clause{
		{
			ID: "PC-29", Slug: "delete-idempotent", Section: secDelete,
			Title: "Delete is idempotent",
			Rule:  "Deleting again, deleting what is gone and deleting what somebody else removed succeed.",
			Why:   "A sweep and an owner delete the same instance, and a crash repeats the call.",
			Needs: []Hook{HookPlace},
			check: func(e *env) {
				p := e.provider()
				gone, vanished := e.request(), e.request()
				id, id2 := e.create(p, gone), e.create(p, vanished)
				e.remove(p, id)
				e.b.(Placer).Vanish(e, vanished.Name)
				for _, id := range []provider.InstanceID{id, id, id2} {
					if err := e.provider().Delete(e.ctx(), id); err != nil {
						e.Errorf("delete of the absent %s: %v", id, err)
					}
				}
			},
		},
		{
			ID: "PC-30", Slug: "delete-at-once", Section: secDelete,
			Title: "Concurrent deletes of one instance all succeed",
			Rule:  "Of deletes of one instance at the same time each succeeds or fails Transient, at least one succeeds, and the instance goes.",
			Why:   "See PC-29.",
			check: func(e *env) {
				ps := []provider.Provider{e.provider(), e.provider()}
				id := e.create(ps[0], e.request())
				const n = 6
				errs := make([]error, n)
				inParallel(n, func(i int) { errs[i] = ps[i%2].Delete(e.ctx(), id) })
				if !slices.Contains(errs, nil) {
					e.Errorf("no delete succeeded")
				}
				for i, err := range errs {
					if err != nil {
						e.wantClass(fmt.Sprintf("delete %d", i), err, provider.Transient)
					}
				}
				e.waitGone(ps[0], id)
			},
		},
		{
			ID: "PC-31", Slug: "get-while-deleting", Section: secDelete,
			Title: "An instance that is being deleted is still there",
			Rule:  "Between Delete and the end of the instance, Get returns it, not as Running; another Delete succeeds. NotFound comes with the end and not before.",
			Why:   "NotFound lets go of the name, the quota and the record that something still exists.",
			Needs: []Hook{HookHoldDeletes}, When: earlyWhen, applies: early,
			check: func(e *env) {
				p := e.provider()
				id := e.create(p, e.request())
				e.waitState(p, id, provider.StateRunning)
				release := e.undo(e.b.(DeleteHolder).HoldDeletes(e))
				for range 3 {
					if err := p.Delete(e.ctx(), id); err != nil {
						e.Errorf("delete: %v", err)
					}
					in, err := p.Get(e.ctx(), id)
					if err != nil || in.ID != id || in.State == provider.StateRunning {
						e.Errorf("get while deleting: %q, state %q, %v", in.ID, in.State, err)
					}
				}
				release()
				e.waitGone(p, id)
			},
		},
		{
			ID: "PC-32", Slug: "delete-waits", Section: secDelete,
			Title: "A Delete that waits leaves nothing behind when it returns",
			Rule:  "When Delete has returned without an error, Get gives NotFound and the backend has nothing of the instance.",
			Why:   "The caller does not look again.",
			When:  waitsWhen, applies: waits,
			check: func(e *env) {
				p, req := e.provider(), e.request()
				id := e.create(p, req)
				if err := p.Delete(e.ctx(), id); err != nil {
					e.Fatalf("delete: %v", err)
				}
				_, err := p.Get(e.ctx(), id)
				e.wantClass("get right after delete", err, provider.NotFound)
				if left := e.b.Things(e); len(left) > 0 {
					e.Errorf("delete has returned and left %v", left)
				}
			},
		},
		{
			ID: "PC-33", Slug: "delete-takes-everything", Section: secDelete,
			Title: "Delete removes everything that Create made",
			Rule:  "After instances were made, by retries and by creates that failed among others, and deleted, the backend is as empty as before.",
			Why:   "What is left behind costs money and quota, and nobody looks for it.",
			check: checkDeleteTakesEverything,
		},
		{
			ID: "PC-34", Slug: "delete-leaves-others", Section: secDelete,
			Title: "Delete touches nothing else",
			Rule:  "Deleting one instance leaves every other instance, ours or not, exactly as it was.",
			Why:   "A delete that matches by prefix or by a shared resource takes down a neighbour.",
			Needs: []Hook{HookPlace},
			check: func(e *env) {
				p := e.provider()
				victim, neighbour := e.request(), e.request()
				e.create(p, neighbour)
				theirs := neighbour.Marks
				theirs.Installation, theirs.UID = otherInstallation, victim.Marks.UID
				e.place(victim.Name+"-b", theirs, true)
				e.place("pet-"+e.run, provider.Marks{}, false)
				before := e.b.Things(e)
				id := e.create(p, victim)
				e.remove(p, id)
				e.eventually("only the deleted instance is gone", func() (bool, string) {
					now := e.b.Things(e)
					return slices.Equal(before, now), fmt.Sprintf("have %v, want %v", now, before)
				})
			},
		},
	}
}

func checkDeleteTakesEverything(e *env) {
	before := e.b.Things(e)
	p := e.provider()
	var ids []provider.InstanceID
	for range 3 {
		req := e.request()
		ids = append(ids, e.create(p, req), e.create(p, req))
		req.Marks.SpecHash = "spec-b"
		if _, err := p.Create(e.ctx(), req); err == nil {
			e.Logf("a create with another spec hash succeeded, which is the affair of PC-12")
		}
	}
	for _, id := range ids {
		if err := p.Delete(e.ctx(), id); err != nil {
			e.Errorf("delete %s: %v", id, err)
		}
	}
	e.eventually("nothing is left", func() (bool, string) {
		now := e.b.Things(e)
		return slices.Equal(before, now), fmt.Sprintf("left %v", now)
	})
}
