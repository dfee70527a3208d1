package kubernetestest

import (
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
	b.Do(t, http.MethodGet, b.Path("services", req.Name), nil, &svc)
	svc.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}
	svc.Status.LoadBalancer.Ingress = nil
	b.Do(t, http.MethodPut, b.Path("services", req.Name, "status"), &svc, nil)
	if in, err := p.Get(t.Context(), in.ID); err != nil || in.State != provider.StateProvisioning || in.RawState != "LoadBalancerPending" {
		t.Errorf("a load balancer that is not made yet: %+v, %v", in, err)
	}
	b.Do(t, http.MethodDelete, b.Path("services", req.Name), nil, nil)
	if in, err := p.Get(t.Context(), in.ID); err != nil || in.State != provider.StateProvisioning || in.RawState != "ServiceMissing" {
		t.Errorf("without its Service: %+v, %v", in, err)
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
