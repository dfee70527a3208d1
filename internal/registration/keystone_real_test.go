//go:build openstack

package registration_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/projects"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/users"

	"github.com/tollgate-dev/tollgate/internal/registration"
)

// A real Keystone tells the project of a user with a password, and of application
// credentials by id and by name; it refuses wrong ones.
func TestIdentifyOnTheRealServices(t *testing.T) {
	url, password := os.Getenv("TOLLGATE_OPENSTACK"), os.Getenv("TOLLGATE_OPENSTACK_PASSWORD")
	if url == "" || password == "" {
		t.Fatal("TOLLGATE_OPENSTACK is not set: run make test-openstack, or make dev-openstack and source its openrc")
	}
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	login := func(user, password, project string) *gophercloud.ServiceClient {
		t.Helper()
		p, err := openstack.AuthenticatedClient(ctx, gophercloud.AuthOptions{IdentityEndpoint: url, Username: user, Password: password, DomainName: "Default", TenantName: project})
		must(err)
		c, err := openstack.NewIdentityV3(p, gophercloud.EndpointOpts{})
		must(err)
		return c
	}
	admin := login("admin", password, "admin")
	name := fmt.Sprintf("shoot-%d", time.Now().UnixNano())
	project, err := projects.Create(ctx, admin, projects.CreateOpts{Name: name, DomainID: "default"}).Extract()
	must(err)
	cleanup := func(f func(context.Context) error) {
		t.Cleanup(func() {
			if err := f(context.WithoutCancel(ctx)); err != nil {
				t.Error(err)
			}
		})
	}
	cleanup(func(ctx context.Context) error { return projects.Delete(ctx, admin, project.ID).ExtractErr() })
	user, err := users.Create(ctx, admin, users.CreateOpts{Name: name, Password: sentinel, DomainID: "default"}).Extract()
	must(err)
	cleanup(func(ctx context.Context) error { return users.Delete(ctx, admin, user.ID).ExtractErr() })
	pages, err := roles.List(admin, roles.ListOpts{Name: "member"}).AllPages(ctx)
	must(err)
	found, err := roles.ExtractRoles(pages)
	must(err)
	if len(found) != 1 {
		t.Fatalf("%d roles member", len(found))
	}
	must(roles.Assign(ctx, admin, found[0].ID, roles.AssignOpts{UserID: user.ID, ProjectID: project.ID}).ExtractErr())
	own := login(name, sentinel, name)
	app, err := applicationcredentials.Create(ctx, own, user.ID, applicationcredentials.CreateOpts{Name: "shoot"}).Extract()
	must(err)

	want := registration.Identity{ID: project.ID, Name: name, Domain: "Default"}
	ids := &registration.Identities{}
	k := registration.Keystone{URL: url}
	for what, data := range map[string]map[string]string{
		"a password":                        {"username": name, "password": sentinel, "domainName": "Default", "tenantName": name},
		"an application credential":         {"applicationCredentialID": app.ID, "applicationCredentialSecret": app.Secret},
		"an application credential by name": {"applicationCredentialName": "shoot", "applicationCredentialSecret": app.Secret, "username": name, "domainName": "Default"},
	} {
		if got, err := ids.Identify(ctx, k, secret(what, data)); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", what, got, err, want)
		}
	}
	for what, data := range map[string]map[string]string{
		"a wrong password":       {"username": name, "password": "x", "domainName": "Default", "tenantName": name},
		"somebody else's tenant": {"username": name, "password": sentinel, "domainName": "Default", "tenantName": "admin"},
		"a wrong secret":         {"applicationCredentialID": app.ID, "applicationCredentialSecret": "x"},
	} {
		if _, err := ids.Identify(ctx, k, secret(what, data)); !errors.Is(err, registration.ErrRefused) {
			t.Errorf("%s: %v, want it refused", what, err)
		}
	}
}
