//go:build gardener

package gardener_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/devserver/kubetest"
	"github.com/tollgate-dev/tollgate/internal/gardener/gardenertest"
	"github.com/tollgate-dev/tollgate/internal/provider"
)

// What stops API servers has a cluster of its own.
func TestRealOutages(t *testing.T) {
	t.Parallel()
	k := kubetest.Start(t, kubetest.Options{Kind: kubetest.Gardener})
	t.Run("compacted", func(t *testing.T) { compacted(t, k) })
	t.Run("expired", func(t *testing.T) { expired(t, k) })
	t.Run("restarts", func(t *testing.T) { restarts(t, k) })
}

// etcd is compacted while the reader is away, and the API server still has the
// changes for watches: everything is read.
func compacted(t *testing.T, k *kubetest.Cluster) {
	g := newReal(t, k)
	r := g.receiver(t, true)
	before, after := upTo("other machines")
	r.read()
	play(t, g.Cluster, g.namespace, "shop", before, nil)
	r.read()
	play(t, g.Cluster, g.namespace, "shop", after, nil)
	k.Compact(t)
	r.restart()
	r.read()
	r.wantWhole("shop")
	if len(r.gaps) > 0 {
		t.Errorf("gaps %v", r.gaps)
	}
}

// The API servers restart, etcd is compacted while the reader is away for half of
// the changes: what cannot be known is said, and what was reported is right.
func expired(t *testing.T, k *kubetest.Cluster) {
	g := newReal(t, k)
	r := g.receiver(t, true)
	r.read()
	for _, name := range []string{"goes", "stays", "sleeps"} {
		g.Created(t, newborn(g.namespace, name))
	}
	r.read()
	if len(r.got) != 3 {
		t.Fatalf("%d events before it went away", len(r.got))
	}
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(1100 * time.Millisecond))) // API servers know whole seconds only
	g.Deleted(t, newborn(g.namespace, "goes"))
	g.Pools(t, newborn(g.namespace, "stays"), gardenertest.Pool{Name: "a", Type: "m1.xlarge", Minimum: 5})
	g.Hibernate(t, newborn(g.namespace, "sleeps"), true)
	g.Reconciled(t, newborn(g.namespace, "sleeps"))
	g.Created(t, newborn(g.namespace, "comes"))
	g.Created(t, newborn(g.namespace, "flits"))
	g.Deleted(t, newborn(g.namespace, "flits"))
	k.Compact(t)
	k.Stop(t, kubetest.GardenerAPIServer)
	k.Up(t)
	r.restart()
	r.read()
	want := map[string][]string{
		"goes":   {"create.end to a=m1.large a=1 all=1", "delete.end to a=m1.large a=1 all=1 (concluded)"},
		"stays":  {"create.end to a=m1.large a=1 all=1", "worker.scale from a=1 all=1 to a=5 all=5 (concluded)", "worker.machine_type_change from a=m1.large to a=m1.xlarge (concluded)"},
		"sleeps": {"create.end to a=m1.large a=1 all=1", "hibernate.start (concluded)"},
		"comes":  {"create.end to a=m1.large a=1 all=1"},
		"flits":  nil,
	}
	for name, lines := range want {
		if diff := cmp.Diff(lines, r.lines(name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if len(r.gaps) != 1 {
		t.Errorf("gaps %v, want one", r.gaps)
	}
	r.wantOnce()
	// It goes on as a watch.
	g.Deleted(t, newborn(g.namespace, "comes"))
	r.read()
	if diff := cmp.Diff([]string{"create.end to a=m1.large a=1 all=1", "delete.end to a=m1.large a=1 all=1"}, r.lines("comes")); diff != "" {
		t.Errorf("afterwards (-want +got):\n%s", diff)
	}
}

// The API servers stop and start while they are read: every failure can be tried
// again, and nothing is lost.
func restarts(t *testing.T, k *kubetest.Cluster) {
	g := newReal(t, k)
	k.Apply(t, "../../../deploy/gardener/rbac.yaml")
	g.cfg = k.As(t, "garden", "tollgate") // API servers know certificates earlier than tokens and rights
	r := g.receiver(t, true)
	r.read()
	before, after := upTo("one pool more")
	play(t, g.Cluster, g.namespace, "shop", before, nil)
	stop, stopped := make(chan struct{}), make(chan struct{})
	classes := map[provider.Class]int{}
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			p, err := r.s.Next(t.Context(), r.c)
			if err != nil {
				classes[provider.ClassOf(err)]++
				if provider.ClassOf(err) != provider.Transient {
					t.Logf("%v", err)
				}
				time.Sleep(50 * time.Millisecond) // as a retry does
				continue
			}
			r.take(p)
		}
	}()
	k.Stop(t, kubetest.GardenerAPIServer)
	k.Stop(t, kubetest.APIServer)
	k.Up(t)
	play(t, g.Cluster, g.namespace, "shop", after, nil)
	close(stop)
	<-stopped
	r.read()
	t.Logf("failures by class: %v", classes)
	for c := range classes {
		if c != provider.Transient && c != provider.RateLimited {
			t.Errorf("%d failures of class %s: nobody would try again", classes[c], c)
		}
	}
	if len(classes) == 0 {
		t.Error("no read failed: nothing was tested")
	}
	if len(r.gaps) == 0 {
		r.wantWhole("shop")
	}
}
