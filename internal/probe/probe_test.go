package probe_test

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/probe"
	"github.com/tollgate-dev/tollgate/internal/provider"
)

const established = "HTTP/1.1 200 Connection established\r\n\r\n"

// short is long enough for loopback and short enough to wait for.
const short = 300 * time.Millisecond

func prober(t *testing.T, cfg probe.Config) *probe.Prober {
	t.Helper()
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second
	}
	p, err := probe.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestProbeProvesAProxy(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "test root")
	secure := tlsTarget(t, ca.issue(t, "target.test", time.Now().Add(time.Hour)))
	plain := plainTarget(t)
	withTLS := probe.TLS{Enabled: true, ServerName: "target.test", RootCAs: ca.pool()}

	for name, cfg := range map[string]probe.Config{
		"tunnel only":           {Target: plain},
		"plain http":            {Target: plain, HTTP: probe.HTTP{Path: "/", Expect: "genuine"}},
		"tls":                   {Target: secure, TLS: withTLS},
		"tls with roots file":   {Target: secure, TLS: probe.TLS{Enabled: true, ServerName: "target.test", CAFile: ca.pemFile(t)}},
		"https":                 {Target: secure, TLS: withTLS, HTTP: probe.HTTP{Path: "/", Expect: "genuine"}},
		"https without a check": {Target: secure, TLS: withTLS, HTTP: probe.HTTP{Path: "/"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := prober(t, cfg)
			r := p.Probe(t.Context(), probe.Target{Addr: connectProxy(t, cfg.Target, nil)})
			if !r.OK || r.Class != "" || r.Message != "" {
				t.Fatalf("Probe = %+v, want OK", r)
			}
			if r.Latency <= 0 || r.Phases.Dial <= 0 || r.Phases.Connect <= 0 {
				t.Errorf("latency %s and phases %+v, want positive times", r.Latency, r.Phases)
			}
			if got, want := r.Phases.TLS > 0, cfg.TLS.Enabled; got != want {
				t.Errorf("TLS phase reached = %v, want %v", got, want)
			}
			if got, want := r.Phases.HTTP > 0, cfg.HTTP.Path != ""; got != want {
				t.Errorf("HTTP phase reached = %v, want %v", got, want)
			}
			if c := p.Control(t.Context()); !c.OK {
				t.Errorf("Control = %+v, want OK", c)
			}
		})
	}
}

