package kubernetes_test

import (
	"testing"

	"github.com/tollgate-dev/tollgate/internal/provider/kubernetes/kubernetestest"
)

func TestScenarios(t *testing.T) {
	t.Parallel()
	for _, s := range kubernetestest.Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			s.Run(t, kubernetestest.NewSimulated(t))
		})
	}
}
