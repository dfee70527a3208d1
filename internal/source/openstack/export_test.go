package openstack

import "time"

// SetClock sets the source's clock.
func (s *Source) SetClock(now func() time.Time) { s.now = now }

// SetPages sets how many pages one read takes.
func (s *Source) SetPages(n int) { s.pages = n }
