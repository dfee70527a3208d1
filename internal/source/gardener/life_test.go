package gardener_test

import (
	"slices"
	"testing"

	corev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/tollgate-dev/tollgate/internal/gardener/gardenertest"
)

// moment is something that is done to a shoot, and what is to be read of it. The
// same moments are played at the simulator and at the real API server.
type moment struct {
	what string
	do   func(t *testing.T, g gardenertest.Cluster, s *corev1beta1.Shoot)
	want []string
}

func life() []moment {
	type cluster = gardenertest.Cluster
	type shoot = *corev1beta1.Shoot
	a := func(n int32, typ string) gardenertest.Pool {
		return gardenertest.Pool{Name: "a", Type: typ, Minimum: n}
	}
	b := gardenertest.Pool{Name: "gpu-b", Type: "m1.xlarge", Minimum: 2}
	const large, xlarge = "m1.large", "m1.xlarge"
	return []moment{
		{"made", func(t *testing.T, g cluster, s shoot) { g.Make(t, s) }, nil},
		{"in creation", func(t *testing.T, g cluster, s shoot) { g.Operation(t, s, "Create", "Processing") }, nil},
		{"creation fails", func(t *testing.T, g cluster, s shoot) { g.Operation(t, s, "Create", "Error") }, nil},
		{"created", func(t *testing.T, g cluster, s shoot) { g.Operation(t, s, "Create", "Succeeded") },
			[]string{"create.end to a=m1.large a=1 all=1"}},
		{"reconciled", func(t *testing.T, g cluster, s shoot) { g.Reconciled(t, s) }, nil},
		{"scaled", func(t *testing.T, g cluster, s shoot) { g.Pools(t, s, a(3, large)) },
			[]string{"worker.scale from a=1 all=1 to a=3 all=3"}},
		{"maximum", func(t *testing.T, g cluster, s shoot) {
			g.Pools(t, s, gardenertest.Pool{Name: "a", Type: large, Minimum: 3, Maximum: 9})
		}, nil},
		{"other machines", func(t *testing.T, g cluster, s shoot) { g.Pools(t, s, a(3, xlarge)) },
			[]string{"worker.machine_type_change from a=m1.large to a=m1.xlarge"}},
		{"one pool more", func(t *testing.T, g cluster, s shoot) { g.Pools(t, s, a(3, xlarge), b) },
			[]string{"worker.scale from all=3 to gpu_b=m1.xlarge gpu_b=2 all=5"}},
		{"both at once", func(t *testing.T, g cluster, s shoot) { g.Pools(t, s, a(4, large), b) },
			[]string{"worker.scale from a=3 all=5 to a=4 all=6", "worker.machine_type_change from a=m1.xlarge to a=m1.large"}},
		{"one pool less", func(t *testing.T, g cluster, s shoot) { g.Pools(t, s, a(4, large)) },
			[]string{"worker.scale from gpu_b=2 all=6 to gpu_b=0 all=4"}},
		{"sleep is wished", func(t *testing.T, g cluster, s shoot) { g.Hibernate(t, s, true) }, nil},
		{"on its way", func(t *testing.T, g cluster, s shoot) { g.Operation(t, s, "Reconcile", "Processing") }, nil},
		{"asleep", func(t *testing.T, g cluster, s shoot) { g.Reconciled(t, s) }, []string{"hibernate.start"}},
		{"waking is wished", func(t *testing.T, g cluster, s shoot) { g.Hibernate(t, s, false) }, nil},
		{"awake", func(t *testing.T, g cluster, s shoot) { g.Reconciled(t, s) }, []string{"hibernate.end"}},
		{"noted", func(t *testing.T, g cluster, s shoot) { g.Patch(t, s, `{"metadata":{"annotations":{"a":"b"}}}`) }, nil},
		{"to be deleted", func(t *testing.T, g cluster, s shoot) { g.AskDelete(t, s) }, nil},
		{"gone", func(t *testing.T, g cluster, s shoot) { g.Gone(t, s) }, []string{"delete.end to a=m1.large a=4 all=4"}},
	}
}

// newborn is the shoot of a life.
func newborn(namespace, name string) *corev1beta1.Shoot {
	return gardenertest.Shoot(namespace, name, gardenertest.Pool{Name: "a", Type: "m1.large", Minimum: 1})
}

// whole is what is read of a whole life.
func whole() (out []string) {
	for _, m := range life() {
		out = append(out, m.want...)
	}
	return out
}

// upTo are the moments before the one of that name, and those from it on.
func upTo(what string) (before, after []moment) {
	all := life()
	i := slices.IndexFunc(all, func(m moment) bool { return m.what == what })
	return all[:i], all[i:]
}
