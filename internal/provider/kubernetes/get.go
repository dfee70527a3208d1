package kubernetes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

const (
	kindMetadata     = "PartialObjectMetadata"
	kindMetadataList = "PartialObjectMetadataList"
	kindPodList      = "PodList"
	kindServiceList  = "ServiceList"
)

func (p *Provider) pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := p.read(ctx, call{verb: http.MethodGet, resource: pods, namespace: namespace, name: name}, kindPod, pod); err != nil {
		return nil, err
	}
	return pod, nil
}

func (p *Provider) metadata(ctx context.Context, resource, namespace, name string) (*metav1.PartialObjectMetadata, error) {
	m := &metav1.PartialObjectMetadata{}
	err := p.read(ctx, call{verb: http.MethodGet, resource: resource, namespace: namespace, name: name, metadataOnly: true}, kindMetadata, m)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// serviceOf reads the Service of a Pod if clients connect there; nil when there
// is none.
func (p *Provider) serviceOf(ctx context.Context, pod *corev1.Pod) (*corev1.Service, error) {
	if !byService(pod) {
		return nil, nil
	}
	s := &corev1.Service{}
	err := p.read(ctx, call{verb: http.MethodGet, resource: services, namespace: pod.Namespace, name: pod.Name}, kindService, s)
	switch {
	case isNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return s, nil
}

// byService reports whether a Pod's address is that of its Service.
func byService(pod *corev1.Pod) bool {
	e := pod.Labels[labelExpose]
	return e == ExposeClusterIP || e == ExposeLoadBalancer
}

// Get implements provider.Provider.
func (p *Provider) Get(ctx context.Context, id provider.InstanceID) (provider.Instance, error) {
	key, err := p.parseID(provider.OpGet, id)
	if err != nil {
		return provider.Instance{}, err
	}
	pod, err := p.pod(ctx, key.namespace, key.name)
	if err != nil {
		return provider.Instance{}, p.classify(ctx, provider.OpGet, string(id), err)
	}
	if pod.UID != key.uid {
		return provider.Instance{}, provider.Wrap(provider.NotFound, provider.OpGet, p.name, string(id),
			errors.New("another Pod has the name by now"))
	}
	svc, err := p.serviceOf(ctx, pod)
	if err != nil {
		return provider.Instance{}, p.classify(ctx, provider.OpGet, string(id), err)
	}
	return p.instance(ctx, pod, svc), nil
}

// Find implements provider.Provider.
func (p *Provider) Find(ctx context.Context, name string, owner provider.Marks) (provider.Instance, error) {
	if err := provider.ValidateName("name", name); err != nil {
		return provider.Instance{}, provider.Wrap(provider.NotFound, provider.OpFind, p.name, name, err)
	}
	pod, err := p.pod(ctx, p.opt.Namespace, name)
	if err != nil {
		return provider.Instance{}, p.classify(ctx, provider.OpFind, name, err)
	}
	if m, _ := MarksOf(pod.Labels, pod.Annotations); !m.SameOwner(owner) {
		return provider.Instance{}, provider.Wrap(provider.Conflict, provider.OpFind, p.name, name,
			errors.New("the name is taken by a Pod that is not ours"))
	}
	svc, err := p.serviceOf(ctx, pod)
	if err != nil {
		return provider.Instance{}, p.classify(ctx, provider.OpFind, name, err)
	}
	return p.instance(ctx, pod, svc), nil
}

// List implements provider.Provider.
func (p *Provider) List(ctx context.Context, sel provider.Selector) ([]provider.Instance, error) {
	found, err := list[corev1.Pod](ctx, p, call{resource: pods, namespace: p.opt.Namespace}, kindPodList, sel)
	if err != nil {
		return nil, p.classify(ctx, provider.OpList, "", err)
	}
	byName := map[string]*corev1.Service{}
	for i := range found {
		if !byService(&found[i]) {
			continue
		}
		all, err := list[corev1.Service](ctx, p, call{resource: services, namespace: p.opt.Namespace}, kindServiceList, sel)
		if err != nil {
			return nil, p.classify(ctx, provider.OpList, "", err)
		}
		for i := range all {
			byName[all[i].Name] = &all[i]
		}
		break
	}
	out := make([]provider.Instance, 0, len(found))
	for i := range found {
		in := p.instance(ctx, &found[i], byName[found[i].Name])
		// A label that stands for a value is a hash of it: the value decides.
		if sel.Matches(in.Marks) {
			out = append(out, in)
		}
	}
	return out, nil
}

const (
	// perPage is how many objects are read at a time.
	perPage = 250
	// listTries is how often a listing is begun anew when the API server has
	// forgotten where it was.
	listTries = 4
)

// object is what a listing is made of.
type object[T any] interface {
	*T
	metav1.Object
}

var errShifting = errors.New("the API server forgets the listing faster than its pages can be read")

// list reads all pages of the objects that carry the managed mark and match.
// Listings are read from the cluster's store, not from a cache that may be
// behind, and each page belongs to one moment: when that moment is forgotten
// (410), what was read so far is no part of a later one, and the listing begins
// anew.
func list[T any, P object[T]](ctx context.Context, p *Provider, c call, kind string, sel provider.Selector) ([]T, error) {
	for range listTries {
		all, err := readPages[T, P](ctx, p, c, kind, sel)
		if !isReason(err, metav1.StatusReasonExpired) && !isReason(err, metav1.StatusReasonGone) {
			return all, err
		}
	}
	return nil, errShifting
}

// page is one page of a listing of any kind.
type page[T any] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []T `json:"items"`
}

func readPages[T any, P object[T]](ctx context.Context, p *Provider, c call, kind string, sel provider.Selector) (all []T, err error) {
	c.verb = http.MethodGet
	c.params = map[string]string{"labelSelector": selectorOf(sel), "limit": strconv.Itoa(perPage)}
	seen := map[string]bool{}
	for {
		b, err := p.do(ctx, c)
		if err != nil {
			return nil, err
		}
		var pg page[T]
		if err := json.Unmarshal(b, &pg); err != nil {
			return nil, fmt.Errorf("the answer is cut off or no JSON: %w", err)
		}
		if pg.Kind != kind || pg.ResourceVersion == "" {
			return nil, errAnswer // it is no list, so it does not say what there is
		}
		for _, item := range pg.Items {
			o := P(&item)
			if o.GetUID() == "" || o.GetName() == "" {
				return nil, errAnswer
			}
			if !seen[string(o.GetUID())] {
				seen[string(o.GetUID())] = true
				all = append(all, item)
			}
		}
		if pg.Continue == "" {
			return all, nil
		}
		c.params["continue"] = pg.Continue
	}
}

// instance turns a Pod into ours. svc is the Service that clients connect to,
// nil when there is none.
func (p *Provider) instance(ctx context.Context, pod *corev1.Pod, svc *corev1.Service) provider.Instance {
	marks, _ := MarksOf(pod.Labels, pod.Annotations)
	in := provider.Instance{
		ID: keyOf(pod).id(), Name: pod.Name, Marks: marks, CreatedAt: pod.CreationTimestamp.UTC(),
		Placement: provider.Placement{
			Region: pod.Spec.NodeSelector[corev1.LabelTopologyRegion], Zone: pod.Spec.NodeSelector[corev1.LabelTopologyZone],
			MachineType: pod.Labels[labelSize],
		},
	}
	for _, c := range pod.Spec.Containers {
		if c.Name == ContainerName { // a webhook may have put others before it
			in.Placement.Image = c.Image
		}
	}
	in.State, in.RawState = p.stateOf(ctx, pod, in.ID)
	if in.State == provider.StateRunning || in.State == provider.StateProvisioning {
		in.IP = addressOf(pod, svc)
	}
	if in.State == provider.StateRunning && !in.IP.IsValid() {
		in.State = provider.StateProvisioning
		in.RawState = cmp.Or(whyNoAddress(pod, svc), in.RawState)
	}
	return in
}

// addressOf is where clients connect.
func addressOf(pod *corev1.Pod, svc *corev1.Service) netip.Addr {
	var texts []string
	switch pod.Labels[labelExpose] {
	case ExposeHostPort, ExposeNodePort:
		texts = []string{pod.Status.HostIP}
	case ExposeClusterIP:
		if svc != nil {
			texts = []string{svc.Spec.ClusterIP}
		}
	case ExposeLoadBalancer:
		if svc != nil {
			for _, i := range svc.Status.LoadBalancer.Ingress {
				texts = append(texts, i.IP)
			}
		}
	default:
		texts = []string{pod.Status.PodIP}
	}
	for _, t := range texts {
		if a, err := netip.ParseAddr(t); err == nil && !a.IsUnspecified() && !a.IsMulticast() {
			return a.Unmap()
		}
	}
	return netip.Addr{}
}

// whyNoAddress explains a Service without an address, empty when there is no
// more to say than that the Pod runs.
func whyNoAddress(pod *corev1.Pod, svc *corev1.Service) string {
	switch {
	case !byService(pod):
		return ""
	case svc == nil:
		return "ServiceMissing"
	case pod.Labels[labelExpose] != ExposeLoadBalancer:
		return ""
	}
	for _, i := range svc.Status.LoadBalancer.Ingress {
		if i.IP == "" && i.Hostname != "" {
			return "LoadBalancerWithoutAddress" // and it will never have one
		}
	}
	return "LoadBalancerPending"
}
