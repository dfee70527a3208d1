// Package gardenertest makes shoots for tests against a real Gardener API, and
// does to them what users and gardenlets do.
package gardenertest

import (
	"fmt"
	"testing"
	"time"

	corev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	securityv1alpha1 "github.com/gardener/gardener/pkg/apis/security/v1alpha1"

	"github.com/tollgate-dev/tollgate/internal/gardener"
)

// Pool is a worker pool.
type Pool struct {
	Name             string
	Type             string // m1.large or m1.xlarge
	Minimum, Maximum int32
}

func ptr[T any](v T) *T { return &v }

func (p Pool) worker() corev1beta1.Worker {
	return corev1beta1.Worker{
		Name: p.Name, Minimum: p.Minimum, Maximum: max(p.Maximum, p.Minimum, 1), Zones: []string{"region-1-a"},
		Machine: corev1beta1.Machine{Type: p.Type, Architecture: ptr("amd64"),
			Image: &corev1beta1.ShootMachineImage{Name: "gardenlinux", Version: ptr("1877.2.0")}},
		Volume: &corev1beta1.Volume{Type: ptr("standard"), VolumeSize: "50Gi"},
		CRI:    &corev1beta1.CRI{Name: "containerd"},
	}
}

// Shoot is one on OpenStack that the admission of the dev backend takes, in a
// namespace with a CredentialsBinding named infrastructure. Without pools it gets
// one, pool-a, of a single m1.large.
func Shoot(namespace, name string, pools ...Pool) *corev1beta1.Shoot {
	if len(pools) == 0 {
		pools = []Pool{{Name: "pool-a", Type: "m1.large", Minimum: 1, Maximum: 2}}
	}
	s := &corev1beta1.Shoot{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1beta1.ShootSpec{
			CloudProfile:           &corev1beta1.CloudProfileReference{Kind: "CloudProfile", Name: "openstack"},
			CredentialsBindingName: ptr("infrastructure"),
			Region:                 "region-1",
			Purpose:                ptr(corev1beta1.ShootPurposeEvaluation),
			Kubernetes:             corev1beta1.Kubernetes{Version: "1.33.4"},
			Networking:             &corev1beta1.Networking{Type: ptr("calico"), Pods: ptr("100.64.0.0/12"), Services: ptr("100.104.0.0/13"), Nodes: ptr("10.250.0.0/16")},
			Provider:               corev1beta1.Provider{Type: "openstack"},
		},
	}
	for _, p := range pools {
		s.Spec.Provider.Workers = append(s.Spec.Provider.Workers, p.worker())
	}
	return s
}

// Cluster is a Gardener with the rights of its operator.
type Cluster struct {
	*gardener.Client
	// Now is the gardenlet's clock; time.Now if nil.
	Now func() time.Time
}

func (c Cluster) now() metav1.Time {
	if c.Now != nil {
		return metav1.NewTime(c.Now())
	}
	return metav1.Now()
}

// Project makes a project with its namespace and a CredentialsBinding named
// infrastructure, which leads to a secret of that name with data.
func (c Cluster) Project(tb testing.TB, name, namespace string, data map[string]string) {
	tb.Helper()
	ctx := tb.Context()
	_, err := c.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace,
		Labels: map[string]string{"gardener.cloud/role": "project", gardener.LabelProject: name}}}, metav1.CreateOptions{})
	must(tb, err)
	_, err = c.Projects().Create(ctx, &corev1beta1.Project{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1beta1.ProjectSpec{
		Namespace: ptr(namespace), Owner: &rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "admin"}}}, metav1.CreateOptions{})
	must(tb, err)
	c.Credentials(tb, namespace, "infrastructure", namespace, data)
}

// Credentials makes a secret in one namespace and a CredentialsBinding of the same
// name, in another one if need be, that leads to it.
func (c Cluster) Credentials(tb testing.TB, namespace, name, secretNamespace string, data map[string]string) {
	tb.Helper()
	if data == nil {
		data = map[string]string{"domainName": "dev", "tenantName": "tenant", "username": "dev", "password": "dev"}
	}
	must(tb, c.WriteSecret(tb.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretNamespace, Name: name}, StringData: data}))
	_, err := c.CredentialsBindings(namespace).Create(tb.Context(), &securityv1alpha1.CredentialsBinding{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: name},
		Provider:       securityv1alpha1.CredentialsBindingProvider{Type: "openstack"},
		CredentialsRef: corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: secretNamespace, Name: name},
	}, metav1.CreateOptions{})
	must(tb, err)
}

// Make creates a shoot, as its user does.
func (c Cluster) Make(tb testing.TB, s *corev1beta1.Shoot) *corev1beta1.Shoot {
	tb.Helper()
	out, err := c.Shoots(s.Namespace).Create(tb.Context(), s, metav1.CreateOptions{})
	must(tb, err)
	return out
}

// Patch changes the spec of a shoot by a JSON merge patch, as its user does.
func (c Cluster) Patch(tb testing.TB, s *corev1beta1.Shoot, format string, args ...any) *corev1beta1.Shoot {
	tb.Helper()
	out, err := c.Shoots(s.Namespace).Patch(tb.Context(), s.Name, types.MergePatchType, fmt.Appendf(nil, format, args...), metav1.PatchOptions{})
	must(tb, err)
	return out
}

