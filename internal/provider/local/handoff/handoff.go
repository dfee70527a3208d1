// Package handoff is what a worker and the proxy process it starts agree on:
// inherited descriptors, file names in the instance's directory, and the format
// of the files. A process outlives many workers, so formats are only ever added
// to.
package handoff

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Descriptors that the process inherits. They are fixed, so that whoever looks
// for the process of an instance has one descriptor to compare.
const (
	// LockFD is the open LockFile with its lock held. The lock belongs to the
	// open file, not to a process: it is held without a gap from the worker's
	// fork until the end of the process.
	LockFD = 3
	// ListenerFD is the bound and listening TCP socket.
	ListenerFD = 4
	// AddressFD is the socket that reserves the address on this machine.
	AddressFD = 5
)

// Names of files in an instance's directory.
const (
	LockFile   = "process.lock"
	ConfigFile = "proxy.json"
	ReadyFile  = "ready.json"
	LogFile    = "proxy.log"
)

// Config is what the process is told through ConfigFile.
type Config struct {
	// Credentials are what clients must show; nil lets everybody in.
	Credentials *Credentials `json:"credentials,omitempty"`
	// AllowPorts are the target ports that clients may reach; empty is all.
	AllowPorts []int `json:"allowPorts,omitempty"`
	// IdleTimeout ends a tunnel without traffic.
	IdleTimeout time.Duration `json:"idleTimeoutNanos,omitempty"`
	// Drain is how long open connections may finish after SIGTERM.
	Drain time.Duration `json:"drainNanos,omitempty"`
}

// ReadConfig reads ConfigFile from the instance's directory.
func ReadConfig(dir string) (Config, error) {
	var c Config
	b, err := os.ReadFile(filepath.Join(dir, ConfigFile))
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return c, fmt.Errorf("%s: %w", ConfigFile, err)
	}
	return c, nil
}

// Credentials recognise a user name and password without holding them.
type Credentials struct {
	Salt   []byte `json:"salt"`
	Digest []byte `json:"digest"`
}

// NewCredentials digests a user name and a password under a fresh salt.
func NewCredentials(user string, password []byte) *Credentials {
	c := &Credentials{Salt: make([]byte, 16)}
	_, _ = rand.Read(c.Salt) // never fails: it ends the program instead
	c.Digest = c.digest(user, password)
	return c
}

// Match reports whether these are the credentials. Its time does not depend on
// how much of them is right.
func (c *Credentials) Match(user string, password []byte) bool {
	return hmac.Equal(c.Digest, c.digest(user, password))
}

func (c *Credentials) digest(user string, password []byte) []byte {
	m := hmac.New(sha256.New, c.Salt)
	fmt.Fprintf(m, "%d:%s:", len(user), user)
	m.Write(password)
	return m.Sum(nil)
}

// Process identifies a process for as long as the machine is up, pid reuse
// included, and across reboots.
type Process struct {
	PID int `json:"pid"`
	// StartTime is in clock ticks since boot, field 22 of /proc/<pid>/stat.
	StartTime uint64 `json:"startTime"`
	BootID    string `json:"bootID"`
}

// Ready is what the process writes to ReadyFile once it accepts connections.
type Ready struct {
	Process Process   `json:"process"`
	Address string    `json:"address"`
	At      time.Time `json:"at"`
}

// WriteFile replaces dir/name atomically with data, readable by the owner only.
// With sync the content is on the disk before the name is.
func WriteFile(dir, name string, data []byte, sync bool) error {
	tmp := filepath.Join(dir, "."+name+".new")
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && sync {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(dir, name))
}

// WriteJSON is WriteFile with v encoded as JSON.
func WriteJSON(dir, name string, v any, sync bool) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return WriteFile(dir, name, append(b, '\n'), sync)
}
