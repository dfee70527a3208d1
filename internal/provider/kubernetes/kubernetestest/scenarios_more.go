package kubernetestest

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/kubernetes"
	"github.com/tollgate-dev/tollgate/internal/provider/kubernetes/kubernetessim"
)

func unavailable(verb, resource string) kubernetessim.Fault {
	return kubernetessim.Fault{Kind: kubernetessim.FaultAnswer, Verb: verb, Resource: resource, Times: 1, Status: metav1.Status{
		Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable, Message: "the server is currently unable to handle the request"}}
}

// The Secret of an earlier attempt has the name, and cannot be looked at.
func unknownOwner(t *testing.T, b *Backend) {
	p, req := b.Provider(t, nil), Request("one")
	b.Front.Add(kubernetessim.Fault{Kind: kubernetessim.FaultLoseReply, Verb: "create", Resource: "secrets", Times: 1})
	_, err := p.Create(t.Context(), req)
	WantClass(t, err, provider.Transient, "", "")
	b.Front.Add(unavailable("get", "secrets"))
	_, err = p.Create(t.Context(), req)
	WantClass(t, err, provider.Transient, "", "unable to handle")
	Await(t, p, Create(t, p, req), provider.StateRunning)
	b.wantThings(t, "pods/"+req.Name, "secrets/"+req.Name)
}

// Whichever attempt has made the Pod, the one that learns that it will never be
// whole removes it.
func refusedLater(t *testing.T, b *Backend) {
	p := b.Provider(t, nil)
	b.Quota(t, "secrets", 0)
	for range 50 {
		req := Request("one")
		b.Front.Add(unavailable("create", "secrets"))
		_, err := p.Create(t.Context(), req)
		WantClass(t, err, provider.Transient, "", "unable to handle")
		_, err = p.Create(t.Context(), req)
		WantClass(t, err, provider.QuotaExceeded, "", "secrets")
	}
	Eventually(t, "nothing is left", func() bool { return len(b.Things(t)) == 0 })
}

func sidecar(t *testing.T, b *Backend) {
	p, req := b.Provider(t, nil), Request("one")
	id := Create(t, p, req)
	Await(t, p, id, provider.StateRunning)
	defer b.Front.Edit(req.Name, func(resource string, o map[string]any) {
		spec, ok := o["spec"].(map[string]any)
		if !ok || resource != "pods" {
			return
		}
		containers, _ := spec["containers"].([]any)
		spec["containers"] = append([]any{map[string]any{"name": "mesh", "image": "registry.example.org/mesh:1"}}, containers...)
		status := o["status"].(map[string]any)
		all, _ := status["containerStatuses"].([]any)
		status["containerStatuses"] = append([]any{map[string]any{"name": "mesh", "state": map[string]any{"waiting": map[string]any{"reason": "CrashLoopBackOff"}}}}, all...)
	})()
	in, err := p.Get(t.Context(), id)
	if err != nil || in.State != provider.StateRunning || in.RawState != "Running" || in.Placement.Image != "registry.example.org/proxy:1" {
		t.Errorf("beside another container: %+v, %v", in, err)
	}
	b.ChangeStatus(t, req.Name, func(s *corev1.PodStatus) {
		for i := range s.ContainerStatuses {
			s.ContainerStatuses[i].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}}
		}
	})
	if in, err := p.Get(t.Context(), id); err != nil || in.State != provider.StateProvisioning || in.RawState != "OOMKilled" {
		t.Errorf("the proxy has ended: %+v, %v", in, err)
	}
}

