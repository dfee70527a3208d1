//go:build !linux

package local

import (
	"errors"
	"net/netip"
	"os"
	"os/exec"
)

// supported: New refuses on other systems, so nothing below is ever reached.
const supported = false

func flock(*os.File) (bool, error)             { return false, errors.ErrUnsupported }
func openProcessLock(string) (*os.File, error) { return nil, errors.ErrUnsupported }
func lockHeld(string) (bool, error)            { return false, errors.ErrUnsupported }
func reserve(netip.Addr) (*os.File, error)     { return nil, errors.ErrUnsupported }
func (i instance) holder() *os.Process         { return nil }
func startProcess(string, instance, *os.File, *os.File, *os.File) (*exec.Cmd, error) {
	return nil, errors.ErrUnsupported
}
