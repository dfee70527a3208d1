// Package kubernetestest lends an API server, simulated or real, to tests as a
// backend of the conformance kit, with all of the kit's hooks. What it does
// behind the driver's back it does as an administrator, past the Front that the
// driver's requests go through.
package kubernetestest

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/kubernetes"
	"github.com/tollgate-dev/tollgate/internal/provider/kubernetes/kubernetessim"
	"github.com/tollgate-dev/tollgate/internal/provider/providertest"
)

// Backend is a namespace of an API server.
type Backend struct {
	// URL is what the driver connects to, a Front.
	URL       string
	Namespace string
	Front     *kubernetessim.Front
	Kubelet   *kubernetessim.Kubelet
	// Admin goes past the Front.
	Admin *kubernetessim.Client
	// Sim is nil when the API server is a real one.
	Sim *kubernetessim.Sim
	// Runtime is what the node runs Pods with; nil runs nothing.
	Runtime kubernetessim.Runtime
}

// UserDataPath is where instances find their cloud-init.
const UserDataPath = "/etc/proxy/user-data"

// NewSimulated starts a simulator with a node and a Front.
func NewSimulated(tb testing.TB) *Backend {
	tb.Helper()
	const token = "admin"
	namespace := Name("kit")
	sim, err := kubernetessim.New(kubernetessim.Options{Token: token, Namespaces: []string{namespace}})
	if err != nil {
		tb.Fatal(err)
	}
	api := httptest.NewServer(sim)
	tb.Cleanup(api.Close)
	b := &Backend{
		Namespace: namespace, Sim: sim, Admin: &kubernetessim.Client{URL: api.URL, Token: token, HTTP: api.Client()},
		Front: &kubernetessim.Front{Next: sim, Authorize: func(h http.Header) { h.Set("Authorization", "Bearer "+token) }},
	}
	b.Start(tb)
	return b
}

// Start puts the Front and a node to work, until tb ends.
func (b *Backend) Start(tb testing.TB) {
	tb.Helper()
	b.Front.PageSize = pageSize
	front := httptest.NewServer(b.Front)
	b.URL = front.URL
	if b.Runtime == nil {
		b.Runtime = &addresses{}
	}
	b.Kubelet = &kubernetessim.Kubelet{Client: b.Admin, Namespace: b.Namespace, Runtime: b.Runtime, Node: "node-1", HostIP: "192.0.2.1",
		LoadBalancer: netip.MustParseAddr("203.0.113.7")}
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	done := make(chan struct{})
	go func() { defer close(done); b.Kubelet.Run(ctx) }()
	tb.Cleanup(func() {
		cancel()
		<-done
		front.CloseClientConnections()
		front.Close()
	})
}

// Name is a name that no other run has.
func Name(prefix string) string {
	var raw [5]byte
	_, _ = rand.Read(raw[:]) // never fails
	return prefix + "-" + hex.EncodeToString(raw[:])
}

// addresses is a Runtime that runs nothing.
type addresses struct{ n atomic.Int32 }

func (a *addresses) Start(_ context.Context, pod *corev1.Pod) (netip.Addr, error) {
	if ip, err := netip.ParseAddr(pod.Status.PodIP); err == nil {
		return ip, nil
	}
	n := a.n.Add(1)
	return netip.AddrFrom4([4]byte{10, 244, byte(n / 250), byte(n%250 + 1)}), nil
}

func (a *addresses) Stop(*corev1.Pod) {}

// Config is the block of a provider's configuration for the backend; change may
// be nil.
func (b *Backend) Config(change func(*kubernetes.Options)) kubernetes.Options {
	grace := time.Second
	o := kubernetes.Options{
		Server: b.URL, Token: "token", Namespace: b.Namespace, Image: "registry.example.org/proxy:1",
		UserData: kubernetes.Mount{Path: UserDataPath}, TerminationGrace: &grace,
		Resources: kubernetes.Resources{Requests: map[string]string{"cpu": "50m", "memory": "64Mi"}, Limits: map[string]string{"memory": "64Mi"}},
		Sizes:     map[string]kubernetes.Resources{"small": {Requests: map[string]string{"cpu": "10m"}}},
	}
	if change != nil {
		change(&o)
	}
	return o
}

