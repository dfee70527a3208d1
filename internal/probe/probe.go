// Package probe proves a forward proxy the way a client would use it: it opens
// a tunnel with CONNECT, shakes hands with the target through it, and verifies
// that it is the target. It imports the standard library only.
//
// A probe never fails: it has a result. No text of a result holds credentials,
// or anything a peer sent but the name of a certificate's issuer.
package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Class says why a probe failed. The strings are stored in workflow histories
// and label metrics: they are only ever added to.
type Class string

// The classes.
const (
	// Refused: nothing listens at the proxy's address, or what listens there
	// hangs up or forbids the request.
	Refused Class = "refused"
	// Auth: the proxy does not accept the credentials (407).
	Auth Class = "auth"
	// TargetDown: the proxy works and does not get through to the target (502,
	// 503, 504, or a tunnel that ends before the target has said anything).
	TargetDown Class = "target_down"
	// Timeout: something took longer than the probe may, or was cut off.
	Timeout Class = "timeout"
	// Intercepted: somebody who is not the target answered through the tunnel.
	Intercepted Class = "intercepted"
	// Protocol: the answer is none of a proxy's, or none of the target's.
	Protocol Class = "protocol"
)

// Classes lists every class.
func Classes() []Class {
	return []Class{Refused, Auth, TargetDown, Timeout, Intercepted, Protocol}
}

// Config configures a Prober.
type Config struct {
	// Target is host:port of what probes connect to through a proxy.
	Target string
	// Timeout bounds a whole probe. 0 means 5 seconds.
	Timeout time.Duration
	TLS     TLS
	HTTP    HTTP
	// NoControl says that the target can be reached through proxies only, so that
	// a direct connection proves nothing; Control is then always OK.
	NoControl bool
}

// TLS asks for a verified handshake with the target. Without it, and without
// HTTP.Expect, interception cannot be seen.
type TLS struct {
	Enabled bool
	// ServerName is what the certificate must be for. Empty means the target's
	// host.
	ServerName string
	// CAFile holds PEM certificates, RootCAs a pool; at most one is set. Neither
	// means the system's.
	CAFile  string
	RootCAs *x509.CertPool
}

// HTTP asks for one GET through the tunnel, after the handshake if there is one.
type HTTP struct {
	// Path is the path of the request; empty means no request.
	Path string
	// Expect must be part of the first 4 KiB of the answer's body, unless it is
	// empty.
	Expect string
}

// DefaultTimeout bounds a probe whose Config says nothing else.
const DefaultTimeout = 5 * time.Second

// Target is a proxy to probe.
type Target struct {
	// Addr is the proxy's "ip:port" or "host:port".
	Addr string
	// Auth, when set, is sent as Proxy-Authorization: Basic.
	Auth *provider.BasicAuth
}

// Result is the outcome of one probe.
type Result struct {
	OK bool
	// Class is empty when OK.
	Class Class
	// Message is for people, one line; empty when OK.
	Message string
	// Latency is the time that the whole probe took.
	Latency time.Duration
	Phases  Phases
}

// Phases are the parts of a probe's latency; a part that was not reached is
// zero.
type Phases struct {
	// Dial is the TCP connection, Connect the request for the tunnel, TLS the
	// handshake with the target and HTTP the request to it.
	Dial, Connect, TLS, HTTP time.Duration
}

// Prober makes probes. It is safe for concurrent use.
type Prober struct {
	target  string
	timeout time.Duration
	tls     *tls.Config // nil without TLS
	http    HTTP
	host    string
	control bool
}

