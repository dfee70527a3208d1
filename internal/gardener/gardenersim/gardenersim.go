// Package gardenersim simulates the part of a Gardener's API that Tollgate reads,
// and what its users and gardenlets write there: resourceVersions, generations,
// managed fields, finalizers, lists at a version and in pages, watches with
// bookmarks, compaction with 410. The recorded answers of a real API server are
// what it follows. It is for tests in which a real one cannot be made to
// misbehave.
package gardenersim

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Sim is a simulated Gardener. It is safe for concurrent use.
type Sim struct {
	// Now is its clock; time.Now if nil. Set it before the first request.
	Now func() time.Time
	// BookmarkAfter is how long a watch is quiet before a bookmark says how far it
	// has come. API servers take from a second to a minute.
	BookmarkAfter time.Duration

	mu        sync.Mutex
	changed   *sync.Cond
	version   int64
	compacted int64
	listed    int64                         // the oldest version that lists still have, if it is later
	log       []entry                       // since compacted
	base      map[string]*corev1beta1.Shoot // at compacted
	shoots    map[string]*corev1beta1.Shoot // by namespace/name
	projects  map[string]string             // namespaces by project
	bare      []string                      // namespaces of no project
	uids      int
	ended     bool
	repeat    bool
}

// entry is one write.
type entry struct {
	version int64
	kind    string // ADDED, MODIFIED, DELETED
	shoot   *corev1beta1.Shoot
}

// New is empty but for projects, whose namespaces are given.
func New(projects map[string]string) *Sim {
	s := &Sim{version: 100, base: map[string]*corev1beta1.Shoot{}, shoots: map[string]*corev1beta1.Shoot{}, projects: projects, BookmarkAfter: time.Millisecond}
	s.changed = sync.NewCond(&s.mu)
	return s
}

// AddProject makes a project.
func (s *Sim) AddProject(name, namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.projects[name] = namespace
}

// Bare makes a namespace that belongs to no project.
func (s *Sim) Bare(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bare = append(s.bare, namespace)
}

// Close ends all watches.
func (s *Sim) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.changed.Broadcast()
}

// Compact forgets the past: only the present version can be listed and watched
// from.
func (s *Sim) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++ // something else was written
	s.forget()
}

// CompactLists forgets the past for lists only: watches still have it.
func (s *Sim) CompactLists() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.listed = s.version
}

// forget makes the present the beginning. s.mu is held.
func (s *Sim) forget() {
	s.compacted, s.log, s.base = s.version, nil, map[string]*corev1beta1.Shoot{}
	for k, sh := range s.shoots {
		s.base[k] = sh.DeepCopy()
	}
	s.changed.Broadcast()
}

// Touch is a write to something that is no shoot.
func (s *Sim) Touch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.changed.Broadcast()
}

// Restore goes back in time, as after a backup was restored: the version is an old
// one, the shoots stay.
func (s *Sim) Restore(version int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = version
	for _, sh := range s.shoots {
		sh.ResourceVersion = fmt.Sprint(version)
	}
	s.forget()
}

// SetRepeat makes watches show every event twice.
func (s *Sim) SetRepeat(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repeat = on
}

// Vanish takes shoots away without a trace, and the past with them.
func (s *Sim) Vanish(pick func(sh *corev1beta1.Shoot) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, sh := range s.shoots {
		if pick(sh) {
			delete(s.shoots, key)
		}
	}
	s.version++
	s.forget()
}

// Spoil leaves out of a shoot everything that need not be there.
func (s *Sim) Spoil(sh *corev1beta1.Shoot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, ok := s.shoots[key(sh)]
	if !ok {
		return
	}
	now = now.DeepCopy()
	now.ManagedFields, now.Labels, now.Annotations, now.Finalizers = nil, nil, nil, nil
	now.Spec, now.Status = corev1beta1.ShootSpec{}, corev1beta1.ShootStatus{}
	s.write(modified, now)
}

// Shoots are those that exist, by namespace and name.
func (s *Sim) Shoots() (out []*corev1beta1.Shoot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sh := range s.sorted(s.shoots, "") {
		out = append(out, sh.DeepCopy())
	}
	return out
}

func (s *Sim) sorted(shoots map[string]*corev1beta1.Shoot, namespace string) (out []*corev1beta1.Shoot) {
	for _, sh := range shoots {
		if namespace == "" || sh.Namespace == namespace {
			out = append(out, sh)
		}
	}
	slices.SortFunc(out, func(a, b *corev1beta1.Shoot) int { return strings.Compare(key(a), key(b)) })
	return out
}

func key(s *corev1beta1.Shoot) string { return s.Namespace + "/" + s.Name }

func (s *Sim) now() metav1.Time {
	if s.Now != nil {
		return metav1.NewTime(s.Now().UTC().Truncate(time.Second))
	}
	return metav1.NewTime(time.Now().UTC().Truncate(time.Second))
}

// write puts a version of a shoot into the log. s.mu is held.
func (s *Sim) write(kind string, sh *corev1beta1.Shoot) {
	s.version++
	sh.ResourceVersion = fmt.Sprint(s.version)
	s.log = append(s.log, entry{s.version, kind, sh.DeepCopy()})
	if kind == deleted {
		delete(s.shoots, key(sh))
	} else {
		s.shoots[key(sh)] = sh
	}
	s.changed.Broadcast()
}

const (
	added    = "ADDED"
	modified = "MODIFIED"
	deleted  = "DELETED"
)

// at are the shoots at a version that is not compacted, by namespace and name.
func (s *Sim) at(version int64, namespace string) []*corev1beta1.Shoot {
	if version >= s.version {
		return s.sorted(s.shoots, namespace)
	}
	then := maps.Clone(s.base)
	for _, e := range s.log {
		if e.version > version {
			break
		}
		if e.kind == deleted {
			delete(then, key(e.shoot))
		} else {
			then[key(e.shoot)] = e.shoot
		}
	}
	return s.sorted(then, namespace)
}

// ServeHTTP implements http.Handler.
func (s *Sim) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.Trim(r.URL.Path, "/")
	switch parts := strings.Split(path, "/"); {
	case strings.HasPrefix(path, "apis/core.gardener.cloud/v1beta1/"):
		s.core(w, r, parts[3:])
	case len(parts) == 4 && strings.HasPrefix(path, "api/v1/namespaces/"):
		s.namespace(w, parts[3])
	default:
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource", nil)
	}
}

func (s *Sim) core(w http.ResponseWriter, r *http.Request, parts []string) {
	namespace := ""
	if parts[0] == "namespaces" && len(parts) > 2 {
		namespace, parts = parts[1], parts[2:]
	}
	switch {
	case parts[0] == "projects" && len(parts) == 1:
		s.listProjects(w)
	case parts[0] != "shoots":
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource", nil)
	case len(parts) == 1 && r.Method == http.MethodPost:
		s.create(w, r, namespace)
	case len(parts) == 1 && r.URL.Query().Has("watch"):
		s.watch(w, r, namespace)
	case len(parts) == 1:
		s.list(w, r, namespace)
	default:
		s.one(w, r, namespace+"/"+parts[1], parts[2:])
	}
}
