package providertest

import (
	"fmt"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

func readClauses() []Clause {
	return []Clause{
		{
			ID: "PC-17", Slug: "get-sees-create", Section: secGet,
			Title: "Get never says NotFound of what Create returned",
			Rule:  "As soon as Create has returned an id, Get and Find know the instance, in this process and in another one.",
			Why:   "NotFound makes the caller create again.",
			check: func(e *env) {
				p, q := e.provider(), e.provider()
				for range 5 {
					req := e.request()
					id := e.create(p, req)
					for i, by := range []provider.Provider{p, q} {
						if in, err := by.Get(e.ctx(), id); err != nil || in.ID != id {
							e.Errorf("provider %d: get right after create: id %q, %v", i+1, in.ID, err)
						}
					}
				}
			},
		},
		{
			ID: "PC-18", Slug: "find-sees-create", Section: secGet,
			Title: "Find sees what Create made at once",
			Rule: "As soon as Create has returned, Find with the instance's name and owner returns the same instance as Get, even while " +
				"listings are behind.",
			Why: "A create of unknown outcome is cleaned up by Find.",
			check: func(e *env) {
				if lag, ok := e.b.(Lagger); ok {
					lag.LagList(e, e.h.Patience)
					e.undo(func() { lag.LagList(e, 0) })
				}
				p, req := e.provider(), e.request()
				id := e.create(p, req)
				in, err := e.provider().Find(e.ctx(), req.Name, req.Marks)
				if err != nil || in.ID != id || in.Name != req.Name || in.Marks != req.Marks {
					e.Errorf("find gives %+v, %v; want %q with %+v", in, err, id, req.Marks)
				}
			},
		},
		{
			ID: "PC-19", Slug: "find-absent", Section: secGet,
			Title: "Find of a name nobody has is NotFound",
			Rule:  "Find gives NotFound and a zero instance for a name that no instance has.",
			Why:   "It is the proof that a cut-off create made nothing.",
			check: func(e *env) {
				p, req := e.provider(), e.request()
				e.create(p, e.request())
				in, err := p.Find(e.ctx(), req.Name, req.Marks)
				e.wantClass("find", err, provider.NotFound)
				if in != (provider.Instance{}) {
					e.Errorf("find gives %+v beside the error", in)
				}
			},
		},
		{
			ID: "PC-20", Slug: "facts-are-read-back", Section: secGet,
			Title: "Every fact is read back from the backend",
			Rule: "A provider built afterwards reports the name, uid, installation, namespace, proxy, spec hash and a creation time in UTC that " +
				"lies between the ends of the create call, give or take a minute.",
			Why: "Workers come and go, and a sweep decides about life and death by exactly these facts.",
			check: func(e *env) {
				req := e.request()
				start := time.Now()
				id := e.create(e.provider(), req)
				end := time.Now()
				in := e.get(e.provider(), id)
				if in.ID != id || in.Name != req.Name || in.Marks != req.Marks {
					e.Errorf("read back %q %q %+v, want %q %q %+v", in.ID, in.Name, in.Marks, id, req.Name, req.Marks)
				}
				if c := in.CreatedAt; c.Before(start.Add(-time.Minute)) || c.After(end.Add(time.Minute)) || c.Location() != time.UTC {
					e.Errorf("created at %v, want between %v and %v in UTC", c, start, end)
				}
			},
		},
		{
			ID: "PC-21", Slug: "get-after-delete", Section: secGet,
			Title: "A gone instance is NotFound, never a zero instance without an error",
			Rule:  "When an instance is gone, deleted by us or by somebody else, Get gives NotFound and a zero instance.",
			Why:   "Only NotFound ends a delete or starts a replacement; nothing is acted on as if it were something.",
			Needs: []Hook{HookPlace},
			check: func(e *env) {
				p := e.provider()
				deleted, vanished := e.request(), e.request()
				id, id2 := e.create(p, deleted), e.create(p, vanished)
				e.remove(p, id)
				e.b.(Placer).Vanish(e, vanished.Name)
				for _, gone := range []provider.InstanceID{id, id2} {
					in, err := p.Get(e.ctx(), gone)
					e.wantClass(fmt.Sprintf("get %s", gone), err, provider.NotFound)
					if in != (provider.Instance{}) {
						e.Errorf("get %s gives %+v", gone, in)
					}
				}
			},
		},
		{
			ID: "PC-22", Slug: "malformed-id", Section: secGet,
			Title: "An id that is none of ours is Permanent",
			Rule:  "Get and Delete of an id that this provider never made give Permanent with reason MalformedInstanceID, without asking the backend.",
			Why:   "NotFound would read as 'deleted', and Transient would be tried for ever.",
			check: func(e *env) {
				p := e.provider()
				before := e.b.Things(e)
				if h, ok := e.b.(Hanger); ok {
					defer e.undo(h.Hang(e))()
				}
				for _, id := range []provider.InstanceID{"", "x", "/", "a/b/c/d/e", "../../etc/passwd", "no such\nid", "-1"} {
					_, err := p.Get(e.ctx(), id)
					derr := p.Delete(e.ctx(), id)
					for what, err := range map[string]error{"get": err, "delete": derr} {
						what = fmt.Sprintf("%s %q", what, id)
						e.wantClass(what, err, provider.Permanent)
						if r := provider.ReasonOf(err); err != nil && r != provider.ReasonMalformedID {
							e.Errorf("%s: reason %q, want %q", what, r, provider.ReasonMalformedID)
						}
					}
				}
				e.wantUnchanged(before, "calls with malformed ids")
			},
		},
	}
}

func stateClauses() []Clause {
	return []Clause{
		{
			ID: "PC-23", Slug: "reaches-running", Section: secGet,
			Title: "A new instance becomes Running and is never Stopped before",
			Rule: "From Create on, Get reports Provisioning until the instance runs and Running then; never Stopped or Terminated, although the " +
				"backend may have no word for 'not started yet'.",
			Why: "Stopped is answered by delete and create: for ever, if every new instance is seen like that.",
			check: func(e *env) {
				p, req := e.provider(), e.request()
				id := e.create(p, req)
				e.waitState(p, id, provider.StateRunning, provider.StateStopped, provider.StateTerminated)
			},
		},
		{
			ID: "PC-24", Slug: "booting-is-provisioning", Section: secGet,
			Title: "An instance that has not started is Provisioning",
			Rule:  "While the backend builds or boots an instance, Get reports Provisioning, and Running after it has started.",
			Why:   "See PC-23; this one holds the boot back so that no driver passes by being quick.",
			Needs: []Hook{HookHoldBoot},
			check: func(e *env) {
				release := e.undo(e.b.(BootHolder).HoldBoot(e))
				p, req := e.provider(), e.request()
				id := e.create(p, req)
				for range 10 {
					if in := e.get(p, id); in.State != provider.StateProvisioning {
						e.Errorf("state %s (%q) before it has started, want %s", in.State, in.RawState, provider.StateProvisioning)
					}
					e.pause(e.h.Poll)
				}
				release()
				e.waitState(p, id, provider.StateRunning)
			},
		},
		{
			ID: "PC-25", Slug: "running-has-address", Section: secGet,
			Title: "Running has an address that somebody else can connect to",
			Rule:  "A Running instance has a valid IP that is neither unspecified nor multicast.",
			Why:   "The address goes straight to probes and clients.",
			check: func(e *env) {
				p := e.provider()
				id := e.create(p, e.request())
				in := e.waitState(p, id, provider.StateRunning)
				if !in.IP.IsValid() || in.IP.IsUnspecified() || in.IP.IsMulticast() {
					e.Errorf("running with the address %v", in.IP)
				}
			},
		},
		{
			ID: "PC-26", Slug: "no-address-is-provisioning", Section: secGet,
			Title: "Running without an address is Provisioning",
			Rule:  "When the backend says that an instance runs and names no address, Get reports Provisioning without an error, and Running once there is one.",
			Why:   "An empty address would be published.",
			Needs: []Hook{HookHideAddress},
			check: func(e *env) {
				p, req := e.provider(), e.request()
				id := e.create(p, req)
				e.waitState(p, id, provider.StateRunning)
				show := e.undo(e.b.(AddressHider).HideAddress(e, req.Name))
				if in := e.get(p, id); in.State != provider.StateProvisioning {
					e.Errorf("state %s with the address %v, want %s", in.State, in.IP, provider.StateProvisioning)
				}
				show()
				e.waitState(p, id, provider.StateRunning)
			},
		},
		{
			ID: "PC-27", Slug: "stopped-is-seen", Section: secGet,
			Title: "An instance that stopped for good says so",
			Rule:  "An instance that ran and was stopped behind our back is reported as Stopped or Terminated, not as Running and not as NotFound.",
			Why:   "It is replaced on that word; it costs money as long as it exists.",
			Needs: []Hook{HookStop},
			check: func(e *env) {
				p, req := e.provider(), e.request()
				id := e.create(p, req)
				e.waitState(p, id, provider.StateRunning)
				e.b.(Stopper).Stop(e, req.Name)
				e.eventually("the stop is seen", func() (bool, string) {
					in := e.get(p, id)
					return in.State == provider.StateStopped || in.State == provider.StateTerminated, fmt.Sprintf("state %s (%q)", in.State, in.RawState)
				})
			},
		},
		{
			ID: "PC-28", Slug: "unknown-state", Section: secGet,
			Title: "A state that the driver does not know is Provisioning",
			Rule: "For a word that the driver does not know, Get reports Provisioning and hands the word on as RawState; the driver logs it as a " +
				"warning once per word. The caller's never-healthy deadline decides how long that is believed: after it the instance counts as Stopped.",
			Why: "The instance exists, so NotFound would leak it. Stopped would delete and recreate without end on the day that the vendor adds a " +
				"state to its boot sequence.",
			Needs: []Hook{HookRawState},
			check: checkUnknownState,
		},
	}
}

func checkUnknownState(e *env) {
	const raw = "reticulating-splines"
	p, req := e.provider(), e.request()
	id := e.create(p, req)
	e.b.(StateSetter).SetRawState(e, req.Name, raw)
	for range 3 {
		in := e.get(p, id)
		if in.State != provider.StateProvisioning || in.RawState != raw {
			e.Errorf("state %s, raw state %q; want %s and %q", in.State, in.RawState, provider.StateProvisioning, raw)
		}
	}
	warned := 0
	for _, line := range e.logs.lines() {
		if line["level"] == "WARN" && lineHolds(line, raw) {
			warned++
		}
	}
	if warned != 1 {
		e.Errorf("the driver warned %d times of the state %q, want once", warned, raw)
	}
}
