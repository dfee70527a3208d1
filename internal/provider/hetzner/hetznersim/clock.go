package hetznersim

import (
	"fmt"
	"sync"
	"time"
)

// Clock is a clock that only a test moves. Its Now fits Options.Now. It is safe
// for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that stands at start.
func NewClock(start time.Time) *Clock { return &Clock{now: start} }

// Now is the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock forward.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Set moves the clock forward to a time. It fails for one that is past: what has
// happened would happen again.
func (c *Clock) Set(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.Before(c.now) {
		return fmt.Errorf("the clock shows %s: %s is past", c.now.UTC().Format(time.RFC3339), t.UTC().Format(time.RFC3339))
	}
	c.now = t.UTC()
	return nil
}

// Timing says how long things take. A zero field means the default, a negative
// one no time at all.
type Timing struct {
	Init     time.Duration // a new server, until it starts or is off; default 4s
	Gap      time.Duration // between initialised and starting, in which the status is off and locked; default none
	Start    time.Duration // power on and reboot; default 4s
	Stop     time.Duration // power off; default 2s
	Shutdown time.Duration // from the end of a shutdown action until the guest is off; default 5s
	Delete   time.Duration // of a server or load balancer; default 3s
	Action   time.Duration // everything else; default 1s
}

func (t Timing) withDefaults() Timing {
	set := func(d *time.Duration, def time.Duration) {
		switch {
		case *d == 0:
			*d = def
		case *d < 0:
			*d = 0
		}
	}
	set(&t.Init, 4*time.Second)
	set(&t.Gap, 0)
	set(&t.Start, 4*time.Second)
	set(&t.Stop, 2*time.Second)
	set(&t.Shutdown, 5*time.Second)
	set(&t.Delete, 3*time.Second)
	set(&t.Action, time.Second)
	return t
}

// Uniform is a Timing in which every step takes d; nothing takes time when d is
// zero.
func Uniform(d time.Duration) Timing {
	if d == 0 {
		d = -1
	}
	return Timing{Init: d, Start: d, Stop: d, Shutdown: d, Delete: d, Action: d}
}