// TestProbeClasses runs probes against servers that misbehave, each in one way.
func TestProbeClasses(t *testing.T) {
	t.Parallel()
	ca, evil := newAuthority(t, "test root"), newAuthority(t, "Evil Interceptor")
	good := ca.issue(t, "target.test", time.Now().Add(time.Hour))
	target := tlsTarget(t, good)
	cfg := func(c probe.Config) probe.Config {
		c.Target = target
		c.TLS = probe.TLS{Enabled: true, ServerName: "target.test", RootCAs: ca.pool()}
		return c
	}
	whole, quick := cfg(probe.Config{}), cfg(probe.Config{Timeout: short})
	page := cfg(probe.Config{HTTP: probe.HTTP{Path: "/", Expect: "genuine"}})
	plain := probe.Config{Target: plainTarget(t), HTTP: probe.HTTP{Path: "/", Expect: "genuine"}}
	// No test server is given this port, and nothing else listens there.
	const closed = "127.0.0.1:1"

	for name, tc := range map[string]struct {
		cfg   probe.Config
		proxy string
		class probe.Class
		says  string
	}{
		"nothing listens":          {whole, closed, probe.Refused, "nothing listens"},
		"no such name":             {whole, "proxy.invalid:3128", probe.Refused, "cannot be resolved"},
		"no address":               {whole, "nonsense", probe.Refused, "cannot be connected"},
		"closes at once":           {whole, serve(t, func(c net.Conn) {}), probe.Refused, "hung up"},
		"resets at once":           {whole, serve(t, reset), probe.Refused, "hung up"},
		"closes after the request": {whole, answering(t, "", nil), probe.Refused, "without an answer"},
		"resets after the request": {whole, answering(t, "", reset), probe.Refused, "without an answer"},
		"forbids the target":       {whole, answering(t, "HTTP/1.1 403 no\r\n\r\n", nil), probe.Refused, "403"},
		"wants credentials":        {whole, answering(t, "HTTP/1.1 407 who\r\nProxy-Authenticate: Basic\r\n\r\n", nil), probe.Auth, "407"},
		"bad gateway":              {whole, answering(t, "HTTP/1.1 502 x\r\n\r\n", nil), probe.TargetDown, "502 Bad Gateway"},
		"service unavailable":      {whole, answering(t, "HTTP/1.1 503 x\r\n\r\n", nil), probe.TargetDown, "503"},
		"gateway timeout":          {whole, answering(t, "HTTP/1.0 504 x\r\n\r\n", nil), probe.TargetDown, "504"},
		"target refuses":           {whole, connectProxy(t, closed, nil), probe.TargetDown, "502"},
		"closes the tunnel":        {whole, answering(t, established, nil), probe.TargetDown, "before the target said anything"},
		"resets the tunnel":        {whole, answering(t, established, reset), probe.TargetDown, "before the target said anything"},
		"breaks off the handshake": {whole, answering(t, established+"\x16\x03\x03\x00\x40\x02", nil), probe.Protocol, "broke off"},
		"refuses the handshake":    {whole, answering(t, established+"\x15\x03\x03\x00\x02\x02\x28", hold), probe.Protocol, "tls: handshake failure"},

		"accepts and is silent":     {quick, serve(t, hold), probe.Timeout, "CONNECT took too long"},
		"never opens the tunnel":    {quick, answering(t, "", hold), probe.Timeout, "CONNECT took too long"},
		"slow answer, byte by byte": {quick, answering(t, "HTTP/1.1 200", drip), probe.Timeout, "CONNECT took too long"},
		"slow handshake":            {quick, answering(t, established+"\x16\x03\x03\x40\x00", drip), probe.Timeout, "TLS handshake took too long"},
		"tunnel into the void":      {quick, answering(t, established, hold), probe.Timeout, "TLS handshake took too long"},

		"certificate of somebody else": {whole, connectProxy(t, tlsTarget(t, evil.issue(t, "target.test", time.Now().Add(time.Hour))), nil),
			probe.Intercepted, `issued by "CN=Evil Interceptor"`},
		"certificate for another name": {whole, connectProxy(t, tlsTarget(t, ca.issue(t, "other.test", time.Now().Add(time.Hour))), nil),
			probe.Intercepted, "another name"},
		"expired certificate": {whole, connectProxy(t, tlsTarget(t, ca.issue(t, "target.test", time.Now().Add(-time.Hour))), nil),
			probe.Intercepted, "expired"},
		"another page": {page, connectProxy(t, tlsTargetSaying(t, good, 200, "sign in here"), nil), probe.Intercepted, "expected text"},
		"another page, plain": {plain, connectProxy(t, serve(t, func(c net.Conn) { pageOf(c, 200, "sign in here") }), nil),
			probe.Intercepted, "expected text"},
		"target in trouble": {page, connectProxy(t, tlsTargetSaying(t, good, 503, "genuine"), nil), probe.TargetDown, "503"},
		"target hangs up":   {plain, connectProxy(t, serve(t, func(net.Conn) {}), nil), probe.TargetDown, "tunnel was closed"},
		"target is no http": {plain, connectProxy(t, answering(t, "220 mail ready\r\n", nil), nil), probe.Protocol, "not HTTP"},
		"page breaks off": {plain, connectProxy(t, answering(t, "HTTP/1.1 200 x\r\nContent-Length: 99\r\n\r\ngen", nil), nil),
			probe.Protocol, "broke off"},

		"garbage":            {whole, answering(t, "\x00\x01\x02 nothing like it\r\n\r\n", nil), probe.Protocol, "not HTTP"},
		"other protocol":     {whole, serve(t, func(c net.Conn) { io.WriteString(c, "SSH-2.0-OpenSSH_9.2\r\n"); hold(c) }), probe.Protocol, "not HTTP"},
		"incomplete header":  {whole, answering(t, "HTTP/1.1 200 x\r\nVia: ", nil), probe.Protocol, "incomplete"},
		"endless header":     {whole, answering(t, "HTTP/1.1 200 x\r\n", flood), probe.Protocol, "too long"},
		"redirects":          {whole, answering(t, "HTTP/1.1 302 x\r\nLocation: http://portal/\r\n\r\n", nil), probe.Protocol, "302"},
		"plain web server":   {plain, answering(t, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", nil), probe.Protocol, "web server"},
		"web page, no size":  {plain, answering(t, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\nhello", nil), probe.Protocol, "web server"},
		"not tls":            {whole, answering(t, established+"HTTP/1.1 400 Bad Request\r\n\r\n", nil), probe.Protocol, "not TLS"},
		"interim for ever":   {whole, answering(t, strings.Repeat("HTTP/1.1 102 x\r\n\r\n", 20), hold), probe.Protocol, "interim"},
		"switches protocols": {whole, answering(t, "HTTP/1.1 101 x\r\nUpgrade: y\r\n\r\n", hold), probe.Protocol, "101"},
		"server error":       {whole, answering(t, "HTTP/1.1 500 x\r\n\r\n", nil), probe.Protocol, "500"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			r := prober(t, tc.cfg).Probe(t.Context(), probe.Target{Addr: tc.proxy})
			if r.OK || r.Class != tc.class || !strings.Contains(r.Message, tc.says) {
				t.Errorf("Probe = %+v, want class %s and a message with %q", r, tc.class, tc.says)
			}
			if took := time.Since(start); took > 8*time.Second {
				t.Errorf("the probe took %s", took)
			}
		})
	}
}

func TestProbeSkipsInterimAnswers(t *testing.T) {
	t.Parallel()
	addr := answering(t, "HTTP/1.1 100 Continue\r\n\r\n"+established, hold)
	if r := prober(t, probe.Config{Target: "target.test:443"}).Probe(t.Context(), probe.Target{Addr: addr}); !r.OK {
		t.Errorf("Probe = %+v, want OK", r)
	}
}

func TestProbeSendsTheRightRequest(t *testing.T) {
	t.Parallel()
	var got *http.Request
	target := plainTarget(t)
	addr := connectProxy(t, target, func(r *http.Request) int { got = r; return 200 })
	auth := &provider.BasicAuth{Username: "probe", Password: provider.NewSensitive([]byte("p:w"))}
	if r := prober(t, probe.Config{Target: target}).Probe(t.Context(), probe.Target{Addr: addr, Auth: auth}); !r.OK {
		t.Fatalf("Probe = %+v, want OK", r)
	}
	want := []string{"CONNECT", target, target, "Basic " + base64.StdEncoding.EncodeToString([]byte("probe:p:w"))}
	if diff := cmp.Diff(want, []string{got.Method, got.RequestURI, got.Host, got.Header.Get("Proxy-Authorization")}); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

// TestProbeKeepsCredentialsSecret has peers that throw the credentials back in
// every place that ends up in a message.
func TestProbeKeepsCredentialsSecret(t *testing.T) {
	t.Parallel()
	const sentinel = "s3ntinel-passw0rd"
	encoded := base64.StdEncoding.EncodeToString([]byte("user:" + sentinel))
	auth := &provider.BasicAuth{Username: "user", Password: provider.NewSensitive([]byte(sentinel))}
	ca, evil := newAuthority(t, "test root"), newAuthority(t, "CA of "+sentinel+" and "+encoded)
	evilTarget := tlsTarget(t, evil.issue(t, "target.test", time.Now().Add(time.Hour)))
	for name, proxy := range map[string]string{
		"reason phrase":  connectProxy(t, evilTarget, func(*http.Request) int { return 407 }),
		"other status":   connectProxy(t, evilTarget, func(*http.Request) int { return 418 }),
		"malformed line": answering(t, "garbage "+encoded+"\r\n\r\n", nil),
		"bad header":     answering(t, "HTTP/1.1 200 OK\r\n"+encoded+"\r\n\r\n", nil),
		"bad length":     answering(t, "HTTP/1.1 200 OK\r\nContent-Length: "+sentinel+"\r\n\r\n", nil),
		"certificate":    connectProxy(t, evilTarget, nil),
		"not tls":        answering(t, established+sentinel+encoded, hold),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := prober(t, probe.Config{Target: evilTarget, TLS: probe.TLS{Enabled: true, ServerName: "target.test", RootCAs: ca.pool()}})
			r := p.Probe(t.Context(), probe.Target{Addr: proxy, Auth: auth})
			if r.OK {
				t.Fatal("the probe succeeded")
			}
			if text := fmt.Sprintf("%+v", r); strings.Contains(text, sentinel) || strings.Contains(text, encoded) {
				t.Errorf("the result shows the credentials: %s", text)
			}
		})
	}
}

func TestProbeHonoursItsContext(t *testing.T) {
	t.Parallel()
	accepted := make(chan struct{}, 1)
	addr := serve(t, func(c net.Conn) { accepted <- struct{}{}; hold(c) })
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-accepted
		cancel()
	}()
	start := time.Now()
	r := prober(t, probe.Config{Target: "target.test:443", Timeout: time.Minute}).Probe(ctx, probe.Target{Addr: addr})
	if r.OK || r.Class != probe.Timeout || !strings.Contains(r.Message, "cut off") {
		t.Errorf("Probe = %+v, want it cut off", r)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("the probe went on for %s after its context", took)
	}
}

func TestProbeIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "test root")
	target := tlsTarget(t, ca.issue(t, "target.test", time.Now().Add(time.Hour)))
	p := prober(t, probe.Config{Target: target, TLS: probe.TLS{Enabled: true, ServerName: "target.test", RootCAs: ca.pool()}})
	addr := connectProxy(t, target, nil)
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			if r := p.Probe(t.Context(), probe.Target{Addr: addr}); !r.OK {
				t.Errorf("Probe = %+v, want OK", r)
			}
		})
	}
	wg.Wait()
}

