package kubernetessim

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Options shape a simulator.
type Options struct {
	// Token is the bearer token that opens the API; empty lets everybody in.
	Token string
	// Namespaces exist from the beginning. Default: "default".
	Namespaces []string
	Logger     *slog.Logger
	// StateFile, when set, keeps the objects: they are read from it by New and
	// written to it at each change.
	StateFile string
}

// Sim is a simulated API server, an http.Handler. It is safe for concurrent use.
type Sim struct {
	opts Options
	log  *slog.Logger

	mu         sync.Mutex
	version    uint64
	namespaces map[string]bool // value: terminating
	objects    map[key]object
	quota      map[string]map[string]int64 // by namespace and resource
	snapshots  map[string]*snapshot        // listings under way, by token
	events     []event
	watchers   map[chan struct{}]bool
	clusterIPs int
	requests   map[string]int
}

// key is where an object is.
type key struct{ resource, namespace, name string }

// object is a Pod, Secret or Service.
type object interface {
	metav1.Object
	runtime.Object
}

func copyOf[T object](o T) T { return o.DeepCopyObject().(T) }

// New returns a simulator.
func New(opts Options) (*Sim, error) {
	if len(opts.Namespaces) == 0 {
		opts.Namespaces = []string{metav1.NamespaceDefault}
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Sim{
		opts: opts, log: opts.Logger, version: 1, namespaces: map[string]bool{}, objects: map[key]object{},
		quota: map[string]map[string]int64{}, snapshots: map[string]*snapshot{}, watchers: map[chan struct{}]bool{}, requests: map[string]int{},
	}
	for _, ns := range opts.Namespaces {
		s.namespaces[ns] = false
	}
	if opts.StateFile != "" {
		if err := s.load(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// SetQuota bounds how many objects of a resource a namespace may have: "pods",
// "secrets", "services" or "services.loadbalancers". A negative number lifts it.
func (s *Sim) SetQuota(namespace, resource string, most int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.quota[namespace] == nil {
		s.quota[namespace] = map[string]int64{}
	}
	if most < 0 {
		delete(s.quota[namespace], resource)
		return
	}
	s.quota[namespace][resource] = most
}

// AddNamespace makes a namespace. Terminating ones take no new objects.
func (s *Sim) AddNamespace(name string, terminating bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.namespaces[name] = terminating
}

// Compact forgets the past: listings under way and watches from an old version
// end with 410.
func (s *Sim) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.snapshots)
	s.events = nil
	s.version++
}

// Requests counts the requests so far by verb, resource and subresource: "create
// pods", "update pods/status".
func (s *Sim) Requests() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]int, len(s.requests))
	for k, n := range s.requests {
		out[k] = n
	}
	return out
}

// newUID is a random uid in the form that API servers give.
func newUID() types.UID {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]))
}

// created completes a new object. mu is held.
func (s *Sim) created(k key, o object) {
	o.SetUID(newUID())
	o.SetCreationTimestamp(metav1.NewTime(time.Now().UTC().Truncate(time.Second)))
	o.SetNamespace(k.namespace)
	switch o := o.(type) {
	case *corev1.Pod:
		o.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBurstable}
		if o.Spec.TerminationGracePeriodSeconds == nil {
			o.Spec.TerminationGracePeriodSeconds = ptr(int64(corev1.DefaultTerminationGracePeriodSeconds))
		}
		if o.Spec.ServiceAccountName == "" {
			o.Spec.ServiceAccountName = "default"
		}
	case *corev1.Service:
		s.clusterIPs++
		o.Status = corev1.ServiceStatus{}
		o.Spec.ClusterIP = fmt.Sprintf("10.96.%d.%d", s.clusterIPs/250, s.clusterIPs%250+1)
		if o.Spec.Type == "" {
			o.Spec.Type = corev1.ServiceTypeClusterIP
		}
	}
}

// put stores an object under a new version and tells the watchers. mu is held.
func (s *Sim) put(k key, o object, what string) {
	s.version++
	o.SetResourceVersion(strconv.FormatUint(s.version, 10))
	s.objects[k] = o
	s.tell(what, k, o)
	s.save()
}

// drop removes an object and tells the watchers. mu is held.
func (s *Sim) drop(k key, o object) {
	s.version++
	o = copyOf(o)
	o.SetResourceVersion(strconv.FormatUint(s.version, 10))
	delete(s.objects, k)
	s.tell("DELETED", k, o)
	s.save()
}

func ptr[T any](v T) *T { return &v }
