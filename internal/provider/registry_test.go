package provider_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/memory"
)

// typeNamed is a type over the in-memory driver that counts what it builds and
// fails for the name "broken" as long as failing is set.
type typeNamed struct {
	name    string
	mu      sync.Mutex
	built   map[string]int
	failing bool
}

func (n *typeNamed) typ() provider.Type {
	b := memory.NewBackend(memory.Options{})
	return provider.Type{
		Name: n.name, Summary: "for tests", Profile: memory.Profile(),
		New: func(ctx context.Context, cfg provider.Config) (provider.Provider, error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			if n.built == nil {
				n.built = map[string]int{}
			}
			n.built[cfg.Name]++
			if cfg.Name == "broken" && n.failing {
				return nil, errors.New("token: is missing")
			}
			return memory.New(ctx, b, cfg)
		},
	}
}

func define(typ, name, hash string) provider.Definition {
	return provider.Definition{Type: typ, ConfigHash: hash, Config: provider.Config{Name: name, Installation: "acme"}}
}

func reload(t *testing.T, r *provider.Registry, defs ...provider.Definition) provider.Changes {
	t.Helper()
	ch, err := r.Reload(t.Context(), defs)
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

func TestRegistryReload(t *testing.T) {
	t.Parallel()
	n := &typeNamed{name: "mem", failing: true}
	r := provider.NewRegistry([]provider.Type{n.typ()}, nil)
	if names := r.Names(); len(names) != 0 {
		t.Errorf("an empty registry names %v", names)
	}

	ch := reload(t, r, define("mem", "b", "1"), define("mem", "a", "1"), define("mem", "broken", "1"))
	if diff := cmp.Diff(ch, provider.Changes{Added: []string{"a", "b", "broken"}, Broken: []string{"broken"}}); diff != "" {
		t.Errorf("first load (-got +want):\n%s", diff)
	}
	if diff := cmp.Diff(r.Names(), []string{"a", "b", "broken"}); diff != "" {
		t.Errorf("names (-got +want):\n%s", diff)
	}
	a, ok := r.Get("a")
	if !ok {
		t.Fatal("provider a is missing")
	}

	// One unchanged, one changed, one gone, one new, and the broken one is tried
	// again although nothing about it changed.
	n.failing = false
	ch = reload(t, r, define("mem", "a", "1"), define("mem", "c", "1"), define("mem", "broken", "1"))
	if diff := cmp.Diff(ch, provider.Changes{Added: []string{"c"}, Kept: []string{"a"}, Rebuilt: []string{"broken"}, Removed: []string{"b"}}); diff != "" {
		t.Errorf("second load (-got +want):\n%s", diff)
	}
	if again, _ := r.Get("a"); again != a {
		t.Error("the unchanged provider was built again")
	}
	if _, ok := r.Get("b"); ok {
		t.Error("the removed provider is still there")
	}
	ch = reload(t, r, define("mem", "a", "2"), define("mem", "c", "1"), define("mem", "broken", "1"))
	if diff := cmp.Diff(ch, provider.Changes{Rebuilt: []string{"a"}, Kept: []string{"broken", "c"}}); diff != "" {
		t.Errorf("third load (-got +want):\n%s", diff)
	}
	if again, _ := r.Get("a"); again == a {
		t.Error("the changed provider was kept")
	}
	if diff := cmp.Diff(n.built, map[string]int{"a": 2, "b": 1, "c": 1, "broken": 2}); diff != "" {
		t.Errorf("builds (-got +want):\n%s", diff)
	}
	if e, ok := r.Lookup("a"); !ok || e.Name != "a" || e.Type != "mem" || e.ConfigHash != "2" || e.Profile != memory.Profile() || e.Checker == nil || e.Err != nil {
		t.Errorf("entry a: %+v", e)
	}
}

// One provider that cannot be built takes nobody down, and says what is wrong.
func TestRegistryKeepsBrokenProviders(t *testing.T) {
	t.Parallel()
	n, other := &typeNamed{name: "mem", failing: true}, &typeNamed{name: "other"}
	r := provider.NewRegistry([]provider.Type{n.typ(), other.typ()}, nil)
	reload(t, r, define("mem", "broken", "1"), define("nimbus", "stray", "1"), define("mem", "fine", "1"))
	if _, err := r.Resolve(provider.OpGet, "fine"); err != nil {
		t.Errorf("the good provider: %v", err)
	}
	for name, want := range map[string]string{
		"broken":  "token: is missing",
		"stray":   `type: "nimbus" is not a provider type: want one of mem, other`,
		"unknown": `"unknown" is not configured: want one of broken, fine, stray`,
	} {
		_, err := r.Resolve(provider.OpGet, name)
		if provider.ClassOf(err) != provider.Permanent || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("resolve %s: %v, want Permanent with %q", name, err, want)
		}
		if _, ok := r.Get(name); ok {
			t.Errorf("get %s found a provider", name)
		}
	}
	if got := len(r.Entries()); got != 3 {
		t.Errorf("%d entries, want all three", got)
	}
	for _, name := range []string{"broken", "stray"} {
		if e, ok := r.Lookup(name); !ok || e.Err == nil || e.Provider != nil {
			t.Errorf("entry %s: %+v, want one with its error", name, e)
		}
	}
	empty := provider.NewRegistry([]provider.Type{n.typ()}, nil)
	if _, err := empty.Resolve(provider.OpGet, "x"); !strings.Contains(fmt.Sprint(err), "no provider is") {
		t.Errorf("resolve without any provider: %v", err)
	}
}

