//go:build openstack

package openstack_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/openstack/cloud"
	"github.com/tollgate-dev/tollgate/internal/openstack/cloudtest"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack"
)

// What a create names is found by name or id as the services have it, what does not
// exist is told before anything is made, and a renamed server stays the same.
func TestNamesOnTheRealServices(t *testing.T) {
	t.Parallel()
	b := newReal(t)
	open := func(change func(*openstack.Options)) *openstack.Provider {
		return b.open(t, provider.Config{Name: "cloud", Installation: "acme", Secret: newVault("correct").read}, "correct", func(o *openstack.Options) {
			everything(o)
			change(o)
		})
	}
	for want, change := range map[string]func(*openstack.Options){
		`keyName: "nobodys": this user has no such key pair`:                     func(o *openstack.Options) { o.KeyName = "nobodys" },
		`volume.zone: "mars": the volume service has no such availability zone`:  func(o *openstack.Options) { o.Volume.Zone = "mars" },
		`image: "1353f103-9477-4c9b-94c2-0d1a2ded0e96": there is no such active`: func(o *openstack.Options) { o.Image = "1353f103-9477-4c9b-94c2-0d1a2ded0e96" },
	} {
		_, err := open(change).Create(t.Context(), request("proxy-a"))
		if provider.ReasonOf(err) != provider.ReasonInvalidSpec || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s: %v", want, err)
		}
	}
	as := b.As(t, b.Name, "correct")
	as.Do(t, "POST", b.URLs["compute"]+"/os-keypairs", map[string]any{"keypair": map[string]any{"name": "ours"}}, nil)
	var images struct{ Images []struct{ ID string } }
	b.Do(t, "GET", b.URLs["image"]+"/v2/images?name=cirros", nil, &images)
	if len(images.Images) == 0 {
		t.Fatal("the cloud has no image cirros")
	}
	p := open(func(o *openstack.Options) {
		o.KeyName, o.Image, o.Zone, o.Volume.Boot = "ours", images.Images[0].ID, "nova", true
	})
	req := request("proxy-a")
	id := create(t, p, req)
	server := b.named(t, req.Name).ID
	cloudtest.Until(t, "the server runs", func() bool {
		in, err := p.Get(t.Context(), id)
		return err == nil && in.State == provider.StateRunning
	})
	as.Do(t, "PUT", b.URLs["compute"]+"/servers/"+server, map[string]any{"server": map[string]any{"name": "renamed by hand"}}, nil)
	if all, err := p.List(t.Context(), provider.Selector{Installation: "acme"}); err != nil || len(all) != 1 || all[0].ID != id {
		t.Errorf("listed %+v, %v; want %s", all, err, id)
	}
	if in, err := p.Find(t.Context(), req.Name, req.Marks); err != nil || in.ID != id {
		t.Errorf("found %s, %v; want %s", in.ID, err, id)
	}
	if again := create(t, open(func(*openstack.Options) {}), req); again != id {
		t.Errorf("created again: %s, want %s", again, id)
	}
	if err := p.Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
	cloudtest.Until(t, "nothing is left", func() bool { return len(b.Things(t)) == 0 })
}

// An access rule that is missing is told as such, and a trashed credential is not.
func TestAccessRulesOnTheRealServices(t *testing.T) {
	t.Parallel()
	b := newReal(t)
	b.open(t, provider.Config{Name: "cloud", Installation: "acme", Secret: newVault("correct").read}, "correct", nil)
	as := b.As(t, b.Name, "correct")
	var made struct {
		Cred credential `json:"application_credential"`
	}
	as.Do(t, http.MethodPost, fmt.Sprintf("%s/users/%s/application_credentials", b.Identity, b.Member(t, "")), map[string]any{
		"application_credential": map[string]any{"name": "narrow", "roles": []any{map[string]any{"name": "member"}},
			"access_rules": []any{map[string]any{"service": "compute", "method": "GET", "path": "/v2.1/nothing"}}}}, &made)
	p := b.open(t, provider.Config{Name: "cloud", Installation: "acme", Secret: newVault(made.Cred.Secret).read}, "correct", func(o *openstack.Options) {
		o.Auth = cloud.Auth{URL: o.Auth.URL, ApplicationCredentialID: made.Cred.ID, ApplicationCredentialSecret: "cloud-password"}
	})
	_, err := p.List(t.Context(), provider.Selector{})
	wantClass(t, err, provider.Permanent, provider.ReasonUnauthorized)
	if !strings.Contains(fmt.Sprint(err), "access rules") {
		t.Errorf("it says %v", err)
	}
}
