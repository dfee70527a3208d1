package openstack_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacktest"
)

// ids are those of all things of a kind.
func ids(b *openstacktest.Backend, kind string) (out []string) {
	for _, o := range b.Objects() {
		if o.Kind == kind {
			out = append(out, o.ID)
		}
	}
	return out
}

// Somebody has renamed a server: it is the same instance everywhere, so that nobody
// takes it for one too many.
func TestRenamedServer(t *testing.T) {
	t.Parallel()
	b := openstacktest.NewBackend(t, quick())
	p := open(t, b, everything)
	req := request("proxy-a")
	id := create(t, p, req)
	waitRunning(t, p, id)
	b.Rename(ids(b, "server")[0], "renamed by hand")
	in, err := p.Get(t.Context(), id)
	if err != nil || in.ID != id || in.Name != req.Name {
		t.Errorf("got %s, %q, %v; want %s, %q", in.ID, in.Name, err, id, req.Name)
	}
	all, err := p.List(t.Context(), provider.Selector{Installation: "acme"})
	if err != nil || len(all) != 1 || all[0].ID != id {
		t.Errorf("listed %+v, %v; want %s", all, err, id)
	}
	if found, err := p.Find(t.Context(), req.Name, req.Marks); err != nil || found.ID != id {
		t.Errorf("found %s, %v; want %s", found.ID, err, id)
	}
	comp, err := p.ListCompanions(t.Context(), provider.Selector{Installation: "acme"})
	if err != nil || len(comp) != 3 {
		t.Fatalf("companions %+v, %v", comp, err)
	}
	for _, c := range comp {
		if c.AttachedTo != id {
			t.Errorf("%s is attached to %s, want %s", c.Kind, c.AttachedTo, id)
		}
	}
	if again := create(t, open(t, b, everything), req); again != id {
		t.Errorf("created again: %s, want %s", again, id)
	}
	if err := p.Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
	if got := count(b); got != "" {
		t.Errorf("%s is left", got)
	}
}

// An image that was made anew under its name, as clouds do it every night: what is
// remembered of the name is looked up again before anybody hears of it.
func TestImageRenewed(t *testing.T) {
	t.Parallel()
	b := openstacktest.NewBackend(t, quick())
	p := open(t, b, everything)
	create(t, p, request("proxy-a"))
	b.RemoveImages("debian-13")
	b.AddImage("debian-13", false)
	create(t, p, request("proxy-b"))
	b.RemoveImages("debian-13")
	_, err := p.Create(t.Context(), request("proxy-c"))
	if provider.ReasonOf(err) != provider.ReasonInvalidSpec || !strings.Contains(err.Error(), `image: "debian-13": there is no such active image`) {
		t.Errorf("an image that is gone: %v", err)
	}
	if got, want := count(b), "2 floating_ip, 2 port, 2 server, 2 volume"; got != want {
		t.Errorf("there is %s, want %s", got, want)
	}
}

// Listings do not show images that are hidden, a community's, or shared and not
// accepted. By their ids they are as good as others.
func TestHiddenImage(t *testing.T) {
	t.Parallel()
	b := openstacktest.NewBackend(t, quick())
	id := b.AddImage("debian-12", true)[0]
	req := request("proxy-a")
	req.Placement.Image = id
	create(t, open(t, b, nil), req)
	req = request("proxy-b")
	req.Placement.Image = "1353f103-9477-4c9b-94c2-0d1a2ded0e96"
	_, err := open(t, b, nil).Create(t.Context(), req)
	if provider.ReasonOf(err) != provider.ReasonInvalidSpec || !strings.Contains(err.Error(), "there is no such active image") {
		t.Errorf("an id that does not exist: %v", err)
	}
}

// A cloud without routers has no floating IPs, and says so in the words of "not
// found".
func TestNoFloatingIPs(t *testing.T) {
	t.Parallel()
	b := openstacktest.NewBackend(t, quick())
	b.Add(openstacksim.Fault{Kind: openstacksim.FaultAnswer, Path: "/floatingips(/.*)?", Status: 404, Message: "The resource could not be found.", Name: "HTTPNotFound"})
	p := open(t, b, nil)
	id := create(t, p, request("proxy-a"))
	if comp, err := p.ListCompanions(t.Context(), provider.Selector{}); err != nil || len(comp) != 1 {
		t.Errorf("companions %+v, %v", comp, err)
	}
	b.Vanish(t, "proxy-a")
	if err := p.Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
	if got := count(b); got != "" {
		t.Errorf("%s is left", got)
	}
	_, err := open(t, b, everything).Create(t.Context(), request("proxy-b"))
	wantClass(t, err, provider.Permanent, provider.ReasonInvalidSpec)
}

