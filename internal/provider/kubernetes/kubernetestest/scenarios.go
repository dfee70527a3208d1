package kubernetestest

import (
	"context"
	"errors"
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
	forced := b.Provider(t, func(o *kubernetes.Options) { o.ForceDeleteAfter = time.Millisecond })
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
	Eventually(t, "it is overdue", func() bool { return time.Since(b.Pod(t, req.Name).DeletionTimestamp.Time) > 10*time.Millisecond })
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

func noRoom(t *testing.T, b *Backend) {
	p := b.Provider(t, nil)
	room := b.Kubelet.Full("0/3 nodes are available: 3 Insufficient cpu.")
	id := Create(t, p, Request("one"))
	Eventually(t, "the scheduler has spoken", func() bool {
		in := Await(t, p, id, provider.StateProvisioning)
		return in.RawState == "Unschedulable: 0/3 nodes are available: 3 Insufficient cpu."
	})
	room()
	b.ChangeStatus(t, strings.Split(string(id), "/")[2], func(s *corev1.PodStatus) { s.Conditions = nil })
	Await(t, p, id, provider.StateRunning)
}

func badImages(t *testing.T, b *Backend) {
	p := b.Provider(t, nil)
	for image, want := range map[string]string{"example.org/" + kubernetessim.ImageMissing: "ImagePullBackOff", "example.org/" + kubernetessim.ImageCrash: "CrashLoopBackOff"} {
		req := Request("one")
		req.Placement.Image = image
		id := Create(t, p, req)
		Eventually(t, want, func() bool { return Await(t, p, id, provider.StateProvisioning).RawState == want })
	}
}

func nodePortTaken(t *testing.T, b *Backend) {
	p := b.Provider(t, func(o *kubernetes.Options) { o.Expose = kubernetes.ExposeNodePort })
	one, two, low := Request("one"), Request("two"), Request("low")
	one.Port, two.Port, low.Port = 31234, 31234, 80
	if b.Sim == nil {
		one.Port = 30000 + int(time.Now().UnixNano()%2700)
		two.Port = one.Port
	}
	in := Await(t, p, Create(t, p, one), provider.StateRunning)
	if in.IP.String() != b.Kubelet.HostIP {
		t.Errorf("the address is %s, want the node's", in.IP)
	}
	_, err := p.Create(t.Context(), two)
	WantClass(t, err, provider.CapacityUnavailable, "", "already allocated")
	_, err = p.Create(t.Context(), low)
	WantClass(t, err, provider.Permanent, provider.ReasonInvalidSpec, "valid range")
	Eventually(t, "only the first is left", func() bool { return len(b.Things(t)) == 3 })
	b.wantThings(t, "pods/"+one.Name, "secrets/"+one.Name, "services/"+one.Name)
	if err := p.Delete(t.Context(), in.ID); err != nil {
		t.Error(err)
	}
	Await(t, p, Create(t, p, two), provider.StateRunning)
}

func loadBalancer(t *testing.T, b *Backend) {
	p := b.Provider(t, func(o *kubernetes.Options) {
		o.Expose = kubernetes.ExposeLoadBalancer
		o.LoadBalancer = kubernetes.LoadBalancer{Annotations: map[string]string{"example.org/public": "yes"}, SourceRanges: []string{"203.0.113.0/24"}}
	})
	req := Request("one")
	in := Await(t, p, Create(t, p, req), provider.StateRunning)
	if in.IP.String() != "203.0.113.7" {
		t.Errorf("the address is %s", in.IP)
	}
	var svc corev1.Service
	b.Do(t, http.MethodGet, b.Path("services", req.Name), nil, &svc)
	if svc.Annotations["example.org/public"] != "yes" || !slices.Equal(svc.Spec.LoadBalancerSourceRanges, []string{"203.0.113.0/24"}) || svc.Spec.Selector["tollgate-instance"] != req.Name {
		t.Errorf("the Service is %+v", svc)
	}
	// Some clouds give names only: that is no address, and is said.
	svc.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}
	svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: "lb.example.org"}}
	b.Do(t, http.MethodPut, b.Path("services", req.Name, "status"), &svc, nil)
	if in, err := p.Get(t.Context(), in.ID); err != nil || in.State != provider.StateProvisioning || in.RawState != "LoadBalancerWithoutAddress" {
		t.Errorf("a load balancer with a name only: %+v, %v", in, err)
	}
}

