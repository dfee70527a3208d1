package providertest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

func providerClauses() []Clause {
	return []Clause{
		{
			ID: "PC-01", Slug: "profile", Section: secProvider,
			Title: "The profile is complete and true",
			Rule: "The type's profile answers every axis with an allowed value. The optional interfaces that the driver has, and the abilities " +
				"that its test backend has, are the ones that profile and harness declare: no more, no fewer.",
			Why:   "Callers and the documentation go by the profile, and an unclaimed ability is an untested one.",
			check: checkProfile,
		},
		{
			ID: "PC-02", Slug: "new-does-not-dial", Section: secProvider,
			Title: "Building a provider contacts nobody",
			Rule:  "New fails on bad configuration only and returns at once while the backend does not answer.",
			Why:   "A worker with one unreachable cloud has to start and serve the others.",
			Needs: []Hook{HookHang},
			check: func(e *env) {
				e.undo(e.b.(Hanger).Hang(e))
				start := time.Now()
				e.provider()
				if d := time.Since(start); d > e.h.Prompt {
					e.Errorf("New took %v while the backend was silent", d)
				}
			},
		},
	}
}

func checkProfile(e *env) {
	if err := e.h.Profile.Validate(); err != nil {
		e.Errorf("%v", err)
	}
	for _, r := range hookRules() {
		declared, has, wanted := e.h.has(r.hook), r.has(e.b), r.wanted(e.h.Profile)
		switch {
		case declared && !has:
			e.Errorf("hook %q is declared and the backend does not implement it", r.hook)
		case !declared && has:
			e.Errorf("the backend implements the hook %q, which is not declared", r.hook)
		case declared && !wanted:
			e.Errorf("hook %q is for when %s, and the profile says otherwise", r.hook, r.when)
		}
	}
	for _, h := range e.h.Hooks {
		if !slices.ContainsFunc(hookRules(), func(r hookRule) bool { return r.hook == h }) {
			e.Errorf("hook %q: there is none of that name", h)
		}
	}
	p := e.provider()
	_, checker := provider.As[provider.Checker](p)
	_, pricer := provider.As[provider.Pricer](p)
	_, companions := provider.As[provider.Companions](p)
	for _, o := range []struct {
		name          string
		has, declared bool
	}{{"Checker", checker, e.h.Checker}, {"Pricer", pricer, e.h.Pricer}, {"Companions", companions, e.h.Companions}} {
		if o.has != o.declared {
			e.Errorf("%s: the driver has it: %v, the harness declares it: %v", o.name, o.has, o.declared)
		}
	}
	if res := e.h.Profile.SecondaryResources; (res == "explicit" && !companions) || (res == "none" && companions) {
		e.Errorf("secondary-resources is %s, and the driver implements Companions: %v", res, companions)
	}
}

