//go:build gardener

package garden_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tollgate-dev/tollgate/internal/devserver/kubetest"
	"github.com/tollgate-dev/tollgate/internal/gardener"
	"github.com/tollgate-dev/tollgate/internal/gardener/gardenertest"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/registration"
	"github.com/tollgate-dev/tollgate/internal/registration/garden"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

func TestMain(m *testing.M) { os.Exit(kubetest.Main(m)) }

// A shoot, its binding of either kind, its Secret in another project's namespace
// and the Keystone of its profile, read from the real API servers.
func TestRealGarden(t *testing.T) {
	k := kubetest.Shared(t, kubetest.Gardener)
	t.Setenv("KUBECONFIG", k.Kubeconfig)
	conn := gardener.NewConnection(gardener.Options{QPS: -1})
	c, err := conn.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cluster := gardenertest.Cluster{Client: c}
	cluster.Project(t, "tenants", "garden-of-tenants", nil)
	cluster.Project(t, "registers", "garden-somewhere", nil)
	data := map[string]string{"domainName": "Default", "tenantName": "tenant-a", "username": "u", "password": "p"}
	cluster.Credentials(t, "garden-somewhere", "shared", "garden-of-tenants", data)
	cluster.SecretBinding(t, "garden-somewhere", "old", "garden-of-tenants", "shared")
	made := gardenertest.Shoot("garden-somewhere", "web")
	binding := "shared"
	made.Spec.CredentialsBindingName = &binding
	s := cluster.Created(t, made)

	g := garden.New("garden", conn, "garden-somewhere")
	f, err := g.Shoot(t.Context(), "registers", "web")
	if err != nil || f.UID != string(s.UID) || f.Namespace != "garden-somewhere" || !f.CreatedAt.Equal(s.CreationTimestamp.Time) || f.Infrastructure != "openstack" ||
		f.Binding == nil || *f.Binding != (api.ShootBinding{Kind: api.CredentialsBinding, Name: "shared"}) || f.CloudProfile != "openstack" {
		t.Fatalf("shoot %+v, %v", f, err)
	}
	all, err := g.Shoots(t.Context())
	if err != nil || len(all) != 1 || all[0].UID != f.UID || all[0].Project != "registers" || all[0].CloudProfile != "openstack" {
		t.Errorf("shoots %+v, %v", all, err)
	}
	for _, b := range []api.ShootBinding{*f.Binding, {Kind: api.SecretBinding, Name: "old"}} {
		ref, err := g.Credentials(t.Context(), f.Namespace, b)
		if err != nil || ref.Kind != registration.KindSecret || ref.String() != "garden-of-tenants/shared" {
			t.Errorf("%s: %+v, %v", b.Kind, ref, err)
		}
	}
	secret, err := g.Secret(t.Context(), "garden-of-tenants", "shared")
	if v := secret.Data["tenantName"]; err != nil || string(v.Reveal()) != "tenant-a" || secret.Version == "" {
		t.Errorf("secret of version %q, %v", secret.Version, err)
	}
	if _, err := c.CloudProfiles().Patch(t.Context(), "openstack", types.MergePatchType, []byte(`{"spec":{"providerConfig":{"kind":"CloudProfileConfig",
		"apiVersion":"openstack.provider.extensions.gardener.cloud/v1alpha1","keystoneURL":"https://keystone.example.com:5000/v3",
		"keystoneURLs":[{"region":"region-2","url":"https://keystone-2.example.com/v3","caCert":"pem"}]}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	keystones, err := g.Keystones(t.Context(), "openstack")
	want := []registration.Keystone{{URL: "https://keystone.example.com:5000/v3", CA: []byte{}}, {URL: "https://keystone-2.example.com/v3", CA: []byte("pem")}}
	if diff := cmp.Diff(keystones, want); err != nil || diff != "" {
		t.Errorf("keystones: %v (-got +want)\n%s", err, diff)
	}
	r := &registration.Resolver{}
	byName := registration.Settings{OpenStack: registration.OpenStackSettings{ByName: true}}
	got, err := r.Resolve(t.Context(), byName, g, api.ShootFacts{Source: "garden", Project: "registers", Name: "web", UID: f.UID})
	if err != nil || got.Tenant == nil || got.Tenant.String() != "openstack/Default/tenant-a" || got.Presence != api.ShootPresent {
		t.Errorf("%+v, %v", got, err)
	}

	// Another tenant in the same Secret is another version of it.
	data["tenantName"] = "tenant-b"
	if err := c.WriteSecret(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "garden-of-tenants", Name: "shared"}, StringData: data}); err != nil {
		t.Fatal(err)
	}
	again, err := g.Secret(t.Context(), "garden-of-tenants", "shared")
	if v := again.Data["tenantName"]; err != nil || again.Version == secret.Version || string(v.Reveal()) != "tenant-b" {
		t.Errorf("version %q after %q, %v", again.Version, secret.Version, err)
	}

	cluster.Deleted(t, s)
	for what, err := range map[string]error{
		"shoot":   second(g.Shoot(t.Context(), "registers", "web")),
		"project": second(g.Shoot(t.Context(), "no-such-project", "web")),
		"binding": second(g.Credentials(t.Context(), "garden-somewhere", api.ShootBinding{Kind: api.SecretBinding, Name: "none"})),
		"secret":  second(g.Secret(t.Context(), "garden-of-tenants", "none")),
		"profile": second(g.Keystones(t.Context(), "none")),
	} {
		if provider.ClassOf(err) != provider.NotFound {
			t.Errorf("%s that is not there: %v", what, err)
		}
	}
	got, err = r.Resolve(t.Context(), byName, g, api.ShootFacts{Source: "garden", Project: "registers", Name: "web", UID: f.UID, CreatedAt: f.CreatedAt,
		Namespace: f.Namespace, Infrastructure: f.Infrastructure, Binding: &api.ShootBinding{Kind: api.SecretBinding, Name: "old"}})
	if err != nil || got.Tenant == nil || got.Tenant.ExternalID != "Default/tenant-b" || got.Presence != api.ShootGone {
		t.Errorf("after its end: %+v, %v", got, err)
	}
}

func second[T any](_ T, err error) error { return err }
