package kubernetestest

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/kubernetes"
	"github.com/tollgate-dev/tollgate/internal/provider/kubernetes/kubernetessim"
)

func quotaOfOneself(t *testing.T, b *Backend) {
	p, req := b.Provider(t, nil), Request("one")
	b.Quota(t, "pods", 1)
	b.LoseCreateReply(t)
	if _, err := p.Create(t.Context(), req); provider.ClassOf(err) != provider.Transient {
		t.Errorf("the create without a reply: %v", err)
	}
	id := Create(t, p, req)
	Await(t, p, id, provider.StateRunning)
	for _, r := range b.Front.Requests()[1:2] {
		if r.Code != http.StatusForbidden {
			t.Errorf("the retry was answered with %d, want a quota's 403", r.Code)
		}
	}
}

func quotaRaised(t *testing.T, b *Backend) {
	p, one, two := b.Provider(t, nil), Request("one"), Request("two")
	b.Quota(t, "pods", 1)
	Create(t, p, one)
	_, err := p.Create(t.Context(), two)
	WantClass(t, err, provider.QuotaExceeded, "", "exceeded quota")
	b.wantThings(t, "pods/"+one.Name, "secrets/"+one.Name)
	b.Quota(t, "pods", 2)
	// An API server goes by the old one for some milliseconds.
	Eventually(t, "the new quota counts", func() bool { _, err := p.Create(t.Context(), two); return err == nil })
	Await(t, p, Create(t, p, two), provider.StateRunning)
}

func refusedPart(t *testing.T, b *Backend) {
	p := b.Provider(t, nil)
	b.Quota(t, "secrets", 0)
	for range 3 {
		_, err := p.Create(t.Context(), Request("one"))
		WantClass(t, err, provider.QuotaExceeded, "", "secrets")
	}
	Eventually(t, "nothing is left", func() bool { return len(b.Things(t)) == 0 })
}

func cutOffAfterPod(t *testing.T, b *Backend) {
	p, req := b.Provider(t, nil), Request("one")
	heal := b.Front.Add(kubernetessim.Fault{Kind: kubernetessim.FaultAnswer, Verb: "create", Resource: "secrets", Status: metav1.Status{Code: http.StatusServiceUnavailable}})
	_, err := p.Create(t.Context(), req)
	WantClass(t, err, provider.Transient, "", "")
	b.wantThings(t, "pods/"+req.Name)
	in, err := p.Find(t.Context(), req.Name, req.Marks)
	if err != nil || in.State != provider.StateProvisioning {
		t.Errorf("a Pod without its Secret: %+v, %v", in, err)
	}
	heal()
	id := Create(t, p, req)
	if id != in.ID {
		t.Errorf("the retry gives %s, want %s", id, in.ID)
	}
	Await(t, p, id, provider.StateRunning)
}

// The Pod says what belongs to it, so that a delete, which goes by the id, leaves
// nothing.
func changedConfiguration(t *testing.T, b *Backend) {
	p, req := b.Provider(t, nil), Request("one")
	byService := b.Provider(t, func(o *kubernetes.Options) { o.Expose = kubernetes.ExposeClusterIP })
	heal := b.Front.Add(kubernetessim.Fault{Kind: kubernetessim.FaultAnswer, Verb: "create", Resource: "secrets", Status: metav1.Status{Code: http.StatusServiceUnavailable}})
	if _, err := p.Create(t.Context(), req); err == nil {
		t.Error("a create without its Secret succeeded")
	}
	heal()
	id := Create(t, byService, req)
	b.wantThings(t, "pods/"+req.Name, "secrets/"+req.Name)
	Await(t, byService, id, provider.StateRunning)
	if err := byService.Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
	Eventually(t, "nothing is left", func() bool { return len(b.Things(t)) == 0 })
}

func (b *Backend) secret(tb testing.TB, name string) (s corev1.Secret) {
	tb.Helper()
	b.Do(tb, http.MethodGet, b.Path("secrets", name), nil, &s)
	return s
}

