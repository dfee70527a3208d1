package kubetest

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Apply makes the objects of manifests, which are files of YAML. What is there
// already stays.
func (c *Cluster) Apply(tb testing.TB, files ...string) {
	tb.Helper()
	r := c.raw(tb)
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			tb.Fatal(err)
		}
		for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(b), 4096); ; {
			var u unstructured.Unstructured
			if err := d.Decode(&u.Object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				tb.Fatalf("%s: %v", f, err)
			}
			if len(u.Object) == 0 {
				continue
			}
			body, err := u.MarshalJSON()
			if err != nil {
				tb.Fatalf("%s: %v", f, err)
			}
			err = r.Post().AbsPath(collection(u)).SetHeader("Content-Type", "application/json").Body(body).Do(tb.Context()).Error()
			if err != nil && !apierrors.IsAlreadyExists(err) {
				tb.Fatalf("%s: %s %s: %v", f, u.GetKind(), u.GetName(), err)
			}
		}
	}
}

// collection is where objects of a kind are made.
func collection(u unstructured.Unstructured) string {
	path := "/apis/" + u.GetAPIVersion()
	if !strings.Contains(u.GetAPIVersion(), "/") {
		path = "/api/" + u.GetAPIVersion()
	}
	if ns := u.GetNamespace(); ns != "" {
		path += "/namespaces/" + ns
	}
	plural := strings.ToLower(u.GetKind()) + "s"
	if p, ok := strings.CutSuffix(plural, "ys"); ok { // NetworkPolicy
		plural = p + "ies"
	}
	return path + "/" + plural
}

// As is the configuration of a client that is a service account, with a token that
// the API server has made.
func (c *Cluster) As(tb testing.TB, namespace, serviceAccount string) *rest.Config {
	tb.Helper()
	var t authenticationv1.TokenRequest
	err := c.raw(tb).Post().AbsPath("/api/v1/namespaces/" + namespace + "/serviceaccounts/" + serviceAccount + "/token").
		Body(&authenticationv1.TokenRequest{}).Do(tb.Context()).Into(&t)
	if err != nil {
		tb.Fatal(err)
	}
	cfg := rest.AnonymousClientConfig(c.Config(tb))
	cfg.BearerToken, cfg.QPS = t.Status.Token, -1
	return cfg
}

func (c *Cluster) raw(tb testing.TB) *rest.RESTClient {
	tb.Helper()
	cfg := c.Config(tb)
	cfg.GroupVersion, cfg.NegotiatedSerializer = &corev1.SchemeGroupVersion, scheme.Codecs.WithoutConversion()
	r, err := rest.RESTClientFor(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}
