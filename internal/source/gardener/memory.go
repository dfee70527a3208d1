package gardener

import "sync"

// maxMemory is how many versions are remembered: that of the cursor, and those of
// backfills and repetitions beside it.
const maxMemory = 4

// memory remembers the shoots at the versions that pages have led to. It only
// saves listings: what it lacks is read. What it returns is shared and is not
// changed.
type memory struct {
	mu      sync.Mutex
	entries []remembered // the latest last
}

type remembered struct {
	version string
	shoots  map[string]state
}

func (m *memory) get(version string) (map[string]state, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.entries {
		if e.version == version && version != "" {
			return e.shoots, true
		}
	}
	return nil, false
}

func (m *memory) put(version string, shoots map[string]state) {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := make([]remembered, 0, maxMemory+1)
	for _, e := range m.entries {
		if e.version != version {
			kept = append(kept, e)
		}
	}
	kept = append(kept, remembered{version, shoots})
	m.entries = kept[max(0, len(kept)-maxMemory):]
}