func TestControl(t *testing.T) {
	t.Parallel()
	ca, evil := newAuthority(t, "test root"), newAuthority(t, "evil")
	target := tlsTarget(t, ca.issue(t, "target.test", time.Now().Add(time.Hour)))
	forged := tlsTarget(t, evil.issue(t, "target.test", time.Now().Add(time.Hour)))
	gone := serve(t, func(net.Conn) {})
	for name, tc := range map[string]struct {
		target    string
		noControl bool
		class     probe.Class
	}{
		"reachable":         {target, false, ""},
		"somebody else":     {forged, false, probe.Intercepted},
		"nothing listens":   {"127.0.0.1:1", false, probe.TargetDown},
		"hangs up":          {gone, false, probe.TargetDown},
		"silent":            {serve(t, hold), false, probe.Timeout},
		"not to be reached": {"127.0.0.1:1", true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := prober(t, probe.Config{Target: tc.target, Timeout: 3 * time.Second, NoControl: tc.noControl,
				TLS: probe.TLS{Enabled: true, ServerName: "target.test", RootCAs: ca.pool()}})
			r := p.Control(t.Context())
			if r.OK != (tc.class == "") || r.Class != tc.class {
				t.Errorf("Control = %+v, want class %q", r, tc.class)
			}
		})
	}
}

