//go:build bench

package bench

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	corev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tollgate-dev/tollgate/internal/devserver/kubetest"
	"github.com/tollgate-dev/tollgate/internal/gardener"
	"github.com/tollgate-dev/tollgate/internal/gardener/gardenertest"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	source_gardener "github.com/tollgate-dev/tollgate/internal/source/gardener"
)

// shoots is how many the Gardener of the benchmark has.
const shoots = 2000

// garden is a real Gardener API with many shoots.
type garden struct {
	gardenertest.Cluster
	kubeconfig []byte
	namespaces []string
}

func newGarden(b *testing.B) *garden {
	b.Helper()
	k := kubetest.Start(b, kubetest.Options{Kind: kubetest.Gardener})
	c, err := gardener.NewClient(k.Config(b))
	if err != nil {
		b.Fatal(err)
	}
	g := &garden{Cluster: gardenertest.Cluster{Client: c}}
	if g.kubeconfig, err = os.ReadFile(k.Kubeconfig); err != nil {
		b.Fatal(err)
	}
	for i := range 20 {
		g.namespaces = append(g.namespaces, fmt.Sprintf("garden-b%d-x", i))
		g.Project(b, fmt.Sprintf("b%d", i), g.namespaces[i], nil)
	}
	g.each(b, func(ctx context.Context, namespace, name string) error {
		s, err := c.Shoots(namespace).Create(ctx, gardenertest.Shoot(namespace, name), metav1.CreateOptions{})
		if err != nil {
			return err
		}
		s.Status.LastOperation = &corev1beta1.LastOperation{Type: corev1beta1.LastOperationTypeCreate,
			State: corev1beta1.LastOperationStateSucceeded, Progress: 100, LastUpdateTime: metav1.Now()}
		s.Status.UID = s.UID
		_, err = c.Shoots(namespace).UpdateStatus(ctx, s, metav1.UpdateOptions{})
		return err
	})
	return g
}

// each does something to every shoot, eight at once.
func (g *garden) each(b *testing.B, f func(ctx context.Context, namespace, name string) error) {
	b.Helper()
	work := make(chan int)
	var wg sync.WaitGroup
	var once sync.Once
	var failed error
	for range 8 {
		wg.Go(func() {
			for i := range work {
				if err := f(b.Context(), g.namespaces[i%len(g.namespaces)], fmt.Sprintf("s%d", i)); err != nil {
					once.Do(func() { failed = err })
				}
			}
		})
	}
	for i := range shoots {
		work <- i
	}
	close(work)
	wg.Wait()
	if failed != nil {
		b.Fatal(failed)
	}
}

func (g *garden) source(b *testing.B, open source.Open) *source_gardener.Source {
	b.Helper()
	s, err := source_gardener.New(source.Config{Name: "garden", Account: "bench", Open: open,
		Secret: func(context.Context, string) (provider.Sensitive, error) {
			return provider.NewSensitive(g.kubeconfig), nil
		},
		Decode: func(into any) error {
			o := into.(*source_gardener.Options)
			o.Kubeconfig, o.Wait, o.QPS = "kubeconfig", time.Second, 1000
			return nil
		}})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func next(b *testing.B, s *source_gardener.Source, c source.Cursor, want int) source.Page {
	b.Helper()
	p, err := s.Next(b.Context(), c)
	if err != nil {
		b.Fatal(err)
	}
	if want >= 0 && len(p.Items) != want {
		b.Fatalf("%d events on a page, want %d", len(p.Items), want)
	}
	return p
}

// What 2,000 shoots cost at a real Gardener API: the first listing, the return
// after the past was forgotten, the restart of a worker, and following changes.
func BenchmarkShoots(b *testing.B) {
	g := newGarden(b)
	// Later on, what was ordered at the creation is no longer known, and said apart.
	created := map[bool]int{false: shoots, true: 2 * shoots}
	runtime.GC()
	before, _ := resident(b, os.Getpid())
	forgetPeak(b, os.Getpid())
	for workers := 2; b.Loop(); workers++ {
		s := g.source(b, nil)
		start := time.Now()
		first := next(b, s, "", created[workers > 2])
		summary.add(b, "first_ms", fmt.Sprintf("first listing of %d shoots", shoots), float64(time.Since(start).Milliseconds()), "ms", info)

		_, peak := resident(b, os.Getpid())
		summary.add(b, "peak_MiB", "memory of it, over that of the process", mib(peak-before), "MiB", info)

		// Everything was reported, and the cursor's version is gone.
		var reported []source.OpenResource
		for _, i := range first.Items {
			d := i.Event.Data
			reported = append(reported, source.OpenResource{Account: d.Account, Resource: d.Resource,
				Reported: source.Reported{Size: d.Size, Since: i.Event.Time}, State: event.Active})
		}
		s = g.source(b, func(context.Context, event.Platform, event.ResourceType) ([]source.OpenResource, error) {
			return reported, nil
		})
		start = time.Now()
		next(b, s, "", 0)
		summary.add(b, "relist_ms", "listing and comparing with what was reported", float64(time.Since(start).Milliseconds()), "ms", info)

		// A worker starts: the shoots are listed at the cursor's version.
		s = g.source(b, nil)
		start = time.Now()
		p := next(b, s, first.Next, 0)
		summary.add(b, "restart_ms", "first page of a worker that starts, 1 s of which it waits", float64(time.Since(start).Milliseconds()), "ms", info)

		g.each(b, func(ctx context.Context, namespace, name string) error {
			_, err := g.Shoots(namespace).Patch(ctx, name, types.JSONPatchType,
				fmt.Appendf(nil, `[{"op":"replace","path":"/spec/provider/workers/0/minimum","value":%d}]`, 2-workers%2), metav1.PatchOptions{})
			return err
		})
		start = time.Now()
		events := 0
		for events < shoots {
			p = next(b, s, p.Next, -1)
			events += len(p.Items)
		}
		if events != shoots {
			b.Fatalf("%d events for %d changes", events, shoots)
		}
		summary.add(b, "events/s", "changes that are read, once they have happened", float64(events)/time.Since(start).Seconds(), "/s", info)
		summary.add(b, "cursor_B", "size of the cursor", float64(len(p.Next)), "B", info)
	}
}
