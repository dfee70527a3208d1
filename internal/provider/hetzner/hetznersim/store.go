package hetznersim

import (
	"slices"
	"time"
)

// base is what every object of a project has.
type base struct {
	ID      int64             `json:"id"`
	Name    string            `json:"name"`
	Labels  map[string]string `json:"labels,omitempty"`
	Created time.Time         `json:"created"`
	// Protected forbids the deletion.
	Protected bool `json:"protected,omitempty"`
}

func (b *base) meta() *base { return b }

type object interface{ meta() *base }

// store holds the objects of one kind in a project.
type store[T object] struct {
	Live map[int64]T `json:"live,omitempty"`
	// gone are the deleted ones, which a lagging listing still shows.
	gone []buried[T]
}

type buried[T object] struct {
	obj T
	at  time.Time
}

// lagLimit is the longest lag of listings that can be simulated.
const lagLimit = 5 * time.Minute

func (s *store[T]) get(id int64) (T, bool) {
	o, ok := s.Live[id]
	return o, ok
}

func (s *store[T]) put(o T) {
	if s.Live == nil {
		s.Live = map[int64]T{}
	}
	s.Live[o.meta().ID] = o
}

func (s *store[T]) remove(id int64, at time.Time) {
	o, ok := s.Live[id]
	if !ok {
		return
	}
	delete(s.Live, id)
	s.gone = slices.DeleteFunc(s.gone, func(b buried[T]) bool { return at.Sub(b.at) > lagLimit })
	s.gone = append(s.gone, buried[T]{o, at})
}

// all returns the objects by id.
func (s *store[T]) all() []T {
	out := make([]T, 0, len(s.Live))
	for _, o := range s.Live {
		out = append(out, o)
	}
	sortByID(out)
	return out
}

// seenAt returns the objects as a listing with this lag shows them: without the
// youngest, with the lately deleted.
func (s *store[T]) seenAt(now time.Time, lag time.Duration) []T {
	out := s.all()
	if lag <= 0 {
		return out
	}
	then := now.Add(-lag)
	out = slices.DeleteFunc(out, func(o T) bool { return o.meta().Created.After(then) })
	for _, b := range s.gone {
		if b.at.After(then) && !b.obj.meta().Created.After(then) {
			out = append(out, b.obj)
		}
	}
	sortByID(out)
	return out
}

func (s *store[T]) byName(name string) (T, bool) {
	for _, o := range s.Live {
		if o.meta().Name == name {
			return o, true
		}
	}
	var zero T
	return zero, false
}

// nameTaken reports whether another object than the one with this id has the
// name.
func (s *store[T]) nameTaken(name string, id int64) bool {
	o, ok := s.byName(name)
	return ok && name != "" && o.meta().ID != id
}

func sortByID[T object](in []T) {
	slices.SortFunc(in, func(a, b T) int { return int(a.meta().ID - b.meta().ID) })
}