// A gateway to many clusters says of the cluster, in the words of an API server,
// that it does not exist.
func nothingToHoldIt(t *testing.T, b *Backend) {
	p, req := b.Provider(t, nil), Request("one")
	id := Create(t, p, req)
	companions, err := p.ListCompanions(t.Context(), provider.Selector{})
	if err != nil || len(companions) != 1 {
		t.Fatalf("companions %+v, %v", companions, err)
	}
	defer b.Front.Add(kubernetessim.Fault{Kind: kubernetessim.FaultAnswer, Status: metav1.Status{Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
		Message: `clusters.management.example.org "c-1" not found`, Details: &metav1.StatusDetails{Group: "management.example.org", Kind: "clusters", Name: "c-1"}}})()
	_, gerr := p.Get(t.Context(), id)
	_, ferr := p.Find(t.Context(), req.Name, req.Marks)
	all, lerr := p.List(t.Context(), provider.Selector{})
	for what, err := range map[string]error{"get": gerr, "find": ferr, "list": lerr, "delete": p.Delete(t.Context(), id), "sweep": p.DeleteCompanion(t.Context(), companions[0])} {
		if provider.ClassOf(err) != provider.Transient || errors.Is(err, provider.NotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if len(all) > 0 {
		t.Errorf("listed %v", all)
	}
}

func missingRights(t *testing.T, b *Backend) {
	p := b.Provider(t, func(o *kubernetes.Options) { o.Expose = kubernetes.ExposeClusterIP })
	for _, resource := range []string{"pods", "secrets", "services"} {
		for _, verb := range []string{"create", "get", "list", "delete"} {
			if verb == "create" {
				continue // tried last, below
			}
			wantRight(t, b, p, verb, resource)
		}
	}
	for _, resource := range []string{"pods", "secrets", "services"} {
		wantRight(t, b, p, "create", resource)
	}
	b.wantThings(t)
	if st := checkOf(t, p); !st.Ready {
		t.Errorf("with all rights: %+v", st)
	}
	b.wantThings(t)
}

func wantRight(t *testing.T, b *Backend, p *kubernetes.Provider, verb, resource string) {
	t.Helper()
	text := fmt.Sprintf(`%s is forbidden: User "u" cannot %s resource %q in API group "" in the namespace "egress"`, resource, verb, resource)
	defer b.Front.Add(kubernetessim.Fault{Kind: kubernetessim.FaultAnswer, Verb: verb, Resource: resource,
		Status: metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: text}})()
	if st := checkOf(t, p); st.Ready || st.Reason != provider.ReasonForbidden || !strings.Contains(st.Message, text) {
		t.Errorf("without the right to %s %s: %+v", verb, resource, st)
	}
}

// Some controllers hold what is being deleted until they have done their part,
// and some never do.
func finalizers(t *testing.T, b *Backend) {
	p, req := b.Provider(t, nil), Request("one")
	forced := b.Provider(t, func(o *kubernetes.Options) { o.ForceDeleteAfter = time.Second })
	id := Create(t, p, req)
	Await(t, p, id, provider.StateRunning)
	for _, resource := range []string{"pods", "secrets"} {
		b.Do(t, http.MethodPatch, b.Path(resource, req.Name), map[string]any{"metadata": map[string]any{"finalizers": []string{"example.org/hold"}}}, nil)
	}
	for range 2 {
		if err := p.Delete(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	Eventually(t, "its node has ended it", func() bool { return time.Since(b.Pod(t, req.Name).DeletionTimestamp.Time) > 2*time.Second })
	if err := forced.Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
	if in := Await(t, p, id, provider.StateTerminated); in.RawState != "Terminating" {
		t.Errorf("raw state %q", in.RawState)
	}
	all, err := p.List(t.Context(), provider.Selector{UID: req.Marks.UID})
	if err != nil || len(all) != 1 || all[0].State != provider.StateTerminated {
		t.Errorf("listed %+v, %v", all, err)
	}
	if again := Create(t, p, req); again != id {
		t.Errorf("a create finds %s, want %s", again, id)
	}
	held, err := p.ListCompanions(t.Context(), provider.Selector{UID: req.Marks.UID})
	if err != nil || len(held) != 1 || held[0].AttachedTo != id {
		t.Errorf("companions %+v, %v", held, err)
	}
	for _, c := range held {
		if err := p.DeleteCompanion(t.Context(), c); err != nil {
			t.Error(err)
		}
	}
	for _, resource := range []string{"pods", "secrets"} {
		b.Do(t, http.MethodPatch, b.Path(resource, req.Name), map[string]any{"metadata": map[string]any{"finalizers": nil}}, nil)
	}
	Eventually(t, "nothing is left", func() bool { return len(b.Things(t)) == 0 })
	if _, err := p.Get(t.Context(), id); provider.ClassOf(err) != provider.NotFound {
		t.Errorf("in the end: %v", err)
	}
}

func addressOfSix(t *testing.T, b *Backend) {
	p, req := b.Provider(t, nil), Request("one")
	id := Create(t, p, req)
	Await(t, p, id, provider.StateRunning)
	b.ChangeStatus(t, req.Name, func(s *corev1.PodStatus) {
		s.PodIP, s.PodIPs = "2001:db8::7", []corev1.PodIP{{IP: "2001:db8::7"}, {IP: "10.244.9.9"}}
	})
	if in, err := p.Get(t.Context(), id); err != nil || in.State != provider.StateRunning || in.IP.String() != "2001:db8::7" {
		t.Errorf("on a node of both families, IPv6 first: %+v, %v", in, err)
	}
}
