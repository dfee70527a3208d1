package kubernetessim

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// snapshot is a listing whose later pages are of the moment of the first.
type snapshot struct {
	version string
	items   []object
}

// list answers with one page. Its items are of one moment, until Compact.
func (s *Sim) list(w http.ResponseWriter, r *http.Request, t target) {
	q := r.URL.Query()
	sel, err := labels.Parse(q.Get("labelSelector"))
	if err != nil {
		writeStatus(w, failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, "unable to parse requirement: %v", err))
		return
	}
	limit, _ := strconv.Atoi(q.Get("limit"))
	s.mu.Lock()
	defer s.mu.Unlock()
	snap, from := s.resume(q.Get("continue"))
	switch {
	case snap == nil && q.Get("continue") != "":
		writeStatus(w, failure(http.StatusGone, metav1.StatusReasonExpired, "The provided continue parameter is too old to display a consistent list result. "+
			"You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results."))
		return
	case snap == nil:
		snap = &snapshot{version: strconv.FormatUint(s.version, 10), items: s.selected(t, sel)}
	}
	meta := metav1.ListMeta{ResourceVersion: snap.version}
	end := len(snap.items)
	if limit > 0 && from+limit < end {
		end = from + limit
		meta.Continue = s.remember(snap, end)
		meta.RemainingItemCount = ptr(int64(len(snap.items) - end))
	}
	writeJSON(w, http.StatusOK, listOf(r, t.resource, meta, snap.items[from:end]))
}

// selected are the objects that match, in the order of their names. mu is held.
func (s *Sim) selected(t target, sel labels.Selector) (out []object) {
	for k, o := range s.objects {
		if k.resource == t.resource && k.namespace == t.namespace && sel.Matches(labels.Set(o.GetLabels())) {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b object) int { return strings.Compare(a.GetName(), b.GetName()) })
	return out
}

// remember keeps a listing for its next page and gives the token for it. mu is
// held.
func (s *Sim) remember(snap *snapshot, from int) string {
	id := string(newUID())
	s.snapshots[id] = snap
	return base64.RawURLEncoding.EncodeToString([]byte(id + "/" + strconv.Itoa(from)))
}

func (s *Sim) resume(token string) (*snapshot, int) {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) == 0 {
		return nil, 0
	}
	id, at, _ := strings.Cut(string(raw), "/")
	from, err := strconv.Atoi(at)
	snap := s.snapshots[id]
	if err != nil || snap == nil {
		return nil, 0
	}
	delete(s.snapshots, id)
	return snap, from
}

func listOf(r *http.Request, resource string, meta metav1.ListMeta, items []object) any {
	if metadataOnly(r) {
		out := metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"},
			ListMeta: meta, Items: []metav1.PartialObjectMetadata{}}
		for _, o := range items {
			m := partial(o)
			m.TypeMeta = metav1.TypeMeta{}
			out.Items = append(out.Items, m)
		}
		return out
	}
	return struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata"`
		Items           []object `json:"items"`
	}{metav1.TypeMeta{APIVersion: "v1", Kind: kinds[resource] + "List"}, meta, append([]object{}, items...)}
}

// event is a change that watchers hear of.
type event struct {
	version uint64
	what    string
	key     key
	object  object
}

// maxEvents is how many changes are remembered for watchers.
const maxEvents = 10_000

// tell records a change. mu is held.
func (s *Sim) tell(what string, k key, o object) {
	s.events = append(s.events, event{s.version, what, k, o})
	if len(s.events) > maxEvents {
		s.events = slices.Clone(s.events[len(s.events)-maxEvents/2:])
	}
	for c := range s.watchers {
		select {
		case c <- struct{}{}:
		default: // it has been told already
		}
	}
}

// since are the changes of a resource after a version; ok is false when they are
// forgotten. mu is held.
func (s *Sim) since(t target, version uint64) (out []event, ok bool) {
	if version < s.version && (len(s.events) == 0 || s.events[0].version > version+1) {
		return nil, false
	}
	for _, e := range s.events {
		if e.version > version && e.key.resource == t.resource && e.key.namespace == t.namespace {
			out = append(out, e)
		}
	}
	return out, true
}

// watch streams changes after resourceVersion, which is required.
func (s *Sim) watch(w http.ResponseWriter, r *http.Request, t target) {
	version, err := strconv.ParseUint(r.URL.Query().Get("resourceVersion"), 10, 64)
	if err != nil {
		writeStatus(w, failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, "resourceVersion: the simulator wants one"))
		return
	}
	told := make(chan struct{}, 1)
	s.mu.Lock()
	s.watchers[told] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.watchers, told)
		s.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w)
	_ = flush.Flush()
	enc := json.NewEncoder(w)
	end := time.NewTimer(5 * time.Minute)
	defer end.Stop()
	for {
		s.mu.Lock()
		events, ok := s.since(t, version)
		version = max(version, s.version)
		s.mu.Unlock()
		if !ok {
			_ = enc.Encode(map[string]any{"type": "ERROR", "object": failure(http.StatusGone, metav1.StatusReasonExpired, "too old resource version")})
			return
		}
		for _, e := range events {
			if enc.Encode(map[string]any{"type": e.what, "object": shown(r, t.resource, e.object)}) != nil {
				return
			}
		}
		if len(events) > 0 && flush.Flush() != nil {
			return
		}
		select {
		case <-told:
		case <-end.C:
			return
		case <-r.Context().Done():
			return
		}
	}
}
