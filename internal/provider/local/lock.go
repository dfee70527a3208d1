package local

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// fileLock is an exclusive lock among goroutines and processes. The kernel
// releases it when its holder dies.
type fileLock struct {
	f *os.File
	// remove: the file goes with the lock, so that names leave nothing behind.
	remove bool
}

// lockName locks all that changes the instance of a name. The error matches
// fs.ErrNotExist when the directory of locks does not exist, so that there can
// be no instance either.
func (p *Provider) lockName(ctx context.Context, name string) (*fileLock, error) {
	return acquire(ctx, filepath.Join(p.locksDir(), name+".lock"), true)
}

// lockAddresses locks the choice of addresses and the count of instances.
func (p *Provider) lockAddresses(ctx context.Context) (*fileLock, error) {
	return acquire(ctx, filepath.Join(p.opt.dir, "allocate.lock"), false)
}

// acquire waits for the lock until ctx ends.
func acquire(ctx context.Context, path string, remove bool) (*fileLock, error) {
	var wait backoff
	for {
		l, err := tryAcquire(path, remove)
		if l != nil || err != nil {
			return l, err
		}
		if err := wait.sleep(ctx); err != nil {
			return nil, err
		}
	}
}

// tryAcquire returns nil without an error when somebody else has the lock.
func tryAcquire(path string, remove bool) (*fileLock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	ok, err := flock(f)
	if !ok {
		return nil, errors.Join(err, f.Close())
	}
	// The holder before may have removed the file: then this lock is on nothing.
	mine, err := f.Stat()
	if err == nil {
		var current os.FileInfo
		if current, err = os.Stat(path); err == nil && os.SameFile(mine, current) {
			return &fileLock{f: f, remove: remove}, nil
		}
	}
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return nil, errors.Join(err, f.Close())
}

func (l *fileLock) release() {
	if l.remove {
		_ = os.Remove(l.f.Name())
	}
	_ = l.f.Close()
}

// backoff spaces the looks of a wait for something that tells nobody.
type backoff struct{ last time.Duration }

// sleep waits 1 ms at first and up to 30 ms later, or returns ctx's error.
func (b *backoff) sleep(ctx context.Context) error {
	b.last = min(max(2*b.last, time.Millisecond), 30*time.Millisecond)
	t := time.NewTimer(b.last/2 + rand.N(b.last/2+1))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
