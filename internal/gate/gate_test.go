package gate_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/tollgate-dev/tollgate/internal/gate"
)

// One at a time holds it; who waits goes when its context ends, with the reason.
func TestGate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g gate.Gate
		if err := g.Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		enough := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		var waited error
		var all sync.WaitGroup
		all.Go(func() { waited = g.Lock(ctx) })
		got := false
		all.Go(func() { got = g.Lock(t.Context()) == nil })
		synctest.Wait()
		cancel(enough)
		synctest.Wait()
		if got {
			t.Error("two hold it")
		}
		g.Unlock()
		all.Wait()
		if !errors.Is(waited, enough) || !got {
			t.Errorf("who gave up got %v, who waited on has it: %v", waited, got)
		}
	})
}
