package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// errInUse marks what another process holds: a port or the database.
var errInUse = errors.New("in use")

// listenable reports whether the port can be bound, as an error that names the
// flag. The server binds much later and reports a taken port badly or not at
// all.
func listenable(flagName, ip string, port int) error {
	l, err := net.Listen("tcp", hostPort(ip, port))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s: %s is already %w by another process; choose another port", flagName, hostPort(ip, port), errInUse)
	case err != nil:
		return fmt.Errorf("%s: %w", flagName, err)
	}
	return l.Close()
}

// freePort reserves a port for a listener that is opened later. One connection
// is made and closed from the server's side: the port then lingers in TIME_WAIT,
// in which the kernel gives it to no other process by itself, while a listener
// may still bind it by number.
func freePort(ip string) (int, error) {
	l, err := net.Listen("tcp", hostPort(ip, 0))
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

func hostPort(ip string, port int) string { return net.JoinHostPort(ip, strconv.Itoa(port)) }
