package codec

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// defaultCheckEvery is how long a change of the file may go unseen while all
	// keys asked for are known. An unknown key id looks at once.
	defaultCheckEvery = time.Second
	maxFileSize       = 1 << 20
)

// KeyFile is an open key file. It follows changes of the file, and keeps the
// last good content when a change is unreadable. It is safe for concurrent use.
type KeyFile struct {
	path       string
	logger     *slog.Logger
	checkEvery time.Duration

	state   atomic.Pointer[keyState]
	checked atomic.Int64 // unix nanoseconds of the last look at the file
	mu      sync.Mutex   // one reload at a time
}

// keyState is a content of the file and what the file looked like then.
type keyState struct {
	ring *keyring
	seen os.FileInfo
}

// Open opens an existing key file:
//
//	{"current": "k1", "keys": {"k1": "<32 bytes as base64>"}}
//
// It refuses a file that others than its owner can read. A file of root may be
// readable by its group, as mounted secrets are.
func Open(path string, logger *slog.Logger) (*KeyFile, error) {
	f := &KeyFile{path: path, logger: logger, checkEvery: defaultCheckEvery}
	if f.logger == nil {
		f.logger = slog.New(slog.DiscardHandler)
	}
	ring, seen, err := readKeyFile(path)
	if err != nil {
		return nil, err
	}
	f.state.Store(&keyState{ring, seen})
	f.checked.Store(time.Now().UnixNano())
	return f, nil
}

// OpenOrCreate opens a key file and makes it first, with one new key and mode
// 0600, when there is none. Of several processes that start at once one makes
// it and all use it.
func OpenOrCreate(path string, logger *slog.Logger) (*KeyFile, error) {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		if _, err := Create(path); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, err
		}
	}
	return Open(path, logger)
}

// Path returns the path of the file.
func (f *KeyFile) Path() string { return f.path }

// KeyInfo is what may be shown of a key file.
type KeyInfo struct {
	Current string   `json:"current"` // key id that seals
	IDs     []string `json:"ids"`     // key ids that open, sorted
}

// Info returns the key ids, as of the last look at the file.
func (f *KeyFile) Info() KeyInfo {
	r := f.ring()
	return KeyInfo{Current: r.currentID, IDs: r.ids()}
}

func (f *KeyFile) current() key {
	r := f.ring()
	return r.keys[r.currentID]
}

func (f *KeyFile) lookup(id string) (key, error) {
	if k, ok := f.ring().keys[id]; ok {
		return k, nil
	}
	r := f.reload()
	if k, ok := r.keys[id]; ok {
		return k, nil
	}
	return key{}, &UnknownKeyError{ID: id, File: f.path, Held: r.ids()}
}

// ring returns the content, after a look at the file when one is due.
func (f *KeyFile) ring() *keyring {
	if time.Now().UnixNano()-f.checked.Load() < int64(f.checkEvery) {
		return f.state.Load().ring
	}
	return f.reload()
}

// reload looks at the file and reads it when it changed.
func (f *KeyFile) reload() *keyring {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.checked.Store(time.Now().UnixNano())
	old := f.state.Load()
	seen, err := os.Stat(f.path)
	if err == nil && sameContent(old.seen, seen) {
		return old.ring
	}
	if err != nil {
		if old.seen != nil {
			f.logger.Error("key file unreadable, keeping the keys in use", "file", f.path, "error", err)
			f.state.Store(&keyState{old.ring, nil}) // said once
		}
		return old.ring
	}
	ring, read, err := readKeyFile(f.path)
	if err != nil {
		f.logger.Error("key file unreadable, keeping the keys in use", "file", f.path, "error", err)
		f.state.Store(&keyState{old.ring, seen}) // said once per change
		return old.ring
	}
	f.logger.Info("key file read", "file", f.path, "current", ring.currentID, "keys", len(ring.keys))
	f.state.Store(&keyState{ring, read})
	return ring
}

func sameContent(a, b os.FileInfo) bool {
	return a != nil && os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size() && a.Mode() == b.Mode()
}

func readKeyFile(path string) (*keyring, os.FileInfo, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("key file: %w", err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, nil, fmt.Errorf("key file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("key file %s: is not a regular file", path)
	}
	if err := checkAccess(info); err != nil {
		return nil, nil, fmt.Errorf("key file %s: %w", path, err)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFileSize+1))
	if err != nil {
		return nil, nil, fmt.Errorf("key file %s: %w", path, err)
	}
	if len(data) > maxFileSize {
		return nil, nil, fmt.Errorf("key file %s: is larger than %d bytes", path, maxFileSize)
	}
	ring, err := parseKeyring(data)
	if err != nil {
		return nil, nil, fmt.Errorf("key file %s: %w", path, err)
	}
	return ring, info, nil
}

// accessRule is checkAccess without the operating system: owner and self are
// user ids.
func accessRule(mode os.FileMode, owner, self int) error {
	perm := mode.Perm()
	if perm&0o077 == 0 || owner == 0 && self != 0 && perm&0o037 == 0 {
		return nil
	}
	return fmt.Errorf("mode %04o lets others than its owner at the keys: run chmod 600", perm)
}

// writeKeyFile replaces the file in one step: a reader sees the old content or
// the new.
func writeKeyFile(path string, ring *keyring) error {
	data, err := ring.format()
	if err != nil {
		return fmt.Errorf("key file %s: %w", path, err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return fmt.Errorf("key file %s: %w", path, err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // gone after the rename
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("key file %s: %w", path, err)
	}
	syncDir(filepath.Dir(path))
	return nil
}

// syncDir makes a rename survive a power cut, where directories can be synced.
func syncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}
