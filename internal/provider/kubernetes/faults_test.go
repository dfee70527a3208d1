package kubernetes_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/kubernetes"
	"github.com/tollgate-dev/tollgate/internal/provider/kubernetes/kubernetessim"
	"github.com/tollgate-dev/tollgate/internal/provider/kubernetes/kubernetestest"
)

func withService(o *kubernetes.Options) { o.Expose = kubernetes.ExposeClusterIP }

// everyFault runs one case for each way in which the n-th request of an
// operation can fail, until an operation has no n-th request any more.
func everyFault(t *testing.T, run func(t *testing.T, b *kubernetestest.Backend, p provider.Provider, arm func() (ctx context.Context, disarm func() bool))) {
	for name, fault := range map[string]kubernetessim.Fault{
		"500":           {Kind: kubernetessim.FaultAnswer, Status: metav1.Status{Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: "etcdserver: leader changed"}},
		"a lost reply":  {Kind: kubernetessim.FaultLoseReply},
		"half a reply":  {Kind: kubernetessim.FaultTruncate},
		"silence":       {Kind: kubernetessim.FaultHang},
		"quota":         {Kind: kubernetessim.FaultAnswer, Status: metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: `x "y" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1`}},
		"a gateway":     {Kind: kubernetessim.FaultBare, Status: metav1.Status{Code: http.StatusNotFound, Message: "no upstream"}},
		"too many":      {Kind: kubernetessim.FaultBare, Status: metav1.Status{Code: http.StatusTooManyRequests, Message: "Too many requests, please try again later."}},
		"another's 409": {Kind: kubernetessim.FaultAnswer, Status: metav1.Status{Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Message: "the object has been modified"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := 0; ; n++ {
				met := false
				t.Run(fmt.Sprint("request ", n+1), func(t *testing.T) {
					b := kubernetestest.NewSimulated(t)
					run(t, b, b.Provider(t, withService), func() (context.Context, func() bool) {
						before := len(b.Front.Requests())
						f := fault
						f.Skip, f.Times = n, 1
						heal := b.Front.Add(f)
						return within(t, f), func() bool {
							heal()
							met = len(b.Front.Requests())-before > n
							return met
						}
					})
				})
				if !met {
					if n < 3 {
						t.Errorf("the operation has %d requests", n)
					}
					return
				}
			}
		})
	}
}

// within is as long as an operation may take that meets a fault: silence is what
// only a deadline ends.
func within(t *testing.T, f kubernetessim.Fault) context.Context {
	limit := 30 * time.Second
	if f.Kind == kubernetessim.FaultHang {
		limit = time.Second
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// Whatever happens to one request of a create: it is repeated and there is one
// Pod with its parts, or it is given up and nothing is left that is not listed.
func TestCreateSurvivesEveryFault(t *testing.T) {
	t.Parallel()
	everyFault(t, func(t *testing.T, b *kubernetestest.Backend, p provider.Provider, arm func() (context.Context, func() bool)) {
		again, given := kubernetestest.Request("again"), kubernetestest.Request("given")
		for _, req := range []provider.CreateRequest{again, given} {
			ctx, disarm := arm()
			id, err := p.Create(ctx, req)
			if met := disarm(); !met && err != nil {
				t.Fatalf("create without a fault: %v", err)
			}
			if err == nil {
				if _, err := p.Get(t.Context(), id); err != nil {
					t.Errorf("get of what create gave: %v", err)
				}
			} else if c := provider.ClassOf(err); c == provider.NotFound || c == provider.Permanent || c == provider.Conflict {
				t.Errorf("one fault is final: %v", err)
			}
		}
		// A Pod whose part was refused is on its way out, and so is its name.
		kubernetestest.Eventually(t, "it runs", func() bool {
			in, err := p.Get(t.Context(), kubernetestest.Create(t, p, again))
			return err == nil && in.State == provider.StateRunning
		})
		if in, err := p.Find(t.Context(), given.Name, given.Marks); err == nil {
			if err := p.Delete(t.Context(), in.ID); err != nil {
				t.Error(err)
			}
		} else if provider.ClassOf(err) != provider.NotFound {
			t.Error(err)
		}
		kubernetestest.Eventually(t, "one Pod, its Secret and its Service are there", func() bool {
			n := 0
			for _, th := range b.Things(t) {
				if th.Marks.UID == given.Marks.UID {
					return false
				}
				n++
			}
			return n == 3
		})
	})
}

// Whatever happens to one request of a delete: the next one ends it.
func TestDeleteSurvivesEveryFault(t *testing.T) {
	t.Parallel()
	everyFault(t, func(t *testing.T, b *kubernetestest.Backend, p provider.Provider, arm func() (context.Context, func() bool)) {
		id := kubernetestest.Create(t, p, kubernetestest.Request("one"))
		kubernetestest.Await(t, p, id, provider.StateRunning)
		ctx, disarm := arm()
		err := p.Delete(ctx, id)
		if met := disarm(); !met && err != nil {
			t.Fatalf("delete without a fault: %v", err)
		}
		if err := p.Delete(t.Context(), id); err != nil {
			t.Error(err)
		}
		kubernetestest.Eventually(t, "nothing is left", func() bool { return len(b.Things(t)) == 0 })
	})
}
