package source_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/memory"
)

func def(typ, name, hash string) source.Definition {
	return source.Definition{Type: typ, ConfigHash: hash, Config: source.Config{Name: name, Account: "acme"}}
}

// Sources are kept while nothing about them changes; one that cannot be built
// takes nobody down and is tried again.
func TestRegistry(t *testing.T) {
	t.Parallel()
	built, broken := 0, true
	typ := memory.Type(&memory.Feed{})
	build := typ.New
	typ.New = func(ctx context.Context, cfg source.Config) ([]source.Stream, error) {
		built++
		if cfg.Name == "broken" && broken {
			return nil, errors.New("token: is missing")
		}
		return build(ctx, cfg)
	}
	r := source.NewRegistry([]source.Type{typ})
	load := func(defs ...source.Definition) {
		t.Helper()
		if err := r.Reload(t.Context(), defs); err != nil {
			t.Fatal(err)
		}
	}
	load(def("memory", "a", "1"), def("memory", "broken", "1"), def("nimbus", "stray", "1"))
	first, _ := r.Lookup("a")
	if s, ok := first.Stream("thing"); !ok || s == nil || first.Account != "acme" {
		t.Errorf("entry a: %+v, want its stream", first)
	}
	if _, ok := first.Stream("other"); ok {
		t.Error("a has a stream that the type does not build")
	}
	for name, want := range map[string]string{"broken": "token: is missing", "stray": `"nimbus" is not a source type: want one of memory`} {
		e, ok := r.Lookup(name)
		if !ok || provider.ClassOf(e.Err) != provider.Permanent || !strings.Contains(e.Err.Error(), want) || len(e.Streams) > 0 {
			t.Errorf("entry %s: %+v, want a Permanent error with %q", name, e, want)
		}
	}
	broken = false
	load(def("memory", "a", "1"), def("memory", "broken", "1"))
	if again, _ := r.Lookup("a"); again.Streams[0].Source != first.Streams[0].Source {
		t.Error("an unchanged source was built again")
	}
	if e, _ := r.Lookup("broken"); e.Err != nil {
		t.Errorf("not tried again: %v", e.Err)
	}
	if _, ok := r.Lookup("stray"); ok || len(r.Entries()) != 2 || built != 3 {
		t.Errorf("%d entries, %d builds: want the two that are configured, three builds", len(r.Entries()), built)
	}
	load(def("memory", "a", "2"))
	if again, _ := r.Lookup("a"); again.Streams[0].Source == first.Streams[0].Source {
		t.Error("a changed source was not built again")
	}
	err := r.Reload(t.Context(), []source.Definition{def("memory", "b", "1"), def("memory", "b", "1"), def("memory", "No", "1")})
	if err == nil || !strings.Contains(err.Error(), "used twice") || !strings.Contains(err.Error(), `"No"`) {
		t.Errorf("error %v, want both contradictions", err)
	}
	if _, ok := r.Lookup("a"); !ok {
		t.Error("a refused list changed the registry")
	}
}

func TestCheckType(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*source.Type)
		want   string
	}{
		"good":       {func(*source.Type) {}, ""},
		"name":       {func(t *source.Type) { t.Name = "My Cloud" }, "source type"},
		"new":        {func(t *source.Type) { t.New = nil }, "New is nil"},
		"summary":    {func(t *source.Type) { t.Summary = "" }, "Summary is empty"},
		"kinds":      {func(t *source.Type) { t.Kinds = nil }, "Kinds is empty"},
		"twice":      {func(t *source.Type) { t.Kinds = append(t.Kinds, t.Kinds[0]) }, "listed twice"},
		"no name":    {func(t *source.Type) { t.Kinds = []source.Kind{{Verbs: []string{"create", "delete"}}} }, "Type is empty"},
		"no end":     {func(t *source.Type) { t.Kinds = []source.Kind{{Type: "x", Verbs: []string{"create"}}} }, "lacks create or delete"},
		"incomplete": {func(t *source.Type) { t.Kinds = []source.Kind{{Type: "x"}} }, "lacks create or delete"},
	} {
		typ := memory.Type(&memory.Feed{})
		tc.change(&typ)
		err := source.CheckType(typ)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a type listed twice is taken")
		}
	}()
	typ := memory.Type(&memory.Feed{})
	source.NewRegistry([]source.Type{typ, typ})
}

func FuzzDecodeCursor(f *testing.F) {
	f.Add("")
	f.Add("nonsense")
	f.Add(string(source.EncodeCursor(map[string]int{"a": 1})))
	f.Fuzz(func(t *testing.T, c string) {
		var state map[string]int
		err := source.DecodeCursor(source.OpNext, "s", source.Cursor(c), &state)
		if err != nil && (provider.ClassOf(err) != provider.Permanent || provider.ReasonOf(err) != source.ReasonBadCursor) {
			t.Errorf("%q: %v", c, err)
		}
		if err == nil && c != "" {
			var again map[string]int
			if err := source.DecodeCursor(source.OpNext, "s", source.EncodeCursor(state), &again); err != nil || len(again) != len(state) {
				t.Errorf("%q does not round-trip: %v", c, err)
			}
		}
	})
}
