package kubernetestest

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/kubernetes"
)

// Scenario is what the kit does not know of, to be run against the simulator and
// against a real API server.
type Scenario struct {
	Name string
	Run  func(t *testing.T, b *Backend)
}

// Scenarios are all of them.
func Scenarios() []Scenario {
	return []Scenario{
		{"a retry is not refused by the quota that it has used up", quotaOfOneself},
		{"a quota that is used up, and raised", quotaRaised},
		{"a part that is refused leaves nothing", refusedPart},
		{"a create that was cut off after the Pod is completed", cutOffAfterPod},
		{"a create that is completed under another configuration", changedConfiguration},
		{"a Secret that an earlier Pod has left is replaced", staleSecret},
		{"a Secret of somebody else is a conflict", foreignSecret},
		{"a delete never meets a successor", successor},
		{"a listing begins anew when its moment is forgotten", expiredListing},
		{"a listing that is forgotten again and again fails", alwaysExpired},
		{"a Pod whose node is silent is kept, or forced", silentNode},
		{"a Pod that finds no room waits", noRoom},
		{"an image that cannot be pulled, and one that crashes", badImages},
		{"a node port has one owner", nodePortTaken},
		{"a load balancer's address", loadBalancer},
		{"an address of the node", hostPort},
		{"credentials reach the container", credentials},
		{"a companion without its Pod is swept", orphanedCompanion},
		{"the rights and the namespace are checked", checks},
		{"what an API server without its rights says", startingServer},
		{"an answer of somebody in between", gateway},
		{"a part whose owner is not learned is no conflict", unknownOwner},
		{"a part that is refused at a later attempt leaves nothing", refusedLater},
		{"a container that was put beside the proxy decides nothing", sidecar},
		{"what holds the cluster is not found", nothingToHoldIt},
		{"each right is checked", missingRights},
		{"what a finalizer keeps is on its way out", finalizers},
		{"an address of IPv6", addressOfSix},
	}
}

// Quota bounds what the backend's namespace may hold; a negative number lifts
// the bound.
func (b *Backend) Quota(tb testing.TB, resource string, most int64) {
	tb.Helper()
	if b.Sim != nil {
		b.Sim.SetQuota(b.Namespace, resource, most)
		return
	}
	path := b.Path("resourcequotas", quotaName)
	if most < 0 {
		b.Do(tb, http.MethodDelete, path, nil, nil)
		return
	}
	hard := func() corev1.ResourceList { return corev1.ResourceList{corev1.ResourceName(resource): quantity(most)} }
	q := &corev1.ResourceQuota{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuota"},
		ObjectMeta: metav1.ObjectMeta{Name: quotaName}, Spec: corev1.ResourceQuotaSpec{Hard: hard()}}
	if err := b.try(tb, http.MethodPost, b.Path("resourcequotas"), q, q); err != nil {
		q = &corev1.ResourceQuota{}
		b.Do(tb, http.MethodGet, path, nil, q)
		q.Spec.Hard = hard()
		b.Do(tb, http.MethodPut, path, q, q)
	}
	// The controller that counts does not run here.
	used := int64(0)
	for _, t := range b.Things(tb) {
		if strings.HasPrefix(t.ID, resource+"/") {
			used++
		}
	}
	q.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuota"}
	q.Status = corev1.ResourceQuotaStatus{Hard: hard(), Used: corev1.ResourceList{corev1.ResourceName(resource): quantity(used)}}
	b.Do(tb, http.MethodPut, path+"/status", q, nil)
}

const quotaName = "tollgate"

// Provider builds a provider of the installation "acme"; change may be nil.
func (b *Backend) Provider(tb testing.TB, change func(*kubernetes.Options)) *kubernetes.Provider {
	tb.Helper()
	return b.Open(tb, provider.Config{Name: "cluster", Installation: "acme", Secret: func(context.Context, string) (provider.Sensitive, error) {
		return provider.NewSensitive([]byte("the-token")), nil
	}}, change)
}

// Request is a request of the proxy of that name.
func Request(proxy string) provider.CreateRequest {
	uid := Name(proxy)
	return provider.CreateRequest{Name: provider.InstanceName(uid, 0), Port: 3128, CloudInit: provider.NewSensitive([]byte("acl all\n")),
		Marks: provider.Marks{UID: uid, Installation: "acme", Namespace: "default", Proxy: proxy, SpecHash: "h1"}}
}

// Create makes an instance, which must succeed.
func Create(tb testing.TB, p provider.Provider, req provider.CreateRequest) provider.InstanceID {
	tb.Helper()
	id, err := p.Create(tb.Context(), req)
	if err != nil {
		tb.Fatal(err)
	}
	return id
}

// Eventually polls until ok.
func Eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			tb.Fatalf("waited 30s until %s", what)
		}
		select {
		case <-tb.Context().Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Await waits until an instance has a state.
func Await(tb testing.TB, p provider.Provider, id provider.InstanceID, want provider.State) (in provider.Instance) {
	tb.Helper()
	Eventually(tb, string(id)+" is "+string(want), func() bool {
		var err error
		if in, err = p.Get(tb.Context(), id); err != nil {
			tb.Fatal(err)
		}
		return in.State == want
	})
	return in
}

// WantClass checks class, reason and text of an error.
func WantClass(tb testing.TB, err error, class provider.Class, reason, text string) {
	tb.Helper()
	if provider.ClassOf(err) != class || provider.ReasonOf(err) != reason || err == nil || !strings.Contains(err.Error(), text) {
		tb.Errorf("class %q, reason %q: %v\nwant %q, %q and the text %q", provider.ClassOf(err), provider.ReasonOf(err), err, class, reason, text)
	}
}

func (b *Backend) wantThings(tb testing.TB, want ...string) {
	tb.Helper()
	var got []string
	for _, t := range b.Things(tb) {
		got = append(got, t.ID)
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		tb.Errorf("there are %q, want %q", got, want)
	}
}
