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
		"at a Service": func(o *kubernetes.Options) { o.Expose = kubernetes.ExposeClusterIP },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			providertest.Run(t, kubernetestest.Harness(kubernetestest.NewSimulated, config))
		})
	}
}
