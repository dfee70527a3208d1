package kubernetessim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kinds of the resources that are served.
var kinds = map[string]string{"pods": "Pod", "secrets": "Secret", "services": "Service"}

func newObject(resource string) object {
	switch resource {
	case "pods":
		return &corev1.Pod{}
	case "secrets":
		return &corev1.Secret{}
	}
	return &corev1.Service{}
}

// paths of the API: namespace, resource, name, subresource.
var paths = regexp.MustCompile(`^/api/v1/namespaces/([^/]+)/(pods|secrets|services)(?:/([^/]+)(?:/(status|binding))?)?$`)

// target is what a request is about.
type target struct {
	verb string
	key
	sub string
}

// targetOf reads a request; ok is false for paths that are not served.
func targetOf(r *http.Request) (t target, ok bool) {
	m := paths.FindStringSubmatch(r.URL.Path)
	if m == nil {
		return target{}, false
	}
	t = target{key: key{resource: m[2], namespace: m[1], name: m[3]}, sub: m[4]}
	switch {
	case r.Method == http.MethodPost && (t.name == "" || t.sub == "binding"):
		t.verb = "create"
	case r.Method == http.MethodGet && t.name == "" && isTrue(r.URL.Query().Get("watch")):
		t.verb = "watch"
	case r.Method == http.MethodGet && t.name == "":
		t.verb = "list"
	case r.Method == http.MethodGet:
		t.verb = "get"
	case r.Method == http.MethodPut && t.name != "":
		t.verb = "update"
	case r.Method == http.MethodPatch && t.name != "":
		t.verb = "patch"
	case r.Method == http.MethodDelete && t.name != "":
		t.verb = "delete"
	}
	return t, true
}

func isTrue(s string) bool { return s == "true" || s == "1" }

// Version is what the simulator says of itself.
const Version = "v1.35.3-simulated"

// ServeHTTP implements http.Handler.
func (s *Sim) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.opts.Token != "" && r.Header.Get("Authorization") != "Bearer "+s.opts.Token {
		writeStatus(w, failure(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized"))
		return
	}
	if r.URL.Path == "/version" {
		writeJSON(w, http.StatusOK, map[string]string{"major": "1", "minor": "35", "gitVersion": Version})
		return
	}
	if r.URL.Path == "/readyz" {
		_, _ = io.WriteString(w, "ok")
		return
	}
	t, ok := targetOf(r)
	if !ok {
		http.Error(w, "404 page not found", http.StatusNotFound)
		return
	}
	s.mu.Lock()
	s.requests[strings.TrimSuffix(t.verb+" "+t.resource+"/"+t.sub, "/")]++
	s.mu.Unlock()
	if list := t.verb == "list"; metadataOnly(r) && list != strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList") {
		writeStatus(w, failure(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
			"you requested %s, but the requested object is something else", r.Header.Get("Accept")))
		return
	}
	switch t.verb {
	case "create":
		if t.sub == "binding" {
			s.bind(w, r, t)
			return
		}
		s.create(w, r, t)
	case "get":
		s.get(w, r, t)
	case "list":
		s.list(w, r, t)
	case "watch":
		s.watch(w, r, t)
	case "update":
		s.update(w, r, t)
	case "patch":
		s.patch(w, r, t)
	case "delete":
		s.delete(w, r, t)
	default:
		writeStatus(w, failure(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "the server does not allow this method on the requested resource"))
	}
}

// failure is a Status that says no.
func failure(code int, reason metav1.StatusReason, message string, args ...any) *metav1.Status {
	if len(args) > 0 {
		message = fmt.Sprintf(message, args...)
	}
	return &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Code: int32(code), Reason: reason, Message: message}
}

// about adds the object to a Status.
func about(st *metav1.Status, kind, name string, causes ...metav1.StatusCause) *metav1.Status {
	st.Details = &metav1.StatusDetails{Name: name, Kind: kind, Causes: causes}
	return st
}

func notFound(k key) *metav1.Status {
	return about(failure(http.StatusNotFound, metav1.StatusReasonNotFound, "%s %q not found", k.resource, k.name), k.resource, k.name)
}

func writeStatus(w http.ResponseWriter, st *metav1.Status) {
	if st.Details != nil && st.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(st.Details.RetryAfterSeconds))
	}
	writeJSON(w, int(st.Code), st)
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(b, '\n'))
}

// decode reads a body strictly: what an API server would drop with a warning is
// a mistake of its client.
func decode(r *http.Request, into any) *metav1.Status {
	body, err := io.ReadAll(io.LimitReader(r.Body, 3<<20+1))
	switch {
	case err != nil:
		return failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, "the body cannot be read")
	case len(body) > 3<<20:
		return failure(http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge, "Request entity too large: limit is 3145728")
	case len(body) == 0:
		return nil
	case !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json"):
		return failure(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, "the body of the request was in an unknown format")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, "the object provided is unrecognized (must be of type %T): %v", into, err)
	}
	return nil
}

// metadataOnly reports whether the client asks for the metadata alone.
func metadataOnly(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")
}

// shown is an object as an answer has it.
func shown(r *http.Request, resource string, o object) any {
	if metadataOnly(r) {
		return partial(o)
	}
	o = copyOf(o)
	switch o := o.(type) {
	case *corev1.Pod:
		o.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: kinds[resource]}
	case *corev1.Secret:
		o.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: kinds[resource]}
	case *corev1.Service:
		o.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: kinds[resource]}
	}
	return o
}

func partial(o object) metav1.PartialObjectMetadata {
	m := metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}}
	switch o := copyOf(o).(type) {
	case *corev1.Pod:
		m.ObjectMeta = o.ObjectMeta
	case *corev1.Secret:
		m.ObjectMeta = o.ObjectMeta
	case *corev1.Service:
		m.ObjectMeta = o.ObjectMeta
	}
	return m
}
