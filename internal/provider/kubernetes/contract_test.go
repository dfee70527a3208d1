package kubernetes_test

import (
	"testing"

	"github.com/tollgate-dev/tollgate/internal/provider/kubernetes"
	"github.com/tollgate-dev/tollgate/internal/provider/kubernetes/kubernetestest"
	"github.com/tollgate-dev/tollgate/internal/provider/providertest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]func(*kubernetes.Options){
		"at the Pod":   nil,
		"by clusterIP": func(o *kubernetes.Options) { o.Expose = kubernetes.ExposeClusterIP },
		"by a load balancer": func(o *kubernetes.Options) {
			o.Expose = kubernetes.ExposeLoadBalancer
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			providertest.Run(t, kubernetestest.Harness(kubernetestest.NewSimulated, config))
		})
	}
}