func TestNewRefusesBadConfigurations(t *testing.T) {
	t.Parallel()
	notPEM := newAuthority(t, "x").pemFile(t) + ".missing"
	for name, tc := range map[string]struct {
		cfg  probe.Config
		says []string
	}{
		"no target":      {probe.Config{}, []string{`target: "" is not host:port`}},
		"no port":        {probe.Config{Target: "example.com"}, []string{`target: "example.com"`}},
		"port by name":   {probe.Config{Target: "example.com:https"}, []string{`target: "example.com:https"`}},
		"port too large": {probe.Config{Target: "example.com:70000"}, []string{"1 to 65535"}},
		"no host":        {probe.Config{Target: ":443"}, []string{"target:"}},
		"timeout":        {probe.Config{Target: "a:1", Timeout: -1}, []string{"timeout: -1ns is negative"}},
		"path":           {probe.Config{Target: "a:1", HTTP: probe.HTTP{Path: "x y"}}, []string{`http.path: "x y"`}},
		"expect alone":   {probe.Config{Target: "a:1", HTTP: probe.HTTP{Expect: "x"}}, []string{"http.expect: needs http.path"}},
		"roots missing":  {probe.Config{Target: "a:1", TLS: probe.TLS{Enabled: true, CAFile: notPEM}}, []string{"tls.caFile:"}},
		"all at once":    {probe.Config{Timeout: -1, HTTP: probe.HTTP{Path: "x"}}, []string{"target:", "timeout:", "http.path:"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := probe.New(tc.cfg)
			if err == nil {
				t.Fatal("New succeeded")
			}
			for _, s := range tc.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("error %q does not contain %q", err, s)
				}
			}
		})
	}
}

func tlsTargetSaying(t *testing.T, cert tls.Certificate, status int, body string) string {
	t.Helper()
	cfg := &tls.Config{Certificates: []tls.Certificate{cert}}
	return serve(t, func(c net.Conn) { pageOf(tls.Server(c, cfg), status, body) })
}

// pageOf is page under a name that no local variable hides.
func pageOf(c net.Conn, status int, body string) { page(c, status, body) }

// drip sends a byte now and then, as long as anybody reads.
func drip(c net.Conn) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if _, err := c.Write([]byte("x")); err != nil {
			return
		}
	}
}

// flood sends header lines as long as anybody reads.
func flood(c net.Conn) {
	for {
		if _, err := io.WriteString(c, "X-Filler: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n"); err != nil {
			return
		}
	}
}
