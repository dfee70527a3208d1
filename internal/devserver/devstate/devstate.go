// Package devstate keeps what tollgate-dev needs to continue where it was: one
// directory, private to its user, used by one process at a time. What is missing
// is generated at the first start and never changed afterwards.
package devstate

import (
	"crypto/rand"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Names in the directory.
const (
	lockName         = "lock"
	installationName = "installation"
	tokenName        = "token"
	configName       = "tollgate.yaml"
	logName          = "tollgate.log"
	// ReportingTokenName is the file with the bearer token of the Reporting API.
	ReportingTokenName = "reporting-token"
)

const (
	maxLogSize = 8 << 20
	tokenBytes = 24
)

//go:embed tollgate.yaml
var configTemplate string

// InUseError says that another process works in the directory.
type InUseError struct {
	Dir string
	// PID is the process that does, 0 when it is unknown.
	PID int
}

func (e *InUseError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("state directory %s is in use by another tollgate-dev", e.Dir)
	}
	return fmt.Sprintf("state directory %s is in use by another tollgate-dev, process %d", e.Dir, e.PID)
}

// State is an open state directory.
type State struct {
	// Dir is the absolute path of the directory.
	Dir string
	// Installation is the id of this installation, fixed at the first start.
	Installation string
	// Fresh is true at the first start.
	Fresh bool

	lock *os.File
}

// Open makes the directory if it is missing, locks it and generates what it
// lacks. The error is an *InUseError when another process has it open. The
// caller closes the state; a killed process's lock is gone with it.
func Open(dir string) (_ *State, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	s := &State{Dir: dir}
	if s.lock, err = acquire(dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	s.Installation, s.Fresh, err = s.generated(installationName, func() string { return "dev-" + hex.EncodeToString(random(6)) })
	if err != nil {
		return nil, err
	}
	for _, name := range []string{tokenName, ReportingTokenName} {
		if _, _, err = s.generated(name, func() string { return base64.RawURLEncoding.EncodeToString(random(tokenBytes)) }); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Close lets go of the directory.
func (s *State) Close() { _ = s.lock.Close() }

// Path is a file of the directory.
func (s *State) Path(name string) string { return filepath.Join(s.Dir, name) }

// TokenFile is the file with the bearer token of the discovery API and the
// codec.
func (s *State) TokenFile() string { return s.Path(tokenName) }

// Token reads the bearer token.
func (s *State) Token() (string, error) { return readToken(s.TokenFile()) }

// ReportingTokenFile is the file with the bearer token of the Reporting API.
func (s *State) ReportingTokenFile() string { return s.Path(ReportingTokenName) }

// ReportingToken reads the bearer token of the Reporting API.
func (s *State) ReportingToken() (string, error) { return readToken(s.ReportingTokenFile()) }

func readToken(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// ConfigFile is the configuration that EnsureConfig writes.
func (s *State) ConfigFile() string { return s.Path(configName) }

// EnsureConfig writes the default configuration unless there is one. It is for
// its user to edit from then on. probeTarget is called for the host:port of the
// probe target when the file is written.
func (s *State) EnsureConfig(probeTarget func() (string, error)) (path string, err error) {
	path = s.ConfigFile()
	switch _, err := os.Stat(path); {
	case err == nil:
		return path, nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("configuration: %w", err)
	}
	target, err := probeTarget()
	if err != nil {
		return "", err
	}
	text := strings.NewReplacer("INSTALLATION", s.Installation, "PROBE_TARGET", target).Replace(configTemplate)
	if err := Write(path, text); err != nil {
		return "", fmt.Errorf("configuration: %w", err)
	}
	return path, nil
}

// OpenLog opens the log of this process for appending, after moving a large one
// away.
func (s *State) OpenLog() (*os.File, error) {
	path := s.Path(logName)
	if info, err := os.Stat(path); err == nil && info.Size() >= maxLogSize {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, fmt.Errorf("log: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	return f, nil
}

// generated returns the content of a file, making it first when it is missing.
func (s *State) generated(name string, generate func() string) (value string, fresh bool, err error) {
	path := s.Path(name)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		value = generate()
		if err := Write(path, value+"\n"); err != nil {
			return "", false, fmt.Errorf("%s: %w", name, err)
		}
		return value, true, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("%s: %w", name, err)
	}
	if value = strings.TrimSpace(string(b)); value == "" {
		return "", false, fmt.Errorf("%s: the file is empty; remove it to get a new one", path)
	}
	return value, false, nil
}

// Write makes a file of this user in one step: a reader sees all of it or
// nothing, a killed process leaves no half of it.
func Write(path, content string) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // without effect after the rename
	if _, err := f.WriteString(content); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Sync(); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// acquire locks the directory and leaves the process id for who comes second.
func acquire(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		inUse := &InUseError{Dir: dir}
		_, _ = fmt.Fscan(f, &inUse.PID) // stays 0 while the other one writes it
		_ = f.Close()
		return nil, inUse
	}
	if err == nil {
		if err = f.Truncate(0); err == nil {
			_, err = fmt.Fprintln(f, os.Getpid())
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("state directory: lock: %w", err)
	}
	return f, nil
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails: it ends the program instead
	return b
}
