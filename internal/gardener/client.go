// Package gardener is a light typed client of a Gardener's API: Gardener's own
// types with client-go's generic clients, for the few resources that Tollgate
// reads. It also has the rules that everything about shoots shares: what a shoot's
// identity is, which project a namespace belongs to, what account events are of,
// and what class a failure has.
package gardener

import (
	"context"

	corev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	securityv1alpha1 "github.com/gardener/gardener/pkg/apis/security/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
)

// Clients of one resource. They are client-go's: their methods return errors as
// the API server gave them, for Classify.
type (
	Shoots   = gentype.ClientWithList[*corev1beta1.Shoot, *corev1beta1.ShootList]
	Projects = gentype.ClientWithList[*corev1beta1.Project, *corev1beta1.ProjectList]
	//lint:ignore SA1019 shoots of older Gardeners have them
	SecretBindings      = gentype.ClientWithList[*corev1beta1.SecretBinding, *corev1beta1.SecretBindingList]
	CredentialsBindings = gentype.ClientWithList[*securityv1alpha1.CredentialsBinding, *securityv1alpha1.CredentialsBindingList]
	Namespaces          = gentype.ClientWithList[*corev1.Namespace, *corev1.NamespaceList]
)

// Client reaches one Gardener. It makes one request for each call: nothing is
// tried again here. It is safe for concurrent use.
type Client struct {
	core, security, kube rest.Interface
}

// NewClient builds a client. It makes no request. QPS and Burst of cfg limit its
// requests, for each API group on its own.
func NewClient(cfg *rest.Config) (*Client, error) {
	var c Client
	for _, g := range []struct {
		to   *rest.Interface
		path string
		gv   schema.GroupVersion
	}{
		{&c.core, "/apis", corev1beta1.SchemeGroupVersion},
		{&c.security, "/apis", securityv1alpha1.SchemeGroupVersion},
		{&c.kube, "/api", corev1.SchemeGroupVersion},
	} {
		own := rest.CopyConfig(cfg)
		own.GroupVersion, own.APIPath = &g.gv, g.path
		own.NegotiatedSerializer = rest.CodecFactoryForGeneratedClient(scheme, codecs).WithoutConversion()
		own.ContentType = runtime.ContentTypeProtobuf
		own.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
		if own.UserAgent == "" {
			own.UserAgent = "tollgate"
		}
		r, err := rest.RESTClientFor(own)
		if err != nil {
			return nil, err
		}
		*g.to = once{r}
	}
	return &c, nil
}

// once switches client-go's own retries off: Temporal retries.
type once struct{ rest.Interface }

func (o once) Verb(v string) *rest.Request { return o.Interface.Verb(v).MaxRetries(0) }
func (o once) Post() *rest.Request         { return o.Interface.Post().MaxRetries(0) }
func (o once) Put() *rest.Request          { return o.Interface.Put().MaxRetries(0) }
func (o once) Get() *rest.Request          { return o.Interface.Get().MaxRetries(0) }
func (o once) Delete() *rest.Request       { return o.Interface.Delete().MaxRetries(0) }
func (o once) Patch(t types.PatchType) *rest.Request {
	return o.Interface.Patch(t).MaxRetries(0)
}

var (
	scheme         = newScheme()
	codecs         = serializer.NewCodecFactory(scheme)
	parameterCodec = runtime.NewParameterCodec(scheme)
)

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1beta1.AddToScheme, securityv1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err) // a mistake in the program
		}
	}
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	return s
}

// Shoots are those of a namespace; "" is all.
func (c *Client) Shoots(namespace string) *Shoots {
	return gentype.NewClientWithList("shoots", c.core, parameterCodec, namespace,
		func() *corev1beta1.Shoot { return &corev1beta1.Shoot{} }, func() *corev1beta1.ShootList { return &corev1beta1.ShootList{} })
}

// Projects belong to no namespace.
func (c *Client) Projects() *Projects {
	return gentype.NewClientWithList("projects", c.core, parameterCodec, "",
		func() *corev1beta1.Project { return &corev1beta1.Project{} }, func() *corev1beta1.ProjectList { return &corev1beta1.ProjectList{} })
}

// SecretBindings are those of a namespace; "" is all.
func (c *Client) SecretBindings(namespace string) *SecretBindings {
	return gentype.NewClientWithList("secretbindings", c.core, parameterCodec, namespace, newSecretBinding, newSecretBindings)
}

//lint:ignore SA1019 shoots of older Gardeners have them
func newSecretBinding() *corev1beta1.SecretBinding { return &corev1beta1.SecretBinding{} }

//lint:ignore SA1019 the same
func newSecretBindings() *corev1beta1.SecretBindingList { return &corev1beta1.SecretBindingList{} }

// CredentialsBindings are those of a namespace; "" is all.
func (c *Client) CredentialsBindings(namespace string) *CredentialsBindings {
	return gentype.NewClientWithList("credentialsbindings", c.security, parameterCodec, namespace,
		func() *securityv1alpha1.CredentialsBinding { return &securityv1alpha1.CredentialsBinding{} },
		func() *securityv1alpha1.CredentialsBindingList { return &securityv1alpha1.CredentialsBindingList{} })
}

// Namespaces belong to no namespace.
func (c *Client) Namespaces() *Namespaces {
	return gentype.NewClientWithList("namespaces", c.kube, parameterCodec, "",
		func() *corev1.Namespace { return &corev1.Namespace{} }, func() *corev1.NamespaceList { return &corev1.NamespaceList{} })
}

// Secret reads one secret. There is no way to list them.
func (c *Client) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	return c.secrets(namespace).Get(ctx, name, metav1.GetOptions{})
}

func (c *Client) secrets(namespace string) *gentype.Client[*corev1.Secret] {
	return gentype.NewClient("secrets", c.kube, parameterCodec, namespace, func() *corev1.Secret { return &corev1.Secret{} })
}

// WriteSecret creates a secret or replaces the one of that name. Tollgate itself
// has no right to: it is for tests and for setting a dev backend up.
func (c *Client) WriteSecret(ctx context.Context, s *corev1.Secret) error {
	_, err := c.secrets(s.Namespace).Create(ctx, s, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = c.secrets(s.Namespace).Update(ctx, s, metav1.UpdateOptions{})
	}
	return err
}
