// Package memorytest lends the feed in memory to tests as a backend of the
// conformance kit, with all of the kit's hooks.
package memorytest

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/memory"
	"github.com/tollgate-dev/tollgate/internal/source/sourcetest"
)

// Backend is a feed with the kit's hooks.
type Backend struct {
	*memory.Feed

	mu     sync.Mutex
	things int
	open   map[int64]bool
	skew   time.Duration
	during func()
	fault  error
	from   int // the read at which the fault begins
	seen   int // reads since the fault was set
	hang   chan struct{}
}

const pageSize = 4

// NewBackend returns an empty feed.
func NewBackend() *Backend {
	b := &Backend{open: map[int64]bool{}}
	b.Feed = &memory.Feed{PageSize: pageSize, Now: b.now, OnRead: b.onRead, AfterRead: b.afterRead}
	return b
}

// Harness connects the kit with the source in memory.
func Harness() sourcetest.Harness {
	return sourcetest.Harness{
		Type:       memory.Type(nil),
		NewBackend: func(testing.TB) sourcetest.Backend { return NewBackend() },
		Open: func(_ testing.TB, b sourcetest.Backend, o sourcetest.OpenOptions) source.Source {
			return memory.New(o.Name, sourcetest.Account, b.(*Backend).Feed)
		},
		Hooks: []sourcetest.Hook{
			sourcetest.HookBegin, sourcetest.HookLose, sourcetest.HookDuring, sourcetest.HookForget, sourcetest.HookFail,
			sourcetest.HookHang, sourcetest.HookSkew, sourcetest.HookRepeat, sourcetest.HookPoison,
			sourcetest.HookList, sourcetest.HookSpoil,
		},
	}
}

func (b *Backend) now() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Now().Add(b.skew)
}

func (b *Backend) onRead(ctx context.Context, _ int) error {
	b.mu.Lock()
	hang := b.hang
	b.seen++
	var err error
	if b.fault != nil && b.seen >= b.from {
		err = b.fault
	}
	b.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return err
}

func (b *Backend) afterRead() {
	b.mu.Lock()
	f := b.during
	b.during = nil
	b.mu.Unlock()
	if f != nil {
		f()
	}
}

func (b *Backend) thing() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.things++
	return fmt.Sprint("t", b.things)
}

// Change implements sourcetest.Backend.
func (b *Backend) Change(testing.TB) []string {
	return []string{b.Add(b.thing(), source.VerbCreate, 1).EventID(sourcetest.Account)}
}

// PageSize implements sourcetest.Backend.
func (b *Backend) PageSize(testing.TB) int { return pageSize }

// Begin implements sourcetest.Starter.
func (b *Backend) Begin(testing.TB) func() []string {
	e := b.Feed.Begin(b.thing(), source.VerbCreate, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open[e.ID] = true
	return func() []string {
		b.mu.Lock()
		delete(b.open, e.ID)
		b.mu.Unlock()
		b.Finish(e.ID)
		return []string{e.EventID(sourcetest.Account)}
	}
}

// Lose implements sourcetest.Loser.
func (b *Backend) Lose(testing.TB) {
	b.mu.Lock()
	open := maps.Clone(b.open)
	clear(b.open)
	b.mu.Unlock()
	for id := range open {
		b.Feed.Remove(id)
	}
}

// During implements sourcetest.Interposer.
func (b *Backend) During(_ testing.TB, f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.during = f
}

// Forget implements sourcetest.Forgetter.
func (b *Backend) Forget(testing.TB) { b.Feed.Forget() }

// Repeat implements sourcetest.Repeater.
func (b *Backend) Repeat(testing.TB) { b.Twice = true }

// Poison implements sourcetest.Poisoner.
func (b *Backend) Poison(testing.TB) { b.Add(b.thing(), "transmogrify", 1) }

// Skew implements sourcetest.Skewer.
func (b *Backend) Skew(_ testing.TB, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.skew = d
}

// Fail implements sourcetest.Faulter.
func (b *Backend) Fail(_ testing.TB, kind sourcetest.FaultKind, read int, echo string) func() {
	status := map[sourcetest.FaultKind]int{
		sourcetest.FaultUnauthorized: http.StatusUnauthorized, sourcetest.FaultThrottled: http.StatusTooManyRequests,
		sourcetest.FaultInternal: http.StatusInternalServerError, sourcetest.FaultTruncated: http.StatusOK,
	}[kind]
	set := func(err error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.fault, b.from, b.seen = err, read, 0
	}
	set(&memory.APIError{Status: status, Message: "no: " + echo})
	return func() { set(nil) }
}

// Hang implements sourcetest.Hanger.
func (b *Backend) Hang(testing.TB) func() {
	hang := make(chan struct{})
	set := func(c chan struct{}) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.hang = c
	}
	set(hang)
	return sync.OnceFunc(func() { set(nil); close(hang) })
}

// Exists implements sourcetest.Keeper.
func (b *Backend) Exists(testing.TB) []string { return b.Things() }

// Remove implements sourcetest.Keeper.
func (b *Backend) Remove(testing.TB) {
	if things := b.Things(); len(things) > 0 {
		b.Vanish(things[0])
	}
}

// Spoil implements sourcetest.Spoiler.
func (b *Backend) Spoil(testing.TB) {
	if things := b.Things(); len(things) > 0 {
		b.Feed.Spoil(things[0])
	}
}
