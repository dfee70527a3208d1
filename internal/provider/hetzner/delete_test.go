package hetzner_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznertest"
)

func allParts(o *hetzner.Options) { o.IPv4, o.IPv6, o.Volume.SizeGB = "own", "own", 10 }

func TestDeleteWaitsForTheLock(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{})
	release := b.Hold("create_server")
	id := b.create(b.request()) // being built, so locked
	done := make(chan error, 1)
	go func() { done <- b.p.Delete(t.Context(), id) }()
	b.until("the delete was refused a few times", func() bool { return b.Count("DELETE /servers/{id}") > 2 })
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if left := b.kinds(); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

// TestDeleteWaitsForItsAction holds the vendor's trap: after the answer the
// server may be gone from sight while its addresses are still assigned.
func TestDeleteWaitsForItsAction(t *testing.T) {
	t.Parallel()
	for _, hidden := range []bool{false, true} {
		b := newBench(t, setup{sim: func(o *hetznersim.Options) { o.HideDeleted = hidden }, config: allParts})
		in := b.running(b.request())
		release := b.Hold("delete_server")
		done := make(chan error, 1)
		go func() { done <- b.p.Delete(t.Context(), in.ID) }()
		b.until("the action is asked for", func() bool { return b.Count("GET /actions/{id}") > 2 })
		select {
		case err := <-done:
			t.Fatalf("hidden %v: delete returned before its action ended: %v", hidden, err)
		default:
		}
		if n := b.Count("DELETE /primary_ips/{id}") + b.Count("DELETE /volumes/{id}"); n != 0 {
			t.Errorf("hidden %v: %d deletes of what is still in use", hidden, n)
		}
		release()
		if err := <-done; err != nil {
			t.Errorf("hidden %v: %v", hidden, err)
		}
		if left := b.kinds(); len(left) != 0 {
			t.Errorf("hidden %v: left over: %v", hidden, left)
		}
	}
}

func TestDeleteGivesUpInTime(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{config: func(o *hetzner.Options) { o.WaitLimit = time.Second }})
	in := b.running(b.request())
	release := b.Hold("delete_server")
	err := b.p.Delete(t.Context(), in.ID)
	b.wantClass("a delete that takes too long", err, provider.Transient)
	if err == nil || !strings.Contains(err.Error(), "waitLimit") {
		t.Errorf("%v does not say why", err)
	}
	release()
	if err := b.p.Delete(t.Context(), in.ID); err != nil {
		t.Error(err)
	}
}

func TestDeleteWhoseActionFails(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{})
	in := b.running(b.request())
	b.AddFault(hetznersim.Fault{Kind: hetznersim.FaultActionError, Code: "server_error", Message: "the host is gone", Method: "DELETE"})
	err := b.p.Delete(t.Context(), in.ID)
	b.wantClass("an action that fails", err, provider.Transient)
	if err == nil || !strings.Contains(err.Error(), "the host is gone (server_error)") {
		t.Errorf("%v lacks the vendor's text", err)
	}
	if got, err := b.p.Get(t.Context(), in.ID); err != nil || got.State != provider.StateRunning {
		t.Errorf("the server is %s, %v", got.State, err)
	}
	if err := b.p.Delete(t.Context(), in.ID); err != nil {
		t.Error(err)
	}
}

func TestProtectedServerIsPermanent(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{})
	in := b.running(b.request())
	b.AddFault(hetznersim.Fault{Kind: hetznersim.FaultError, Code: "protected", Method: "DELETE", Path: "/servers/*"})
	b.wantClass("protected", b.p.Delete(t.Context(), in.ID), provider.Permanent)
}

// TestDeleteByTheIDAlone: the configuration may have changed since.
func TestDeleteByTheIDAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{config: allParts})
	id := b.create(b.request())
	if err := b.open("acme", nil).Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if left := b.kinds(); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

func TestDeleteOfAVanishedServerTakesItsParts(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{config: allParts})
	req := b.request()
	in := b.running(req)
	b.Vanish(t, req.Name)
	if got := b.kinds(); got["volume"] != 1 || got["firewall"] != 1 {
		t.Fatalf("after it vanished there are %v", got)
	}
	if err := b.p.Delete(t.Context(), in.ID); err != nil {
		t.Fatal(err)
	}
	if left := b.kinds(); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

// TestOwnAddressesThatStay: auto_delete is advice until it was seen to work.
func TestOwnAddressIsDeletedWhenItDoesNotGo(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{config: func(o *hetzner.Options) { o.IPv4 = "own" }})
	in := b.running(b.request())
	b.AddFault(hetznersim.Fault{Kind: hetznersim.FaultError, Code: "must_be_unassigned", Method: "DELETE", Path: "/primary_ips/*"})
	b.DropAutoDelete(hetznertest.Project)
	if err := b.p.Delete(t.Context(), in.ID); err != nil {
		t.Fatal(err)
	}
	if left := b.kinds(); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
	if n := b.Count("DELETE /primary_ips/{id}"); n != 2 {
		t.Errorf("%d deletes, want a refused one and a good one", n)
	}
}

func TestDeleteCallsPerLife(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{})
	b.running(b.request()) // keeps the firewall in use, and has the catalogue read
	in := b.running(b.request())
	b.ForgetRequests()
	if err := b.p.Delete(t.Context(), in.ID); err != nil {
		t.Fatal(err)
	}
	calls := slices.Compact(b.calls())
	if diff := cmp.Diff([]string{"DELETE /servers/{id}", "GET /actions/{id}", "DELETE /firewalls/{id}"}, calls); diff != "" {
		t.Errorf("requests (-want +got)\n%s", diff)
	}
}

