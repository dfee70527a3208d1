package probe_test

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/probe"
)

// TestProbeOfAHostThatDropsPackets dials a listener whose queue is full, so that
// the kernel drops the SYN as a firewall or a dead host would.
func TestProbeOfAHostThatDropsPackets(t *testing.T) {
	t.Parallel()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	sa, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", sa.(*syscall.SockaddrInet4).Port)
	full := false
	for i := 0; i < 16 && !full; i++ {
		c, err := net.DialTimeout("tcp", addr, short)
		if err != nil {
			full = true
			break
		}
		defer c.Close()
	}
	if !full {
		t.Fatal("the queue does not fill")
	}
	start := time.Now()
	r := prober(t, probe.Config{Target: "target.test:443", Timeout: short}).Probe(t.Context(), probe.Target{Addr: addr})
	if r.OK || r.Class != probe.Timeout || !strings.Contains(r.Message, "dial took too long") {
		t.Errorf("Probe = %+v, want a timeout of the dial", r)
	}
	if took := time.Since(start); took > 20*short {
		t.Errorf("the probe took %s", took)
	}
}