func TestRegistryRefusesContradictions(t *testing.T) {
	t.Parallel()
	n := &typeNamed{name: "mem"}
	r := provider.NewRegistry([]provider.Type{n.typ()}, nil)
	reload(t, r, define("mem", "a", "1"))
	_, err := r.Reload(t.Context(), []provider.Definition{define("mem", "b", "1"), define("mem", "Bad_Name", "1"), define("mem", "b", "2")})
	for _, want := range []string{`providers[1].name: "Bad_Name"`, `providers[2].name: "b" is used twice`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if diff := cmp.Diff(r.Names(), []string{"a"}); diff != "" {
		t.Errorf("after a refused load (-got +want):\n%s", diff)
	}
}

func TestRegistryDecorates(t *testing.T) {
	t.Parallel()
	n := &typeNamed{name: "mem"}
	type wrapped struct{ provider.Provider }
	r := provider.NewRegistry([]provider.Type{n.typ()}, func(def provider.Definition, typ provider.Type, p provider.Provider) provider.Provider {
		if def.Config.Name != "a" || typ.Name != "mem" {
			t.Errorf("decorating %q of type %q", def.Config.Name, typ.Name)
		}
		return wrapped{p}
	})
	reload(t, r, define("mem", "a", "1"))
	p, _ := r.Get("a")
	if _, ok := p.(wrapped); !ok {
		t.Errorf("the provider is a %T, want the decorated one", p)
	}
	e, _ := r.Lookup("a")
	if _, ok := e.Checker.(*memory.Provider); !ok {
		t.Errorf("the checker is a %T, want the driver's own", e.Checker)
	}
}

func TestRegistryRefusesBadTypes(t *testing.T) {
	t.Parallel()
	good := (&typeNamed{name: "mem"}).typ()
	change := func(f func(*provider.Type)) provider.Type { c := good; f(&c); return c }
	for what, types := range map[string][]provider.Type{
		"listed twice": {good, good},
		"bad name":     {change(func(t *provider.Type) { t.Name = "My Cloud" })},
		"no New":       {change(func(t *provider.Type) { t.New = nil })},
		"no summary":   {change(func(t *provider.Type) { t.Summary = "" })},
		"bad profile":  {change(func(t *provider.Type) { t.Profile.Quota = "maybe" })},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			provider.NewRegistry(types, nil)
		})
	}
}

// Readers see one whole list or the other while reloads go on.
func TestRegistryConcurrency(t *testing.T) {
	t.Parallel()
	n := &typeNamed{name: "mem"}
	r := provider.NewRegistry([]provider.Type{n.typ()}, nil)
	one := []provider.Definition{define("mem", "a", "1"), define("mem", "b", "1")}
	two := []provider.Definition{define("mem", "c", "1"), define("mem", "d", "1"), define("mem", "e", "1")}
	if _, err := r.Reload(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 50 {
				if _, err := r.Reload(t.Context(), [][]provider.Definition{one, two}[(i+j)%2]); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for range 200 {
				switch got := strings.Join(r.Names(), ""); got {
				case "ab", "cde":
				default:
					t.Errorf("saw the half-made list %q", got)
				}
				r.Get("a")
			}
		})
	}
	wg.Wait()
}
