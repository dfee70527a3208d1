package kubernetessim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Runtime runs the containers of a Kubelet. It is called by one goroutine.
type Runtime interface {
	// Start runs a Pod and returns its address. A Pod that ran before has its
	// address in its status, and gets it again.
	Start(ctx context.Context, pod *corev1.Pod) (netip.Addr, error)
	// Stop ends a Pod; one that does not run is success.
	Stop(pod *corev1.Pod)
}

// Images that a Kubelet knows: all others run.
const (
	// ImageMissing in an image's name makes pulling it fail for ever.
	ImageMissing = "missing"
	// ImageCrash makes its container end as soon as it has started.
	ImageCrash = "crash"
)

// Kubelet is the scheduler and the only node of one namespace. Run it once.
type Kubelet struct {
	Client    *Client
	Namespace string
	Runtime   Runtime
	// Node is the name of the node, HostIP its address.
	Node   string
	HostIP string
	// LoadBalancer, when valid, is the first of the addresses that Services of type
	// LoadBalancer get.
	LoadBalancer netip.Addr
	Logger       *slog.Logger

	mu       sync.Mutex
	held     bool
	full     string // the scheduler's words while no node has room
	changed  chan struct{}
	pods     map[string]*corev1.Pod
	started  map[string]bool // by uid
	services map[string]bool // by uid, that have an address
}

// waiting is how often a Pod that waits for its Secret is looked at.
const waiting = 10 * time.Millisecond

// HoldDeletes keeps Pods that are being deleted until release is called.
func (k *Kubelet) HoldDeletes() (release func()) {
	k.set(func() { k.held = true })
	return func() { k.set(func() { k.held = false }) }
}

// Full keeps new Pods unscheduled, with the scheduler's words, until release is
// called.
func (k *Kubelet) Full(words string) (release func()) {
	k.set(func() { k.full = words })
	return func() { k.set(func() { k.full = "" }) }
}