// Open builds a provider over the backend from cfg, whose Decode it replaces.
func (b *Backend) Open(tb testing.TB, cfg provider.Config, change func(*kubernetes.Options)) *kubernetes.Provider {
	tb.Helper()
	cfg.Decode = func(into any) error {
		*into.(*kubernetes.Options) = b.Config(change)
		return nil
	}
	p, err := kubernetes.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// Harness connects the conformance kit with the driver over backends that start
// makes.
func Harness(start func(tb testing.TB) *Backend, config func(*kubernetes.Options)) providertest.Harness {
	return providertest.Harness{
		Profile:    kubernetes.Type().Profile,
		NewBackend: func(tb testing.TB) providertest.Backend { return start(tb) },
		Open: func(tb testing.TB, b providertest.Backend, o providertest.OpenOptions) provider.Provider {
			return b.(*Backend).Open(tb, o.Config(), config)
		},
		Hooks: []providertest.Hook{
			providertest.HookPlace, providertest.HookStop, providertest.HookLoseReply, providertest.HookHang, providertest.HookFaults,
			providertest.HookLag, providertest.HookPages, providertest.HookHideAddress, providertest.HookRawState,
			providertest.HookHoldDeletes, providertest.HookUserData,
		},
		Checker: true, Companions: true,
		Placement:    provider.Placement{Zone: "zone-a", MachineType: "small"},
		BadPlacement: provider.Placement{Zone: "zone-a", MachineType: "gigantic"},
		Settle:       200 * time.Millisecond, Poll: 5 * time.Millisecond, Patience: 30 * time.Second, Prompt: 2 * time.Second,
	}
}

// Path is the path of an object of the backend's namespace.
func (b *Backend) Path(resource string, rest ...string) string {
	return "/api/v1/namespaces/" + b.Namespace + "/" + strings.Join(append([]string{resource}, rest...), "/")
}

// Do makes a request as the administrator, which must succeed.
func (b *Backend) Do(tb testing.TB, method, path string, in, out any) {
	tb.Helper()
	if err := b.try(tb, method, path, in, out); err != nil {
		tb.Fatalf("%s %s: %v", method, path, err)
	}
}

func (b *Backend) try(tb testing.TB, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), 30*time.Second)
	defer cancel()
	return b.Admin.Do(ctx, method, path, in, out)
}

// Things implements providertest.Backend: all Pods, Secrets and Services.
func (b *Backend) Things(tb testing.TB) []providertest.Thing {
	tb.Helper()
	var out []providertest.Thing
	for _, k := range []struct{ resource, kind string }{{"pods", providertest.KindInstance}, {"secrets", kubernetes.KindSecret}, {"services", kubernetes.KindService}} {
		var l metav1.PartialObjectMetadataList
		b.Do(tb, http.MethodGet, b.Path(k.resource), nil, &l)
		for _, o := range l.Items {
			m, managed := kubernetes.MarksOf(o.Labels, o.Annotations)
			out = append(out, providertest.Thing{Kind: k.kind, ID: k.resource + "/" + o.Name, Name: o.Name, Marks: m, Managed: managed})
		}
	}
	slices.SortFunc(out, func(x, y providertest.Thing) int { return cmp.Compare(x.ID, y.ID) })
	return out
}

// Pod reads a Pod.
func (b *Backend) Pod(tb testing.TB, name string) *corev1.Pod {
	tb.Helper()
	pod := &corev1.Pod{}
	b.Do(tb, http.MethodGet, b.Path("pods", name), nil, pod)
	return pod
}

// ChangeStatus changes the status of a Pod, however often that takes while its
// node does so as well.
func (b *Backend) ChangeStatus(tb testing.TB, name string, change func(*corev1.PodStatus)) {
	tb.Helper()
	for {
		pod := b.Pod(tb, name)
		change(&pod.Status)
		err := b.try(tb, http.MethodPut, b.Path("pods", name, "status"), pod, nil)
		var st *kubernetessim.StatusError
		if errors.As(err, &st) && st.Code == http.StatusConflict {
			continue
		}
		if err != nil {
			tb.Fatalf("status of %s: %v", name, err)
		}
		return
	}
}

// Place implements the kit's hook.
func (b *Backend) Place(tb testing.TB, name string, marks provider.Marks, managed bool) {
	tb.Helper()
	pod := plainPod(name)
	if managed {
		pod.Labels = marks.Labels()
	}
	b.Do(tb, http.MethodPost, b.Path("pods"), pod, nil)
}

// plainPod is a Pod that the standard "restricted" admits.
func plainPod(name string) *corev1.Pod {
	yes, no := true, false
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{AutomountServiceAccountToken: &no, Containers: []corev1.Container{{Name: "main", Image: "registry.example.org/pet:1",
			SecurityContext: &corev1.SecurityContext{RunAsNonRoot: &yes, AllowPrivilegeEscalation: &no,
				Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}}}},
	}
}

// Vanish implements the kit's hook.
func (b *Backend) Vanish(tb testing.TB, name string) {
	tb.Helper()
	zero := int64(0)
	err := b.try(tb, http.MethodDelete, b.Path("pods", name), metav1.DeleteOptions{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}, GracePeriodSeconds: &zero}, nil)
	var st *kubernetessim.StatusError
	if err != nil && !(errors.As(err, &st) && st.Code == http.StatusNotFound) {
		tb.Fatalf("delete of %s: %v", name, err)
	}
}

// Stop implements the kit's hook: the Pod is evicted.
func (b *Backend) Stop(tb testing.TB, name string) {
	tb.Helper()
	b.ChangeStatus(tb, name, func(s *corev1.PodStatus) {
		s.Phase, s.Reason, s.Message = corev1.PodFailed, "Evicted", "The node was low on resource: memory."
	})
}

// SetRawState implements the kit's hook.
func (b *Backend) SetRawState(tb testing.TB, name, raw string) {
	tb.Helper()
	b.ChangeStatus(tb, name, func(s *corev1.PodStatus) { s.Phase = corev1.PodPhase(raw) })
}

