package hetznersim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Save writes the state file, atomically.
func (s *Sim) Save() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.save()
}

func (s *Sim) save() error {
	if s.opts.StateFile == "" {
		return nil
	}
	if s.opts.Clock != nil {
		s.st.Clock = s.opts.Clock.Now()
	}
	b, err := json.Marshal(s.st)
	if err != nil {
		return fmt.Errorf("writing the simulator's state: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(s.opts.StateFile), 0o700); err != nil {
		return fmt.Errorf("writing the simulator's state: %w", err)
	}
	tmp := s.opts.StateFile + ".new"
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return fmt.Errorf("writing the simulator's state: %w", err)
	}
	return os.Rename(tmp, s.opts.StateFile)
}

// load reads the state file; a missing one is an empty state.
func (s *Sim) load(path string) error {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the simulator's state: %w", err)
	}
	if err := json.Unmarshal(b, &s.st); err != nil {
		return fmt.Errorf("reading the simulator's state from %s: %w", path, err)
	}
	if s.opts.Clock != nil && s.st.Clock.After(s.opts.Clock.Now()) {
		if err := s.opts.Clock.Set(s.st.Clock); err != nil {
			return err
		}
	}
	for _, p := range s.st.Projects {
		p.running = map[int64]*action{}
		for id, a := range p.Actions {
			if a.Status == running {
				p.running[id] = a
			}
		}
	}
	return nil
}

// autosave is how long after a change the state is written, so that a burst of
// requests costs one write.
const autosave = 200 * time.Millisecond

// touched plans a write of the state file.
func (s *Sim) touched() {
	if s.opts.StateFile == "" || s.saving || s.closed {
		return
	}
	s.saving = true
	time.AfterFunc(autosave, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.saving = false
		if s.closed {
			return
		}
		if err := s.save(); err != nil {
			s.log.Error("simulator's state is not saved", "error", err)
		}
	})
}

// saveAndStop ends a simulator: with a state file its machines go on, without
// one nobody would know of them.
func (s *Sim) saveAndStop(ctx context.Context) error {
	if s.opts.StateFile == "" {
		s.stopAll()
		return ctx.Err()
	}
	return s.save()
}
