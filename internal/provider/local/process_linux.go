package local

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tollgate-dev/tollgate/internal/provider/local/handoff"
)

const supported = true

// flock tries to lock an open file for this open file only.
func flock(f *os.File) (bool, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// openProcessLock opens a lock file and takes its lock, or returns nil when a
// process has it. The lock lives until the last copy of the descriptor is
// closed; closing one copy does not release it.
func openProcessLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return nil, f.Close()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// lockHeld reports whether a process has the lock, without taking it. A file
// that is not there is not locked.
func lockHeld(path string) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	q := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &q); err != nil {
		return false, fmt.Errorf("%s: ask for the lock: %w", path, err)
	}
	return q.Type != unix.F_UNLCK, nil
}

// reserve takes an address for this machine: a name that one socket at a time
// can have in the network namespace, which is also the reach of a loopback
// address. It is free again when the last copy is closed. nil: it is taken.
func reserve(addr netip.Addr) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: "@tollgate/local/" + addr.String()})
	if err != nil {
		_ = unix.Close(fd)
		if errors.Is(err, unix.EADDRINUSE) {
			return nil, nil
		}
		return nil, os.NewSyscallError("bind", err)
	}
	return os.NewFile(uintptr(fd), "reservation of "+addr.String()), nil
}

// startProcess runs the proxy in a session of its own, with nothing of ours but
// the three descriptors. The caller closes its copies.
func startProcess(binary string, i instance, lock, listener, reservation *os.File) (*exec.Cmd, error) {
	out, err := os.OpenFile(filepath.Join(i.dir, handoff.LogFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	cmd := &exec.Cmd{
		Path: binary, Args: []string{"tollgate-proxy", "--dir", i.dir},
		Env: []string{}, Dir: "/", Stdout: out, Stderr: out,
		ExtraFiles:  []*os.File{lock, listener, reservation},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	return cmd, cmd.Start()
}

// holder finds the process that has the instance's lock, pinned against reuse
// of its pid. nil: none was found, which is no proof that there is none.
func (i instance) holder() *os.Process {
	lock, err := os.Stat(i.lockPath())
	if err != nil {
		lock = nil
	}
	for _, known := range i.recorded() {
		if proc := i.pin(known.PID, lock, &known); proc != nil {
			return proc
		}
	}
	// A process that was killed or stopped before anybody wrote down its pid.
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if proc := i.pin(pid, lock, nil); proc != nil {
			return proc
		}
	}
	return nil
}

// recorded lists the identities on disk, the process's own record first.
func (i instance) recorded() []handoff.Process {
	var out []handoff.Process
	if r := i.ready(); r != nil {
		out = append(out, r.Process)
	}
	if m, err := i.meta(); err == nil && m.Process != nil {
		out = append(out, *m.Process)
	}
	return out
}

// pin checks that a process is the instance's and opens it: it holds the lock of
// the instance's lock file, by the descriptor where our processes have it, and,
// if known is given, it started at that time of this boot. nil: it is not. A
// worker that merely has the file open does not hold the lock.
func (i instance) pin(pid int, lock os.FileInfo, known *handoff.Process) *os.Process {
	if !i.owns(pid, lock, known) {
		return nil
	}
	proc, err := os.FindProcess(pid) // by pidfd: from now on it can mean no other process
	if err != nil {
		return nil
	}
	if !i.owns(pid, lock, known) { // the pid may have changed hands before
		_ = proc.Release()
		return nil
	}
	return proc
}

func (i instance) owns(pid int, lock os.FileInfo, known *handoff.Process) bool {
	if known != nil {
		now, err := handoff.Identify(pid)
		if err != nil || now != *known {
			return false
		}
	}
	info, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", pid, handoff.LockFD))
	if err != nil || !bytes.Contains(info, []byte("OFDLCK")) {
		return false
	}
	fd := fmt.Sprintf("/proc/%d/fd/%d", pid, handoff.LockFD)
	if st, err := os.Stat(fd); err == nil && lock != nil && os.SameFile(st, lock) {
		return true
	}
	// Somebody removed the file under the process.
	target, err := os.Readlink(fd)
	return err == nil && target == i.lockPath()+" (deleted)"
}
