package openstack_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacktest"
)

// A server is deleted with its parts in every state that it may be in.
func TestDeleteInEveryState(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"BUILD", "ACTIVE", "SHUTOFF", "ERROR", "PAUSED", "SUSPENDED", "SHELVED_OFFLOADED", "UNKNOWN"} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			b := openstacktest.NewBackend(t, openstacksim.Options{DeleteTime: 5 * time.Millisecond})
			p := open(t, b, everything)
			if status == "BUILD" {
				b.Hold()
			}
			id := create(t, p, request("proxy-a"))
			if status != "BUILD" {
				in := waitRunning(t, p, id)
				for _, o := range b.Objects() {
					if o.Kind == "server" {
						if err := b.SetServer(o.ID, status, ""); err != nil {
							t.Fatal(err)
						}
					}
				}
				if now, err := p.Get(t.Context(), id); err != nil || now.IP != in.IP && now.State == provider.StateRunning {
					t.Errorf("%+v, %v", now, err)
				}
			}
			for range 2 {
				if err := p.Delete(t.Context(), id); err != nil {
					t.Fatal(err)
				}
			}
			if got := count(b); got != "" {
				t.Errorf("%s is left", got)
			}
		})
	}
}

// A cloud that keeps deleted servers and does not let its users delete for good:
// the instance is there, and the delete goes on until it is not.
func TestSoftDelete(t *testing.T) {
	t.Parallel()
	b := openstacktest.NewBackend(t, openstacksim.Options{SoftDelete: true})
	p := open(t, b, func(o *openstack.Options) { everything(o); o.WaitLimit = time.Second })
	id := create(t, p, request("proxy-a"))
	waitRunning(t, p, id)
	forbid := b.Add(openstacksim.Fault{Kind: openstacksim.FaultAnswer, Method: http.MethodPost, Path: "/action", Status: 403, Message: "Policy doesn't allow it."})
	wantClass(t, p.Delete(t.Context(), id), provider.Permanent, provider.ReasonForbidden)
	if in, err := p.Get(t.Context(), id); err != nil || in.State != provider.StateTerminated || in.RawState != "SOFT_DELETED" {
		t.Errorf("%+v, %v", in, err)
	}
	if got := count(b); got != complete {
		t.Errorf("there is %s while the server can be restored", got)
	}
	forbid()
	if err := p.Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
	if got := count(b); got != "" {
		t.Errorf("%s is left", got)
	}
}

// A server that somebody has locked stays, with all that belongs to it.
func TestLocked(t *testing.T) {
	t.Parallel()
	b := openstacktest.NewBackend(t, quick())
	p := open(t, b, everything)
	id := create(t, p, request("proxy-a"))
	lock := b.Add(openstacksim.Fault{Kind: openstacksim.FaultAnswer, Method: http.MethodDelete, Path: "/servers/[^/]+", Status: 409, Message: "Instance 7 is locked"})
	wantClass(t, p.Delete(t.Context(), id), provider.Permanent, "")
	if got := count(b); got != complete {
		t.Errorf("there is %s", got)
	}
	lock()
	if err := p.Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
}

// What an instance has is written down: a configuration that has changed deletes
// it all the same.
func TestDeleteAfterAChangeOfTheConfiguration(t *testing.T) {
	t.Parallel()
	b := openstacktest.NewBackend(t, quick())
	id := create(t, open(t, b, everything), request("proxy-a"))
	if err := open(t, b, nil).Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if got := count(b); got != "" {
		t.Errorf("%s is left", got)
	}
	id = create(t, open(t, b, nil), request("proxy-b"))
	if err := open(t, b, everything).Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if got := count(b); got != "" {
		t.Errorf("%s is left", got)
	}
}

// The parts of a server that somebody else has removed go with the next delete.
func TestDeleteOfWhatVanished(t *testing.T) {
	t.Parallel()
	b := openstacktest.NewBackend(t, quick())
	p := open(t, b, everything)
	id := create(t, p, request("proxy-a"))
	waitRunning(t, p, id)
	b.Vanish(t, "proxy-a")
	if _, err := p.Get(t.Context(), id); provider.ClassOf(err) != provider.NotFound {
		t.Error(err)
	}
	if err := p.Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
	if got := count(b); got != "" {
		t.Errorf("%s is left", got)
	}
}

// A listing begins anew when the cloud has forgotten the server that its next page
// begins after,
// and sees every server once whatever else comes and goes.
func TestListWhileServersVanish(t *testing.T) {
	t.Parallel()
	b := openstacktest.NewBackend(t, quick())
	p := open(t, b, func(o *openstack.Options) { o.PageSize = 3 })
	for i := range 14 {
		create(t, p, request(fmt.Sprintf("proxy-%02d", i)))
	}
	b.OnRequest(func(r *http.Request) {
		if m := r.URL.Query().Get("marker"); m != "" {
			b.RemoveServer(m) // just before it is asked for
			b.Purge()
			b.OnRequest(nil)
		}
	})
	all, err := p.List(t.Context(), provider.Selector{Installation: "acme"})
	if err != nil || len(all) != 13 {
		t.Errorf("listed %d, %v; want the 13 that are left", len(all), err)
	}
	b.OnRequest(func(r *http.Request) {
		if m := r.URL.Query().Get("marker"); m != "" {
			b.RemoveServer(m)
			b.Purge()
		}
	})
	all, err = p.List(t.Context(), provider.Selector{Installation: "acme"})
	if err == nil && len(all) != 0 || err != nil && provider.ClassOf(err) != provider.Transient {
		t.Errorf("while the marker vanishes each time: %d, %v", len(all), err)
	}
}