func staleSecret(t *testing.T, b *Backend) {
	p, req := b.Provider(t, nil), Request("one")
	first := Create(t, p, req)
	old := b.secret(t, req.Name)
	b.Vanish(t, req.Name)
	id := Create(t, p, req)
	if now := b.secret(t, req.Name); id == first || now.UID == old.UID || !strings.Contains(string(id), string(now.OwnerReferences[0].UID)) {
		t.Errorf("the Secret %s of %v belongs to %s", now.UID, now.OwnerReferences, id)
	}
	// The delete of the first one is late, and takes nothing of the second.
	if err := p.Delete(t.Context(), first); err != nil {
		t.Error(err)
	}
	b.wantThings(t, "pods/"+req.Name, "secrets/"+req.Name)
}

func foreignSecret(t *testing.T, b *Backend) {
	p, req := b.Provider(t, nil), Request("one")
	b.Do(t, http.MethodPost, b.Path("secrets"), &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Name: req.Name}}, nil)
	_, err := p.Create(t.Context(), req)
	WantClass(t, err, provider.Conflict, "", "not ours")
	Eventually(t, "only the stranger is left", func() bool { return len(b.Things(t)) == 1 })
	b.wantThings(t, "secrets/"+req.Name)
}

func successor(t *testing.T, b *Backend) {
	p, req := b.Provider(t, nil), Request("one")
	first := Create(t, p, req)
	b.Vanish(t, req.Name)
	second := Create(t, p, req)
	_, err := p.Get(t.Context(), first)
	WantClass(t, err, provider.NotFound, "", "")
	if err := p.Delete(t.Context(), first); err != nil {
		t.Error(err)
	}
	if in, err := p.Get(t.Context(), second); err != nil || in.State == provider.StateTerminated {
		t.Errorf("the successor: %+v, %v", in, err)
	}
}

func names(t *testing.T, p provider.Provider) (out []string) {
	t.Helper()
	all, err := p.List(t.Context(), provider.Selector{Installation: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range all {
		out = append(out, in.Name)
	}
	slices.Sort(out)
	return out
}

func expired(times int) kubernetessim.Fault {
	return kubernetessim.Fault{Kind: kubernetessim.FaultAnswer, Verb: "list", Resource: "pods", Page: 3, Times: times,
		Status: metav1.Status{Code: http.StatusGone, Reason: metav1.StatusReasonExpired, Message: "The provided continue parameter is too old"}}
}

func fill(t *testing.T, p provider.Provider, n int) (want []string) {
	t.Helper()
	for range n {
		req := Request("many")
		req.CloudInit = provider.Sensitive{}
		Create(t, p, req)
		want = append(want, req.Name)
	}
	slices.Sort(want)
	return want
}

func expiredListing(t *testing.T, b *Backend) {
	p := b.Provider(t, nil)
	want := fill(t, p, 3*pageSize)
	b.Front.Add(expired(2))
	if got := names(t, p); !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
}

func alwaysExpired(t *testing.T, b *Backend) {
	p := b.Provider(t, nil)
	fill(t, p, 3*pageSize)
	b.Front.Add(expired(0))
	got, err := p.List(t.Context(), provider.Selector{})
	WantClass(t, err, provider.Transient, "", "forgets")
	if len(got) > 0 {
		t.Errorf("%d instances beside the error", len(got))
	}
}

func silentNode(t *testing.T, b *Backend) {
	p, req := b.Provider(t, nil), Request("one")
	const late = 2 * time.Second // times of the API server are of whole seconds
	forced := b.Provider(t, func(o *kubernetes.Options) { o.ForceDeleteAfter = late })
	id := Create(t, p, req)
	Await(t, p, id, provider.StateRunning)
	defer b.Kubelet.HoldDeletes()()
	for range 2 {
		if err := forced.Delete(t.Context(), id); err != nil { // its grace has not ended
			t.Error(err)
		}
		if in := Await(t, p, id, provider.StateTerminated); in.RawState != "Terminating" {
			t.Errorf("raw state %q", in.RawState)
		}
	}
	// The grace of the harness is a second.
	Eventually(t, "it is overdue", func() bool { return time.Since(b.Pod(t, req.Name).DeletionTimestamp.Time) > late })
	if err := p.Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
	Await(t, p, id, provider.StateTerminated) // without the setting it is kept
	if err := forced.Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
	_, err := p.Get(t.Context(), id)
	WantClass(t, err, provider.NotFound, "", "")
}
