package gardenertest

import (
	"testing"

	corev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SecretBinding makes a binding of the old kind that leads to a secret of another
// namespace.
func (c Cluster) SecretBinding(tb testing.TB, namespace, name, secretNamespace, secret string) {
	tb.Helper()
	//lint:ignore SA1019 shoots that nobody has migrated have one
	b := &corev1beta1.SecretBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		//lint:ignore SA1019 as above
		Provider: &corev1beta1.SecretBindingProvider{Type: "openstack"}, SecretRef: corev1.SecretReference{Namespace: secretNamespace, Name: secret}}
	_, err := c.SecretBindings(namespace).Create(tb.Context(), b, metav1.CreateOptions{})
	must(tb, err)
}

// BindOld makes a shoot name a binding of the old kind.
func BindOld(s *corev1beta1.Shoot, name string) *corev1beta1.Shoot {
	s.Spec.CredentialsBindingName = nil
	//lint:ignore SA1019 as above
	s.Spec.SecretBindingName = &name
	return s
}