func TestCompanionsOfAFailedCreateAreSwept(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{config: allParts})
	req := b.request()
	// The worker dies after the parts are made.
	b.AddFault(hetznersim.Fault{Kind: hetznersim.FaultLoseRequest, Method: "POST", Path: "/servers"})
	_, err := b.p.Create(t.Context(), req)
	b.wantClass("a create that died", err, provider.Transient)
	list := b.companions(provider.Selector{Installation: "acme", UID: req.Marks.UID})
	if len(list) != 3 {
		t.Fatalf("companions: %+v", list)
	}
	for _, c := range list {
		if !c.Marks.SameOwner(req.Marks) || c.AttachedTo != "" || c.CreatedAt.IsZero() {
			t.Errorf("companion %+v", c)
		}
	}
	free := b.companions(provider.Selector{Installation: "acme"})
	if len(free) != 4 { // and the firewall, which guards nothing
		t.Errorf("companions: %+v", free)
	}
	for _, c := range free {
		if err := b.p.DeleteCompanion(t.Context(), c); err != nil {
			t.Errorf("%s: %v", c.Kind, err)
		}
	}
	if left := b.kinds(); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

func (b *bench) companions(sel provider.Selector) []provider.Companion {
	b.Helper()
	list, err := b.p.ListCompanions(b.Context(), sel)
	if err != nil {
		b.Fatal(err)
	}
	return list
}

// TestAttachedAddressIsUnassignedFirst: the vendor unassigns from a server that
// is off only, so it is switched off for it and on again.
func TestAttachedAddressIsUnassignedFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{config: func(o *hetzner.Options) { o.IPv4 = "own" }})
	in := b.running(b.request())
	list := b.companions(provider.Selector{UID: in.Marks.UID})
	if len(list) != 1 || list[0].AttachedTo != in.ID {
		t.Fatalf("companions %+v, want one attached to %s", list, in.ID)
	}
	b.ForgetRequests()
	if err := b.p.DeleteCompanion(t.Context(), list[0]); err != nil {
		t.Fatal(err)
	}
	want := []string{"POST /servers/{id}/actions/poweroff", "POST /primary_ips/{id}/actions/unassign", "DELETE /primary_ips/{id}",
		"POST /servers/{id}/actions/poweron"}
	if diff := cmp.Diff(want, b.writes()); diff != "" {
		t.Errorf("requests (-want +got)\n%s", diff)
	}
	b.until("the server runs again on its other address", func() bool {
		got, err := b.p.Get(t.Context(), in.ID)
		return err == nil && got.State == provider.StateRunning && got.IP.Is6()
	})
}

func TestCompanionThatIsNotTheOneListed(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{config: func(o *hetzner.Options) { o.Volume.SizeGB = 10 }})
	in := b.running(b.request())
	c := b.companions(provider.Selector{UID: in.Marks.UID})[0]
	c.Marks.UID = "another"
	b.wantClass("marks differ", b.p.DeleteCompanion(t.Context(), c), provider.Conflict)
	for _, bad := range []provider.Companion{{Kind: "port", ID: "1"}, {Kind: hetzner.KindVolume, ID: "x"}, {Kind: hetzner.KindVolume, ID: "-1"}} {
		err := b.p.DeleteCompanion(t.Context(), bad)
		if b.wantClass("no companion", err, provider.Permanent); provider.ReasonOf(err) != provider.ReasonMalformedID {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	gone := c
	gone.ID = "1"
	if err := b.p.DeleteCompanion(t.Context(), gone); err != nil {
		t.Errorf("a companion that is gone: %v", err)
	}
	if b.kinds()["volume"] != 1 {
		t.Error("the volume is gone")
	}
}

func TestDeleteWithBadCredentials(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{})
	in := b.running(b.request())
	id := b.AddFault(hetznersim.Fault{Kind: hetznersim.FaultError, Code: "unauthorized", Times: -1})
	b.ForgetRequests()
	err := b.p.Delete(t.Context(), in.ID)
	b.wantClass("delete with a revoked token", err, provider.Permanent)
	if provider.ReasonOf(err) != provider.ReasonUnauthorized || len(b.calls()) != 1 {
		t.Errorf("%v after %v", err, b.calls())
	}
	b.RemoveFault(id)
	if err := b.p.Delete(t.Context(), in.ID); err != nil {
		t.Errorf("with a new token: %v", err)
	}
}

func TestDeleteHonoursItsContext(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{})
	b.Hold("create_server")
	id := b.create(b.request())
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	b.wantClass("cut off", b.p.Delete(ctx, id), provider.Transient)
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("returned after %v", d)
	}
}

// TestVolumeOfAServerThatIsBeingBuilt is not free, although not attached yet.
func TestVolumeOfAServerThatIsBeingBuilt(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{config: func(o *hetzner.Options) { o.Volume.SizeGB = 10 }})
	b.Hold("create_server")
	b.Hold("attach_volume")
	for n := range 6 { // looked up one by one at first, then in a listing
		id := b.create(b.request())
		list := b.companions(provider.Selector{Installation: "acme"})
		if len(list) != n+1 || list[n].AttachedTo != id {
			t.Errorf("companions %+v, want %d, the last one of %s", list, n+1, id)
		}
	}
}
