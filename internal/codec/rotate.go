package codec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The operations below change a key file in one step each and may run while
// workers use it: they follow the change within a second. Where several
// machines have copies of the file, Add the key, distribute the file to all,
// and only then Activate it and distribute again; Rotate does both at once.

// Create makes a key file with one new key and mode 0600, and its directory if
// need be. The error matches os.ErrExist when there is one already.
func Create(path string) (id string, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("key file %s: %w", path, err)
	}
	err = locked(path, func() error {
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("key file %s: %w", path, os.ErrExist)
		} else if !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("key file: %w", err)
		}
		ring := &keyring{keys: map[string]key{}}
		id = ring.add(time.Now())
		ring.currentID = id
		return writeKeyFile(path, ring)
	})
	return id, err
}

// Add adds a new key that opens and does not seal yet.
func Add(path string) (id string, err error) {
	err = change(path, func(r *keyring) error {
		id = r.add(time.Now())
		return nil
	})
	return id, err
}

// Activate makes a key of the file the one that seals.
func Activate(path, id string) error {
	return change(path, func(r *keyring) error {
		if err := r.mustHold(id); err != nil {
			return err
		}
		r.currentID = id
		return nil
	})
}

// Rotate adds a new key and makes it the one that seals. The others go on
// opening.
func Rotate(path string) (id string, err error) {
	err = change(path, func(r *keyring) error {
		id = r.add(time.Now())
		r.currentID = id
		return nil
	})
	return id, err
}

// Retire removes a key that does not seal. What it sealed can never be opened
// again: retire a key when no history sealed with it is kept any more.
func Retire(path, id string) error {
	return change(path, func(r *keyring) error {
		if err := r.mustHold(id); err != nil {
			return err
		}
		if id == r.currentID {
			return fmt.Errorf("key %q is the current one: rotate first", id)
		}
		delete(r.keys, id)
		return nil
	})
}

func (r *keyring) mustHold(id string) error {
	if _, ok := r.keys[id]; !ok {
		return fmt.Errorf("key %q is not in the file: it holds %s", id, strings.Join(r.ids(), ", "))
	}
	return nil
}

func change(path string, edit func(*keyring) error) error {
	// A link stays a link: the file behind it is replaced.
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("key file: %w", err)
	}
	return locked(path, func() error {
		ring, _, err := readKeyFile(path)
		if err != nil {
			return err
		}
		if err := edit(ring); err != nil {
			return fmt.Errorf("key file %s: %w", path, err)
		}
		return writeKeyFile(path, ring)
	})
}
