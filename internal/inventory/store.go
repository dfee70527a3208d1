// Package inventory compares what exists at a platform with what was reported of
// it and with what this installation owns, and says what to do about the
// differences.
package inventory

import (
	"maps"
	"sync"
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
)

// Store keeps the latest snapshot of each stream in the memory of one worker. It
// is a cache: the next inventory fills it again. It is safe for concurrent use;
// what it returns is shared and must not be changed.
type Store struct {
	mu  sync.RWMutex
	all map[StreamKey]Listed
	// gone are resources that a later listing lacks, and when they were listed last.
	gone map[StreamKey]map[Key]time.Time
}

// keepGone is how long it is kept when a resource was listed last.
const keepGone = 24 * time.Hour

// StreamKey names a stream of a configured source.
type StreamKey struct{ Source, Stream string }

// Listed is the latest listing of a stream.
type Listed struct {
	StreamKey
	Platform event.Platform
	// Snapshot is the latest that succeeded.
	Snapshot source.Snapshot
	// Took is how long it took.
	Took time.Duration
}

// NewStore returns an empty store.
func NewStore() *Store {
	return &Store{all: map[StreamKey]Listed{}, gone: map[StreamKey]map[Key]time.Time{}}
}

// Put replaces the snapshot of a stream unless a later one is there.
func (s *Store) Put(l Listed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	had, ok := s.all[l.StreamKey]
	if ok && had.Snapshot.At.After(l.Snapshot.At) {
		return
	}
	s.all[l.StreamKey] = l
	gone := s.gone[l.StreamKey]
	if gone == nil {
		gone = map[Key]time.Time{}
		s.gone[l.StreamKey] = gone
	}
	for _, x := range had.Snapshot.Resources {
		gone[KeyOf(x.Account, x.Resource)] = began(had.Snapshot)
	}
	for _, x := range l.Snapshot.Resources {
		delete(gone, KeyOf(x.Account, x.Resource))
	}
	maps.DeleteFunc(gone, func(_ Key, t time.Time) bool { return began(l.Snapshot).Sub(t) > keepGone })
}

// began is when a listing began, by the platform's clock if it says.
func began(s source.Snapshot) time.Time {
	if !s.PlatformAt.IsZero() {
		return s.PlatformAt
	}
	return s.At
}

// LastSeen tells of resources that the latest listing of a stream lacks when they
// were listed last, as far as this worker knows.
func (s *Store) LastSeen(k StreamKey) map[Key]time.Time {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return maps.Clone(s.gone[k])
}

// All returns the latest snapshot of each stream, in no particular order.
func (s *Store) All() []Listed {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]Listed, 0, len(s.all))
	for _, l := range s.all {
		out = append(out, l)
	}
	return out
}

// Forget drops everything of a source that is no longer configured.
func (s *Store) Forget(source string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.all {
		if k.Source == source {
			delete(s.all, k)
			delete(s.gone, k)
		}
	}
}
