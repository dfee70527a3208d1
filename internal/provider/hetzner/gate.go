package hetzner

import (
	"context"
	"sync"
)

// gate is a lock that is held while requests are made: who waits for it goes
// when its context ends. The zero value is open.
type gate struct {
	once sync.Once
	held chan struct{}
}

func (g *gate) lock(ctx context.Context) error {
	g.once.Do(func() { g.held = make(chan struct{}, 1) })
	select {
	case g.held <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g *gate) unlock() { <-g.held }
