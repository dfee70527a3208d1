package kubetest

import (
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// Proxy passes connections on to the API server, and cuts them on demand.
type Proxy struct {
	c      *Cluster
	listen net.Listener

	mu    sync.Mutex
	conns map[net.Conn]bool
	down  bool
	cuts  int
}

// Proxy puts a proxy before the API server until the test ends.
func (c *Cluster) Proxy(tb testing.TB) *Proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{c: c, listen: l, conns: map[net.Conn]bool{}}
	var wg sync.WaitGroup
	tb.Cleanup(func() {
		_ = l.Close()
		p.SetDown(true)
		wg.Wait()
	})
	wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { p.pass(in) })
		}
	})
	return p
}

// Config is Cluster.Config through the proxy.
func (p *Proxy) Config(tb testing.TB) *rest.Config {
	tb.Helper()
	cfg := p.c.Config(tb)
	cfg.Host = "https://" + p.listen.Addr().String()
	return cfg
}

// Address is where the proxy listens, as host:port.
func (p *Proxy) Address() string { return p.listen.Addr().String() }

// Cut ends every connection that is open.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.conns) > 0 {
		p.cuts++
	}
	for c := range p.conns {
		_ = c.Close()
	}
}

// Cuts is how often something was cut.
func (p *Proxy) Cuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

// SetDown refuses all connections, open ones included, until it is set to false.
func (p *Proxy) SetDown(down bool) {
	p.mu.Lock()
	p.down = down
	p.mu.Unlock()
	if down {
		p.Cut()
	}
}

// CutEvery cuts again and again until stop is called or the test ends.
func (p *Proxy) CutEvery(tb testing.TB, d time.Duration) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		t := time.NewTicker(d)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				p.Cut()
			case <-done:
				return
			}
		}
	})
	stop = sync.OnceFunc(func() { close(done); wg.Wait() })
	tb.Cleanup(stop)
	return stop
}

func (p *Proxy) pass(in net.Conn) {
	defer in.Close()
	out, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", p.c.ports[2]))
	if err != nil {
		return
	}
	defer out.Close()
	p.mu.Lock()
	if p.down {
		p.mu.Unlock()
		return
	}
	p.conns[in] = true
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.conns, in)
		p.mu.Unlock()
	}()
	done := make(chan struct{}, 2)
	for _, dir := range [][2]net.Conn{{in, out}, {out, in}} {
		go func() {
			_, _ = io.Copy(dir[0], dir[1]) // a cut is an error
			// Either end closes both.
			_ = in.Close()
			_ = out.Close()
			done <- struct{}{}
		}()
	}
	<-done
	<-done
}