func createClauses() []Clause {
	return []Clause{
		{
			ID: "PC-03", Slug: "create-makes-one", Section: secCreate,
			Title: "Create makes one instance, marked in the call that makes it",
			Rule: "After Create the backend has exactly one instance of the requested name, and it carries the managed mark, uid, installation, " +
				"namespace, proxy and spec hash of the request. That holds even when the driver hears nothing back from the call that made it.",
			Why: "An instance without its marks leaks when the worker dies before it can add them.",
			check: func(e *env) {
				req := e.request()
				e.create(e.provider(), req)
				got := e.instances(req.Name)
				if len(got) != 1 || !got[0].Managed || got[0].Marks != req.Marks {
					e.Errorf("the backend has %+v, want one managed instance with %+v", got, req.Marks)
				}
				if l, ok := e.b.(ReplyLoser); ok {
					// The call that made the instance is the last one that counts.
					req := e.request()
					l.LoseCreateReply(e)
					if _, err := e.provider().Create(e.ctx(), req); err != nil {
						e.Logf("the create without a reply: %v", err)
					}
					for _, got := range e.instances(req.Name) {
						if !got.Managed || got.Marks != req.Marks {
							e.Errorf("when the reply got lost the backend has %+v, want the marks %+v", got, req.Marks)
						}
					}
				}
			},
		},
		{
			ID: "PC-04", Slug: "create-idempotent", Section: secCreate,
			Title: "Create is idempotent by name",
			Rule: "A repeated Create of the same request, by this process or by another one, returns the id of the existing instance and makes " +
				"nothing.",
			Why: "A worker that dies between the call and storing the id makes the call again.",
			check: func(e *env) {
				p, req := e.provider(), e.request()
				first := e.create(p, req)
				before := e.b.Things(e)
				for i, again := range []provider.Provider{p, e.provider()} {
					id, err := again.Create(e.ctx(), req)
					if err != nil || id != first {
						e.Errorf("repeat %d gives %q, %v; want %q", i+1, id, err, first)
					}
				}
				e.wantUnchanged(before, "repeated creates")
			},
		},
		{
			ID: "PC-05", Slug: "create-one-name-at-once", Section: secCreate,
			Title: "Concurrent creates of one name make one instance",
			Rule: "Of creates of one request at the same time, each returns the one instance's id or a Transient error, and one that is tried " +
				"again afterwards returns the id.",
			Why: "A worker taken for dead and its successor run the same activity side by side.",
			check: func(e *env) {
				req := e.request()
				const n = 8
				ids, errs := make([]provider.InstanceID, n), make([]error, n)
				ps := []provider.Provider{e.provider(), e.provider()}
				inParallel(n, func(i int) { ids[i], errs[i] = ps[i%2].Create(e.ctx(), req) })
				want := e.create(ps[0], req)
				for i := range n {
					if errs[i] != nil {
						e.wantClass(fmt.Sprintf("create %d", i), errs[i], provider.Transient)
					} else if ids[i] != want {
						e.Errorf("create %d gives %q, and a later one %q", i, ids[i], want)
					}
				}
				e.wantInstances(req.Name, 1)
			},
		},
		{
			ID: "PC-06", Slug: "create-many-names-at-once", Section: secCreate,
			Title: "Concurrent creates of many names do not meet",
			Rule:  "Creates of different names at the same time give each its own instance with its own id, address and marks.",
			Why:   "Identifiers that a driver allocates are raced for by the creates of a burst.",
			check: func(e *env) {
				p := e.provider()
				const n = 12
				reqs, ids, errs := make([]provider.CreateRequest, n), make([]provider.InstanceID, n), make([]error, n)
				for i := range reqs {
					reqs[i] = e.request()
				}
				inParallel(n, func(i int) { ids[i], errs[i] = p.Create(e.ctx(), reqs[i]) })
				seenID, seenIP := map[provider.InstanceID]int{}, map[string]int{}
				for i := range n {
					if errs[i] != nil {
						e.Errorf("create %d: %v", i, errs[i])
						continue
					}
					if j, dup := seenID[ids[i]]; dup {
						e.Errorf("creates %d and %d both give %q", i, j, ids[i])
					}
					seenID[ids[i]] = i
					in := e.waitState(p, ids[i], provider.StateRunning)
					if in.Name != reqs[i].Name || in.Marks != reqs[i].Marks {
						e.Errorf("create %d: asked for %s %+v, got %s %+v", i, reqs[i].Name, reqs[i].Marks, in.Name, in.Marks)
					}
					addr := in.IP.String()
					if j, dup := seenIP[addr]; dup {
						e.Errorf("creates %d and %d share the address %s", i, j, addr)
					}
					seenIP[addr] = i
				}
			},
		},
		{
			ID: "PC-07", Slug: "create-lost-reply", Section: secCreate,
			Title: "A create whose reply was lost is found by its retry",
			Rule: "When the backend has made the instance and the reply does not arrive, Create fails Transient or returns the id; the retry " +
				"returns the id, and one instance exists.",
			Why:   "Tools that took the error for 'nothing was made' have paid for two machines, or died on 'name already used' for good.",
			Needs: []Hook{HookLoseReply},
			check: func(e *env) {
				p, req := e.provider(), e.request()
				e.b.(ReplyLoser).LoseCreateReply(e)
				if _, err := p.Create(e.ctx(), req); err != nil {
					e.wantClass("the create without a reply", err, provider.Transient)
				}
				id := e.create(e.provider(), req)
				e.wantInstances(req.Name, 1)
				if in := e.get(p, id); in.Name != req.Name {
					e.Errorf("the retry gives %q, which is %q", id, in.Name)
				}
			},
		},
		{
			ID: "PC-08", Slug: "create-cut-off", Section: secCreate,
			Title: "A create cut off at any moment can be repeated",
			Rule: "Create may be cancelled at any moment. Repeated afterwards it gives exactly one instance; looked for with Find until " +
				"Settle has passed, and deleted instead, nothing is left.",
			Why: "Workers are killed and activities time out in the middle of everything.",
			check: func(e *env) {
				p := e.provider()
				for i, after := range cutOffs() {
					req := e.request()
					ctx, cancel := context.WithTimeout(e.ctx(), after)
					_ = e.prompt(ctx, "create", func(ctx context.Context) error { _, err := p.Create(ctx, req); return err })
					cancel()
					if i%2 == 0 {
						e.create(e.provider(), req)
						e.wantInstances(req.Name, 1)
						continue
					}
					e.cleanUp(p, req, "find after a create cut off after "+after.String())
					e.eventually("no instance is left", func() (bool, string) {
						left := e.instances(req.Name)
						return len(left) == 0, fmt.Sprint(left)
					})
				}
			},
		},
		{
			ID: "PC-09", Slug: "create-refuses-placement", Section: secCreate,
			Title: "A placement that can never be satisfied is refused",
			Rule:  "A placement value that does not exist gives Permanent with reason InvalidSpec and a text that names the value, and nothing is made.",
			Why:   "Nobody else can check a placement, so the error is the only thing that the author of the spec gets.",
			When:  "the driver looks at the placement",
			applies: func(h Harness) (bool, string) {
				return h.BadPlacement != provider.Placement{}, "the driver ignores placement"
			},
			check: checkBadPlacement,
		},
		{
			ID: "PC-10", Slug: "create-failed-leaves-nothing-unseen", Section: secCreate,
			Title: "Failed creates pile nothing up",
			Rule: "However often the create of one name fails for want of capacity, it leaves at most the companions of one instance; each of " +
				"them carries the request's marks, is listed by ListCompanions, and goes with DeleteCompanion.",
			Why:   "Ports and addresses of creates that failed have eaten whole quotas.",
			Needs: []Hook{HookSellOut},
			check: checkFailedCreates,
		},
		{
			ID: "PC-11", Slug: "cloud-init-verbatim", Section: secCreate,
			Title: "Cloud-init reaches the guest byte for byte",
			Rule:  "The guest reads exactly the bytes of the request: no template, no trimming, no guess at what is encoded already.",
			Why:   "Clients that encode only what does not look encoded deliver garbage for a text such as 'abcd'.",
			Needs: []Hook{HookUserData},
			check: func(e *env) {
				p := e.provider()
				for _, text := range []string{"abcd", "#!/bin/sh\r\necho \"${HOME} {{ .Name }} $(id)\"\n\n", "#cloud-config\nusers: [ä, 語]\n\t# " + e.secret + " \n"} {
					req := e.request()
					req.CloudInit = provider.NewSensitive([]byte(text))
					e.create(p, req)
					if got := e.b.(UserDataReader).UserData(e, req.Name); string(got) != text {
						e.Errorf("the guest got %q, want %q", got, text)
					}
				}
			},
		},
	}
}

