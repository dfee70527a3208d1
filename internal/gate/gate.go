// Package gate has a lock that can be held while requests are made.
package gate

import (
	"context"
	"sync"
)

// Gate is a lock that is held while requests are made: who waits for it goes
// when its context ends. The zero value is open.
type Gate struct {
	once sync.Once
	held chan struct{}
}

// Lock waits for the lock, or returns why ctx has ended.
func (g *Gate) Lock(ctx context.Context) error {
	g.once.Do(func() { g.held = make(chan struct{}, 1) })
	select {
	case g.held <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Unlock gives it free.
func (g *Gate) Unlock() { <-g.held }
