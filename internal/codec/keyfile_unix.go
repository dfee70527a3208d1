//go:build unix && !aix && !solaris

package codec

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func checkAccess(info os.FileInfo) error {
	owner := -1
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		owner = int(st.Uid)
	}
	return accessRule(info.Mode(), owner, os.Geteuid())
}

// locked runs fn while no other process changes the file. The lock lives beside
// the file, which is replaced, and ends with the process.
func locked(path string, fn func() error) error {
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("key file %s: lock: %w", path, err)
	}
	defer func() { _ = lock.Close() }()
	for {
		err := unix.Flock(int(lock.Fd()), unix.LOCK_EX)
		if err == nil {
			return fn()
		}
		if !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("key file %s: lock: %w", path, err)
		}
	}
}
