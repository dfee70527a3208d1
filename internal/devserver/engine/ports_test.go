package main

import (
	"errors"
	"net"
	"strings"
	"testing"
)

func TestListenable(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	err = listenable("--ui-port", "127.0.0.1", port)
	if !errors.Is(err, errInUse) || !strings.Contains(err.Error(), "--ui-port") {
		t.Errorf("taken port: got error %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := listenable("--ui-port", "127.0.0.1", port); err != nil {
		t.Errorf("free port: %v", err)
	}
}

func TestFreePortsAreDistinctAndUsable(t *testing.T) {
	t.Parallel()
	seen := map[int]bool{}
	for range 50 {
		p, err := freePort("127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		if seen[p] {
			t.Errorf("port %d was given twice", p)
		}
		seen[p] = true
	}
	for p := range seen {
		if err := listenable("--port", "127.0.0.1", p); err != nil {
			t.Error(err)
		}
	}
}