// cleanUp looks for what a create of unknown outcome has made, until it can no
// longer appear, and removes it.
func (e *env) cleanUp(p provider.Provider, req provider.CreateRequest, what string) {
	e.Helper()
	for settled := time.Now().Add(e.h.Settle); ; e.pause(e.h.Poll) {
		in, err := p.Find(e.ctx(), req.Name, req.Marks)
		if err == nil {
			e.remove(p, in.ID)
			return
		}
		e.wantClass(what, err, provider.NotFound)
		if time.Now().After(settled) {
			return
		}
	}
}

// cutOffs are the moments at which creates are cut off: at once, and then ever
// later, past the end of a create on a quick backend.
func cutOffs() []time.Duration {
	out := []time.Duration{0, 0}
	for d := 50 * time.Microsecond; d < 30*time.Millisecond; d = d * 17 / 10 {
		out = append(out, d, d)
	}
	return out
}

func checkBadPlacement(e *env) {
	p, req := e.provider(), e.request()
	req.Placement = e.h.BadPlacement
	before := e.b.Things(e)
	_, err := p.Create(e.ctx(), req)
	e.wantClass("create with a bad placement", err, provider.Permanent)
	if got := provider.ReasonOf(err); got != provider.ReasonInvalidSpec {
		e.Errorf("reason %q, want %q", got, provider.ReasonInvalidSpec)
	}
	b := e.h.BadPlacement
	named := false
	for _, v := range []string{b.Region, b.Zone, b.MachineType, b.Image} {
		named = named || (v != "" && err != nil && containsText(err, v))
	}
	if !named {
		e.Errorf("the error does not name the value of %+v that is wrong: %v", b, err)
	}
	e.wantUnchanged(before, "a create that was refused")
}

