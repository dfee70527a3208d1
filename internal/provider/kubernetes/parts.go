package kubernetes

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Kinds of objects.
const (
	kindPod     = "Pod"
	kindSecret  = "Secret"
	kindService = "Service"
)

func typeMeta(kind string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: "v1", Kind: kind} }

// parts says what an instance has beside its Pod.
type parts struct{ secret, service bool }

func partsOf(pl plan) parts { return parts{secret: pl.secret != nil, service: pl.service != nil} }

// noParts is how parts without any are written.
const noParts = "none"

func (p parts) String() string {
	var s string
	if p.secret {
		s += "s"
	}
	if p.service {
		s += "v"
	}
	if s == "" {
		return noParts
	}
	return s
}

func parseParts(s string) (parts, bool) {
	for _, p := range []parts{{}, {secret: true}, {service: true}, {secret: true, service: true}} {
		if p.String() == s {
			return p, true
		}
	}
	return parts{}, false
}

// instanceKey is what an instance id holds: all that is needed to find and to
// delete an instance, whatever the configuration says by then.
type instanceKey struct {
	namespace, name string
	uid             types.UID
	parts           parts
}

func (k instanceKey) id() provider.InstanceID {
	return provider.InstanceID(strings.Join([]string{TypeName, k.namespace, k.name, string(k.uid), k.parts.String()}, "/"))
}

// uidForm bounds what is taken for an object's uid.
var uidForm = regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9]{0,62}$`)

func (p *Provider) parseID(op provider.Op, id provider.InstanceID) (instanceKey, error) {
	f := strings.Split(string(id), "/")
	if len(f) == 5 && f[0] == TypeName && provider.ValidateName("", f[1]) == nil && provider.ValidateName("", f[2]) == nil && uidForm.MatchString(f[3]) {
		if parts, ok := parseParts(f[4]); ok {
			return instanceKey{namespace: f[1], name: f[2], uid: types.UID(f[3]), parts: parts}, nil
		}
	}
	return instanceKey{}, provider.WithReason(provider.Wrap(provider.Permanent, op, p.name, string(id),
		fmt.Errorf("instance id %q is none of this provider's: want %s/<namespace>/<name>/<uid>/<parts>", id, TypeName)), provider.ReasonMalformedID)
}

func keyOf(pod *corev1.Pod) instanceKey {
	parts, _ := parseParts(pod.Labels[labelParts])
	return instanceKey{namespace: pod.Namespace, name: pod.Name, uid: pod.UID, parts: parts}
}

func hasSecret(req provider.CreateRequest) bool { return req.CloudInit.Len() > 0 || req.Auth != nil }

func secretData(req provider.CreateRequest) map[string][]byte {
	data := map[string][]byte{}
	if req.CloudInit.Len() > 0 {
		data[KeyUserData] = req.CloudInit.Reveal()
	}
	if req.Auth != nil {
		data[keyUsername], data[keyPassword] = []byte(req.Auth.Username), req.Auth.Password.Reveal()
	}
	return data
}

func secretSize(req provider.CreateRequest) (n int) {
	for _, v := range secretData(req) {
		n += len(v)
	}
	return n
}

func (p *Provider) secretFor(req provider.CreateRequest) *corev1.Secret {
	if !hasSecret(req) {
		return nil
	}
	// Immutable: nodes need not watch it, and nobody can change what a proxy was
	// proven with.
	return &corev1.Secret{TypeMeta: typeMeta(kindSecret), ObjectMeta: p.metaFor(req), Immutable: ptr(true),
		Type: corev1.SecretTypeOpaque, Data: secretData(req)}
}

func (p *Provider) serviceFor(req provider.CreateRequest) *corev1.Service {
	kind, ok := map[string]corev1.ServiceType{
		ExposeClusterIP: corev1.ServiceTypeClusterIP, ExposeNodePort: corev1.ServiceTypeNodePort, ExposeLoadBalancer: corev1.ServiceTypeLoadBalancer,
	}[p.opt.Expose]
	if !ok {
		return nil
	}
	s := &corev1.Service{TypeMeta: typeMeta(kindService), ObjectMeta: p.metaFor(req), Spec: corev1.ServiceSpec{
		Type: kind, Selector: map[string]string{labelInstance: req.Name},
		Ports: []corev1.ServicePort{{Name: "proxy", Protocol: corev1.ProtocolTCP, Port: int32(req.Port), TargetPort: intstr.FromInt(req.Port)}},
	}}
	switch kind {
	case corev1.ServiceTypeNodePort:
		// Clients connect to the Pod's node at the proxy's port: one proxy for each
		// port of the cluster.
		s.Spec.Ports[0].NodePort = int32(req.Port)
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	case corev1.ServiceTypeLoadBalancer:
		lb := p.opt.LoadBalancer
		s.Spec.LoadBalancerSourceRanges = slices.Clone(lb.SourceRanges)
		if lb.Class != "" {
			s.Spec.LoadBalancerClass = ptr(lb.Class)
		}
		if s.Annotations == nil {
			s.Annotations = map[string]string{}
		}
		maps.Copy(s.Annotations, lb.Annotations)
	}
	return s
}

// ownedBy makes the Pod an object's owner, so that the cluster removes it after
// the Pod, too.
func ownedBy(meta *metav1.ObjectMeta, pod *corev1.Pod) {
	meta.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: kindPod, Name: pod.Name, UID: pod.UID}}
}

// ownerOf is the Pod that owns an object, empty when none does.
func ownerOf(meta *metav1.ObjectMeta) metav1.OwnerReference {
	for _, o := range meta.OwnerReferences {
		if o.Kind == kindPod && o.APIVersion == "v1" {
			return o
		}
	}
	return metav1.OwnerReference{}
}
