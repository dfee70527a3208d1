// Package localtest helps tests that run real proxies of the local provider.
package localtest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

const program = "github.com/tollgate-dev/tollgate/internal/provider/local/tollgate-proxy"

var build = sync.OnceValues(buildProgram)

// Binary builds tollgate-proxy from the sources of the test and returns its
// path. It is kept in the user's cache directory, one for each working copy, and
// built again only when the sources have changed. Tests of several packages can
// call it at the same time.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatalf("build tollgate-proxy: %v", err)
	}
	return path
}

func buildProgram() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir() // no home directory: any place of the machine will do
	}
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	module := filepath.Dir(strings.TrimSpace(string(out)))
	sum := sha256.Sum256([]byte(module))
	dir := filepath.Join(cache, "tollgate", "test-"+hex.EncodeToString(sum[:6]))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "build.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Close() }()
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "tollgate-proxy")
	cmd := exec.Command("go", "build", "-o", path, program)
	cmd.Dir = module
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
}
