package gardenersim

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"

	corev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
)

var decoder = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	if err := corev1beta1.AddToScheme(scheme); err != nil {
		panic(err) // a mistake in the program
	}
	metav1.AddToGroupVersion(scheme, corev1beta1.SchemeGroupVersion)
	return serializer.NewCodecFactory(scheme).UniversalDeserializer()
}()

// decode reads a shoot, in JSON or in Protobuf.
func decode(r *http.Request) (*corev1beta1.Shoot, error) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	out := &corev1beta1.Shoot{}
	_, _, err = decoder.Decode(b, nil, out)
	return out, err
}

// managed notes who wrote a part of a shoot last, and when.
func (s *Sim) managed(sh *corev1beta1.Shoot, subresource, fields string) {
	now := s.now()
	for i := range sh.ManagedFields {
		if f := &sh.ManagedFields[i]; f.Subresource == subresource && string(f.FieldsV1.Raw) == fields {
			f.Time = &now
			return
		}
	}
	sh.ManagedFields = append(sh.ManagedFields, metav1.ManagedFieldsEntry{Manager: "sim", Operation: metav1.ManagedFieldsOperationUpdate,
		APIVersion: coreVersion, Time: &now, FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}, Subresource: subresource})
}

const (
	specFields   = `{"f:spec":{"f:provider":{"f:workers":{}}}}`
	otherFields  = `{"f:metadata":{"f:annotations":{}}}`
	statusFields = `{"f:status":{}}`
)

func (s *Sim) create(w http.ResponseWriter, r *http.Request, namespace string) {
	sh, err := decode(r)
	if err != nil {
		fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error(), nil)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sh.Namespace = namespace
	if _, taken := s.shoots[key(sh)]; taken {
		fail(w, http.StatusConflict, metav1.StatusReasonAlreadyExists, "already exists", &metav1.StatusDetails{Name: sh.Name})
		return
	}
	s.uids++
	sh.UID, sh.Generation, sh.CreationTimestamp = types.UID(fmt.Sprintf("uid-%d", s.uids)), 1, s.now()
	sh.Status = corev1beta1.ShootStatus{}
	s.managed(sh, "", specFields)
	s.write(added, sh)
	answer(w, http.StatusCreated, named(sh))
}

// one reads or writes one shoot.
func (s *Sim) one(w http.ResponseWriter, r *http.Request, path string, rest []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, ok := s.shoots[path]
	if !ok {
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, "not found", &metav1.StatusDetails{Name: path, Kind: "shoots"})
		return
	}
	now := was.DeepCopy()
	switch {
	case r.Method == http.MethodGet:
		answer(w, http.StatusOK, named(was))
		return
	case r.Method == http.MethodDelete:
		if was.DeletionTimestamp == nil {
			t := s.now()
			now.DeletionTimestamp = &t
			now.Generation++
		}
	case r.Method == http.MethodPatch:
		patch, err := io.ReadAll(r.Body)
		if err == nil {
			now, err = merged(was, patch)
		}
		if err != nil {
			fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error(), nil)
			return
		}
	default:
		in, err := decode(r)
		if err != nil {
			fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error(), nil)
			return
		}
		if in.ResourceVersion != was.ResourceVersion {
			fail(w, http.StatusConflict, metav1.StatusReasonConflict, "the object has been modified", nil)
			return
		}
		if len(rest) == 1 && rest[0] == "status" {
			now.Status = in.Status
			s.managed(now, "status", statusFields)
			s.write(modified, now)
			answer(w, http.StatusOK, named(now))
			return
		}
		now.Spec, now.Labels, now.Annotations, now.Finalizers = in.Spec, in.Labels, in.Annotations, in.Finalizers
	}
	if !reflect.DeepEqual(now.Spec, was.Spec) {
		now.Generation++
		s.managed(now, "", specFields)
	} else {
		s.managed(now, "", otherFields)
	}
	if now.DeletionTimestamp != nil && len(now.Finalizers) == 0 {
		s.write(deleted, now)
	} else {
		s.write(modified, now)
	}
	answer(w, http.StatusOK, named(now))
}

// merged is a shoot after a JSON merge patch (RFC 7386).
func merged(was *corev1beta1.Shoot, patch []byte) (*corev1beta1.Shoot, error) {
	b, err := json.Marshal(was)
	if err != nil {
		return nil, err
	}
	var object, change map[string]any
	if err := json.Unmarshal(b, &object); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(patch, &change); err != nil {
		return nil, err
	}
	if b, err = json.Marshal(merge(object, change)); err != nil {
		return nil, err
	}
	out := &corev1beta1.Shoot{}
	return out, json.Unmarshal(b, out)
}

func merge(object, patch map[string]any) map[string]any {
	if object == nil {
		object = map[string]any{}
	}
	for k, v := range patch {
		switch v := v.(type) {
		case nil:
			delete(object, k)
		case map[string]any:
			inner, _ := object[k].(map[string]any)
			object[k] = merge(inner, v)
		default:
			object[k] = v
		}
	}
	return object
}
