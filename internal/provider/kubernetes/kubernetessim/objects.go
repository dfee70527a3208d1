package kubernetessim

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

func (s *Sim) get(w http.ResponseWriter, r *http.Request, t target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[t.key]
	if !ok {
		writeStatus(w, notFound(t.key))
		return
	}
	writeJSON(w, http.StatusOK, shown(r, t.resource, o))
}

// create looks at a request in the order of the real thing: the namespace, the
// object, the quota, and the name at the end. A quota that the object itself has
// used up therefore hides that it exists.
func (s *Sim) create(w http.ResponseWriter, r *http.Request, t target) {
	o := newObject(t.resource)
	if st := decode(r, o); st != nil {
		writeStatus(w, st)
		return
	}
	if st := validate(t.key, o); st != nil {
		writeStatus(w, st)
		return
	}
	t.name = o.GetName()
	dry := r.URL.Query().Get("dryRun") == metav1.DryRunAll
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.admit(t.key, o); st != nil {
		writeStatus(w, st)
		return
	}
	if _, taken := s.objects[t.key]; taken {
		writeStatus(w, about(failure(http.StatusConflict, metav1.StatusReasonAlreadyExists, "%s %q already exists", t.resource, t.name), t.resource, t.name))
		return
	}
	if svc, ok := o.(*corev1.Service); ok {
		if st := s.nodePort(t.key, svc); st != nil {
			writeStatus(w, st)
			return
		}
	}
	s.created(t.key, o)
	if !dry {
		s.put(t.key, o, "ADDED")
	}
	writeJSON(w, http.StatusCreated, shown(r, t.resource, o))
}

// validate checks the little that our driver could get wrong.
func validate(k key, o object) *metav1.Status {
	if ns := o.GetNamespace(); ns != "" && ns != k.namespace {
		return failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, "the namespace of the provided object does not match the namespace sent on the request")
	}
	var causes []metav1.StatusCause
	bad := func(field, value, why string) {
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: field, Message: fmt.Sprintf("Invalid value: %q: %s", value, why)})
	}
	for _, why := range validation.IsDNS1123Subdomain(o.GetName()) {
		bad("metadata.name", o.GetName(), why)
	}
	for l, v := range o.GetLabels() {
		for _, why := range append(validation.IsQualifiedName(l), validation.IsValidLabelValue(v)...) {
			bad("metadata.labels", v, why)
		}
	}
	switch o := o.(type) {
	case *corev1.Pod:
		if len(o.Spec.Containers) == 0 || o.Spec.Containers[0].Image == "" {
			bad("spec.containers[0].image", "", "Required value")
		}
	case *corev1.Secret:
		n := 0
		for _, v := range o.Data {
			n += len(v)
		}
		if n > corev1.MaxSecretSize {
			bad("data", "", fmt.Sprintf("Too long: may not be more than %d bytes", corev1.MaxSecretSize))
		}
	case *corev1.Service:
		if len(o.Spec.Ports) == 0 {
			bad("spec.ports", "", "Required value")
		}
		for _, p := range o.Spec.Ports {
			if p.NodePort != 0 && (p.NodePort < 30000 || p.NodePort > 32767) {
				bad("spec.ports[0].nodePort", fmt.Sprint(p.NodePort), "provided port is not in the valid range. The range of valid ports is 30000-32767")
			}
		}
	}
	if len(causes) == 0 {
		return nil
	}
	var texts []string
	for _, c := range causes {
		texts = append(texts, c.Field+": "+c.Message)
	}
	return about(failure(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "%s %q is invalid: %s", kinds[k.resource], o.GetName(), strings.Join(texts, ", ")),
		kinds[k.resource], o.GetName(), causes...)
}

// admit checks the namespace and the quota. mu is held.
func (s *Sim) admit(k key, o object) *metav1.Status {
	terminating, ok := s.namespaces[k.namespace]
	if !ok {
		return about(failure(http.StatusNotFound, metav1.StatusReasonNotFound, "namespaces %q not found", k.namespace), "namespaces", k.namespace)
	}
	if terminating {
		return about(failure(http.StatusForbidden, metav1.StatusReasonForbidden, "%s %q is forbidden: unable to create new content in namespace %s because it is being terminated",
			k.resource, k.name, k.namespace), k.resource, k.name,
			metav1.StatusCause{Type: corev1.NamespaceTerminatingCause, Message: fmt.Sprintf("namespace %s is being terminated", k.namespace), Field: "metadata.namespace"})
	}
	asked := map[string]int64{k.resource: 1}
	if svc, ok := o.(*corev1.Service); ok && svc.Spec.Type == corev1.ServiceTypeLoadBalancer {
		asked["services.loadbalancers"] = 1
	}
	for resource, n := range asked {
		most, limited := s.quota[k.namespace][resource]
		if used := s.used(k.namespace, resource); limited && used+n > most {
			return about(failure(http.StatusForbidden, metav1.StatusReasonForbidden,
				"%s %q is forbidden: exceeded quota: tollgate, requested: %s=%d, used: %s=%d, limited: %s=%d",
				k.resource, k.name, resource, n, resource, used, resource, most), k.resource, k.name)
		}
	}
	return nil
}

func (s *Sim) used(namespace, resource string) (n int64) {
	for k, o := range s.objects {
		if k.namespace != namespace {
			continue
		}
		svc, isService := o.(*corev1.Service)
		pod, isPod := o.(*corev1.Pod)
		switch {
		case isPod && (pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded):
			// Pods that have ended do not count.
		case k.resource == resource, resource == "services.loadbalancers" && isService && svc.Spec.Type == corev1.ServiceTypeLoadBalancer:
			n++
		}
	}
	return n
}

