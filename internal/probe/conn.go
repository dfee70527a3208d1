package probe

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// Limits of what a peer may send.
const (
	maxHeader = 16 << 10
	maxBody   = 4 << 10
	// maxInterim is how many 1xx answers are skipped.
	maxInterim = 5
	// maxMessage is how much of a message is shown, in bytes: the name of an
	// issuer is as long as the peer likes.
	maxMessage = 240
)

const userAgent = "tollgate-probe"

// conn is a connection with what was read of it too early.
type conn struct {
	net.Conn
	limited *io.LimitedReader
	buf     *bufio.Reader
	// silent: the peer has not sent a byte since the tunnel was opened.
	silent bool
}

func newConn(raw net.Conn) *conn {
	c := &conn{Conn: raw, silent: true}
	c.limited = &io.LimitedReader{R: raw, N: maxHeader}
	c.buf = bufio.NewReaderSize(c.limited, 4<<10)
	return c
}

// Read reads what was read too early first.
func (c *conn) Read(b []byte) (int, error) {
	c.limited.N = maxHeader
	n, err := c.buf.Read(b)
	if n > 0 {
		c.silent = false
	}
	return n, err
}

// connect asks the proxy for a tunnel to target.
func (c *conn) connect(target string, auth *provider.BasicAuth) error {
	var b strings.Builder
	fmt.Fprintf(&b, "CONNECT %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s\r\n", target, target, userAgent)
	if auth != nil {
		fmt.Fprintf(&b, "Proxy-Authorization: Basic %s\r\n", basic(auth))
	}
	b.WriteString("\r\n")
	if _, err := io.WriteString(c.Conn, b.String()); err != nil {
		return hungUp(err, Refused, "the proxy hung up before CONNECT was sent")
	}
	for range maxInterim + 1 {
		c.limited.N = maxHeader
		if _, err := c.buf.Peek(1); err != nil {
			return hungUp(err, Refused, "the proxy hung up without an answer to CONNECT")
		}
		resp, err := http.ReadResponse(c.buf, &http.Request{Method: http.MethodConnect})
		switch {
		case err != nil:
			return hungUp(err, Protocol, "the answer to CONNECT is not HTTP, incomplete or too long")
		case resp.StatusCode == http.StatusSwitchingProtocols:
			return statusError(resp.StatusCode)
		case resp.StatusCode < 200:
			continue
		case resp.StatusCode >= 300:
			return statusError(resp.StatusCode)
		case resp.ContentLength > 0 || resp.Header.Get("Content-Type") != "":
			return failf(Protocol, "a web server answered CONNECT with %d and a page: this is no proxy", resp.StatusCode)
		}
		return nil
	}
	return failf(Protocol, "the proxy sends interim answers only")
}

// handshake shakes hands with the target and verifies its certificate.
func (c *conn) handshake(ctx context.Context, cfg *tls.Config) error {
	t := tls.Client(&conn{Conn: c.Conn, limited: c.limited, buf: c.buf, silent: true}, cfg)
	inner := t.NetConn().(*conn)
	err := t.HandshakeContext(ctx)
	var (
		cert   *tls.CertificateVerificationError
		record tls.RecordHeaderError
		op     *net.OpError
	)
	switch {
	case err == nil:
	case errors.As(err, &cert):
		return failf(Intercepted, "the certificate is not the target's (%s): issued by %q", certProblem(cert), issuer(cert))
	case errors.As(err, &record):
		return failf(Protocol, "the answer through the tunnel is not TLS")
	case errors.As(err, &op) && op.Op == "remote error":
		// An alert; its text is from crypto/tls, not from the peer.
		return failf(Protocol, "the other end of the tunnel refused the TLS handshake: %v", op.Err)
	case inner.silent:
		return hungUp(err, TargetDown, "the tunnel was closed before the target said anything")
	default:
		return hungUp(err, Protocol, "the TLS handshake broke off")
	}
	// From here on, everything goes through the handshaken connection.
	c.Conn = t
	c.limited = &io.LimitedReader{R: t, N: maxHeader}
	c.buf = bufio.NewReaderSize(c.limited, 4<<10)
	c.silent = true
	return nil
}

// get sends one request to the target and looks at the answer.
func (c *conn) get(host string, h HTTP) error {
	req := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s\r\nConnection: close\r\n\r\n", h.Path, host, userAgent)
	if _, err := io.WriteString(c.Conn, req); err != nil {
		return hungUp(err, TargetDown, "the tunnel was closed before the request was sent")
	}
	c.limited.N = maxHeader
	if _, err := c.buf.Peek(1); err != nil {
		return hungUp(err, TargetDown, "the tunnel was closed before the target said anything")
	}
	resp, err := http.ReadResponse(c.buf, nil)
	if err != nil {
		return hungUp(err, Protocol, "the target's answer is not HTTP, incomplete or too long")
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 500 {
		return failf(TargetDown, "the target answered with %d", resp.StatusCode)
	}
	if h.Expect == "" {
		return nil
	}
	c.limited.N = maxHeader
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if strings.Contains(string(body), h.Expect) {
		return nil
	}
	if err != nil {
		return hungUp(err, Protocol, "the target's answer broke off")
	}
	return failf(Intercepted, "the answer is not the target's: it lacks the expected text")
}

// dialError classes a failed connection to addr.
func dialError(addr string, err error) error {
	var dns *net.DNSError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return failf(Refused, "nothing listens at %s", addr)
	case errors.Is(err, syscall.ECONNRESET):
		return failf(Refused, "%s hung up at once", addr)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return failf(Refused, "there is no route to %s", addr)
	case errors.As(err, &dns) && !dns.IsTimeout:
		return failf(Refused, "the name in %s cannot be resolved", addr)
	case isTimeout(err):
		return err
	}
	return failf(Refused, "%s cannot be connected to", addr)
}

// hungUp gives err its class unless it is a time-out, which Result.fail knows.
func hungUp(err error, class Class, message string) error {
	if isTimeout(err) {
		return err
	}
	return &failure{class, message}
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

func certProblem(err *tls.CertificateVerificationError) string {
	switch {
	case isA[x509.HostnameError](err.Err):
		return "it is for another name"
	case isA[x509.UnknownAuthorityError](err.Err):
		return "its issuer is not trusted"
	case isA[x509.CertificateInvalidError](err.Err):
		return "it is expired or otherwise invalid"
	}
	return "it cannot be verified"
}

func isA[T error](err error) bool {
	var t T
	return errors.As(err, &t)
}

// issuer names who issued the peer's certificate, which tells who intercepts.
func issuer(err *tls.CertificateVerificationError) string {
	if len(err.UnverifiedCertificates) == 0 {
		return ""
	}
	return err.UnverifiedCertificates[0].Issuer.String()
}

func basic(auth *provider.BasicAuth) string {
	return base64.StdEncoding.EncodeToString([]byte(auth.Username + ":" + string(auth.Password.Reveal())))
}

// redact takes the credentials out of a text, in case that a peer who knows
// them put them into a certificate, and shortens it.
func redact(s string, auth *provider.BasicAuth) string {
	if auth != nil && s != "" {
		s = strings.ReplaceAll(s, basic(auth), provider.Redacted)
		if p := string(auth.Password.Reveal()); p != "" {
			s = strings.ReplaceAll(s, p, provider.Redacted)
		}
	}
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "") + "..."
	}
	return s
}
