package openstack_test

import (
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloud"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacksim"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack/openstacktest"
)

// A token that has ended is replaced within the call, once for all that meet it.
func TestTokensEnd(t *testing.T) {
	t.Parallel()
	b := openstacktest.NewBackend(t, quick())
	p := open(t, b, nil)
	id := create(t, p, request("proxy-a"))
	for range 3 {
		b.ExpireTokens()
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if _, err := p.Get(t.Context(), id); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	b.ExpireTokens()
	if err := p.Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
}

// A token that is about to end is replaced before it does.
func TestTokensAreRenewedInTime(t *testing.T) {
	t.Parallel()
	b := openstacktest.NewBackend(t, openstacksim.Options{TokenLife: 10 * time.Second})
	p := open(t, b, nil)
	unauthorized := b.Add(openstacksim.Fault{Kind: openstacksim.FaultAnswer, Status: 401, Path: "/never"})
	defer unauthorized()
	create(t, p, request("proxy-a"))
	before := b.Requests()
	if _, err := p.List(t.Context(), provider.Selector{}); err != nil {
		t.Fatal(err)
	}
	if n := b.Requests() - before; n != 2 {
		t.Errorf("a listing with a token that ends soon took %d requests, want a login and a listing", n)
	}
}

// Credentials that stop working in the middle of a delete: the account is
// unhealthy, nothing is forgotten, and with new ones it goes on without a restart.
func TestCredentialsRotate(t *testing.T) {
	t.Parallel()
	b := openstacktest.NewBackend(t, openstacksim.Options{Users: map[string]string{"demo": "old-password"}})
	secrets := newVault("old-password")
	p := b.Open(t, provider.Config{Name: "cloud", Installation: "acme", Secret: secrets.read}, everything)
	req := request("proxy-a")
	id := create(t, p, req)
	b.SetPassword("demo", "new-password")
	b.ExpireTokens()
	for range 2 {
		wantClass(t, p.Delete(t.Context(), id), provider.Permanent, provider.ReasonUnauthorized)
	}
	_, err := p.Get(t.Context(), id)
	wantClass(t, err, provider.Permanent, provider.ReasonUnauthorized)
	for _, st := range p.Check(t.Context()) {
		if st.Ready || st.Reason != provider.ReasonUnauthorized {
			t.Errorf("%+v", st)
		}
	}
	secrets.set("cloud-password", "new-password\n") // with the line break of a file
	if err := p.Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
	if got := count(b); got != "" {
		t.Errorf("%s is left", got)
	}
	for _, st := range p.Check(t.Context()) {
		if !st.Ready {
			t.Errorf("%+v", st)
		}
	}
}

// An application credential that was revoked: the cloud answers the login with
// 404, which says nothing about any server.
func TestRevokedApplicationCredential(t *testing.T) {
	t.Parallel()
	b := openstacktest.NewBackend(t, openstacksim.Options{Users: map[string]string{"app": "app-secret", "demo": "correct"}})
	secrets := newVault("app-secret")
	p := b.Open(t, provider.Config{Name: "cloud", Installation: "acme", Secret: secrets.read}, func(o *openstack.Options) {
		everything(o)
		o.Auth = cloud.Auth{URL: b.URL, ApplicationCredentialID: "app", ApplicationCredentialSecret: "cloud-password"}
	})
	req := request("proxy-a")
	id := create(t, p, req)
	waitRunning(t, p, id)
	comp, err := p.ListCompanions(t.Context(), provider.Selector{})
	if err != nil {
		t.Fatal(err)
	}
	b.Revoke("app")
	refused := map[string]error{"delete": p.Delete(t.Context(), id)}
	_, refused["get"] = p.Get(t.Context(), id)
	_, refused["find"] = p.Find(t.Context(), req.Name, req.Marks)
	_, refused["create"] = p.Create(t.Context(), req)
	_, refused["create another"] = p.Create(t.Context(), request("proxy-b"))
	_, refused["list"] = p.List(t.Context(), provider.Selector{})
	_, refused["list companions"] = p.ListCompanions(t.Context(), provider.Selector{})
	for _, c := range comp {
		refused["delete "+c.Kind] = p.DeleteCompanion(t.Context(), c)
	}
	for what, err := range refused {
		if provider.ClassOf(err) != provider.Permanent || provider.ReasonOf(err) != provider.ReasonUnauthorized {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got := count(b); got != complete {
		t.Errorf("there is %s", got)
	}
	if err := open(t, b, nil).Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
}

// Two regions: what is in one is found, listed and deleted wherever the default
// is by then.
func TestRegions(t *testing.T) {
	t.Parallel()
	b := openstacktest.NewBackend(t, openstacksim.Options{Regions: []string{"RegionOne", "RegionTwo", "RegionThree"}})
	both := func(o *openstack.Options) {
		everything(o)
		o.Regions = []string{"RegionOne", "RegionTwo"}
	}
	p := open(t, b, both)
	one := create(t, p, request("proxy-a"))
	req := request("proxy-b")
	req.Placement.Region = "RegionTwo"
	two := create(t, p, req)
	for id, region := range map[provider.InstanceID]string{one: "RegionOne", two: "RegionTwo"} {
		if in := waitRunning(t, p, id); in.Placement.Region != region {
			t.Errorf("%s is in %s, want %s", id, in.Placement.Region, region)
		}
	}
	if all, err := p.List(t.Context(), provider.Selector{Installation: "acme"}); err != nil || len(all) != 2 {
		t.Errorf("listed %d, %v", len(all), err)
	}
	if in, err := p.Find(t.Context(), req.Name, req.Marks); err != nil || in.ID != two {
		t.Errorf("found %s, %v", in.ID, err)
	}
	if comp, err := p.ListCompanions(t.Context(), provider.Selector{}); err != nil || len(comp) != 6 {
		t.Errorf("companions %+v, %v", comp, err)
	}
	if st := p.Check(t.Context()); len(st) != 4 || st[0].Target != "RegionOne/compute" || st[3].Target != "RegionTwo/network" {
		t.Errorf("%+v", st)
	}
	req.Name = "proxy-c"
	req.Placement.Region = "RegionThree"
	if _, err := p.Create(t.Context(), req); provider.ReasonOf(err) != provider.ReasonInvalidSpec {
		t.Errorf("a region that the configuration leaves out: %v", err)
	}
	// The configuration has changed; the instance is where it was.
	later := open(t, b, func(o *openstack.Options) { o.Regions = []string{"RegionThree"} })
	for _, id := range []provider.InstanceID{one, two} {
		if err := later.Delete(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	if got := count(b); got != "" {
		t.Errorf("%s is left", got)
	}
	for name, regions := range map[string][]string{"is required: the cloud has RegionOne, RegionThree, RegionTwo": nil, `"Atlantis" is not one of the cloud`: {"Atlantis"}} {
		_, err := open(t, b, func(o *openstack.Options) { o.Regions = regions }).List(t.Context(), provider.Selector{})
		if provider.ClassOf(err) != provider.Permanent || !strings.Contains(err.Error(), name) {
			t.Errorf("want %s: %v", name, err)
		}
	}
}

// A region that the cloud does not have fails what needs it, and nothing else. It
// may be taken out for a while only, so that it is waited for.
func TestRegionMistyped(t *testing.T) {
	t.Parallel()
	b := openstacktest.NewBackend(t, openstacksim.Options{})
	p := open(t, b, func(o *openstack.Options) { o.Regions = []string{"RegionOne", "Atlantis"} })
	req := request("proxy-a")
	req.Placement.Region = "RegionOne"
	id := create(t, p, req)
	waitRunning(t, p, id)
	bad := request("proxy-b")
	bad.Placement.Region = "Atlantis"
	_, created := p.Create(t.Context(), bad)
	_, listed := p.List(t.Context(), provider.Selector{})
	for what, err := range map[string]error{"created there": created, "listed": listed} {
		if provider.ClassOf(err) != provider.Transient || !strings.Contains(err.Error(), `"Atlantis" is not one of the cloud: want one of RegionOne`) {
			t.Errorf("%s: %v", what, err)
		}
	}
	ready := map[string]bool{}
	for _, st := range p.Check(t.Context()) {
		ready[st.Target] = st.Ready
	}
	if want := map[string]bool{"RegionOne/compute": true, "RegionOne/network": true, "Atlantis/compute": false, "Atlantis/network": false}; !maps.Equal(ready, want) {
		t.Errorf("ready: %v, want %v", ready, want)
	}
	if err := p.Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
}

// A region that is down holds up nothing that names another. What looks for a
// name, or for all there is, still fails: it must not conclude from a part.
func TestRegionDown(t *testing.T) {
	t.Parallel()
	b := openstacktest.NewBackend(t, openstacksim.Options{Regions: []string{"RegionOne", "RegionTwo"}})
	p := open(t, b, func(o *openstack.Options) {
		everything(o)
		o.Regions = []string{"RegionOne", "RegionTwo"}
	})
	for down, up := range map[string]string{"RegionOne": "RegionTwo", "RegionTwo": "RegionOne"} {
		remove := b.Faults.Add(openstacksim.Fault{Kind: openstacksim.FaultAnswer, Path: "/" + down + "/.*", Status: http.StatusServiceUnavailable})
		req := request("proxy-" + strings.ToLower(up))
		req.Placement.Region = up
		id := create(t, p, req)
		if again, err := p.Create(t.Context(), req); err != nil || again != id {
			t.Errorf("%s down: created again: %s, %v, want %s", down, again, err, id)
		}
		waitRunning(t, p, id)
		if _, err := p.Find(t.Context(), "proxy-nowhere", req.Marks); provider.ClassOf(err) != provider.Transient {
			t.Errorf("%s down: a name that is not in %s: %v, want Transient", down, up, err)
		}
		if _, err := p.List(t.Context(), provider.Selector{}); provider.ClassOf(err) != provider.Transient {
			t.Errorf("%s down: listed: %v, want Transient", down, err)
		}
		anywhere := request("proxy-anywhere")
		if _, err := p.Create(t.Context(), anywhere); provider.ClassOf(err) != provider.Transient {
			t.Errorf("%s down: created without a region: %v, want Transient", down, err)
		}
		if err := p.Delete(t.Context(), id); err != nil {
			t.Errorf("%s down: %v", down, err)
		}
		remove()
	}
	if got := count(b); got != "" {
		t.Errorf("%s is left", got)
	}
}

// A cloud from before tags at creation is used without them.
func TestOldMicroversion(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{"2.25": "2.1", "2.51": "2.1", "2.52": "2.52", "2.96": "2.52", "3.0": "2.52"} {
		b := openstacktest.NewBackend(t, openstacksim.Options{Microversion: version})
		p := open(t, b, nil)
		create(t, p, request("proxy-a"))
		if all, err := p.List(t.Context(), provider.Selector{Installation: "acme"}); err != nil || len(all) != 1 {
			t.Errorf("%s: listed %d, %v", version, len(all), err)
		}
		if got := p.Check(t.Context())[0].Details["microversion"]; got != want {
			t.Errorf("a cloud with %s is spoken to in %s, want %s", version, got, want)
		}
	}
}