func checkFailedCreates(e *env) {
	p, req := e.provider(), e.request()
	// What one instance needs, to compare with.
	sample := e.request()
	before := len(e.b.Things(e))
	id := e.create(p, sample)
	needs := len(e.b.Things(e)) - before - 1
	e.remove(p, id)

	restock := e.undo(e.b.(SoldOuter).SellOut(e))
	for range 5 {
		if _, err := p.Create(e.ctx(), req); err == nil {
			e.Errorf("create while sold out succeeded")
		}
	}
	restock()
	left := slices.DeleteFunc(slices.Clone(e.b.Things(e)), func(t Thing) bool { return t.Marks.UID == sample.Marks.UID })
	if len(left) > needs {
		e.Errorf("five failed creates left %d things, and one instance needs %d: %v", len(left), needs, left)
	}
	if len(left) == 0 {
		return
	}
	comp, ok := provider.As[provider.Companions](p)
	if !ok {
		e.Fatalf("failed creates left %v, and the driver lists no companions", left)
	}
	listed, err := comp.ListCompanions(e.ctx(), provider.Selector{UID: req.Marks.UID})
	if err != nil || len(listed) != len(left) {
		e.Errorf("the companions listed are %v, %v; want all of %v", listed, err, left)
	}
	for _, c := range listed {
		if err := comp.DeleteCompanion(e.ctx(), c); err != nil {
			e.Errorf("delete companion: %v", err)
		}
	}
	e.wantThingsOf(req.Marks.UID, 0)
}

// wantThingsOf checks how many things of an owner exist.
func (e *env) wantThingsOf(uid string, n int) {
	e.Helper()
	var got []Thing
	e.eventually(fmt.Sprintf("%d things of uid %s exist", n, uid), func() (bool, string) {
		got = slices.DeleteFunc(slices.Clone(e.b.Things(e)), func(t Thing) bool { return t.Marks.UID != uid })
		return len(got) == n, fmt.Sprint(got)
	})
}

// inParallel calls do(0) to do(n-1) at the same time and waits for all.
func inParallel(n int, do func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			do(i)
		})
	}
	close(start)
	wg.Wait()
}
