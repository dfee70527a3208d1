//go:build kubernetes

package kubernetestest_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/devserver/kubetest"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/kubernetes"
	"github.com/tollgate-dev/tollgate/internal/provider/kubernetes/kubernetestest"
)

type object = map[string]any

// post posts an object of any API into a backend's namespace, or without one.
func post(t *testing.T, c *kubernetestest.Cluster, path string, o object) {
	t.Helper()
	if err := c.Admin.Do(t.Context(), http.MethodPost, path, o, nil); err != nil {
		t.Fatalf("POST %s: %v", path, err)
	}
}

// What policies of a cluster say to a create, in the API server's own words.
func TestRealRefusals(t *testing.T) {
	c := cluster(t)
	for name, tc := range map[string]struct {
		config  func(*kubernetes.Options)
		prepare func(t *testing.T, b *kubernetestest.Backend)
		class   provider.Class
		reason  string
		text    string
	}{
		"a quota that wants limits": {
			prepare: func(t *testing.T, b *kubernetestest.Backend) { b.Quota(t, "limits.cpu", 10) },
			class:   provider.Permanent, reason: provider.ReasonInvalidSpec, text: "failed quota: tollgate: must specify limits.cpu",
		},
		"a limit range": {
			prepare: func(t *testing.T, b *kubernetestest.Backend) {
				post(t, c, b.Path("limitranges"), object{"metadata": object{"name": "small"},
					"spec": object{"limits": []object{{"type": "Container", "max": object{"memory": "1Mi"}}}}})
			},
			class: provider.Permanent, reason: provider.ReasonInvalidSpec, text: "maximum memory usage per Container is 1Mi",
		},
		"a priority class that does not exist": {
			config: func(o *kubernetes.Options) { o.PriorityClass = "nobody" },
			class:  provider.Permanent, reason: provider.ReasonInvalidSpec, text: "no PriorityClass with name nobody was found",
		},
		"a runtime class that does not exist": {
			config: func(o *kubernetes.Options) { o.RuntimeClass = "nobody" },
			class:  provider.Permanent, reason: provider.ReasonInvalidSpec, text: `RuntimeClass "nobody" not found`,
		},
		"a policy": {
			prepare: func(t *testing.T, b *kubernetestest.Backend) {
				group := "/apis/admissionregistration.k8s.io/v1/"
				post(t, c, group+"validatingadmissionpolicies", object{"metadata": object{"name": b.Namespace}, "spec": object{
					"matchConstraints": object{"resourceRules": []object{{"apiGroups": []string{""}, "apiVersions": []string{"v1"}, "operations": []string{"CREATE"}, "resources": []string{"pods"}}}},
					"validations":      []object{{"expression": "false", "message": "not on a Monday"}}}})
				post(t, c, group+"validatingadmissionpolicybindings", object{"metadata": object{"name": b.Namespace}, "spec": object{
					"policyName": b.Namespace, "validationActions": []string{"Deny"},
					"matchResources": object{"namespaceSelector": object{"matchLabels": object{"kubernetes.io/metadata.name": b.Namespace}}}}})
			},
			class: provider.Permanent, reason: provider.ReasonInvalidSpec, text: "not on a Monday",
		},
		"a webhook that does not answer": {
			prepare: func(t *testing.T, b *kubernetestest.Backend) {
				post(t, c, "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", object{"metadata": object{"name": b.Namespace},
					"webhooks": []object{{"name": "nobody.example.org", "admissionReviewVersions": []string{"v1"}, "sideEffects": "None", "failurePolicy": "Fail", "timeoutSeconds": 1,
						"clientConfig":      object{"url": "https://127.0.0.1:1/"},
						"namespaceSelector": object{"matchLabels": object{"kubernetes.io/metadata.name": b.Namespace}},
						"rules":             []object{{"apiGroups": []string{""}, "apiVersions": []string{"v1"}, "operations": []string{"CREATE"}, "resources": []string{"pods"}}}}}})
			},
			class: provider.Transient, text: "failed calling webhook",
		},
		"a namespace that is being terminated": {
			prepare: func(t *testing.T, b *kubernetestest.Backend) {
				if err := c.Admin.Do(t.Context(), http.MethodDelete, "/api/v1/namespaces/"+b.Namespace, nil, nil); err != nil {
					t.Fatal(err)
				}
			},
			class: provider.Permanent, text: "because it is being terminated",
		},
		"a right that was taken": {
			prepare: func(t *testing.T, b *kubernetestest.Backend) {
				if err := c.Admin.Do(t.Context(), http.MethodDelete, "/apis/rbac.authorization.k8s.io/v1/namespaces/"+b.Namespace+"/rolebindings/tollgate-provider", nil, nil); err != nil {
					t.Fatal(err)
				}
			},
			class: provider.Permanent, reason: provider.ReasonForbidden, text: "cannot create resource",
		},
		"no credentials": {
			prepare: func(_ *testing.T, b *kubernetestest.Backend) {
				b.Front.Authorize = func(h http.Header) { h.Del("Authorization") }
			},
			class: provider.Transient, reason: provider.ReasonForbidden, text: "system:anonymous",
		},
		"wrong credentials": {
			prepare: func(_ *testing.T, b *kubernetestest.Backend) {
				b.Front.Authorize = func(h http.Header) { h.Set("Authorization", "Bearer nonsense") }
			},
			class: provider.Permanent, reason: provider.ReasonUnauthorized, text: "Unauthorized",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := c.Backend(t)
			if tc.prepare != nil {
				tc.prepare(t, b)
			}
			p := b.Provider(t, tc.config)
			// What was prepared comes into force a little later.
			var err error
			kubernetestest.Eventually(t, tc.text, func() bool {
				req := kubernetestest.Request("one")
				req.CloudInit = provider.Sensitive{}
				_, err = p.Create(t.Context(), req)
				return err != nil && strings.Contains(err.Error(), tc.text)
			})
			kubernetestest.WantClass(t, err, tc.class, tc.reason, tc.text)
			t.Log(err)
			if st := p.Check(t.Context())[0]; st.Ready || st.Message == "" {
				t.Errorf("the check says %+v", st)
			}
		})
	}
}

