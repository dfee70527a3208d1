package hetzner_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
)

// TestDeleteGoesOn: a delete that is cut off between its requests does not begin
// anew, or it would never end while the budget is used up.
func TestDeleteGoesOn(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{})
	in := b.running(b.request())
	release := b.Hold("delete_server")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	b.wantClass("cut off", b.p.Delete(ctx, in.ID), provider.Transient)
	release()
	b.ForgetRequests()
	if err := b.p.Delete(t.Context(), in.ID); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"DELETE /firewalls/{id}"}, b.writes()); diff != "" {
		t.Errorf("the second attempt wrote (-want +got)\n%s", diff)
	}
	b.ForgetRequests()
	if err := b.p.Delete(t.Context(), in.ID); err != nil {
		t.Fatal(err)
	}
	for _, c := range b.calls() {
		if c == "DELETE /servers/{id}" || c == "GET /servers/{id}" {
			t.Errorf("a server that is known to be gone is asked for: %v", b.calls())
		}
	}
}

func TestCreateGoesOn(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{config: allParts})
	b.create(b.request())
	req := b.request()
	b.AddFault(hetznersim.Fault{Kind: hetznersim.FaultLoseRequest, Method: "POST", Path: "/servers"})
	_, err := b.p.Create(t.Context(), req)
	b.wantClass("cut off", err, provider.Transient)
	b.ForgetRequests()
	b.create(req)
	if diff := cmp.Diff([]string{"POST /servers"}, b.calls()); diff != "" {
		t.Errorf("the second attempt asked (-want +got)\n%s", diff)
	}
	// What it remembers may have gone.
	other := b.request()
	b.AddFault(hetznersim.Fault{Kind: hetznersim.FaultLoseRequest, Method: "POST", Path: "/servers"})
	_, err = b.p.Create(t.Context(), other)
	b.wantClass("cut off", err, provider.Transient)
	for _, c := range b.companions(provider.Selector{UID: other.Marks.UID}) {
		if err := b.open("acme", allParts).DeleteCompanion(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	b.create(other)
	if n := len(b.companions(provider.Selector{UID: other.Marks.UID})); n != 3 {
		t.Errorf("%d companions, want 3", n)
	}
}

// TestWaitingForAnotherCall: who waits for what another call reads goes when its
// own time is up.
func TestWaitingForAnotherCall(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{})
	id := b.AddFault(hetznersim.Fault{Kind: hetznersim.FaultHang, Times: -1})
	first, second := b.request(), b.request()
	done := make(chan error, 1)
	go func() { _, err := b.p.Create(t.Context(), first); done <- err }()
	b.until("the first one waits for the catalogue", func() bool { return b.FaultHits(id) > 0 })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := b.p.Create(ctx, second)
	b.wantClass("the second one", err, provider.Transient)
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("it returned after %v", d)
	}
	b.RemoveFault(id)
	if err := <-done; err != nil {
		t.Errorf("the first one: %v", err)
	}
}
