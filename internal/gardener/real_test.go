//go:build gardener

package gardener_test

import (
	"errors"
	"maps"
	"os"
	"slices"
	"testing"

	corev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tollgate-dev/tollgate/internal/devserver/kubetest"
	"github.com/tollgate-dev/tollgate/internal/gardener"
	"github.com/tollgate-dev/tollgate/internal/gardener/gardenertest"
)

func TestMain(m *testing.M) { os.Exit(kubetest.Main(m)) }

func TestRealShoot(t *testing.T) {
	k := kubetest.Shared(t, kubetest.Gardener)
	t.Setenv("KUBECONFIG", k.Kubeconfig)
	conn := gardener.NewConnection(gardener.Options{QPS: -1})
	c, err := conn.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	g := gardenertest.Cluster{Client: c}
	g.Project(t, "green", "garden-of-somebody", nil)
	s := g.Created(t, gardenertest.Shoot("garden-of-somebody", "shop"))
	if !gardener.Created(s) || gardener.UID(s) != string(s.UID) || s.Status.IsHibernated {
		t.Errorf("after its creation: %+v", s.Status)
	}
	s = g.Hibernate(t, s, true)
	if !gardener.WantsHibernation(s) || s.Status.IsHibernated {
		t.Error("a wish is a fact, or none")
	}
	if s = g.Reconciled(t, s); !s.Status.IsHibernated || s.Status.LastOperation.Type != corev1beta1.LastOperationTypeReconcile {
		t.Errorf("after hibernation: %+v", s.Status)
	}
	names := gardener.NewProjectNames(conn)
	got, err := names.Names(t.Context(), "garden-of-somebody", "garden-acme", "garden-k7x2p", "garden", "kube-system", "no-such-namespace")
	want := map[string]string{"garden-of-somebody": "green", "garden-acme": "acme", "garden-k7x2p": "blue"}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("projects: %v, %v", got, err)
	}
	for _, ns := range []string{"garden-acme", "garden-k7x2p"} {
		if name, err := gardener.NewProjectNames(conn).Name(t.Context(), ns); err != nil || name != want[ns] {
			t.Errorf("%s: %q, %v", ns, name, err)
		}
	}
	if _, err := names.Name(t.Context(), "kube-system"); !errors.Is(err, gardener.ErrNoProject) {
		t.Errorf("kube-system: %v", err)
	}
	binding, err := c.CredentialsBindings(s.Namespace).Get(t.Context(), *s.Spec.CredentialsBindingName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	secret, err := c.Secret(t.Context(), binding.CredentialsRef.Namespace, binding.CredentialsRef.Name)
	if err != nil || string(secret.Data["tenantName"]) != "tenant" {
		t.Errorf("secret: %v, %v", slices.Sorted(maps.Keys(secret.Data)), err)
	}
	if _, err := c.SecretBindings("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	g.Deleted(t, s)
	_, err = c.Secret(t.Context(), "garden-acme", "no-such-secret")
	if !gardener.IsNotFound(err) {
		t.Errorf("a secret that is not there: %v", err)
	}
}