// A volume that its service cannot delete does not stand in the way of the next
// attempt, and is told when it does in that of a delete.
func TestVolumeStuckInDeleting(t *testing.T) {
	t.Parallel()
	b := openstacktest.NewBackend(t, quick())
	short := func(o *openstack.Options) { everything(o); o.WaitLimit = time.Second }
	req := request("proxy-a")
	refuse := b.Add(openstacksim.Fault{Kind: openstacksim.FaultAnswer, Method: http.MethodPost, Path: "/servers", Status: 403, Message: "Policy doesn't allow it."})
	restore := b.FailVolumes()
	b.OnRequest(func(r *http.Request) { // the volume is made, and its delete fails
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/volumes") {
			restore()
		} else if r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/volumes/") {
			restore = b.FailVolumes()
		}
	})
	if _, err := open(t, b, short).Create(t.Context(), req); provider.ReasonOf(err) != provider.ReasonForbidden {
		t.Fatal(err)
	}
	refuse()
	restore()
	b.OnRequest(nil)
	if got, want := count(b), "1 volume"; got != want {
		t.Fatalf("there is %s, want %s", got, want)
	}
	stuck := ids(b, "volume")[0]
	id := create(t, open(t, b, short), req)
	waitRunning(t, open(t, b, nil), id)
	err := open(t, b, short).Delete(t.Context(), id)
	if provider.ClassOf(err) != provider.Transient || !strings.Contains(err.Error(), stuck) || !strings.Contains(err.Error(), "error_deleting") {
		t.Errorf("the delete says %v", err)
	}
	if got, want := count(b), "1 volume"; got != want {
		t.Errorf("there is %s, want %s", got, want)
	}
	for _, status := range []string{"error_extending", "error_restoring", "error_managing"} { // can be deleted
		if err := b.SetVolume(stuck, status); err != nil {
			t.Fatal(err)
		}
		if err := open(t, b, short).Delete(t.Context(), id); err != nil || count(b) != "" {
			t.Errorf("%s: %s is left, %v", status, count(b), err)
		}
		id = create(t, open(t, b, short), req)
		restore = b.FailVolumes()
		b.Vanish(t, req.Name)
		stuck = ids(b, "volume")[0]
		restore()
	}
}

// What an operation waits for is told when it takes too long.
func TestSlowDeletesSayWhat(t *testing.T) {
	t.Parallel()
	b := openstacktest.NewBackend(t, openstacksim.Options{DeleteTime: time.Hour})
	p := open(t, b, func(o *openstack.Options) { everything(o); o.WaitLimit = time.Second })
	id := create(t, p, request("proxy-a"))
	waitRunning(t, p, id)
	err := p.Delete(t.Context(), id)
	if want := ids(b, "server")[0] + " is still ACTIVE (deleting)"; provider.ClassOf(err) != provider.Transient || !strings.Contains(err.Error(), want) {
		t.Errorf("want %q: %v", want, err)
	}
}

// A server that an earlier delete has left in the middle, on a host that is down: it
// is asked for again.
func TestDeleteLeftInTheMiddle(t *testing.T) {
	t.Parallel()
	b := openstacktest.NewBackend(t, quick())
	p := open(t, b, everything)
	id := create(t, p, request("proxy-a"))
	waitRunning(t, p, id)
	b.Edit("proxy-a", func(s map[string]any) { s["OS-EXT-STS:task_state"] = "deleting" })
	if err := p.Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
	if got := count(b); got != "" {
		t.Errorf("%s is left", got)
	}
}

// A create that was cut off before the configuration was put right goes on with the
// right one: not with the port that is left.
func TestPortOfAnotherConfiguration(t *testing.T) {
	t.Parallel()
	b := openstacktest.NewBackend(t, quick())
	req := request("proxy-a")
	down := b.Add(openstacksim.Fault{Kind: openstacksim.FaultAnswer, Method: http.MethodPost, Path: "/servers", Status: 500, Message: "Unexpected API Error."})
	if _, err := open(t, b, everything).Create(t.Context(), req); provider.ClassOf(err) != provider.Transient {
		t.Fatal(err)
	}
	down()
	wrong := ids(b, "port")[0]
	id := create(t, open(t, b, func(o *openstack.Options) { everything(o); o.Network = "public" }), req)
	waitRunning(t, open(t, b, nil), id)
	if got := ids(b, "port"); len(got) != 1 || got[0] == wrong || count(b) != complete {
		t.Errorf("the ports are %v, the first was %s; there is %s", got, wrong, count(b))
	}
}
