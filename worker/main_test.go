package main

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const good = "installation: acme\nproviders: [{name: here, type: local}]\n"

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tollgate.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestUsage(t *testing.T) {
	t.Setenv("TOLLGATE_CONFIG", "")
	config := write(t, good)
	for name, tc := range map[string]struct {
		args           []string
		code           int
		stdout, stderr string // parts
	}{
		"help":            {[]string{"--help"}, exitOK, "--config FILE", ""},
		"version":         {[]string{"--version"}, exitOK, "tollgate-worker ", ""},
		"no config":       {nil, exitUsage, "", "--config is required"},
		"unknown flag":    {[]string{"--confg", "x"}, exitUsage, "", "flag provided but not defined: -confg (see tollgate-worker --help)"},
		"argument":        {[]string{"--config", config, "start"}, exitUsage, "", `unexpected argument "start"`},
		"duration":        {[]string{"--config", config, "--temporal-wait", "soon"}, exitUsage, "", `invalid value "soon" for flag -temporal-wait`},
		"missing file":    {[]string{"--config", "/does/not/exist"}, exitUsage, "", "/does/not/exist: cannot be read: no such file or directory"},
		"check":           {[]string{"--config", config, "--check"}, exitOK, config + ": installation acme, 1 providers", ""},
		"check bad field": {[]string{"--config", write(t, good+"gc: {cap: 0}\n"), "--check"}, exitUsage, "", "gc.cap: 0 is out of range"},
		"check bad block": {[]string{"--config", write(t, "installation: a\nproviders:\n- name: here\n  type: local\n  local: {nope: 1}\n"), "--check"}, exitUsage, "", ":5: providers[0].local.nope: unknown field"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(tc.args, &stdout, &stderr)
			if code != tc.code || !strings.Contains(stdout.String(), tc.stdout) || !strings.Contains(stderr.String(), tc.stderr) {
				t.Errorf("exit code %d, want %d\nstdout: %s\nstderr: %s", code, tc.code, &stdout, &stderr)
			}
			if tc.stderr == "" && stderr.Len() > 0 {
				t.Errorf("stderr: %s", &stderr)
			}
		})
	}
}

func TestConfigFromTheEnvironment(t *testing.T) {
	config := write(t, good)
	t.Setenv("TOLLGATE_CONFIG", config)
	var stdout, stderr bytes.Buffer
	if code := run([]string{"--check"}, &stdout, &stderr); code != exitOK || !strings.HasPrefix(stdout.String(), config) {
		t.Errorf("exit code %d\nstdout: %s\nstderr: %s", code, &stdout, &stderr)
	}
}

func TestAnAddressInUseNamesTheFlag(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	config, addr := write(t, good), l.Addr().String()
	for flag, server := range map[string]string{"--http-addr": "http", "--metrics-addr": "metrics"} {
		args := []string{"--config", config, "--state-dir", t.TempDir(), "--http-addr", "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0", flag, addr}
		var stdout, stderr bytes.Buffer
		code := run(args, &stdout, &stderr)
		want := server + " server: cannot listen on " + addr + ": bind: address already in use; choose another address with " + flag
		if code != exitFailure || !strings.Contains(stderr.String(), want) {
			t.Errorf("exit code %d, want an error with %q:\n%s", code, want, &stderr)
		}
	}
}

func TestATemporalServerThatIsNotThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	t.Setenv("TEMPORAL_ADDRESS", addr)
	t.Setenv("TEMPORAL_CONFIG_FILE", filepath.Join(t.TempDir(), "none.toml"))
	var stdout, stderr bytes.Buffer
	code := run([]string{
		"--config", write(t, good), "--state-dir", t.TempDir(),
		"--http-addr", "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0", "--temporal-wait", "0s",
	}, &stdout, &stderr)
	if want := "tollgate-worker: no temporal server answers at " + addr; code != exitFailure || !strings.Contains(stderr.String(), want) {
		t.Errorf("exit code %d, want an error with %q:\n%s", code, want, &stderr)
	}
}

func TestNothingToProbe(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	code := run([]string{"--config", write(t, good), "--state-dir", t.TempDir(), "--http-addr", "", "--metrics-addr", ""}, &stdout, &stderr)
	if want := "probe.target: is required without an HTTP server of this process"; code != exitFailure || !strings.Contains(stderr.String(), want) {
		t.Errorf("exit code %d, want an error with %q:\n%s", code, want, &stderr)
	}
}
