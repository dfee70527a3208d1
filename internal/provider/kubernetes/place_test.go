package kubernetes

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

func TestPlacements(t *testing.T) {
	t.Parallel()
	p := open(t, Options{Server: "https://127.0.0.1:1", Token: "token", Image: "proxy:1", NodeSelector: map[string]string{corev1.LabelTopologyRegion: "eu"}}, nil)
	for _, tc := range []struct{ asked, want provider.Placement }{
		{provider.Placement{}, provider.Placement{Region: "eu", Image: "proxy:1"}},
		{provider.Placement{Zone: "eu-1", MachineType: "large", Image: "proxy:2"}, provider.Placement{Region: "eu", Zone: "eu-1", MachineType: "large", Image: "proxy:2"}},
	} {
		if diff := cmp.Diff(p.Placements(tc.asked), []provider.Placement{tc.want}); diff != "" {
			t.Errorf("placements of %+v (-got +want):\n%s", tc.asked, diff)
		}
	}
}
