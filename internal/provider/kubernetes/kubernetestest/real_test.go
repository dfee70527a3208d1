//go:build kubernetes

package kubernetestest_test

import (
	"os"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/devserver/kubetest"
	"github.com/tollgate-dev/tollgate/internal/provider/kubernetes"
	"github.com/tollgate-dev/tollgate/internal/provider/kubernetes/kubernetestest"
	"github.com/tollgate-dev/tollgate/internal/provider/providertest"
)

const rbac = "../../../../deploy/kubernetes-provider/rbac.yaml"

func TestMain(m *testing.M) { os.Exit(kubetest.Main(m)) }

func cluster(t *testing.T) *kubernetestest.Cluster {
	t.Helper()
	return kubernetestest.NewCluster(t, kubetest.Shared(t, kubetest.Kubernetes).Config(t), rbac)
}

// The kit against a real API server, with the rights of the manifests and under
// the strictest Pod security standard. The manifests give every right that is
// used, or the kit would fail, and no other.
func TestRealContract(t *testing.T) {
	c := cluster(t)
	var mu sync.Mutex
	var all []*kubernetestest.Backend
	start := func(tb testing.TB) *kubernetestest.Backend {
		b := c.Backend(tb)
		mu.Lock()
		defer mu.Unlock()
		all = append(all, b)
		return b
	}
	for name, config := range map[string]func(*kubernetes.Options){
		"at the Pod":   nil,
		"at a Service": func(o *kubernetes.Options) { o.Expose = kubernetes.ExposeClusterIP },
	} {
		t.Run(name, func(t *testing.T) { providertest.Run(t, kubernetestest.Harness(start, config)) })
	}
	used := map[string]bool{}
	for _, b := range all {
		for _, r := range b.Front.Requests() {
			if r.Resource != "" { // whether it is ready, everybody may ask
				used[r.Verb+" "+r.Resource] = true
			}
		}
	}
	if diff := cmp.Diff(c.Rights(), used); diff != "" {
		t.Errorf("rights that the manifests give (-) and that were used (+):\n%s", diff)
	}
}

// What the kit does not know of, against a real API server.
func TestRealScenarios(t *testing.T) {
	c := cluster(t)
	for _, s := range kubernetestest.Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			s.Run(t, c.Backend(t))
		})
	}
}

// The manifests are taken as they stand.
func TestRealManifests(t *testing.T) {
	c := cluster(t)
	const namespace = "/api/v1/namespaces"
	for _, m := range []struct{ file, kind, path string }{
		{"namespace.yaml", "Namespace", namespace},
		{"rbac.yaml", "Role", "/apis/rbac.authorization.k8s.io/v1/namespaces/tollgate-proxies/roles"},
		{"rbac.yaml", "RoleBinding", "/apis/rbac.authorization.k8s.io/v1/namespaces/tollgate-proxies/rolebindings"},
		{"networkpolicy.yaml", "NetworkPolicy", "/apis/networking.k8s.io/v1/namespaces/tollgate-proxies/networkpolicies"},
	} {
		found := false
		for _, doc := range kubernetestest.Manifests(t, "../../../../deploy/kubernetes-provider/"+m.file) {
			if doc["kind"] == m.kind {
				found = true
				c.Make(t, m.path+"?fieldValidation=Strict", doc)
			}
		}
		if !found {
			t.Errorf("%s has no %s", m.file, m.kind)
		}
	}
}
