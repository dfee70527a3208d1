package forward

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// tracker counts open client connections, hijacked ones included, which
// net/http forgets.
type tracker struct {
	mu   sync.Mutex
	open int
	idle chan struct{} // closed when open falls to zero; nil when nobody waits
}

func (t *tracker) add(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open += n
	if t.open == 0 && t.idle != nil {
		close(t.idle)
		t.idle = nil
	}
}

// wait returns when no connection is open or ctx has ended.
func (t *tracker) wait(ctx context.Context) {
	t.mu.Lock()
	if t.open == 0 {
		t.mu.Unlock()
		return
	}
	if t.idle == nil {
		t.idle = make(chan struct{})
	}
	idle := t.idle
	t.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

type trackedListener struct {
	net.Listener
	conns *tracker
}

func (l *trackedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.conns.add(1)
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return &trackedConn{Conn: c, conns: l.conns}, nil
	}
	return &trackedTCP{TCPConn: tcp, conns: l.conns}, nil
}

type trackedConn struct {
	net.Conn
	conns *tracker
	once  sync.Once
}

func (c *trackedConn) Close() error {
	c.once.Do(func() { c.conns.add(-1) })
	return c.Conn.Close()
}

// trackedTCP keeps the half-close of TCP, which tunnels need.
type trackedTCP struct {
	*net.TCPConn
	conns *tracker
	once  sync.Once
}

func (c *trackedTCP) Close() error {
	c.once.Do(func() { c.conns.add(-1) })
	return c.TCPConn.Close()
}

// idleTCP is the target's end of a tunnel. Traffic in either direction puts off
// its deadline; reaching it ends both directions. It shows no ReadFrom and no
// WriteTo, which would copy past Read and Write.
type idleTCP struct {
	net.Conn
	tcp  *net.TCPConn
	idle time.Duration
	set  atomic.Int64 // when the deadline was last moved, Unix nanoseconds
}

func newIdleConn(c net.Conn, idle time.Duration) net.Conn {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return c
	}
	ic := &idleTCP{Conn: tcp, tcp: tcp, idle: idle}
	ic.touch()
	return ic
}

// touch moves the deadline, at most ten times per idle time.
func (c *idleTCP) touch() {
	now := time.Now()
	last := c.set.Load()
	if now.Sub(time.Unix(0, last)) < c.idle/10 || !c.set.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	_ = c.SetDeadline(now.Add(c.idle))
}

// CloseRead and CloseWrite let a tunnel end one direction at a time.
func (c *idleTCP) CloseRead() error  { return c.tcp.CloseRead() }
func (c *idleTCP) CloseWrite() error { return c.tcp.CloseWrite() }

func (c *idleTCP) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.touch()
	}
	return n, err
}

func (c *idleTCP) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if n > 0 {
		c.touch()
	}
	return n, err
}