// Change changes a shoot, as its user does.
func (c Cluster) Change(tb testing.TB, s *corev1beta1.Shoot, f func(*corev1beta1.Shoot)) *corev1beta1.Shoot {
	tb.Helper()
	for {
		now, err := c.Shoots(s.Namespace).Get(tb.Context(), s.Name, metav1.GetOptions{})
		must(tb, err)
		f(now)
		out, err := c.Shoots(s.Namespace).Update(tb.Context(), now, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			continue
		}
		must(tb, err)
		return out
	}
}

// Pools replaces the worker pools.
func (c Cluster) Pools(tb testing.TB, s *corev1beta1.Shoot, pools ...Pool) *corev1beta1.Shoot {
	tb.Helper()
	return c.Change(tb, s, func(s *corev1beta1.Shoot) {
		s.Spec.Provider.Workers = nil
		for _, p := range pools {
			s.Spec.Provider.Workers = append(s.Spec.Provider.Workers, p.worker())
		}
	})
}

// Hibernate asks for hibernation, or for its end.
func (c Cluster) Hibernate(tb testing.TB, s *corev1beta1.Shoot, wish bool) *corev1beta1.Shoot {
	tb.Helper()
	return c.Patch(tb, s, `{"spec":{"hibernation":{"enabled":%v}}}`, wish)
}

// Operation is what a gardenlet reports of what it does to a shoot. A shoot that
// it has begun to work on has a technical id, a uid and a finalizer; one where it
// succeeded is as its spec wishes.
func (c Cluster) Operation(tb testing.TB, s *corev1beta1.Shoot, t corev1beta1.LastOperationType, state corev1beta1.LastOperationState) *corev1beta1.Shoot {
	tb.Helper()
	now, err := c.Shoots(s.Namespace).Get(tb.Context(), s.Name, metav1.GetOptions{})
	must(tb, err)
	if len(now.Finalizers) == 0 && now.DeletionTimestamp == nil {
		c.Patch(tb, s, `{"metadata":{"finalizers":["gardener"]}}`)
	}
	for {
		now, err := c.Shoots(s.Namespace).Get(tb.Context(), s.Name, metav1.GetOptions{})
		must(tb, err)
		st := &now.Status
		st.LastOperation = &corev1beta1.LastOperation{Type: t, State: state, Progress: 50, LastUpdateTime: c.now()}
		st.ObservedGeneration = now.Generation
		st.UID = now.UID
		st.TechnicalID = "shoot--test--" + now.Name
		st.SeedName = ptr("seed-1")
		st.Gardener = corev1beta1.Gardener{ID: "test", Name: "gardenlet", Version: "v1.139.0"}
		if state == corev1beta1.LastOperationStateSucceeded {
			st.LastOperation.Progress = 100
			st.IsHibernated = gardener.WantsHibernation(now)
			st.Conditions = []corev1beta1.Condition{{Type: "APIServerAvailable", Status: "True", Reason: "Ok", Message: "ok",
				LastTransitionTime: c.now(), LastUpdateTime: c.now()}}
		}
		out, err := c.Shoots(s.Namespace).UpdateStatus(tb.Context(), now, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			continue
		}
		must(tb, err)
		return out
	}
}

// Created makes a shoot whose creation succeeds.
func (c Cluster) Created(tb testing.TB, s *corev1beta1.Shoot) *corev1beta1.Shoot {
	tb.Helper()
	c.Make(tb, s)
	c.Operation(tb, s, corev1beta1.LastOperationTypeCreate, corev1beta1.LastOperationStateProcessing)
	return c.Operation(tb, s, corev1beta1.LastOperationTypeCreate, corev1beta1.LastOperationStateSucceeded)
}

// Reconciled reports a reconciliation that succeeded.
func (c Cluster) Reconciled(tb testing.TB, s *corev1beta1.Shoot) *corev1beta1.Shoot {
	tb.Helper()
	return c.Operation(tb, s, corev1beta1.LastOperationTypeReconcile, corev1beta1.LastOperationStateSucceeded)
}

// AskDelete deletes a shoot, as its user does; it is there until Deleted.
func (c Cluster) AskDelete(tb testing.TB, s *corev1beta1.Shoot) {
	tb.Helper()
	c.Patch(tb, s, `{"metadata":{"annotations":{"confirmation.gardener.cloud/deletion":"true"}}}`)
	must(tb, c.Shoots(s.Namespace).Delete(tb.Context(), s.Name, metav1.DeleteOptions{}))
}

// Deleted deletes a shoot, and the gardenlet lets it go.
func (c Cluster) Deleted(tb testing.TB, s *corev1beta1.Shoot) {
	tb.Helper()
	c.AskDelete(tb, s)
	c.Gone(tb, s)
}

// Gone is the end of a delete.
func (c Cluster) Gone(tb testing.TB, s *corev1beta1.Shoot) {
	tb.Helper()
	c.Operation(tb, s, corev1beta1.LastOperationTypeDelete, corev1beta1.LastOperationStateProcessing)
	c.Operation(tb, s, corev1beta1.LastOperationTypeDelete, corev1beta1.LastOperationStateSucceeded)
	c.Patch(tb, s, `{"metadata":{"finalizers":null}}`)
	_, err := c.Shoots(s.Namespace).Get(tb.Context(), s.Name, metav1.GetOptions{})
	if !gardener.IsNotFound(err) {
		tb.Fatalf("shoot %s/%s is not gone: %v", s.Namespace, s.Name, err)
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
