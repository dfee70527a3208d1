package openstack

import (
	"context"
	"maps"
	"sync"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
)

type sizeKey struct{ account, id string }

// sizeMemory is the sizes that were seen last, for sinks that cannot be asked what
// was reported. What a page has shown counts once the next one is read: until then
// the page may be read again. The zero value is ready.
type sizeMemory struct {
	mu     sync.Mutex
	sizes  map[sizeKey]event.Size
	staged map[source.Cursor]map[sizeKey]event.Size
}

// These bound it; what is full is begun anew.
const (
	mostSizes  = 100_000
	mostStaged = 8
)

func (m *sizeMemory) commit(c source.Cursor) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fresh, ok := m.staged[c]
	if !ok {
		return
	}
	delete(m.staged, c)
	if m.sizes == nil || len(m.sizes) >= mostSizes {
		m.sizes = map[sizeKey]event.Size{}
	}
	maps.Copy(m.sizes, fresh)
}

func (m *sizeMemory) stage(next source.Cursor, fresh map[sizeKey]event.Size) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.staged == nil || len(m.staged) >= mostStaged {
		m.staged = map[source.Cursor]map[sizeKey]event.Size{}
	}
	m.staged[next] = fresh
}

func (m *sizeMemory) get(k sizeKey) (event.Size, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	size, ok := m.sizes[k]
	return size, ok
}

// was tells the sizes of resources as they were reported last or, for sinks that
// cannot be asked, seen last. What nobody knows is left out.
func (s *Source) was(ctx context.Context, subs []subject) (map[string]event.Size, error) {
	out := map[string]event.Size{}
	by := map[string][]event.Resource{}
	for _, sub := range subs {
		account := s.accountOf(sub.project)
		by[account] = append(by[account], event.Resource{Type: s.kind.Type, ID: sub.id})
		if size, ok := s.sizes.get(sizeKey{account, sub.id}); ok {
			out[sub.id] = size
		}
	}
	if s.known == nil {
		return out, nil
	}
	for account, resources := range by {
		sizes, err := s.known(ctx, TypeName, account, resources)
		if err != nil {
			return nil, err
		}
		for res, rep := range sizes {
			out[res.ID] = rep.Size
		}
	}
	return out, nil
}
