package devservertest

import (
	"io"
	"sync"
	"testing"
)

// testOutput writes to a test's output until the test ends. Clients log from
// goroutines that may outlast it, and writing then would be a panic.
type testOutput struct {
	mu  sync.Mutex
	out io.Writer // nil after the end
}

func newTestOutput(t testing.TB) *testOutput {
	o := &testOutput{out: t.Output()}
	t.Cleanup(func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.out = nil
	})
	return o
}

func (o *testOutput) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.out == nil {
		return len(b), nil
	}
	return o.out.Write(b)
}
