package kubernetestest

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	"k8s.io/client-go/rest"

	"github.com/tollgate-dev/tollgate/internal/provider/kubernetes/kubernetessim"
)

// Cluster is a real API server in which the driver has the rights of the
// manifests, shown by the token of a service account.
type Cluster struct {
	Admin *kubernetessim.Client
	// Account is the driver's name in the cluster.
	Account string
	// Runtime is what the nodes of later Backends run Pods with; nil runs nothing.
	Runtime kubernetessim.Runtime

	server *url.URL
	plain  http.RoundTripper // without the administrator's certificate
	token  string
	rights []map[string]any // the manifests of deploy/kubernetes-provider/rbac.yaml
}

const (
	workerNamespace = "tollgate"
	workerAccount   = "tollgate"
)

// NewCluster makes the worker's service account. rbac is the path of the
// manifests with its rights.
func NewCluster(tb testing.TB, admin *rest.Config, rbac string) *Cluster {
	tb.Helper()
	hc, err := rest.HTTPClientFor(admin)
	if err != nil {
		tb.Fatal(err)
	}
	plain, err := rest.TransportFor(rest.AnonymousClientConfig(admin))
	if err != nil {
		tb.Fatal(err)
	}
	server, err := url.Parse(admin.Host)
	if err != nil {
		tb.Fatal(err)
	}
	c := &Cluster{Admin: &kubernetessim.Client{URL: admin.Host, HTTP: hc}, server: server, plain: plain,
		Account: "system:serviceaccount:" + workerNamespace + ":" + workerAccount, rights: Manifests(tb, rbac)}
	c.Make(tb, "/api/v1/namespaces", named(workerNamespace))
	account := "/api/v1/namespaces/" + workerNamespace + "/serviceaccounts"
	c.Make(tb, account, named(workerAccount))
	var made struct {
		Status struct {
			Token string `json:"token"`
		} `json:"status"`
	}
	if err := c.Admin.Do(tb.Context(), http.MethodPost, account+"/"+workerAccount+"/token", map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": map[string]any{"expirationSeconds": 3600}}, &made); err != nil {
		tb.Fatal(err)
	}
	c.token = made.Status.Token
	return c
}

func named(name string) map[string]any {
	return map[string]any{"metadata": map[string]any{"name": name}}
}

// Manifests reads the documents of a YAML file.
func Manifests(tb testing.TB, file string) (out []map[string]any) {
	tb.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var doc map[string]any
		switch err := d.Decode(&doc); {
		case errors.Is(err, io.EOF):
			return out
		case err != nil:
			tb.Fatalf("%s: %v", file, err)
		}
		out = append(out, doc)
	}
}

// Make creates an object unless it is there.
func (c *Cluster) Make(tb testing.TB, path string, object any) {
	tb.Helper()
	err := c.Admin.Do(tb.Context(), http.MethodPost, path, object, nil)
	var st *kubernetessim.StatusError
	if err != nil && !(errors.As(err, &st) && st.Code == http.StatusConflict) {
		tb.Fatalf("POST %s: %v", path, err)
	}
}

// Backend makes a namespace of its own in the cluster, with the Pod security
// standard "restricted" enforced and the driver's rights in it, a node, and a
// Front before the API server.
func (c *Cluster) Backend(tb testing.TB) *Backend {
	tb.Helper()
	namespace := Name("kit")
	c.Make(tb, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": namespace, "labels": map[string]any{
		"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/enforce-version": "latest"}}})
	c.Make(tb, "/api/v1/namespaces/"+namespace+"/serviceaccounts", named("default"))
	for _, doc := range c.rights {
		resource := map[string]string{"Role": "roles", "RoleBinding": "rolebindings"}[doc["kind"].(string)]
		meta := map[string]any{}
		for k, v := range doc["metadata"].(map[string]any) {
			meta[k] = v
		}
		meta["namespace"] = namespace
		object := map[string]any{}
		for k, v := range doc {
			object[k] = v
		}
		object["metadata"] = meta
		c.Make(tb, "/apis/rbac.authorization.k8s.io/v1/namespaces/"+namespace+"/"+resource, object)
	}
	proxy := &httputil.ReverseProxy{
		Transport: c.plain, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(c.server) },
		// A client that leaves in the middle is what some tests are about.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {},
	}
	b := &Backend{Namespace: namespace, Admin: c.Admin, Runtime: c.Runtime,
		Front: &kubernetessim.Front{Next: proxy, Authorize: func(h http.Header) { h.Set("Authorization", "Bearer "+c.token) }}}
	b.Start(tb)
	c.awaitRights(tb, namespace)
	return b
}

// awaitRights waits until the API server has read the rights of a namespace: it
// does so some milliseconds after they were made.
func (c *Cluster) awaitRights(tb testing.TB, namespace string) {
	tb.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		var review struct {
			Status struct {
				Allowed bool `json:"allowed"`
			} `json:"status"`
		}
		if err := c.Admin.Do(tb.Context(), http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", map[string]any{
			"spec": map[string]any{"user": c.Account, "resourceAttributes": map[string]any{"namespace": namespace, "verb": "create", "resource": "pods"}}}, &review); err != nil {
			tb.Fatal(err)
		}
		if review.Status.Allowed {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("the rights in %s do not come into force", namespace)
		}
		select {
		case <-tb.Context().Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Rights are the verbs and resources that the manifests give, "create pods".
func (c *Cluster) Rights() map[string]bool {
	out := map[string]bool{}
	for _, doc := range c.rights {
		rules, _ := doc["rules"].([]any)
		for _, r := range rules {
			rule := r.(map[string]any)
			for _, resource := range rule["resources"].([]any) {
				for _, verb := range rule["verbs"].([]any) {
					out[verb.(string)+" "+resource.(string)] = true
				}
			}
		}
	}
	return out
}
