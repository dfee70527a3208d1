package gardener

import (
	"time"

	"github.com/tollgate-dev/tollgate/internal/source"
)

// Small makes pages, answers and waits small.
func (s *Source) Small(pageSize int, chunk int64, settle time.Duration) source.Source {
	s.pageSize, s.chunk, s.settle = pageSize, chunk, settle
	return s
}

// Forget empties the memory, as a restart does.
func (s *Source) Forget() {
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	s.memory.entries = nil
}
