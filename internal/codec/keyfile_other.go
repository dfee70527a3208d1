//go:build !unix || aix || solaris

package codec

import (
	"fmt"
	"os"
	"time"
)

// checkAccess has nothing to check: the mode bits say nothing here.
func checkAccess(os.FileInfo) error { return nil }

// locked runs fn while no other process changes the file. A lock left behind by
// a process that died is named in the error.
func locked(path string, fn func() error) error {
	name := path + ".lock"
	deadline := time.Now().Add(10 * time.Second)
	for {
		lock, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			_ = lock.Close()
			defer func() { _ = os.Remove(name) }()
			return fn()
		}
		if !os.IsExist(err) || time.Now().After(deadline) {
			return fmt.Errorf("key file %s: lock: %w", path, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