// An API server that ends, is away and comes back: no call says of an instance
// that it is gone, no failure is final, and afterwards everything is there.
func TestRealRestart(t *testing.T) {
	k := kubetest.Start(t, kubetest.Options{Kind: kubetest.Kubernetes})
	c := kubernetestest.NewCluster(t, k.Config(t), rbac)
	b := c.Backend(t)
	p := b.Provider(t, nil)
	id := kubernetestest.Create(t, p, kubernetestest.Request("one"))
	kubernetestest.Await(t, p, id, provider.StateRunning)
	stop, done := make(chan struct{}), make(chan struct{})
	seen := map[string]int{}
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
			}
			_, gerr := p.Get(t.Context(), id)
			all, lerr := p.List(t.Context(), provider.Selector{Installation: "acme"})
			for _, err := range []error{gerr, lerr} {
				if err == nil {
					continue
				}
				seen[string(provider.ClassOf(err))+" "+provider.ReasonOf(err)]++
				if provider.ClassOf(err) != provider.Transient && provider.ClassOf(err) != provider.RateLimited {
					t.Errorf("while the API server restarts: %v", err)
				}
			}
			if lerr == nil && len(all) != 1 {
				t.Errorf("%d instances are listed", len(all))
			}
		}
	}()
	k.Stop(t, kubetest.APIServer)
	k.Up(t)
	kubernetestest.Eventually(t, "it serves again", func() bool { _, err := p.Get(t.Context(), id); return err == nil })
	close(stop)
	<-done
	t.Log("failures by class and reason: ", seen)
	if len(seen) == 0 {
		t.Error("the API server was never away")
	}
	if err := p.Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
}

// A continue token that is older than what etcd remembers.
func TestRealCompaction(t *testing.T) {
	k := kubetest.Start(t, kubetest.Options{Kind: kubetest.Kubernetes, APIServerArgs: []string{"--watch-cache-sizes=pods#0"}})
	c := kubernetestest.NewCluster(t, k.Config(t), rbac)
	b := c.Backend(t)
	p := b.Provider(t, nil)
	const n = 10
	for range n {
		kubernetestest.Create(t, p, kubernetestest.Request("many"))
	}
	next, compacted := b.Front.Next, false
	b.Front.Next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("continue") != "" && !compacted {
			compacted = true
			// A change in between, or the moment of the listing would be the latest one.
			kubernetestest.Create(t, b.Provider(t, nil), kubernetestest.Request("late"))
			k.Compact(t)
		}
		next.ServeHTTP(w, r)
	})
	all, err := p.List(t.Context(), provider.Selector{Installation: "acme"})
	if err != nil || len(all) != n+1 {
		t.Errorf("%d instances, %v; want %d", len(all), err, n+1)
	}
	gone := 0
	for _, r := range b.Front.Requests() {
		if r.Code == http.StatusGone {
			gone++
		}
	}
	if gone != 1 {
		t.Errorf("%d pages were forgotten, want 1", gone)
	}
}
