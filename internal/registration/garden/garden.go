// Package garden reads what registrations need to know from a real Gardener.
package garden

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tollgate-dev/tollgate/internal/gardener"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/registration"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Operations, as errors name them.
const (
	OpShoot       provider.Op = "get shoot"
	OpShoots      provider.Op = "list shoots"
	OpCredentials provider.Op = "get credentials"
	OpSecret      provider.Op = "get secret"
	OpProfile     provider.Op = "get cloud profile"
)

// Garden implements registration.Garden. It is safe for concurrent use.
type Garden struct {
	name, namespace string
	conn            *gardener.Connection
	projects        *gardener.ProjectNames

	mu         sync.Mutex
	namespaces map[string]string // by project
}

var _ registration.Garden = (*Garden)(nil)

// New reads a Gardener over a connection. name is that of the source, in errors;
// namespace limits what Shoots lists, "" to nothing.
func New(name string, conn *gardener.Connection, namespace string) *Garden {
	return &Garden{name: name, namespace: namespace, conn: conn, projects: gardener.NewProjectNames(conn), namespaces: map[string]string{}}
}

// read makes one call and classes its failure.
func read[T any](ctx context.Context, g *Garden, op provider.Op, id string, f func(*gardener.Client) (T, error)) (T, error) {
	var v T
	c, err := g.conn.Client(ctx)
	if err == nil {
		v, err = f(c)
	}
	return v, gardener.Classify(op, g.name, id, err)
}

