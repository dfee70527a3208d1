//go:build bench

package bench

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// acceptAll is a forward proxy that reaches one target, in its own process.
func acceptAll(l net.Listener, target *httptest.Server) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			r := bufio.NewReader(c)
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
				return
			}
			// Either a handshake follows, or the end.
			if _, err := r.Peek(1); err != nil {
				return
			}
			t := tls.Server(&peeked{c, r}, &tls.Config{Certificates: target.TLS.Certificates, MinVersion: tls.VersionTLS12})
			if t.Handshake() == nil {
				_, _ = io.Copy(io.Discard, t) // until the probe hangs up
			}
		}()
	}
}

// peeked is a connection of which some bytes were read too early.
type peeked struct {
	net.Conn
	r *bufio.Reader
}

func (p *peeked) Read(b []byte) (int, error) { return p.r.Read(b) }

// ticksPerSecond is USER_HZ, which is 100 on all of Linux's architectures that Go
// supports.
const ticksPerSecond = 100

// cpu is the time that a process has spent on the CPUs so far, in steps of 10
// milliseconds.
func cpu(b *testing.B, pid int) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	// The name, in brackets, may hold spaces; 14 and 15 are counted from 1.
	after := string(text[strings.LastIndexByte(string(text), ')')+1:])
	fields := strings.Fields(after)
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond
}

// resident is how much memory a process has, and the most that it had since
// forgetPeak, in bytes.
func resident(b *testing.B, pid int) (now, peak int64) {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var kb int64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kb); n == 1 {
			now = kb << 10
		}
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kb); n == 1 {
			peak = kb << 10
		}
	}
	return now, peak
}

func forgetPeak(b *testing.B, pid int) {
	b.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		b.Fatal(err)
	}
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