// HideAddress implements the kit's hook.
func (b *Backend) HideAddress(_ testing.TB, name string) func() {
	return b.Front.Edit(name, func(_ string, o map[string]any) {
		for _, f := range [][2]string{{"status", "podIP"}, {"status", "podIPs"}, {"status", "hostIP"}, {"status", "loadBalancer"}, {"spec", "clusterIP"}, {"spec", "clusterIPs"}} {
			if part, ok := o[f[0]].(map[string]any); ok {
				delete(part, f[1])
			}
		}
	})
}

// UserData implements the kit's hook: what the container finds at UserDataPath.
func (b *Backend) UserData(tb testing.TB, name string) []byte {
	tb.Helper()
	pod := b.Pod(tb, name)
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		if m.MountPath != UserDataPath {
			continue
		}
		for _, v := range pod.Spec.Volumes {
			if v.Name != m.Name || v.Secret == nil {
				continue
			}
			var s corev1.Secret
			b.Do(tb, http.MethodGet, b.Path("secrets", v.Secret.SecretName), nil, &s)
			return s.Data[m.SubPath]
		}
	}
	tb.Fatalf("the Pod %s has nothing at %s", name, UserDataPath)
	return nil
}

// LoseCreateReply implements the kit's hook.
func (b *Backend) LoseCreateReply(testing.TB) {
	b.Front.Add(kubernetessim.Fault{Kind: kubernetessim.FaultLoseReply, Verb: "create", Resource: "pods", Times: 1})
}

// Hang implements the kit's hook.
func (b *Backend) Hang(testing.TB) func() {
	return b.Front.Add(kubernetessim.Fault{Kind: kubernetessim.FaultHang})
}

// LagList implements the kit's hook.
func (b *Backend) LagList(_ testing.TB, d time.Duration) { b.Front.LagList(d) }

const pageSize = 4

// PageSize implements the kit's hook.
func (b *Backend) PageSize(testing.TB) int { return pageSize }

// BreakPage implements the kit's hook.
func (b *Backend) BreakPage(_ testing.TB, n int) func() {
	return b.Front.Add(kubernetessim.Fault{Kind: kubernetessim.FaultAnswer, Verb: "list", Resource: "pods", Page: n,
		Status: metav1.Status{Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: "Internal error occurred: etcdserver: request timed out"}})
}

// HoldDeletes implements the kit's hook.
func (b *Backend) HoldDeletes(testing.TB) func() { return b.Kubelet.HoldDeletes() }

// Inject implements the kit's hook.
func (b *Backend) Inject(tb testing.TB, f providertest.Fault) func() {
	tb.Helper()
	answer := func(code int, reason metav1.StatusReason, message string) kubernetessim.Fault {
		st := metav1.Status{Code: int32(code), Reason: reason, Message: strings.TrimSpace(message + " " + f.Echo)}
		if f.RetryAfter > 0 {
			st.Details = &metav1.StatusDetails{RetryAfterSeconds: int32(f.RetryAfter / time.Second)}
		}
		return kubernetessim.Fault{Kind: kubernetessim.FaultAnswer, Status: st}
	}
	onCreate := func(fault kubernetessim.Fault) kubernetessim.Fault {
		fault.Verb, fault.Resource = "create", "pods"
		return fault
	}
	named := func(fault kubernetessim.Fault, kind, name string) kubernetessim.Fault {
		fault.Status.Details = &metav1.StatusDetails{Kind: kind, Name: name}
		return fault
	}
	fault, ok := map[providertest.FaultKind]kubernetessim.Fault{
		providertest.FaultUnauthorized: answer(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized"),
		providertest.FaultForbidden: answer(http.StatusForbidden, metav1.StatusReasonForbidden,
			`pods is forbidden: User "system:serviceaccount:egress:tollgate" cannot do this in API group "" in the namespace "egress"`),
		providertest.FaultNotFound: named(onCreate(answer(http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("namespaces %q not found", b.Namespace))), "namespaces", b.Namespace),
		providertest.FaultConflict: onCreate(answer(http.StatusConflict, metav1.StatusReasonConflict, "Operation cannot be fulfilled on resourcequotas: the object has been modified")),
		providertest.FaultInvalid:  onCreate(answer(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "Pod is invalid")),
		providertest.FaultThrottled: answer(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests,
			"Too many requests, please try again later."),
		providertest.FaultInternal:    answer(http.StatusInternalServerError, metav1.StatusReasonInternalError, "Internal error occurred: etcdserver: leader changed"),
		providertest.FaultUnavailable: answer(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "the server is currently unable to handle the request"),
		providertest.FaultTruncated:   {Kind: kubernetessim.FaultTruncate},
		providertest.FaultQuota: onCreate(answer(http.StatusForbidden, metav1.StatusReasonForbidden,
			`pods "proxy" is forbidden: exceeded quota: egress, requested: pods=1, used: pods=5, limited: pods=5`)),
	}[f.Kind]
	if !ok {
		tb.Fatalf("fault %q: the backend does not know it", f.Kind)
	}
	return b.Front.Add(fault)
}

func quantity(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.DecimalSI) }