// namespaceOf is the namespace of a project. A project never changes it. All
// projects are listed, which the source may do too; whoever may not asks for the
// one.
func (g *Garden) namespaceOf(ctx context.Context, project string) (string, error) {
	g.mu.Lock()
	ns := g.namespaces[project]
	g.mu.Unlock()
	if ns != "" {
		return ns, nil
	}
	found := map[string]string{}
	exists := false
	take := func(p *corev1beta1.Project) {
		exists = exists || p.Name == project
		if p.Spec.Namespace != nil && *p.Spec.Namespace != "" {
			found[p.Name] = *p.Spec.Namespace
		}
	}
	_, err := read(ctx, g, OpShoot, project, func(c *gardener.Client) (any, error) {
		return nil, gardener.Each(ctx, c.Projects().List, metav1.ListOptions{}, func(l *corev1beta1.ProjectList) error {
			for i := range l.Items {
				take(&l.Items[i])
			}
			return nil
		})
	})
	if provider.ReasonOf(err) == provider.ReasonForbidden {
		var p *corev1beta1.Project
		if p, err = read(ctx, g, OpShoot, project, func(c *gardener.Client) (*corev1beta1.Project, error) {
			return c.Projects().Get(ctx, project, metav1.GetOptions{})
		}); err == nil {
			take(p)
		}
	}
	switch {
	case err != nil:
		return "", err
	case !exists:
		return "", provider.Wrap(provider.NotFound, OpShoot, g.name, project, errors.New("there is no such project"))
	case found[project] == "":
		return "", provider.Wrap(provider.Transient, OpShoot, g.name, project, errors.New("the project has no namespace yet"))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.Copy(g.namespaces, found)
	return found[project], nil
}

// Shoot implements registration.Garden.
func (g *Garden) Shoot(ctx context.Context, project, name string) (api.ShootFacts, error) {
	ns, err := g.namespaceOf(ctx, project)
	if err != nil {
		return api.ShootFacts{}, err
	}
	s, err := read(ctx, g, OpShoot, project+"/"+name, func(c *gardener.Client) (*corev1beta1.Shoot, error) {
		return c.Shoots(ns).Get(ctx, name, metav1.GetOptions{})
	})
	if provider.ClassOf(err) == provider.NotFound {
		g.mu.Lock()
		delete(g.namespaces, project) // it may have been made again with another one
		g.mu.Unlock()
	}
	if err != nil {
		return api.ShootFacts{}, err
	}
	f := Facts(project, s)
	f.CloudProfile, err = g.profile(ctx, s)
	return f, err
}

// profile is the cloud profile of a shoot. For one of a namespace it is the parent:
// the providerConfig of the other is not the operators' word.
func (g *Garden) profile(ctx context.Context, s *corev1beta1.Shoot) (string, error) {
	switch p := s.Spec.CloudProfile; {
	case p != nil && p.Kind == "NamespacedCloudProfile":
		own, err := read(ctx, g, OpProfile, p.Name, func(c *gardener.Client) (*corev1beta1.NamespacedCloudProfile, error) {
			return c.NamespacedCloudProfiles(s.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
		})
		if provider.ClassOf(err) == provider.NotFound {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		return own.Spec.Parent.Name, nil
	case p != nil:
		return p.Name, nil
	}
	return "", nil
}

// Shoots implements registration.Garden.
func (g *Garden) Shoots(ctx context.Context) ([]api.ShootFacts, error) {
	var shoots []corev1beta1.Shoot
	_, err := read(ctx, g, OpShoots, "", func(c *gardener.Client) (any, error) {
		return nil, gardener.Each(ctx, c.Shoots(g.namespace).List, metav1.ListOptions{}, func(l *corev1beta1.ShootList) error {
			for i := range l.Items {
				// What is not needed would be most of the memory.
				s := &l.Items[i]
				s.ManagedFields, s.Status.Conditions, s.Status.LastErrors = nil, nil, nil
				shoots = append(shoots, *s)
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	var namespaces []string
	for i := range shoots {
		namespaces = append(namespaces, shoots[i].Namespace)
	}
	projects, err := g.projects.Names(ctx, slices.Compact(slices.Sorted(slices.Values(namespaces)))...)
	if err != nil {
		return nil, gardener.Classify(OpShoots, g.name, "", err)
	}
	profiles := map[string]string{}
	out := make([]api.ShootFacts, len(shoots))
	for i := range shoots {
		s := &shoots[i]
		f := Facts(projects[s.Namespace], s)
		key := s.Namespace
		if p := s.Spec.CloudProfile; p != nil {
			key += "/" + p.Kind + "/" + p.Name
		}
		name, had := profiles[key]
		if !had {
			if name, err = g.profile(ctx, s); err != nil {
				return nil, err
			}
			profiles[key] = name
		}
		f.CloudProfile = name
		out[i] = f
	}
	return out, nil
}

// Facts are what a shoot of a project says of itself, without its cloud profile.
func Facts(project string, s *corev1beta1.Shoot) api.ShootFacts {
	f := api.ShootFacts{Project: project, Name: s.Name, UID: gardener.UID(s), Namespace: s.Namespace, CreatedAt: s.CreationTimestamp.UTC(),
		Infrastructure: s.Spec.Provider.Type}
	//lint:ignore SA1019 shoots that nobody has migrated name their credentials so
	old := s.Spec.SecretBindingName
	switch name := s.Spec.CredentialsBindingName; {
	case name != nil && *name != "":
		f.Binding = &api.ShootBinding{Kind: api.CredentialsBinding, Name: *name}
	case old != nil && *old != "":
		f.Binding = &api.ShootBinding{Kind: api.SecretBinding, Name: *old}
	}
	return f
}

// Credentials implements registration.Garden.
func (g *Garden) Credentials(ctx context.Context, namespace string, b api.ShootBinding) (registration.CredentialsRef, error) {
	id := namespace + "/" + b.Name
	return read(ctx, g, OpCredentials, id, func(c *gardener.Client) (registration.CredentialsRef, error) {
		if b.Kind == api.SecretBinding {
			s, err := c.SecretBindings(namespace).Get(ctx, b.Name, metav1.GetOptions{})
			if err != nil {
				return registration.CredentialsRef{}, err
			}
			return ref(registration.KindSecret, s.SecretRef.Namespace, s.SecretRef.Name, namespace), nil
		}
		s, err := c.CredentialsBindings(namespace).Get(ctx, b.Name, metav1.GetOptions{})
		if err != nil {
			return registration.CredentialsRef{}, err
		}
		return ref(s.CredentialsRef.Kind, s.CredentialsRef.Namespace, s.CredentialsRef.Name, namespace), nil
	})
}

// ref is what a binding in a namespace names, which may leave its own namespace
// out.
func ref(kind, namespace, name, own string) registration.CredentialsRef {
	if namespace == "" {
		namespace = own
	}
	return registration.CredentialsRef{Kind: kind, Namespace: namespace, Name: name}
}

// Secret implements registration.Garden.
func (g *Garden) Secret(ctx context.Context, namespace, name string) (registration.Secret, error) {
	return read(ctx, g, OpSecret, namespace+"/"+name, func(c *gardener.Client) (registration.Secret, error) {
		s, err := c.Secret(ctx, namespace, name)
		if err != nil {
			return registration.Secret{}, err
		}
		out := registration.Secret{Version: string(s.UID) + "/" + s.ResourceVersion, Data: make(map[string]provider.Sensitive, len(s.Data))}
		for k, v := range s.Data {
			out.Data[k] = provider.NewSensitive(v)
		}
		return out, nil
	})
}

// profileConfig is what is read of the CloudProfileConfig of Gardener's OpenStack
// extension.
type profileConfig struct {
	KeystoneURL    string `json:"keystoneURL"`
	KeystoneCACert string `json:"keystoneCACert"`
	KeystoneURLs   []struct {
		URL    string `json:"url"`
		CACert string `json:"caCert"`
	} `json:"keystoneURLs"`
}

// Keystones implements registration.Garden. A profile that names its Keystone to
// be used without verification is not taken at its word.
func (g *Garden) Keystones(ctx context.Context, cloudProfile string) ([]registration.Keystone, error) {
	p, err := read(ctx, g, OpProfile, cloudProfile, func(c *gardener.Client) (*corev1beta1.CloudProfile, error) {
		return c.CloudProfiles().Get(ctx, cloudProfile, metav1.GetOptions{})
	})
	if err != nil || p.Spec.ProviderConfig == nil {
		return nil, err
	}
	var cfg profileConfig
	if err := json.Unmarshal(p.Spec.ProviderConfig.Raw, &cfg); err != nil {
		return nil, provider.Wrap(provider.Permanent, OpProfile, g.name, cloudProfile, fmt.Errorf("providerConfig: %w", err))
	}
	var out []registration.Keystone
	if cfg.KeystoneURL != "" {
		out = append(out, registration.Keystone{URL: cfg.KeystoneURL, CA: []byte(cfg.KeystoneCACert)})
	}
	for _, k := range cfg.KeystoneURLs {
		out = append(out, registration.Keystone{URL: k.URL, CA: []byte(k.CACert)})
	}
	return out, nil
}