// nodePort refuses a port that another Service has. mu is held.
func (s *Sim) nodePort(k key, svc *corev1.Service) *metav1.Status {
	want := svc.Spec.Ports[0].NodePort
	if want == 0 {
		return nil
	}
	for _, o := range s.objects {
		if other, ok := o.(*corev1.Service); ok && other.Spec.Ports[0].NodePort == want {
			return about(failure(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid,
				"Service %q is invalid: spec.ports[0].nodePort: Invalid value: %d: provided port is already allocated", k.name, want), "Service", k.name,
				metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: "spec.ports[0].nodePort", Message: "provided port is already allocated"})
		}
	}
	return nil
}

// bind gives a Pod to a node.
func (s *Sim) bind(w http.ResponseWriter, r *http.Request, t target) {
	var b corev1.Binding
	if st := decode(r, &b); st != nil {
		writeStatus(w, st)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[t.key].(*corev1.Pod)
	switch {
	case !ok:
		writeStatus(w, notFound(t.key))
		return
	case o.Spec.NodeName != "":
		writeStatus(w, about(failure(http.StatusConflict, metav1.StatusReasonConflict, "Operation cannot be fulfilled on pods/binding %q: pod %s is already assigned to node %q",
			t.name, t.name, o.Spec.NodeName), "pods/binding", t.name))
		return
	}
	o = copyOf(o)
	o.Spec.NodeName = b.Target.Name
	o.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
	s.put(t.key, o, "MODIFIED")
	writeJSON(w, http.StatusCreated, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess, Code: http.StatusCreated})
}

// update replaces the status, the only thing that is ever changed.
func (s *Sim) update(w http.ResponseWriter, r *http.Request, t target) {
	if t.sub != "status" {
		writeStatus(w, failure(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "the simulator changes the status only"))
		return
	}
	in := newObject(t.resource)
	if st := decode(r, in); st != nil {
		writeStatus(w, st)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	have, ok := s.objects[t.key]
	if !ok {
		writeStatus(w, notFound(t.key))
		return
	}
	if v := in.GetResourceVersion(); v != "" && v != have.GetResourceVersion() || in.GetUID() != "" && in.GetUID() != have.GetUID() {
		writeStatus(w, about(failure(http.StatusConflict, metav1.StatusReasonConflict, "Operation cannot be fulfilled on %s %q: the object has been modified; "+
			"please apply your changes to the latest version and try again", t.resource, t.name), t.resource, t.name))
		return
	}
	next := copyOf(have)
	switch next := next.(type) {
	case *corev1.Pod:
		next.Status = in.(*corev1.Pod).Status
	case *corev1.Service:
		next.Status = in.(*corev1.Service).Status
	}
	s.put(t.key, next, "MODIFIED")
	writeJSON(w, http.StatusOK, shown(r, t.resource, next))
}

func (s *Sim) delete(w http.ResponseWriter, r *http.Request, t target) {
	var opts metav1.DeleteOptions
	if st := decode(r, &opts); st != nil {
		writeStatus(w, st)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[t.key]
	if !ok {
		writeStatus(w, notFound(t.key))
		return
	}
	if p := opts.Preconditions; p != nil && p.UID != nil && *p.UID != o.GetUID() {
		writeStatus(w, about(failure(http.StatusConflict, metav1.StatusReasonConflict, otherUID(t, *p.UID, o.GetUID())), t.resource, t.name))
		return
	}
	if len(opts.DryRun) > 0 {
		writeJSON(w, http.StatusOK, shown(r, t.resource, o))
		return
	}
	if pod, ok := o.(*corev1.Pod); ok {
		if pod, left := graceful(pod, opts.GracePeriodSeconds); left {
			if pod != o {
				s.put(t.key, pod, "MODIFIED")
			}
			writeJSON(w, http.StatusOK, shown(r, t.resource, pod))
			return
		}
		o, _ = s.end(t.key, o)
		writeJSON(w, http.StatusOK, shown(r, t.resource, o))
		return
	}
	if o, left := s.end(t.key, o); left {
		writeJSON(w, http.StatusOK, shown(r, t.resource, o))
		return
	}
	writeJSON(w, http.StatusOK, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: t.name, Kind: t.resource, UID: o.GetUID()}})
}

// otherUID is how the failed precondition of a delete is worded, in one way for
// what has a grace period and in another for what has none.
func otherUID(t target, want, have types.UID) string {
	if t.resource == "pods" {
		return fmt.Sprintf("Operation cannot be fulfilled on Pod %q: the UID in the precondition (%s) does not match the UID in record (%s). "+
			"The object might have been deleted and then recreated", t.name, want, have)
	}
	return fmt.Sprintf("Operation cannot be fulfilled on %s %q: Precondition failed: UID in precondition: %s, UID in object meta: %s", t.resource, t.name, want, have)
}

// graceful begins the end of a Pod that a node still has to end. left is false
// when the Pod goes at once: no node has it, it has ended by itself, or no grace
// was asked for. A grace is never made longer.
func graceful(pod *corev1.Pod, asked *int64) (_ *corev1.Pod, left bool) {
	grace := *pod.Spec.TerminationGracePeriodSeconds
	if asked != nil {
		grace = *asked
	}
	if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded || grace == 0 {
		return pod, false
	}
	grace = max(grace, 1)
	if pod.DeletionTimestamp != nil && *pod.DeletionGracePeriodSeconds <= grace {
		return pod, true
	}
	pod = copyOf(pod)
	pod.DeletionTimestamp = ptr(metav1.NewTime(time.Now().UTC().Add(time.Duration(grace) * time.Second).Truncate(time.Second)))
	pod.DeletionGracePeriodSeconds = ptr(grace)
	return pod, true
}
