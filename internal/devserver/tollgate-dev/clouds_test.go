//go:build e2e

package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The provider of a simulated cloud works like any other, its proxies are real,
// and they run again after a restart.
func TestWithHetznerSim(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	with := []string{"--with", "hetzner-sim"}
	first := s.start(t, with...).running()
	for _, want := range []string{"simulated cloud  http://127.0.0.1:", "provider hetzner", "proxy create cloud --provider hetzner --wait", "/_sim/state"} {
		if !strings.Contains(first.output(), want) {
			t.Errorf("the announcement lacks %q", want)
		}
	}
	file, err := os.ReadFile(filepath.Join(s.dir, "tollgate.yaml"))
	if err != nil || strings.Contains(string(file), "hetzner") {
		t.Errorf("the configuration file was changed: %v", err)
	}
	s.createProxyAt(t, "cloud", "hetzner")
	before := s.proxy(t)
	if !strings.HasPrefix(strings.Fields(before)[1], "127.78.") {
		t.Errorf("the proxy is %s", before)
	}
	first.signal(os.Interrupt)
	if code := first.ended(); code != 0 {
		t.Errorf("exit code %d after an interrupt", code)
	}
	second := s.start(t, with...).running()
	if after := s.proxy(t); after != before {
		t.Errorf("the proxy was %s and is %s", before, after)
	}
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(strings.Fields(before)[1], "3128"), 5*time.Second)
	if err != nil {
		t.Errorf("the proxy does not run: %v", err)
	} else {
		_ = conn.Close()
	}
	s.deleteProxy(t, "cloud")
	second.signal(os.Interrupt)
	if code := second.ended(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// A simulated cluster: its Pods are proxies.
func TestWithKubernetesSim(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	dev := s.start(t, "--with", "kubernetes-sim").running()
	for _, want := range []string{"simulated cluster http://127.0.0.1:", "proxy create pod --provider kubernetes --wait", "/_sim/quota"} {
		if !strings.Contains(dev.output(), want) {
			t.Errorf("the announcement lacks %q", want)
		}
	}
	s.createProxyAt(t, "pod", "kubernetes")
	if p := s.proxy(t); !strings.HasPrefix(strings.Fields(p)[1], "127.80.") {
		t.Errorf("the proxy is %s", p)
	}
	s.deleteProxy(t, "pod")
	dev.signal(os.Interrupt)
	if code := dev.ended(); code != 0 {
		t.Errorf("exit code %d after an interrupt", code)
	}
}

// A simulated OpenStack cloud: its servers are proxies, and run again after a
// restart.
func TestWithOpenStackSim(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	first := s.start(t, "--with", "openstack-sim").running()
	for _, want := range []string{"simulated OpenStack http://127.0.0.1:", "proxy create server --provider openstack --wait", "/_sim/quota"} {
		if !strings.Contains(first.output(), want) {
			t.Errorf("the announcement lacks %q", want)
		}
	}
	s.createProxyAt(t, "server", "openstack")
	before := s.proxy(t)
	if !strings.HasPrefix(strings.Fields(before)[1], "127.82.") {
		t.Errorf("the proxy is %s", before)
	}
	first.signal(os.Interrupt)
	if code := first.ended(); code != 0 {
		t.Errorf("exit code %d after an interrupt", code)
	}
	second := s.start(t, "--with", "openstack-sim").running()
	if after := s.proxy(t); after != before {
		t.Errorf("the proxy was %s and is %s", before, after)
	}
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(strings.Fields(before)[1], "3128"), 5*time.Second)
	if err != nil {
		t.Errorf("the proxy does not run: %v", err)
	} else {
		_ = conn.Close()
	}
	s.deleteProxy(t, "server")
	second.signal(os.Interrupt)
	if code := second.ended(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
