package memory

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"time"
)

// Fault is something that goes wrong with requests from now on.
type Fault struct {
	// Calls are the requests it meets; none means all.
	Calls []Call
	// Err is the answer, an *APIError for a refusal.
	Err error
	// AfterCommit does the work first and loses the reply then.
	AfterCommit bool
	// Times is how many requests it meets; zero is all until it is healed.
	Times int
}

// ErrReplyLost is a connection that broke before the reply was complete.
var ErrReplyLost = errors.Join(errors.New("the reply was cut off"), io.ErrUnexpectedEOF)

type fault struct {
	Fault
	left int
}

type hooks struct {
	calls       map[Call]int
	faults      []*fault
	latency     map[Call]time.Duration
	hung        chan struct{}
	listLag     time.Duration
	brokenPage  int
	holdBoot    bool
	holdDeletes bool
}

func (h *hooks) before(c Call) error { return h.match(c, false) }
func (h *hooks) after(c Call) error  { return h.match(c, true) }

func (h *hooks) match(c Call, after bool) error {
	for i, f := range h.faults {
		if f.AfterCommit != after || (len(f.Calls) > 0 && !slices.Contains(f.Calls, c)) {
			continue
		}
		if f.Times > 0 {
			if f.left--; f.left == 0 {
				h.faults = slices.Delete(h.faults, i, i+1)
			}
		}
		return f.Err
	}
	return nil
}

// Inject makes requests fail until heal is called or the fault is used up.
func (b *Backend) Inject(f Fault) (heal func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	added := &fault{Fault: f, left: f.Times}
	b.hooks.faults = append(b.hooks.faults, added)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.hooks.faults = slices.DeleteFunc(b.hooks.faults, func(x *fault) bool { return x == added })
	}
}

// SetLatency makes each request of the kind take d, half of it before and half
// after the work is done. A wait ends with the caller's context.
func (b *Backend) SetLatency(c Call, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hooks.latency[c] = d
}

// Hang makes every request wait until release is called or its context ends.
func (b *Backend) Hang() (release func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ch := make(chan struct{})
	b.hooks.hung = ch
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.hooks.hung == ch {
			close(ch)
			b.hooks.hung = nil
		}
	}
}

func (b *Backend) delays(c Call) (hung chan struct{}, there, back time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	d := b.hooks.latency[c]
	return b.hooks.hung, d / 2, d - d/2
}

// wait returns when hung, if it is not nil, is closed and d is over after that,
// or with the context's error.
func wait(ctx context.Context, hung chan struct{}, d time.Duration) error {
	if hung != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-hung:
		}
	}
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// SetListLag hides servers younger than d from ListServers.
func (b *Backend) SetListLag(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hooks.listLag = d
}

// BreakPage makes the n-th page of every listing fail; zero heals it.
func (b *Backend) BreakPage(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hooks.brokenPage = n
}

// PageSize is the number of servers on a page.
func (b *Backend) PageSize() int { return b.opt.PageSize }

// HoldBoot keeps servers made from now on booting until release is called.
func (b *Backend) HoldBoot() (release func()) {
	return b.hold(func(on bool) {
		b.hooks.holdBoot = on
		for _, s := range b.servers {
			s.heldBoot = s.heldBoot && on
		}
	})
}

// HoldDeletes keeps servers deleted from now on deleting until release is
// called.
func (b *Backend) HoldDeletes() (release func()) {
	return b.hold(func(on bool) {
		b.hooks.holdDeletes = on
		for _, s := range b.servers {
			s.heldDelete = s.heldDelete && on
		}
	})
}

func (b *Backend) hold(set func(on bool)) (release func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	set(true)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		set(false)
	}
}

func (b *Backend) each(name string, do func(*server)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range slices.Clone(b.byName[name]) {
		do(b.servers[id])
	}
}

// SetRaw sets the backend's word for the state of the servers of that name;
// empty lets the state follow the time again.
func (b *Backend) SetRaw(name, raw string) { b.each(name, func(s *server) { s.raw = raw }) }

// Stop halts the servers of that name, as somebody at the console would.
func (b *Backend) Stop(name string) { b.SetRaw(name, RawHalted) }

// Hide withholds the address of the servers of that name.
func (b *Backend) Hide(name string, on bool) { b.each(name, func(s *server) { s.hidden = on }) }

// Unlist leaves the servers of that name out of listings, as an index does that
// has lost them; reads by id and name still see them.
func (b *Backend) Unlist(name string, on bool) { b.each(name, func(s *server) { s.unlisted = on }) }

// Kill removes the servers of that name at once, as somebody else would;
// addresses stay.
func (b *Backend) Kill(name string) { b.each(name, func(s *server) { b.remove(s.ID) }) }

// Place puts a server there that no driver made, whatever its name.
func (b *Backend) Place(req NewServer) Server {
	b.mu.Lock()
	defer b.mu.Unlock()
	if req.Region == "" {
		req.Region = b.opt.Regions[0]
	}
	return b.view(b.insert(req))
}

// Servers is a copy of everything that exists, oldest first.
func (b *Backend) Servers() []Server {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reap()
	var out []Server
	for _, id := range slices.Sorted(maps.Keys(b.servers)) {
		out = append(out, b.view(b.servers[id]))
	}
	return out
}

// Addresses is a copy of all addresses, oldest first.
func (b *Backend) Addresses() []Address {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []Address
	for _, id := range slices.Sorted(maps.Keys(b.addresses)) {
		out = append(out, *b.addresses[id])
	}
	return out
}

// Calls is how many requests of the kind have reached the backend.
func (b *Backend) Calls(c Call) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.hooks.calls[c]
}

// TotalCalls is how many requests of any kind have reached the backend.
func (b *Backend) TotalCalls() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, c := range b.hooks.calls {
		n += c
	}
	return n
}
