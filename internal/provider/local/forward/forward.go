// Package forward is the forward proxy of the local provider: CONNECT and plain
// HTTP, optional basic authentication, a limit on target ports, a bound on every
// wait, and an end that lets open connections finish. It logs nothing about
// clients, targets or credentials.
package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/elazarl/goproxy"
)

// Defaults of Options and fixed bounds.
const (
	DefaultIdleTimeout = 10 * time.Minute

	dialTimeout           = 10 * time.Second
	readHeaderTimeout     = 10 * time.Second
	responseHeaderTimeout = 2 * time.Minute
	clientIdleTimeout     = 2 * time.Minute
	maxHeaderBytes        = 64 << 10
)

// Options configure a Server. The zero value is an open proxy.
type Options struct {
	// Authorized decides about a client's credentials; nil lets everybody in.
	Authorized func(user string, password []byte) bool
	// AllowPorts are the target ports that clients may reach; empty is all.
	AllowPorts []int
	// IdleTimeout ends a tunnel without traffic; 0 is DefaultIdleTimeout.
	IdleTimeout time.Duration
	// Logger gets panics of the HTTP server, nothing else; nil discards them.
	Logger *log.Logger
}

// Server is one forward proxy.
type Server struct {
	http  *http.Server
	conns tracker
}

// NewServer builds a proxy that serves nobody yet.
func NewServer(o Options) *Server {
	if o.Logger == nil {
		o.Logger = log.New(io.Discard, "", 0)
	}
	return &Server{http: &http.Server{
		Handler:           Handler(o),
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       clientIdleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          o.Logger,
	}}
}

// Serve accepts connections until Shutdown, and then returns nil.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(&trackedListener{Listener: l, conns: &s.conns}); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Shutdown stops accepting, waits until all connections have ended, tunnels
// included, or ctx has, and closes what is left.
func (s *Server) Shutdown(ctx context.Context) {
	_ = s.http.Shutdown(ctx)
	s.conns.wait(ctx)
	_ = s.http.Close()
}

// Handler answers proxy requests. Its server must allow connections to be
// hijacked.
func Handler(o Options) http.Handler {
	if o.IdleTimeout <= 0 {
		o.IdleTimeout = DefaultIdleTimeout
	}
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	p := goproxy.NewProxyHttpServer()
	p.Logger = log.New(io.Discard, "", 0) // it would name targets
	p.KeepAcceptEncoding = true
	p.Tr = &http.Transport{
		DialContext:           dialer.DialContext,
		TLSHandshakeTimeout:   dialTimeout,
		ResponseHeaderTimeout: responseHeaderTimeout,
		IdleConnTimeout:       30 * time.Second,
		MaxIdleConns:          32,
		DisableCompression:    true, // bodies pass as they are
	}
	p.ConnectDial = nil // the default would read the environment
	p.ConnectDialWithReq = func(r *http.Request, network, addr string) (net.Conn, error) {
		c, err := dialer.DialContext(r.Context(), network, addr)
		if err != nil {
			return nil, err
		}
		return newIdleConn(c, o.IdleTimeout), nil
	}
	p.ConnectionErrHandler = func(w io.Writer, _ *goproxy.ProxyCtx, err error) {
		code := gatewayStatus(err)
		body := err.Error() + "\n"
		_, _ = fmt.Fprintf(w, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
			code, http.StatusText(code), len(body), body)
	}
	p.OnResponse().DoFunc(func(resp *http.Response, ctx *goproxy.ProxyCtx) *http.Response {
		if resp != nil || ctx.Error == nil {
			return resp
		}
		return goproxy.NewResponse(ctx.Req, "text/plain; charset=utf-8", gatewayStatus(ctx.Error), ctx.Error.Error()+"\n")
	})
	p.NonproxyHandler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "this is a forward proxy: use it with CONNECT or an absolute http URL", http.StatusBadRequest)
	})
	return guard(o, p)
}

// guard checks credentials and the target before anything is dialled.
func guard(o Options, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if o.Authorized != nil {
			user, password, ok := proxyCredentials(r)
			if !ok || !o.Authorized(user, []byte(password)) {
				w.Header().Set("Proxy-Authenticate", `Basic realm="tollgate"`)
				http.Error(w, "proxy credentials are required", http.StatusProxyAuthRequired)
				return
			}
		}
		if r.Method != http.MethodConnect && !r.URL.IsAbs() {
			next.ServeHTTP(w, r)
			return
		}
		port, err := targetPort(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if len(o.AllowPorts) > 0 && !slices.Contains(o.AllowPorts, port) {
			http.Error(w, fmt.Sprintf("port %d is not allowed through this proxy", port), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func proxyCredentials(r *http.Request) (user, password string, ok bool) {
	// net/http parses the Authorization header only.
	probe := http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}
	return probe.BasicAuth()
}

func targetPort(r *http.Request) (int, error) {
	port := r.URL.Port()
	if port == "" && r.Method != http.MethodConnect {
		switch r.URL.Scheme {
		case "http":
			port = "80"
		case "https":
			port = "443"
		default:
			return 0, fmt.Errorf("scheme %q: only http and https URLs can be fetched", r.URL.Scheme)
		}
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 1 || n > 65535 {
		return 0, fmt.Errorf("target %q has no port between 1 and 65535", r.Host)
	}
	return n, nil
}

func gatewayStatus(err error) int {
	var ne net.Error
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &ne) && ne.Timeout() {
		return http.StatusGatewayTimeout
	}
	return http.StatusBadGateway
}