func hostPort(t *testing.T, b *Backend) {
	p := b.Provider(t, func(o *kubernetes.Options) { o.Expose = kubernetes.ExposeHostPort })
	req := Request("one")
	id, err := p.Create(t.Context(), req)
	if b.Sim == nil {
		WantClass(t, err, provider.Permanent, provider.ReasonInvalidSpec, "violates PodSecurity")
		b.wantThings(t)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if in := Await(t, p, id, provider.StateRunning); in.IP.String() != b.Kubelet.HostIP {
		t.Errorf("the address is %s, want the node's", in.IP)
	}
	if port := b.Pod(t, req.Name).Spec.Containers[0].Ports[0].HostPort; port != 3128 {
		t.Errorf("the host port is %d", port)
	}
}

func credentials(t *testing.T, b *Backend) {
	p := b.Provider(t, func(o *kubernetes.Options) { o.Auth.Path = "/etc/proxy/auth" })
	req := Request("one")
	req.Auth = &provider.BasicAuth{Username: "anna", Password: provider.NewSensitive([]byte("sesame"))}
	Create(t, p, req)
	if s := b.secret(t, req.Name); string(s.Data["username"]) != "anna" || string(s.Data["password"]) != "sesame" || !*s.Immutable {
		t.Errorf("the Secret is %+v", s.Data)
	}
	c := b.Pod(t, req.Name).Spec.Containers[0]
	var refs, paths []string
	for _, e := range c.Env {
		if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef.Name == req.Name {
			refs = append(refs, e.Name+"="+e.ValueFrom.SecretKeyRef.Key)
		}
	}
	for _, m := range c.VolumeMounts {
		paths = append(paths, m.MountPath+"="+m.SubPath)
	}
	if !slices.Equal(refs, []string{"TOLLGATE_PROXY_USERNAME=username", "TOLLGATE_PROXY_PASSWORD=password"}) ||
		!slices.Equal(paths, []string{UserDataPath + "=user-data", "/etc/proxy/auth/username=username", "/etc/proxy/auth/password=password"}) {
		t.Errorf("variables %q, mounts %q", refs, paths)
	}
}

func orphanedCompanion(t *testing.T, b *Backend) {
	p, req := b.Provider(t, nil), Request("one")
	Create(t, p, req)
	b.Vanish(t, req.Name)
	left, err := p.ListCompanions(t.Context(), provider.Selector{Installation: "acme"})
	if err != nil || len(left) != 1 || left[0].AttachedTo != "" || left[0].Marks != req.Marks {
		t.Fatalf("companions %+v, %v", left, err)
	}
	foreign := left[0]
	foreign.Marks.UID = "somebody-else"
	WantClass(t, p.DeleteCompanion(t.Context(), foreign), provider.Conflict, "", "belongs to uid")
	if err := p.DeleteCompanion(t.Context(), left[0]); err != nil {
		t.Error(err)
	}
	b.wantThings(t)
	WantClass(t, p.DeleteCompanion(t.Context(), provider.Companion{Kind: "volume", ID: left[0].ID}), provider.Permanent, provider.ReasonMalformedID, "none of this")
}

func checkOf(t *testing.T, p *kubernetes.Provider) provider.TargetStatus {
	t.Helper()
	all := p.Check(t.Context())
	if len(all) != 1 {
		t.Fatalf("targets %+v", all)
	}
	return all[0]
}

func checks(t *testing.T, b *Backend) {
	b.Quota(t, "pods", 0)
	p := b.Provider(t, func(o *kubernetes.Options) { o.Expose = kubernetes.ExposeClusterIP })
	if st := checkOf(t, p); !st.Ready || !strings.Contains(st.Details["quota"], "exceeded quota") {
		t.Errorf("with a quota that is used up: %+v", st)
	}
	b.Quota(t, "pods", -1)
	Eventually(t, "the quota is lifted", func() bool { return checkOf(t, p).Details["quota"] == "" })
	before := len(b.Front.Requests())
	for range 2 {
		if st := checkOf(t, p); !st.Ready || st.Details["quota"] != "" || st.Details["namespace"] != b.Namespace || st.Details["server"] == "" {
			t.Errorf("a namespace that is well: %+v", st)
		}
	}
	for _, r := range b.Front.Requests()[before:] {
		if r.Verb == "create" {
			t.Error("a create is tried again, although it has been admitted")
		}
	}
	b.wantThings(t)
}

func startingServer(t *testing.T, b *Backend) {
	p, req := b.Provider(t, nil), Request("one")
	for text, reason := range map[string]string{
		`pods is forbidden: User "system:anonymous" cannot create resource "pods" in API group "" in the namespace "egress"`:                                                      provider.ReasonForbidden,
		`pods is forbidden: User "u" cannot create resource "pods" in API group "" in the namespace "egress": RBAC: role.rbac.authorization.k8s.io "tollgate-provider" not found`: provider.ReasonForbidden,
		`pods "p" is forbidden: not yet ready to handle request`: "",
	} {
		heal := b.Front.Add(kubernetessim.Fault{Kind: kubernetessim.FaultAnswer, Status: metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: text}})
		_, err := p.Create(t.Context(), req)
		WantClass(t, err, provider.Transient, reason, "forbidden")
		heal()
	}
	// Rights alone, without any of these words: it is asked whether it is ready.
	denied := `pods is forbidden: User "u" cannot create resource "pods" in API group "" in the namespace "egress"`
	heal := b.Front.Add(kubernetessim.Fault{Kind: kubernetessim.FaultAnswer, Status: metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: denied}})
	_, err := p.Create(t.Context(), req)
	WantClass(t, err, provider.Permanent, provider.ReasonForbidden, denied)
	next := b.Front.Next
	b.Front.Next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			http.Error(w, "[-]informer-sync failed: reason withheld", http.StatusInternalServerError)
			return
		}
		next.ServeHTTP(w, r)
	})
	_, err = p.Create(t.Context(), req)
	WantClass(t, err, provider.Transient, provider.ReasonForbidden, denied)
	if st := checkOf(t, p); st.Ready || st.Reason != provider.ReasonForbidden || !strings.Contains(st.Message, "not ready") {
		t.Errorf("the check says %+v", st)
	}
	heal()
	Create(t, p, req)
}

