package activities

import (
	"context"

	"github.com/tollgate-dev/tollgate/internal/source"
)

// ahead is a page that is read while the one before it is delivered. It changes
// no order: the page is looked at when everything before it is delivered, and
// forgotten if that never comes about.
type ahead struct {
	cancel   context.CancelFunc
	done     chan struct{}
	page     source.Page
	err      error
	panicked any
}

// lookAhead begins to read what follows a page. While nothing was delivered yet,
// it does not: a sink that is down costs the source one page and not two.
func (r *sourceRead) lookAhead(ctx context.Context, p source.Page) {
	if !r.flowing || !r.more(p) || !r.inTime() {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	a := &ahead{cancel: cancel, done: make(chan struct{})}
	r.ahead = a
	go func() {
		defer close(a.done)
		defer func() { a.panicked = recover() }()
		a.page, a.err = r.from.Next(ctx, p.Next)
	}()
}

// next is the page that follows the cursor, read ahead or now.
func (r *sourceRead) next(ctx context.Context) (source.Page, error) {
	a := r.ahead
	if a == nil {
		return r.from.Next(ctx, r.done.Cursor)
	}
	r.ahead = nil
	<-a.done
	a.cancel()
	if a.panicked != nil {
		panic(a.panicked) // where the SDK expects it
	}
	return a.page, a.err
}

// drop ends a reading ahead that nobody wants any more.
func (r *sourceRead) drop() {
	if r.ahead != nil {
		r.ahead.cancel()
		<-r.ahead.done
		r.ahead = nil
	}
}
