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
	second *memory.Feed // of Divided only

	mu     sync.Mutex
	things int
	open   map[int64]bool
	skew   time.Duration
	during func()
	faults map[string]*fault // by part; those of "" are of all
}

// Divided is a feed of two parts. Whatever is not asked for in one of them happens in
// the first.
type Divided struct{ *Backend }

// fault is what goes wrong with reads.
type fault struct {
	err        error // of the read from, and of all later ones
	from, seen int   // counted since the fault was set
	hang       chan struct{}
}

// First and Second are the names of the parts.
const (
	First  = "first"
	Second = "second"
)

const pageSize = 4

// NewBackend returns an empty feed.
func NewBackend() *Backend {
	b := &Backend{open: map[int64]bool{}, faults: map[string]*fault{}}
	b.Feed = b.feed(First)
	return b
}

// NewDivided returns an empty feed of two parts.
func NewDivided() *Divided {
	b := NewBackend()
	b.second = b.feed(Second)
	return &Divided{b}
}

func (b *Backend) feed(part string) *memory.Feed {
	return &memory.Feed{PageSize: pageSize, Now: b.now, AfterRead: b.afterRead,
		OnRead: func(ctx context.Context, _ int) error { return b.onRead(ctx, part) }}
}

// Feeds are the feed, or its parts.
func (b *Backend) Feeds() []memory.Part {
	feeds := []memory.Part{{Name: First, Feed: b.Feed}}
	if b.second != nil {
		feeds = append(feeds, memory.Part{Name: Second, Feed: b.second})
	}
	return feeds
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
			sourcetest.HookList, sourcetest.HookSpoil, sourcetest.HookHide,
		},
	}
}

// DividedHarness connects it with the source of two parts.
func DividedHarness() sourcetest.Harness {
	h := Harness()
	h.NewBackend = func(testing.TB) sourcetest.Backend { return NewDivided() }
	h.Open = func(_ testing.TB, b sourcetest.Backend, o sourcetest.OpenOptions) source.Source {
		return memory.Join(o.Name, sourcetest.Account, b.(*Divided).Feeds()...)
	}
	h.Hooks = append(h.Hooks, sourcetest.HookParts)
	return h
}

func (b *Backend) now() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Now().Add(b.skew)
}

func (b *Backend) onRead(ctx context.Context, part string) error {
	var err error
	var hangs []chan struct{}
	b.mu.Lock()
	for _, of := range []string{"", part} {
		f := b.faults[of]
		if f == nil {
			continue
		}
		if f.seen++; f.err != nil && f.seen >= f.from {
			err = f.err
		}
		if f.hang != nil {
			hangs = append(hangs, f.hang)
		}
	}
	b.mu.Unlock()
	for _, hang := range hangs {
		select {
		case <-hang:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return err
}

// Answers reports whether nothing is set to go wrong with reads of a part.
func (b *Backend) Answers(part string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.faults[""] == nil && b.faults[part] == nil
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
func (b *Backend) Change(testing.TB) []string { return b.change(b.Feed) }

func (b *Backend) change(f *memory.Feed) []string {
	return []string{f.Add(b.thing(), source.VerbCreate, 1).EventID(sourcetest.Account)}
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
func (b *Backend) Forget(testing.TB) {
	for _, p := range b.Feeds() {
		p.Feed.Forget()
	}
}

// Repeat implements sourcetest.Repeater.
func (b *Backend) Repeat(testing.TB) {
	for _, p := range b.Feeds() {
		p.Feed.Twice = true
	}
}

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
	return b.fail("", kind, read, echo)
}

func (b *Backend) fail(part string, kind sourcetest.FaultKind, read int, echo string) func() {
	status := map[sourcetest.FaultKind]int{
		sourcetest.FaultUnauthorized: http.StatusUnauthorized, sourcetest.FaultThrottled: http.StatusTooManyRequests,
		sourcetest.FaultInternal: http.StatusInternalServerError, sourcetest.FaultTruncated: http.StatusOK,
		sourcetest.FaultGateway: http.StatusNotFound, sourcetest.FaultBlank: http.StatusOK,
	}[kind]
	return b.set(part, &fault{err: &memory.APIError{Status: status, Message: "no: " + echo}, from: read})
}

// set makes reads of a part, of all for "", go wrong until it is undone.
func (b *Backend) set(part string, f *fault) (undo func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults[part] = f
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.faults[part] == f {
			delete(b.faults, part)
		}
	}
}

// Hang implements sourcetest.Hanger.
func (b *Backend) Hang(testing.TB) func() { return b.stop("") }

func (b *Backend) stop(part string) (release func()) {
	hang := make(chan struct{})
	undo := b.set(part, &fault{hang: hang})
	return sync.OnceFunc(func() { undo(); close(hang) })
}

// Exists implements sourcetest.Keeper.
func (b *Backend) Exists(testing.TB) (ids []string) {
	for _, p := range b.Feeds() {
		ids = append(ids, p.Feed.Things()...)
	}
	return ids
}

// Remove implements sourcetest.Keeper.
func (b *Backend) Remove(testing.TB) {
	for _, p := range b.Feeds() {
		if things := p.Feed.Things(); len(things) > 0 {
			p.Feed.Vanish(things[0])
			return
		}
	}
}

// Hide implements sourcetest.Hider.
func (b *Backend) Hide(testing.TB) func() { return b.Feed.Hide(b.Things()[0]) }

// Spoil implements sourcetest.Spoiler.
func (b *Backend) Spoil(testing.TB) {
	if things := b.Things(); len(things) > 0 {
		b.Feed.Spoil(things[0])
	}
}

// Parts implements sourcetest.Divided.
func (b *Divided) Parts(testing.TB) []string { return []string{First, Second} }

// ChangeIn implements sourcetest.Divided.
func (b *Divided) ChangeIn(_ testing.TB, part string) []string {
	if part == Second {
		return b.change(b.second)
	}
	return b.change(b.Feed)
}

// FailPart implements sourcetest.Divided.
func (b *Divided) FailPart(_ testing.TB, part string, kind sourcetest.FaultKind, read int, echo string) func() {
	return b.fail(part, kind, read, echo)
}

// HangPart implements sourcetest.Divided.
func (b *Divided) HangPart(_ testing.TB, part string) func() { return b.stop(part) }