func gateway(t *testing.T, b *Backend) {
	p, req := b.Provider(t, nil), Request("one")
	id := Create(t, p, req)
	for code, class := range map[int32]provider.Class{404: provider.Transient, 403: provider.Transient, 502: provider.Transient, 410: provider.Transient, 429: provider.RateLimited, 401: provider.Permanent} {
		heal := b.Front.Add(kubernetessim.Fault{Kind: kubernetessim.FaultBare, Status: metav1.Status{Code: code, Message: "<html>no</html>"}})
		_, err := p.Get(t.Context(), id)
		reason := ""
		if code == 401 {
			reason = provider.ReasonUnauthorized
		}
		WantClass(t, err, class, reason, "without a word of an API server")
		if err := p.Delete(t.Context(), id); err == nil {
			t.Errorf("a delete that a gateway answered with %d succeeded", code)
		}
		heal()
	}
	heal := b.Front.Add(kubernetessim.Fault{Kind: kubernetessim.FaultAnswer, Status: metav1.Status{Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
		Message: "the server could not find the requested resource", Details: &metav1.StatusDetails{}}})
	_, err := p.Get(t.Context(), id)
	heal()
	WantClass(t, err, provider.Transient, "", "could not find")
	if errors.Is(err, provider.NotFound) {
		t.Error("a path that is not served reads as an instance that is gone")
	}
}