func (k *Kubelet) set(do func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.init()
	do()
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// init prepares the zero value. mu is held.
func (k *Kubelet) init() {
	if k.changed == nil {
		k.changed = make(chan struct{}, 1)
		k.pods, k.started, k.services = map[string]*corev1.Pod{}, map[string]bool{}, map[string]bool{}
		if k.Logger == nil {
			k.Logger = slog.New(slog.DiscardHandler)
		}
	}
}

// Run works until ctx ends. Containers run on afterwards.
func (k *Kubelet) Run(ctx context.Context) {
	k.mu.Lock()
	k.init()
	k.mu.Unlock()
	for ctx.Err() == nil {
		if err := k.follow(ctx); err != nil && ctx.Err() == nil {
			k.Logger.Debug("watch ended", "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(waiting):
			}
		}
	}
}

func (k *Kubelet) path(resource, name, sub string) string {
	p := "/api/v1/namespaces/" + k.Namespace + "/" + resource
	for _, s := range []string{name, sub} {
		if s != "" {
			p += "/" + s
		}
	}
	return p
}

// follow lists the Pods and watches them from there on.
func (k *Kubelet) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var l corev1.PodList
	if err := k.Client.Do(ctx, http.MethodGet, k.path("pods", "", ""), nil, &l); err != nil {
		return err
	}
	clear(k.pods)
	for i := range l.Items {
		k.pods[l.Items[i].Name] = &l.Items[i]
	}
	k.syncAll(ctx)
	resp, err := k.Client.open(ctx, http.MethodGet, k.path("pods", "", "")+"?watch=true&allowWatchBookmarks=false&resourceVersion="+l.ResourceVersion, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	events, ended := make(chan watchEvent), make(chan error, 1)
	go func() {
		d := json.NewDecoder(resp.Body)
		for {
			var e watchEvent
			if err := d.Decode(&e); err != nil {
				ended <- err
				return
			}
			select {
			case events <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	tick := time.NewTicker(waiting)
	defer tick.Stop()
	for {
		select {
		case e := <-events:
			if err := k.see(ctx, e); err != nil {
				return err
			}
		case <-k.changed:
			k.syncAll(ctx)
		case <-tick.C:
			k.syncWaiting(ctx)
		case err := <-ended:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

type watchEvent struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

func (k *Kubelet) see(ctx context.Context, e watchEvent) error {
	if e.Type == "ERROR" {
		return fmt.Errorf("watch: %s", e.Object)
	}
	pod := &corev1.Pod{}
	if err := json.Unmarshal(e.Object, pod); err != nil {
		return err
	}
	if e.Type == "DELETED" {
		k.end(pod)
		delete(k.pods, pod.Name)
		return nil
	}
	k.pods[pod.Name] = pod
	k.sync(ctx, pod)
	return nil
}

func (k *Kubelet) end(pod *corev1.Pod) {
	k.Runtime.Stop(pod)
	delete(k.started, string(pod.UID))
}

func (k *Kubelet) syncAll(ctx context.Context) {
	for _, p := range k.pods {
		k.sync(ctx, p)
	}
}

// syncWaiting looks again at what no event of a Pod will move.
func (k *Kubelet) syncWaiting(ctx context.Context) {
	for _, p := range k.pods {
		if p.DeletionTimestamp == nil && p.Spec.NodeName != "" && isPending(p) {
			k.sync(ctx, p)
		}
	}
	if k.LoadBalancer.IsValid() && len(k.pods) > 0 {
		k.balance(ctx)
	}
}

func isPending(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodPending || p.Status.Phase == ""
}

// sync moves one Pod by one step. What fails is tried again at its next event.
func (k *Kubelet) sync(ctx context.Context, p *corev1.Pod) {
	k.mu.Lock()
	held, full := k.held, k.full
	k.mu.Unlock()
	var err error
	switch {
	case p.DeletionTimestamp != nil:
		if !held {
			k.end(p)
			err = k.Client.Do(ctx, http.MethodDelete, k.path("pods", p.Name, ""), metav1.DeleteOptions{
				TypeMeta:           metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
				GracePeriodSeconds: ptr(int64(0)), Preconditions: &metav1.Preconditions{UID: &p.UID}}, nil)
		}
	case p.Spec.NodeName == "" && full != "":
		if len(p.Status.Conditions) == 0 {
			p = p.DeepCopy()
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: full}}
			err = k.putStatus(ctx, p)
		}
	case p.Spec.NodeName == "" && isPending(p):
		err = k.Client.Do(ctx, http.MethodPost, k.path("pods", p.Name, "binding"), &corev1.Binding{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Binding"}, ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, UID: p.UID},
			Target: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: k.Node}}, nil)
	case isPending(p):
		err = k.start(ctx, p)
	case p.Status.Phase == corev1.PodRunning && p.Status.PodIP != "" && !k.started[string(p.UID)]:
		_, err = k.Runtime.Start(ctx, p) // it ran before we did
		k.started[string(p.UID)] = err == nil
	case p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded:
		k.end(p)
	}
	var st *StatusError
	if err != nil && ctx.Err() == nil && !(errors.As(err, &st) && (st.Code == http.StatusNotFound || st.Code == http.StatusConflict)) {
		k.Logger.Debug("a Pod is not moved", "pod", p.Name, "error", err)
	}
}

func (k *Kubelet) start(ctx context.Context, p *corev1.Pod) error {
	for _, v := range p.Spec.Volumes {
		if v.Secret == nil {
			continue
		}
		if err := k.Client.Do(ctx, http.MethodGet, k.path("secrets", v.Secret.SecretName, ""), nil, nil); err != nil {
			return err // the Pod waits for its volume
		}
	}
	c := p.Spec.Containers[0]
	state := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
	phase := corev1.PodRunning
	switch {
	case strings.Contains(c.Image, ImageMissing):
		state, phase = waits("ImagePullBackOff"), corev1.PodPending
		if len(p.Status.ContainerStatuses) > 0 {
			return nil // it has been said
		}
	case strings.Contains(c.Image, ImageCrash):
		state = waits("CrashLoopBackOff")
	}
	p = p.DeepCopy()
	if phase == corev1.PodRunning {
		ip, err := k.Runtime.Start(ctx, p)
		if err != nil {
			return err
		}
		k.started[string(p.UID)] = true
		p.Status.PodIP, p.Status.PodIPs = ip.String(), []corev1.PodIP{{IP: ip.String()}}
	}
	p.Status.Phase = phase
	p.Status.HostIP, p.Status.HostIPs = k.HostIP, []corev1.HostIP{{IP: k.HostIP}}
	up := state.Running != nil
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: c.Name, Image: c.Image, State: state, Ready: up, Started: &up}}
	return k.putStatus(ctx, p)
}

func waits(reason string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
}

func (k *Kubelet) putStatus(ctx context.Context, p *corev1.Pod) error {
	p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	return k.Client.Do(ctx, http.MethodPut, k.path("pods", p.Name, "status"), p, nil)
}

// balance gives Services of type LoadBalancer their address, as a cloud does.
func (k *Kubelet) balance(ctx context.Context) {
	var l corev1.ServiceList
	if err := k.Client.Do(ctx, http.MethodGet, k.path("services", "", ""), nil, &l); err != nil {
		return
	}
	for i := range l.Items {
		s := &l.Items[i]
		if s.Spec.Type != corev1.ServiceTypeLoadBalancer || k.services[string(s.UID)] {
			continue
		}
		s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: k.LoadBalancer.String()}}
		if k.Client.Do(ctx, http.MethodPut, k.path("services", s.Name, "status"), s, nil) == nil {
			k.services[string(s.UID)] = true
			k.LoadBalancer = k.LoadBalancer.Next()
		}
	}
}
