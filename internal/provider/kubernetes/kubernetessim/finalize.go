package kubernetessim

import (
	"encoding/json"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// patch replaces the finalizers, the only thing that is ever patched, by a merge
// patch. What is being deleted goes with its last one.
func (s *Sim) patch(w http.ResponseWriter, r *http.Request, t target) {
	var in struct {
		Metadata struct {
			Finalizers json.RawMessage `json:"finalizers"`
		} `json:"metadata"`
	}
	var finalizers []string
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if d.Decode(&in) != nil || json.Unmarshal(in.Metadata.Finalizers, &finalizers) != nil {
		writeStatus(w, failure(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "the simulator patches finalizers only"))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	have, ok := s.objects[t.key]
	if !ok {
		writeStatus(w, notFound(t.key))
		return
	}
	next := copyOf(have)
	next.SetFinalizers(finalizers)
	// A Pod that its node has not ended has a grace left.
	grace := next.GetDeletionGracePeriodSeconds()
	if next.GetDeletionTimestamp() != nil && len(finalizers) == 0 && (grace == nil || *grace == 0) {
		s.drop(t.key, next)
	} else {
		s.put(t.key, next, "MODIFIED")
	}
	writeJSON(w, http.StatusOK, shown(r, t.resource, next))
}

// end removes an object, or leaves it to its finalizers. It reports which. mu is
// held.
func (s *Sim) end(k key, o object) (_ object, left bool) {
	if len(o.GetFinalizers()) == 0 {
		s.drop(k, o)
		return o, false
	}
	if grace := o.GetDeletionGracePeriodSeconds(); o.GetDeletionTimestamp() == nil || grace == nil || *grace != 0 {
		o = copyOf(o)
		if o.GetDeletionTimestamp() == nil {
			o.SetDeletionTimestamp(ptr(metav1.NewTime(time.Now().UTC().Truncate(time.Second))))
		}
		o.SetDeletionGracePeriodSeconds(ptr(int64(0)))
		s.put(k, o, "MODIFIED")
	}
	return o, true
}
