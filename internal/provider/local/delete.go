package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/local/handoff"
)

// killGrace is how long a process may take beyond its drain time before it is
// killed.
const killGrace = time.Second

// Delete ends the process and removes every file of the instance. It returns
// when nothing is left.
func (p *Provider) Delete(ctx context.Context, id provider.InstanceID) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return p.outcome(ctx, provider.OpDelete, string(id), p.delete(ctx, id))
}

func (p *Provider) delete(ctx context.Context, id provider.InstanceID) error {
	name, err := p.parse(provider.OpDelete, id)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	lock, err := p.lockName(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return p.checkRoot()
	}
	if err != nil {
		return err
	}
	defer lock.release()
	p.step("name locked for delete")
	return p.remove(ctx, p.instance(name))
}

// remove ends the process, if there is one, and removes the directory, if there
// is one; meta.json goes last. It can be cut off anywhere and called again.
// Callers hold the name's lock.
func (p *Provider) remove(ctx context.Context, i instance) error {
	if _, err := os.Lstat(i.dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// An unreadable meta.json does not keep an instance from being deleted.
	if m, err := i.meta(); err == nil && m.DeletingSince.IsZero() {
		m.DeletingSince = time.Now().UTC()
		if err := i.writeMeta(m); err != nil {
			return err
		}
	}
	p.step("marked deleting")
	lock, err := p.stop(ctx, i)
	if err != nil {
		return err
	}
	// While this is held no process of the instance can be alive.
	defer func() { _ = lock.Close() }()
	p.step("process ended")

	entries, err := os.ReadDir(i.dir)
	if err != nil {
		return err
	}
	last := map[string]bool{metaFile: true, handoff.LockFile: true}
	for _, e := range entries {
		if !last[e.Name()] {
			if err := os.RemoveAll(filepath.Join(i.dir, e.Name())); err != nil {
				return err
			}
			p.step("file removed")
		}
	}
	for _, name := range []string{metaFile, handoff.LockFile} {
		if err := os.Remove(filepath.Join(i.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		p.step("last files removed")
	}
	return os.Remove(i.dir)
}

// stop ends the instance's process and returns its lock. SIGTERM lets it drain;
// SIGCONT lets a stopped one hear that; SIGKILL follows.
func (p *Provider) stop(ctx context.Context, i instance) (_ *os.File, err error) {
	if err := p.endStray(ctx, i); err != nil {
		return nil, err
	}
	lock, err := openProcessLock(i.lockPath())
	if lock != nil || err != nil {
		return lock, err
	}
	_, end := startSpan(ctx, "local.stop")
	defer func() { end(err) }()
	drain := p.opt.drain
	if c, err := handoff.ReadConfig(i.dir); err == nil {
		drain = c.Drain
	}
	killAt := time.Now().Add(drain + killGrace)
	asked := map[int]bool{}
	var wait backoff
	for {
		// Nobody found is possible: a process takes a moment to be recognised.
		before := len(asked)
		pid := i.signalHolder(asked, time.Now().After(killAt))
		if len(asked) > before {
			p.step("process asked to end")
		}
		lock, err := openProcessLock(i.lockPath())
		if lock != nil || err != nil {
			return lock, err
		}
		if werr := wait.sleep(ctx); werr != nil {
			if pid == 0 {
				return nil, fmt.Errorf("%s is locked by a process that this user cannot see: %w", i.lockPath(), werr)
			}
			return nil, fmt.Errorf("process %d did not end: %w", pid, werr)
		}
	}
}

// signalHolder asks the process that holds the lock to end, once, or kills it.
// It returns its pid, 0 if there is none to be seen.
func (i instance) signalHolder(asked map[int]bool, kill bool) (pid int) {
	proc := i.holder()
	if proc == nil {
		return 0
	}
	defer func() { _ = proc.Release() }()
	pid = proc.Pid
	switch {
	case kill:
		_ = proc.Kill()
	case !asked[pid]:
		asked[pid] = true
		_ = proc.Signal(syscall.SIGTERM)
		_ = proc.Signal(syscall.SIGCONT)
	}
	return pid
}

// endStray kills a process whose lock file somebody has removed. It would end
// by itself soon, but not before its directory has gone.
func (p *Provider) endStray(ctx context.Context, i instance) error {
	var wait backoff
	for {
		if _, err := os.Lstat(i.lockPath()); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		proc := i.holder()
		if proc == nil {
			return nil
		}
		_ = proc.Kill()
		_ = proc.Release()
		if err := wait.sleep(ctx); err != nil {
			return err
		}
	}
}

// sweep removes what cut-off calls have left of names that nobody asks for any
// more: directories without a meta.json, and locks. A name that somebody is at
// work on is left alone.
func (p *Provider) sweep(ctx context.Context) {
	last := p.lastSweep.Load()
	now := time.Now()
	if now.Sub(time.Unix(0, last)) < sweepInterval || !p.lastSweep.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	names := map[string]bool{}
	for _, e := range readNames(p.locksDir()) {
		if name, ok := strings.CutSuffix(e, ".lock"); ok {
			names[name] = true
		}
	}
	for _, name := range readNames(p.instancesDir()) {
		if ok, err := p.instance(name).exists(); err == nil && !ok {
			names[name] = true
		}
	}
	for name := range names {
		if provider.ValidateName("name", name) != nil {
			continue
		}
		if err := p.sweepName(ctx, p.instance(name)); err != nil {
			p.log.WarnContext(ctx, "rests of a cut-off call could not be removed", "instance", name, "error", err.Error())
		}
	}
}

func (p *Provider) sweepName(ctx context.Context, i instance) error {
	lock, err := tryAcquire(filepath.Join(p.locksDir(), i.name+".lock"), true)
	if lock == nil || err != nil {
		return err
	}
	defer lock.release()
	if ok, err := i.exists(); ok || err != nil {
		return err
	}
	return p.remove(ctx, i)
}

// readNames lists a directory; what cannot be read is left for another time.
func readNames(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	names := make([]string, len(entries))
	for n, e := range entries {
		names[n] = e.Name()
	}
	return names
}
