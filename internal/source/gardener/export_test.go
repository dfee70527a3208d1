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

// SetClock sets the source's clock.
func (s *Source) SetClock(now func() time.Time) { s.now = now }
