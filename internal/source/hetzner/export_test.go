package hetzner

import "time"

// SetClock gives a source another clock.
func (s *Source) SetClock(now func() time.Time) { s.now = now }

// SetMaxOpen is not changeable: tests read it.
const MaxOpen = maxOpen
