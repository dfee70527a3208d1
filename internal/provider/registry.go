package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Definition is one configured provider before it is built.
type Definition struct {
	// Type is the name of one of the registry's types.
	Type string
	// ConfigHash changes when anything that New reads changes, secrets included.
	ConfigHash string
	// Config is handed to the type's New; Config.Name is the registry's key.
	Config Config
}

// Entry is one configured provider as built, or why it could not be built.
type Entry struct {
	Name       string
	Type       string
	ConfigHash string
	Profile    Profile
	// Provider is the decorated provider; nil when Err is set.
	Provider Provider
	// Checker is the driver's own, without decorators; nil when it has none.
	Checker Checker
	// Err says why the provider could not be built. It is Permanent: the
	// configuration has to change.
	Err error
}

// Changes says what a Reload did, by name, each list sorted.
type Changes struct {
	Added, Rebuilt, Removed, Kept []string
	// Broken are those of the above, present now, that could not be built.
	Broken []string
}

// Decorator wraps a driver right after it was built, with its definition at
// hand for settings such as a request budget.
type Decorator func(def Definition, t Type, p Provider) Provider

// Registry holds the built providers by name. Its methods are safe for
// concurrent use; readers never wait for a Reload.
type Registry struct {
	types    map[string]Type
	decorate Decorator

	reload  sync.Mutex
	entries atomic.Pointer[map[string]Entry]
}

// NewRegistry returns an empty registry for the types. decorate may be nil. It
// panics when a type is listed twice, has no constructor or a profile that is
// not valid: that is a mistake in the program, not in its configuration.
func NewRegistry(types []Type, decorate Decorator) *Registry {
	r := &Registry{types: map[string]Type{}, decorate: decorate}
	for _, t := range types {
		if err := CheckType(t); err != nil {
			panic(err)
		}
		if _, dup := r.types[t.Name]; dup {
			panic(fmt.Errorf("provider type %q is listed twice", t.Name))
		}
		r.types[t.Name] = t
	}
	r.entries.Store(&map[string]Entry{})
	return r
}

// CheckType checks what a type says of itself.
func CheckType(t Type) error {
	if err := ValidateName("provider type", t.Name); err != nil {
		return err
	}
	if t.New == nil {
		return fmt.Errorf("provider type %q: New is nil", t.Name)
	}
	if t.Summary == "" {
		return fmt.Errorf("provider type %q: Summary is empty", t.Name)
	}
	if err := t.Profile.Validate(); err != nil {
		return fmt.Errorf("provider type %q: %w", t.Name, err)
	}
	return nil
}

// Types lists the names of the known types, sorted.
func (r *Registry) Types() []string { return sortedKeys(r.types) }

// Reload makes the registry hold exactly defs. A provider with the type and
// hash it had is kept as it is; one that could not be built is tried again. A
// provider that cannot be built is kept as an Entry with its error and takes
// nobody down. Calls already under way on a replaced provider finish on it.
//
// The error is for a list that contradicts itself (a bad or repeated name);
// then nothing is changed.
func (r *Registry) Reload(ctx context.Context, defs []Definition) (Changes, error) {
	r.reload.Lock()
	defer r.reload.Unlock()
	if err := checkDefinitions(defs); err != nil {
		return Changes{}, err
	}
	old, next := *r.entries.Load(), make(map[string]Entry, len(defs))
	var ch Changes
	for _, def := range defs {
		name := def.Config.Name
		was, had := old[name]
		if had && was.Err == nil && was.Type == def.Type && was.ConfigHash == def.ConfigHash {
			next[name] = was
			ch.Kept = append(ch.Kept, name)
			continue
		}
		e := r.build(ctx, def)
		next[name] = e
		if had {
			ch.Rebuilt = append(ch.Rebuilt, name)
		} else {
			ch.Added = append(ch.Added, name)
		}
		if e.Err != nil {
			ch.Broken = append(ch.Broken, name)
		}
	}
	for name := range old {
		if _, stays := next[name]; !stays {
			ch.Removed = append(ch.Removed, name)
		}
	}
	r.entries.Store(&next)
	for _, l := range []*[]string{&ch.Added, &ch.Rebuilt, &ch.Removed, &ch.Kept, &ch.Broken} {
		slices.Sort(*l)
	}
	return ch, nil
}

func checkDefinitions(defs []Definition) error {
	var errs []error
	seen := map[string]bool{}
	for i, def := range defs {
		name := def.Config.Name
		if err := ValidateName(fmt.Sprintf("providers[%d].name", i), name); err != nil {
			errs = append(errs, err)
		}
		if seen[name] {
			errs = append(errs, fmt.Errorf("providers[%d].name: %q is used twice: names are unique", i, name))
		}
		seen[name] = true
	}
	return errors.Join(errs...)
}

func (r *Registry) build(ctx context.Context, def Definition) Entry {
	e := Entry{Name: def.Config.Name, Type: def.Type, ConfigHash: def.ConfigHash}
	t, ok := r.types[def.Type]
	if !ok {
		e.Err = Wrap(Permanent, OpConfigure, e.Name, "",
			fmt.Errorf("type: %q is not a provider type: want one of %s", def.Type, strings.Join(r.Types(), ", ")))
		return e
	}
	e.Profile = t.Profile
	p, err := t.New(ctx, def.Config)
	if err == nil && p == nil {
		err = fmt.Errorf("type %q built nothing", def.Type)
	}
	if err != nil {
		e.Err = Wrap(Permanent, OpConfigure, e.Name, "", err)
		return e
	}
	e.Checker, _ = As[Checker](p)
	if r.decorate != nil {
		p = r.decorate(def, t, p)
	}
	e.Provider = p
	return e
}

// OpConfigure names the building of a provider in errors.
const OpConfigure Op = "configure"

// Get returns the provider of that name. ok is false when there is none or it
// could not be built; Lookup tells the two apart.
func (r *Registry) Get(name string) (p Provider, ok bool) {
	e, ok := (*r.entries.Load())[name]
	return e.Provider, ok && e.Provider != nil
}

// Lookup returns the entry of that name, built or not.
func (r *Registry) Lookup(name string) (Entry, bool) {
	e, ok := (*r.entries.Load())[name]
	return e, ok
}

// Resolve returns the provider of that name or a Permanent error that says what
// is wrong: an unknown name gets the known ones, a broken provider its reason.
func (r *Registry) Resolve(op Op, name string) (Provider, error) {
	e, ok := r.Lookup(name)
	switch {
	case !ok && len(r.Names()) == 0:
		return nil, Wrap(Permanent, op, name, "", fmt.Errorf("provider: %q is not configured: no provider is", name))
	case !ok:
		return nil, Wrap(Permanent, op, name, "",
			fmt.Errorf("provider: %q is not configured: want one of %s", name, strings.Join(r.Names(), ", ")))
	case e.Err != nil:
		return nil, Wrap(Permanent, op, name, "", fmt.Errorf("the provider is not usable: %w", e.Err))
	}
	return e.Provider, nil
}

// Names lists the configured providers, broken ones included, sorted.
func (r *Registry) Names() []string { return sortedKeys(*r.entries.Load()) }

// Entries lists the configured providers, broken ones included, by name.
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
