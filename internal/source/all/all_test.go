package all_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/all"
	"github.com/tollgate-dev/tollgate/internal/source/memory"
)

const adding = "see docs/adding-a-source.md"

// Whatever a type still lacks is named here.
func TestEveryTypeIsComplete(t *testing.T) {
	t.Parallel()
	root := os.DirFS("../../..")
	for _, typ := range all.Types() {
		for _, m := range missing(root, typ) {
			t.Errorf("source type %s: %s (%s)", typ.Name, m, adding)
		}
	}
}

// The list is one that a registry takes.
func TestTypes(t *testing.T) {
	t.Parallel()
	if got := source.NewRegistry(all.Types()).Types(); !slices.Contains(got, "hetzner") {
		t.Errorf("the types are %v, want hetzner among them", got)
	}
}

// What has a page and no line would never be used.
func TestNoTypeIsForgotten(t *testing.T) {
	t.Parallel()
	pages, err := os.ReadDir("../../../docs/sources")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pages {
		name, isPage := strings.CutSuffix(p.Name(), ".md")
		if isPage && name != "README" && !slices.ContainsFunc(all.Types(), func(t source.Type) bool { return t.Name == name }) {
			t.Errorf("docs/sources/%s is the page of a type that is not on the list", p.Name())
		}
	}
}

// missing names what a type lacks in the repository at root.
func missing(root fs.FS, typ source.Type) (out []string) {
	lacks := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if err := source.CheckType(typ); err != nil {
		lacks("%v", err)
	}
	dir := path.Join("internal/source", typ.Name)
	switch runs, err := contains(root, dir, "sourcetest.Run(", true); {
	case err != nil:
		lacks("its package %s cannot be read: %v", dir, err)
	case !runs:
		lacks("no test in %s calls sourcetest.Run", dir)
	}
	// What the kit cannot see from outside. The error is said above.
	for does, hook := range map[string]string{"source.Confirmer": "sourcetest.HookHide", "source.Broken{": "sourcetest.HookParts"} {
		if uses, _ := contains(root, dir, does, false); uses {
			if declared, _ := contains(root, dir, hook, true); !declared {
				lacks("something in %s uses %s, and no test declares %s", dir, strings.TrimSuffix(does, "{"), hook)
			}
		}
	}
	lists, _ := contains(root, dir, "(source.Snapshot, error)", false) // the error is said above
	if !lists && len(typ.Exports) > 0 {
		lacks("it has Exports and nothing in %s lists", dir)
	}
	for _, k := range typ.Kinds {
		if lists && !slices.ContainsFunc(typ.Exports, func(x source.Export) bool { return x.Type == k.Type }) {
			lacks("it lists and Type().Exports has no series of %s", k.Type)
		}
	}
	page := path.Join("docs/sources", typ.Name+".md")
	text, err := fs.ReadFile(root, page)
	if err != nil {
		lacks("its page %s cannot be read: %v", page, err)
		return out
	}
	for _, k := range typ.Kinds {
		fields, _ := event.Fields(typ.Platform(), k.Type)
		for _, word := range append(fields, string(k.Type)) {
			if !strings.Contains(string(text), "`"+word+"`") {
				lacks("%s does not say `%s`", page, word)
			}
		}
		for _, v := range k.Verbs {
			if e := string(k.EventType(v)); !strings.Contains(string(text), "`"+e+"`") {
				lacks("%s does not say `%s`", page, e)
			}
		}
	}
	return out
}

// contains reports whether a file of the folder has the text: one of its tests, or
// one of the others.
func contains(root fs.FS, dir, text string, inTests bool) (bool, error) {
	entries, err := fs.ReadDir(root, dir)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") != inTests {
			continue
		}
		b, err := fs.ReadFile(root, path.Join(dir, e.Name()))
		if err != nil {
			return false, err
		}
		if strings.Contains(string(b), text) {
			return true, nil
		}
	}
	return false, nil
}

// What missing must not miss.
func TestMissing(t *testing.T) {
	t.Parallel()
	const test, page = "internal/source/memory/contract_test.go", "docs/sources/memory.md"
	const text = "`thing`: `thing.create.end`, `thing.resize.end`, `thing.delete.end`"
	complete := func() fstest.MapFS {
		return fstest.MapFS{test: {Data: []byte("sourcetest.Run(t, h)")}, page: {Data: []byte(text)}}
	}
	for what, tt := range map[string]struct {
		change func(fstest.MapFS)
		want   []string // beginnings
	}{
		"complete":   {func(fstest.MapFS) {}, nil},
		"no package": {func(f fstest.MapFS) { delete(f, test) }, []string{"its package internal/source/memory cannot be read"}},
		"no series": {func(f fstest.MapFS) {
			f["internal/source/memory/list.go"] = &fstest.MapFile{Data: []byte("func (s *Source) List(ctx context.Context) (source.Snapshot, error) {")}
		}, []string{"it lists and Type().Exports has no series of thing"}},
		"nobody breaks a part": {func(f fstest.MapFS) {
			f["internal/source/memory/parts.go"] = &fstest.MapFile{Data: []byte("source.Broken{Part: name, Err: err}")}
		}, []string{"something in internal/source/memory uses source.Broken, and no test declares sourcetest.HookParts"}},
		"nobody asks": {func(f fstest.MapFS) {
			f["internal/source/memory/gone.go"] = &fstest.MapFile{Data: []byte("var _ source.Confirmer = (*Source)(nil)")}
		}, []string{"something in internal/source/memory uses source.Confirmer, and no test declares sourcetest.HookHide"}},
		"both are tried": {func(f fstest.MapFS) {
			f["internal/source/memory/gone.go"] = &fstest.MapFile{Data: []byte("source.Confirmer source.Broken{")}
			f[test].Data = []byte("sourcetest.Run(t, h) sourcetest.HookHide sourcetest.HookParts")
		}, nil},
		"no kit":  {func(f fstest.MapFS) { f[test].Data = nil }, []string{"no test in internal/source/memory calls sourcetest.Run"}},
		"no page": {func(f fstest.MapFS) { delete(f, page) }, []string{"its page docs/sources/memory.md cannot be read"}},
		"no event": {func(f fstest.MapFS) { f[page].Data = []byte(strings.Replace(text, "`thing.resize.end`", "", 1)) },
			[]string{page + " does not say `thing.resize.end`"}},
	} {
		root := complete()
		tt.change(root)
		got := missing(root, memory.Type(&memory.Feed{}))
		for i := range got {
			if i < len(tt.want) && strings.HasPrefix(got[i], tt.want[i]) {
				got[i] = tt.want[i]
			}
		}
		if diff := cmp.Diff(got, tt.want); diff != "" {
			t.Errorf("%s: missing (-got +want):\n%s", what, diff)
		}
	}
}
