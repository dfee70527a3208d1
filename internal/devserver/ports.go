package devserver

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// PortInUseError is returned when another process listens on a port that is
// needed.
type PortInUseError struct {
	// Port is the port and Use what it was wanted for.
	Port int
	Use  string
}

func (e *PortInUseError) Error() string {
	return fmt.Sprintf("port %d for %s is already in use by another process", e.Port, e.Use)
}

// CheckPort reports whether a port of Host can be listened on: nil, a
// *PortInUseError or what the system says.
func CheckPort(port int, use string) error {
	l, err := net.Listen("tcp", hostPort(port))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return &PortInUseError{Port: port, Use: use}
	case err != nil:
		return fmt.Errorf("port %d for %s: %w", port, use, err)
	}
	return l.Close()
}

// FreePort returns a port of Host for a listener that is opened later. A
// connection closed from the listening side leaves the port in TIME_WAIT, so
// that the kernel gives it to nobody by itself in the meantime.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", hostPort(0))
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	out, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return 0, fmt.Errorf("reserve a free port: %w", err)
	}
	defer out.Close()
	in, err := l.Accept()
	if err != nil {
		return 0, fmt.Errorf("reserve a free port: %w", err)
	}
	if err := in.Close(); err != nil {
		return 0, fmt.Errorf("reserve a free port: %w", err)
	}
	return l.Addr().(*net.TCPAddr).Port, nil
}

func hostPort(port int) string { return net.JoinHostPort(Host, strconv.Itoa(port)) }