// New builds a Prober and reads the CA file. The error names the field and its
// value; every problem is reported.
func New(cfg Config) (*Prober, error) {
	p := &Prober{target: cfg.Target, timeout: cfg.Timeout, http: cfg.HTTP, control: !cfg.NoControl}
	var errs []error
	host, port, err := net.SplitHostPort(cfg.Target)
	if n, perr := strconv.Atoi(port); err != nil || host == "" || perr != nil || n < 1 || n > 65535 {
		errs = append(errs, fmt.Errorf("target: %q is not host:port, with a port from 1 to 65535", cfg.Target))
	}
	p.host = cfg.Target
	if p.timeout == 0 {
		p.timeout = DefaultTimeout
	}
	if p.timeout < 0 {
		errs = append(errs, fmt.Errorf("timeout: %s is negative: use a positive duration, or leave it out for %s", cfg.Timeout, DefaultTimeout))
	}
	if s := cfg.HTTP.Path; s != "" && (!strings.HasPrefix(s, "/") || strings.ContainsAny(s, " \r\n\t")) {
		errs = append(errs, fmt.Errorf("http.path: %q is not a path: start with / and use no white space", s))
	}
	if cfg.HTTP.Expect != "" && cfg.HTTP.Path == "" {
		errs = append(errs, errors.New("http.expect: needs http.path"))
	}
	if cfg.TLS.Enabled {
		roots, err := cfg.TLS.roots()
		if err != nil {
			errs = append(errs, err)
		}
		name := cfg.TLS.ServerName
		if name == "" {
			name = host
		}
		p.tls = &tls.Config{ServerName: name, RootCAs: roots, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return p, nil
}

func (t TLS) roots() (*x509.CertPool, error) {
	if t.CAFile == "" {
		return t.RootCAs, nil
	}
	if t.RootCAs != nil {
		return nil, errors.New("tls.caFile: is set together with a pool of roots: use one")
	}
	pem, err := os.ReadFile(t.CAFile)
	if err != nil {
		return nil, fmt.Errorf("tls.caFile: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("tls.caFile: %q holds no PEM certificate", t.CAFile)
	}
	return pool, nil
}

// Target returns what probes connect to, host:port.
func (p *Prober) Target() string { return p.target }

// Probe makes one probe of the proxy t. It returns within the timeout, and soon
// after ctx ends; a probe cut off by ctx is a Timeout and proves nothing.
func (p *Prober) Probe(ctx context.Context, t Target) Result {
	r := p.run(ctx, t.Addr, func(c *conn) error { return c.connect(p.target, t.Auth) })
	r.Message = redact(r.Message, t.Auth)
	return r
}

// Control connects to the target without a proxy and verifies it in the same
// way. Its failure says that nothing can be concluded from probes just now.
func (p *Prober) Control(ctx context.Context) Result {
	if !p.control {
		return Result{OK: true}
	}
	r := p.run(ctx, p.target, nil)
	if r.Class == Refused {
		r.Class = TargetDown
	}
	r.Message = redact(r.Message, nil)
	return r
}

// run dials addr, lets open ask for the tunnel, and verifies the target.
func (p *Prober) run(ctx context.Context, addr string, open func(*conn) error) (r Result) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	defer func() { r.Latency = time.Since(start) }()

	lap := start
	took := func(d *time.Duration) {
		now := time.Now()
		*d, lap = now.Sub(lap), now
	}
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	took(&r.Phases.Dial)
	if err != nil {
		return r.fail(ctx, "dial", dialError(addr, err))
	}
	defer raw.Close()
	// The deadline is absolute, so that a peer that sends a byte now and then
	// gains nothing by it.
	stop := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })
	defer stop()

	c := newConn(raw)
	if open != nil {
		err = open(c)
		took(&r.Phases.Connect)
		if err != nil {
			return r.fail(ctx, "CONNECT", err)
		}
	}
	if p.tls != nil {
		err = c.handshake(ctx, p.tls)
		took(&r.Phases.TLS)
		if err != nil {
			return r.fail(ctx, "TLS handshake", err)
		}
	}
	if p.http.Path != "" {
		err = c.get(p.host, p.http)
		took(&r.Phases.HTTP)
		if err != nil {
			return r.fail(ctx, "HTTP request", err)
		}
	}
	r.OK = true
	return r
}

// fail fills in the failure; the end of ctx explains every other error away.
func (r Result) fail(ctx context.Context, phase string, err error) Result {
	var ne net.Error
	var f *failure
	switch {
	case errors.Is(context.Cause(ctx), context.Canceled):
		r.Class, r.Message = Timeout, phase+" was cut off"
	case ctx.Err() != nil, errors.As(err, &ne) && ne.Timeout():
		r.Class, r.Message = Timeout, phase+" took too long"
	case errors.As(err, &f):
		r.Class, r.Message = f.class, f.message
	default:
		r.Class, r.Message = Protocol, phase+" failed"
	}
	return r
}

// failure is an error with its class and a text that is safe to show.
type failure struct {
	class   Class
	message string
}

func (f *failure) Error() string { return string(f.class) + ": " + f.message }

func failf(class Class, format string, args ...any) error {
	return &failure{class, fmt.Sprintf(format, args...)}
}

// statusError classes an answer to CONNECT that opens no tunnel. The reason
// phrase is the peer's and therefore left out.
func statusError(code int) error {
	text := http.StatusText(code)
	if text != "" {
		text = " " + text
	}
	switch code {
	case http.StatusProxyAuthRequired:
		return failf(Auth, "the proxy wants other credentials: it answered CONNECT with 407")
	case http.StatusForbidden:
		return failf(Refused, "the proxy forbids the target: it answered CONNECT with 403")
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return failf(TargetDown, "the proxy does not reach the target: it answered CONNECT with %d%s", code, text)
	}
	return failf(Protocol, "the proxy answered CONNECT with %d%s", code, text)
}
