package source

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

// OpConfigure names the building of a source in errors.
const OpConfigure provider.Op = "configure"

// Definition is one configured source before it is built.
type Definition struct {
	// Type is the name of one of the registry's types.
	Type string
	// ConfigHash changes when anything that New reads changes, secrets included.
	ConfigHash string
	// Config is handed to the type's New; Config.Name is the registry's key.
	Config Config
}

// Entry is one configured source as built, or why it could not be built.
type Entry struct {
	Name       string
	Type       Type
	Account    string
	ConfigHash string
	// Streams are those of the source, in the type's order; empty when Err is set.
	Streams []Stream
	// Err is Permanent: the configuration has to change.
	Err error
}

// Stream returns the stream of that name.
func (e Entry) Stream(name string) (Source, bool) {
	for _, s := range e.Streams {
		if s.Name == name {
			return s.Source, true
		}
	}
	return nil, false
}

// Registry holds the built sources by name. Its methods are safe for concurrent
// use; readers never wait for a Reload.
type Registry struct {
	types map[string]Type

	reload  sync.Mutex
	entries atomic.Pointer[map[string]Entry]
}

// NewRegistry returns an empty registry for the types. It panics when a type is
// listed twice or is not valid: that is a mistake in the program.
func NewRegistry(types []Type) *Registry {
	r := &Registry{types: map[string]Type{}}
	for _, t := range types {
		if err := CheckType(t); err != nil {
			panic(err)
		}
		if _, dup := r.types[t.Name]; dup {
			panic(fmt.Errorf("source type %q is listed twice", t.Name))
		}
		r.types[t.Name] = t
	}
	r.entries.Store(&map[string]Entry{})
	return r
}

// Types lists the names of the known types, sorted.
func (r *Registry) Types() []string { return sortedKeys(r.types) }

// Reload makes the registry hold exactly defs. A source with the type and hash
// that it had is kept as it is; one that could not be built is tried again, and
// takes nobody down. The error is for a list that contradicts itself; then
// nothing is changed.
func (r *Registry) Reload(ctx context.Context, defs []Definition) error {
	r.reload.Lock()
	defer r.reload.Unlock()
	old, next := *r.entries.Load(), make(map[string]Entry, len(defs))
	var errs []error
	for i, def := range defs {
		name := def.Config.Name
		if err := provider.ValidateName(fmt.Sprintf("sources[%d].name", i), name); err != nil {
			errs = append(errs, err)
		}
		if _, dup := next[name]; dup {
			errs = append(errs, fmt.Errorf("sources[%d].name: %q is used twice: names are unique", i, name))
		}
		if was, had := old[name]; had && was.Err == nil && was.Type.Name == def.Type && was.ConfigHash == def.ConfigHash {
			next[name] = was
			continue
		}
		next[name] = r.build(ctx, def)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	r.entries.Store(&next)
	return nil
}

var streamName = regexp.MustCompile(`^[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?$`)

func (r *Registry) build(ctx context.Context, def Definition) Entry {
	t, ok := r.types[def.Type]
	e := Entry{Name: def.Config.Name, Type: t, Account: def.Config.Account, ConfigHash: def.ConfigHash}
	fail := func(err error) Entry {
		e.Streams, e.Err = nil, provider.Wrap(provider.Permanent, OpConfigure, e.Name, "", err)
		return e
	}
	if !ok {
		e.Type.Name = def.Type
		return fail(fmt.Errorf("type: %q is not a source type: want one of %s", def.Type, strings.Join(r.Types(), ", ")))
	}
	streams, err := t.New(ctx, def.Config)
	switch {
	case err != nil:
		return fail(err)
	case len(streams) == 0:
		return fail(fmt.Errorf("type %q built nothing", def.Type))
	}
	e.Streams = streams
	for i, s := range streams {
		switch {
		case !streamName.MatchString(s.Name):
			return fail(fmt.Errorf("type %q: stream %q is no name: use lower-case letters, digits, '-' and '_'", def.Type, s.Name))
		case s.Source == nil, slices.ContainsFunc(streams[:i], func(o Stream) bool { return o.Name == s.Name }):
			return fail(fmt.Errorf("type %q: stream %q is empty or there twice", def.Type, s.Name))
		}
	}
	return e
}

// Lookup returns the entry of that name, built or not.
func (r *Registry) Lookup(name string) (Entry, bool) {
	e, ok := (*r.entries.Load())[name]
	return e, ok
}

// Entries lists the configured sources, broken ones included, by name.
func (r *Registry) Entries() []Entry {
	m := *r.entries.Load()
	out := make([]Entry, 0, len(m))
	for _, name := range sortedKeys(m) {
		out = append(out, m[name])
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
