package gardenersim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const coreVersion = "core.gardener.cloud/v1beta1"

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // who does not read it has gone
}

func failure(code int, reason metav1.StatusReason, message string, details *metav1.StatusDetails) metav1.Status {
	return metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: int32(code), Reason: reason, Message: message, Details: details} //nolint:gosec // an HTTP status
}

func fail(w http.ResponseWriter, code int, reason metav1.StatusReason, message string, details *metav1.StatusDetails) {
	answer(w, code, failure(code, reason, message, details))
}

// named gives an object its kind, as API servers do.
func named(sh *corev1beta1.Shoot) *corev1beta1.Shoot {
	out := sh.DeepCopy()
	out.Kind, out.APIVersion = "Shoot", coreVersion
	return out
}

func (s *Sim) listProjects(w http.ResponseWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := corev1beta1.ProjectList{TypeMeta: metav1.TypeMeta{Kind: "ProjectList", APIVersion: coreVersion}}
	for name, ns := range s.projects {
		l.Items = append(l.Items, corev1beta1.Project{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1beta1.ProjectSpec{Namespace: &ns}})
	}
	answer(w, http.StatusOK, l)
}

func (s *Sim) namespace(w http.ResponseWriter, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	labels := map[string]string{}
	for project, ns := range s.projects {
		if ns == name {
			labels["project.gardener.cloud/name"] = project
		}
	}
	if len(labels) == 0 && !slices.Contains(s.bare, name) {
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, "not found", &metav1.StatusDetails{Name: name, Kind: "namespaces"})
		return
	}
	answer(w, http.StatusOK, map[string]any{"kind": "Namespace", "apiVersion": "v1", "metadata": metav1.ObjectMeta{Name: name, Labels: labels}})
}

func expired(version, compacted int64) metav1.Status {
	return failure(http.StatusGone, metav1.StatusReasonExpired, fmt.Sprintf("too old resource version: %d (%d)", version, compacted), nil)
}

// list answers a list: the newest version, or exactly the one that is asked for,
// in pages.
func (s *Sim) list(w http.ResponseWriter, r *http.Request, namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := r.URL.Query()
	version, after := s.version, ""
	if v := q.Get("resourceVersion"); v != "" && v != "0" {
		version, _ = strconv.ParseInt(v, 10, 64)
	}
	if c := q.Get("continue"); c != "" {
		v, rest, _ := strings.Cut(c, "@")
		version, _ = strconv.ParseInt(v, 10, 64)
		after = rest
	}
	switch {
	case version < max(s.compacted, s.listed):
		answer(w, http.StatusGone, expired(version, max(s.compacted, s.listed)))
		return
	case version > s.version:
		st := failure(http.StatusGatewayTimeout, metav1.StatusReasonTimeout, "Too large resource version",
			&metav1.StatusDetails{RetryAfterSeconds: 1, Causes: []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}})
		answer(w, http.StatusGatewayTimeout, st)
		return
	}
	l := corev1beta1.ShootList{TypeMeta: metav1.TypeMeta{Kind: "ShootList", APIVersion: coreVersion}, ListMeta: metav1.ListMeta{ResourceVersion: fmt.Sprint(version)}}
	limit, _ := strconv.Atoi(q.Get("limit"))
	for _, sh := range s.at(version, namespace) {
		if key(sh) <= after {
			continue
		}
		if limit > 0 && len(l.Items) == limit {
			l.Continue = fmt.Sprintf("%d@%s", version, key(&l.Items[limit-1]))
			break
		}
		l.Items = append(l.Items, *sh.DeepCopy())
	}
	answer(w, http.StatusOK, l)
}

// watch streams what happened after a version.
func (s *Sim) watch(w http.ResponseWriter, r *http.Request, namespace string) {
	q := r.URL.Query()
	from, _ := strconv.ParseInt(q.Get("resourceVersion"), 10, 64)
	seconds, _ := strconv.Atoi(q.Get("timeoutSeconds"))
	deadline := time.Now().Add(time.Duration(max(seconds, 1)) * time.Second)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	out := json.NewEncoder(w)
	send := func(kind string, object any) bool {
		if out.Encode(map[string]any{"type": kind, "object": object}) != nil {
			return false
		}
		w.(http.Flusher).Flush()
		return true
	}
	w.(http.Flusher).Flush()
	stop := make(chan struct{})
	defer close(stop)
	go s.wake(r.Context().Done(), stop)
	quietSince := time.Now()
	for {
		s.mu.Lock()
		if from < s.compacted && !s.ended {
			status := expired(from, s.compacted)
			s.mu.Unlock()
			send("ERROR", status)
			return
		}
		var fresh []entry
		for _, e := range s.log {
			if e.version > from && (namespace == "" || e.shoot.Namespace == namespace) {
				fresh = append(fresh, e)
			}
		}
		version, ended, repeat := s.version, s.ended || r.Context().Err() != nil || time.Now().After(deadline), s.repeat
		bookmark := len(fresh) == 0 && version > from && time.Since(quietSince) >= s.BookmarkAfter
		if len(fresh) == 0 && !ended && !bookmark {
			s.changed.Wait()
			s.mu.Unlock()
			continue
		}
		s.mu.Unlock()
		for _, e := range fresh {
			from, quietSince = e.version, time.Now()
			if !send(e.kind, named(e.shoot)) || repeat && !send(e.kind, named(e.shoot)) {
				return
			}
		}
		switch {
		case ended:
			return
		case bookmark:
			from, quietSince = version, time.Now()
			if !send("BOOKMARK", named(&corev1beta1.Shoot{ObjectMeta: metav1.ObjectMeta{ResourceVersion: fmt.Sprint(version)}})) {
				return
			}
		}
	}
}

// wake makes a waiting watch look at the clock.
func (s *Sim) wake(gone <-chan struct{}, stop chan struct{}) {
	t := time.NewTicker(time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-gone:
			s.changed.Broadcast()
			gone = nil
		case <-t.C:
			s.changed.Broadcast()
		}
	}
}
