package forward

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// serve runs a proxy on a loopback address.
func serve(t *testing.T, o Options) (*Server, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(o)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.Shutdown(ctx)
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return s, l.Addr().String()
}

func client(proxy string) *http.Client {
	return &http.Client{
		Timeout:   20 * time.Second,
		Transport: &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: proxy}), DisableKeepAlives: true, DisableCompression: true},
	}
}

// tunnel opens a CONNECT and returns the connection and the status of the answer.
func tunnel(t *testing.T, proxy, target string) (net.Conn, *bufio.Reader, *http.Response) {
	t.Helper()
	c, err := net.Dial("tcp", proxy)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	if err != nil {
		t.Fatal(err)
	}
	return c, r, resp
}

// tcpTarget hands each connection to f.
func tcpTarget(t *testing.T, f func(*net.TCPConn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go f(c.(*net.TCPConn))
		}
	}()
	return l.Addr().String()
}

// closedPort is an address where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func echo(c *net.TCPConn) {
	_, _ = io.Copy(c, c)
	_ = c.CloseWrite()
}

func TestTunnelPassesBothDirectionsAndHalfCloses(t *testing.T) {
	t.Parallel()
	_, proxy := serve(t, Options{})
	c, r, resp := tunnel(t, proxy, tcpTarget(t, echo))
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("CONNECT: %s", resp.Status)
	}
	text := strings.Repeat("0123456789", 50_000)
	go func() {
		_, _ = io.WriteString(c, text)
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(r)
	if err != nil || string(got) != text {
		t.Errorf("%d bytes came back, %v; want %d", len(got), err, len(text))
	}
}

func TestAnswersOfTheProxyItself(t *testing.T) {
	t.Parallel()
	_, proxy := serve(t, Options{})
	closed := closedPort(t)
	for target, want := range map[string]int{
		closed: http.StatusBadGateway, "no-such-host.invalid:443": http.StatusBadGateway,
		"127.0.0.1": http.StatusBadRequest, "127.0.0.1:0": http.StatusBadRequest, "127.0.0.1:99999": http.StatusBadRequest,
	} {
		_, _, resp := tunnel(t, proxy, target)
		if resp.StatusCode != want {
			t.Errorf("CONNECT %s: %s, want %d", target, resp.Status, want)
		}
	}
	for target, want := range map[string]int{"http://" + closed + "/": http.StatusBadGateway, "http://no-such-host.invalid/": http.StatusBadGateway} {
		resp, err := client(proxy).Get(target)
		if err != nil {
			t.Error(err)
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("GET %s: %s, want %d", target, resp.Status, want)
		}
	}
	resp, err := http.Get("http://" + proxy + "/")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("GET of the proxy itself: %s, want 400", resp.Status)
	}
}

func TestAllowPorts(t *testing.T) {
	t.Parallel()
	target := httptest.NewServer(http.NotFoundHandler())
	defer target.Close()
	addr := strings.TrimPrefix(target.URL, "http://")
	_, port, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(port)
	for _, tt := range []struct {
		allow  []int
		status int
	}{{[]int{n, 443}, http.StatusOK}, {[]int{443}, http.StatusForbidden}} {
		_, proxy := serve(t, Options{AllowPorts: tt.allow})
		if _, _, resp := tunnel(t, proxy, addr); resp.StatusCode != tt.status {
			t.Errorf("ports %v: CONNECT gives %s, want %d", tt.allow, resp.Status, tt.status)
		}
	}
}

func TestPlainHTTPPassesUnchanged(t *testing.T) {
	t.Parallel()
	headers := make(chan http.Header, 1)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers <- r.Header.Clone()
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, "not really compressed")
	}))
	defer target.Close()
	_, proxy := serve(t, Options{Authorized: func(u string, p []byte) bool { return u == "u" && string(p) == "p" }})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", "br")
	req.Header.Set("Authorization", "Basic for-the-target")
	req.Header.Set("Proxy-Authorization", "Basic dTpw")
	resp, err := client(proxy).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || string(body) != "not really compressed" || resp.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("body %q, encoding %q, %v; want what the target sent", body, resp.Header.Get("Content-Encoding"), err)
	}
	seen := <-headers
	for h, want := range map[string]string{"Accept-Encoding": "br", "Authorization": "Basic for-the-target", "Proxy-Authorization": ""} {
		if got := seen.Get(h); got != want {
			t.Errorf("the target saw %s %q, want %q", h, got, want)
		}
	}
}

func TestIdleTunnelEndsAndBusyOneDoesNot(t *testing.T) {
	t.Parallel()
	const idle = 300 * time.Millisecond
	_, proxy := serve(t, Options{IdleTimeout: idle})

	start := time.Now()
	_, r, _ := tunnel(t, proxy, tcpTarget(t, func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) }))
	if _, err := r.ReadByte(); errors.Is(err, os.ErrDeadlineExceeded) || err == nil {
		t.Errorf("the idle tunnel gives %v, want it closed", err)
	}
	if d := time.Since(start); d < idle/2 || d > 10*time.Second {
		t.Errorf("the idle tunnel ended after %v, want about %v", d, idle)
	}

	// Traffic in one direction only keeps the whole tunnel open.
	busy := tcpTarget(t, func(c *net.TCPConn) {
		tick := time.NewTicker(idle / 6)
		defer tick.Stop()
		for range 12 {
			<-tick.C
			if _, err := c.Write([]byte("x")); err != nil {
				return
			}
		}
		_ = c.Close()
	})
	_, r, _ = tunnel(t, proxy, busy)
	if got, err := io.ReadAll(r); err != nil || len(got) != 12 {
		t.Errorf("the busy tunnel gave %d bytes, %v; want 12", len(got), err)
	}
}

func TestShutdownWaitsForTunnelsUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	target := tcpTarget(t, echo)
	t.Run("the tunnel ends", func(t *testing.T) {
		t.Parallel()
		s, proxy := serve(t, Options{})
		c, r, _ := tunnel(t, proxy, target)
		down := make(chan struct{})
		go func() {
			s.Shutdown(t.Context())
			close(down)
		}()
		// New connections are refused, and the old one still works.
		deadline := time.Now().Add(20 * time.Second)
		for {
			n, err := net.Dial("tcp", proxy)
			if err != nil {
				break
			}
			_ = n.Close()
			if time.Now().After(deadline) {
				t.Fatal("connections are accepted during the shutdown")
			}
		}
		if _, err := io.WriteString(c, "x"); err != nil {
			t.Fatal(err)
		}
		if b, err := r.ReadByte(); err != nil || b != 'x' {
			t.Errorf("the open tunnel gives %q, %v", b, err)
		}
		select {
		case <-down:
			t.Error("the shutdown did not wait for the tunnel")
		default:
		}
		_ = c.Close()
		<-down
	})
	t.Run("the time ends", func(t *testing.T) {
		t.Parallel()
		s, proxy := serve(t, Options{})
		tunnel(t, proxy, target)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		start := time.Now()
		s.Shutdown(ctx)
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("the shutdown took %v", d)
		}
	})
}
