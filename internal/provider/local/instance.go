package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/local/handoff"
)

const (
	metaFile     = "meta.json"
	userDataFile = "user-data"
	metaVersion  = 1
)

// Words for the state of an instance, for people.
const (
	rawNotStarted = "not started"
	rawStarting   = "starting"
	rawListening  = "listening"
	rawExited     = "exited"
	rawDeleting   = "deleting"
)

// meta is meta.json: what makes a directory an instance.
type meta struct {
	Version int    `json:"version"`
	Name    string `json:"name"`
	// Labels are the marks, as at any other backend.
	Labels    map[string]string  `json:"labels"`
	CreatedAt time.Time          `json:"createdAt"`
	Placement provider.Placement `json:"placement,omitzero"`
	Address   netip.Addr         `json:"address"`
	Port      int                `json:"port"`
	// Process is the process that a create started, once it has written that
	// down. Without it the process may still be there.
	Process *handoff.Process `json:"process,omitempty"`
	// DeletingSince is set when a delete has begun.
	DeletingSince time.Time `json:"deletingSince,omitzero"`
}

// instance is the directory of one instance, which may not exist.
type instance struct {
	name string
	dir  string
}

func (p *Provider) instance(name string) instance {
	return instance{name: name, dir: filepath.Join(p.instancesDir(), name)}
}

func (i instance) id() provider.InstanceID { return instanceID(i.name) }
func (i instance) lockPath() string        { return filepath.Join(i.dir, handoff.LockFile) }

// meta reads meta.json. The error matches fs.ErrNotExist when there is no such
// instance.
func (i instance) meta() (meta, error) {
	var m meta
	b, err := os.ReadFile(filepath.Join(i.dir, metaFile))
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("%s: %w", filepath.Join(i.dir, metaFile), err)
	}
	if m.Version != metaVersion {
		return m, fmt.Errorf("%s: version %d was written by another Tollgate: want %d",
			filepath.Join(i.dir, metaFile), m.Version, metaVersion)
	}
	return m, nil
}

func (i instance) writeMeta(m meta) error { return handoff.WriteJSON(i.dir, metaFile, m, true) }

// exists reports whether meta.json is there, readable or not.
func (i instance) exists() (bool, error) {
	_, err := os.Lstat(filepath.Join(i.dir, metaFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// ready reads what the process wrote when it began to listen; nil while there
// is nothing whole to read.
func (i instance) ready() *handoff.Ready {
	b, err := os.ReadFile(filepath.Join(i.dir, handoff.ReadyFile))
	if err != nil {
		return nil
	}
	var r handoff.Ready
	if json.Unmarshal(b, &r) != nil {
		return nil
	}
	return &r
}

// observe reads the instance as it is now, without waiting for anybody. The
// order matters: the lock is asked after the records, so that "there was a
// process" and "there is none" cannot be a process that started in between.
func (i instance) observe() (provider.Instance, meta, error) {
	m, err := i.meta()
	if err != nil {
		return provider.Instance{}, m, err
	}
	ready := i.ready()
	alive, err := lockHeld(i.lockPath())
	if err != nil {
		return provider.Instance{}, m, err
	}
	// A delete may have removed the files one after the other meanwhile.
	if ok, err := i.exists(); err != nil {
		return provider.Instance{}, m, err
	} else if !ok {
		return provider.Instance{}, m, fs.ErrNotExist
	}
	marks, managed := provider.MarksFromLabels(m.Labels)
	if !managed {
		marks = provider.Marks{}
	}
	in := provider.Instance{
		ID: i.id(), Name: i.name, IP: m.Address, Marks: marks,
		CreatedAt: m.CreatedAt.UTC(), Placement: m.Placement,
	}
	in.State, in.RawState = state(m, ready, alive)
	return in, m, nil
}

// state derives the state of an instance from its records and from whether its
// process lives.
func state(m meta, ready *handoff.Ready, alive bool) (provider.State, string) {
	switch {
	case !m.DeletingSince.IsZero():
		return provider.StateTerminated, rawDeleting
	case alive && ready != nil:
		return provider.StateRunning, rawListening
	case alive:
		return provider.StateProvisioning, rawStarting
	case ready != nil || m.Process != nil:
		return provider.StateStopped, rawExited
	default:
		// The create was cut off before the fork, or is about to fork. A repeat of
		// it starts the process.
		return provider.StateProvisioning, rawNotStarted
	}
}

const idPrefix = Region + "/"

func instanceID(name string) provider.InstanceID { return provider.InstanceID(idPrefix + name) }

// parseID is the inverse of instanceID. Names are DNS labels, so that an id can
// name no path outside the directory.
func parseID(id provider.InstanceID) (string, error) {
	name, ok := strings.CutPrefix(string(id), idPrefix)
	if !ok || provider.ValidateName("id", name) != nil {
		return "", fmt.Errorf("instance id %q: want %s<name>", id, idPrefix)
	}
	return name, nil
}
