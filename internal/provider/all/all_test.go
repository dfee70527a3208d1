package all_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/all"
	"github.com/tollgate-dev/tollgate/internal/provider/memory"
)

const adding = "see docs/adding-a-provider.md"

// Whatever a type still lacks is named here.
func TestEveryTypeIsComplete(t *testing.T) {
	t.Parallel()
	root := os.DirFS("../../..")
	for _, typ := range all.Types() {
		t.Run(typ.Name, func(t *testing.T) {
			t.Parallel()
			for _, m := range missing(root, typ) {
				t.Errorf("provider type %s: %s (%s)", typ.Name, m, adding)
			}
		})
	}
}

// The list is one that a registry takes, and local, the default of a new
// installation, is on it.
func TestTypes(t *testing.T) {
	t.Parallel()
	types := provider.NewRegistry(all.Types(), nil).Types()
	if !strings.Contains(" "+strings.Join(types, " ")+" ", " local ") {
		t.Errorf("the types are %v, want local among them", types)
	}
}

// Every folder of a driver is on the list: what has a page or a contract test
// and no line would never be used.
func TestNoTypeIsForgotten(t *testing.T) {
	t.Parallel()
	pages, err := os.ReadDir("../../../docs/providers")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, typ := range all.Types() {
		listed[typ.Name] = true
	}
	for _, p := range pages {
		if name, isPage := strings.CutSuffix(p.Name(), ".md"); isPage && name != "README" && !listed[name] {
			t.Errorf("docs/providers/%s is the page of a type that is not on the list", p.Name())
		}
	}
}

// missing names what a type lacks in the repository at root.
func missing(root fs.FS, typ provider.Type) (out []string) {
	lacks := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if err := provider.CheckType(typ); err != nil {
		lacks("%v", err)
	}
	dir := path.Join("internal/provider", typ.Name)
	switch runs, err := runsTheKit(root, dir); {
	case err != nil:
		lacks("its package %s cannot be read: %v", dir, err)
	case !runs:
		lacks("no test in %s calls providertest.Run", dir)
	}
	page := path.Join("docs/providers", typ.Name+".md")
	text, err := fs.ReadFile(root, page)
	if err != nil {
		lacks("its page %s cannot be read: %v", page, err)
		return out
	}
	said := profileTable(string(text))
	for axis, want := range typ.Profile.Axes() {
		switch got, ok := said[axis.Code]; {
		case !ok:
			lacks("%s: the table of the profile has no row | %s | %s |", page, axis.Code, want)
		case got != want:
			lacks("%s: the page says %s is %s, the type says %s", page, axis.Code, got, want)
		}
		delete(said, axis.Code)
	}
	for axis := range said {
		lacks("%s: %s is no axis", page, axis)
	}
	return out
}

func runsTheKit(root fs.FS, dir string) (bool, error) {
	entries, err := fs.ReadDir(root, dir)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		text, err := fs.ReadFile(root, path.Join(dir, e.Name()))
		if err != nil {
			return false, err
		}
		if strings.Contains(string(text), "providertest.Run(") {
			return true, nil
		}
	}
	return false, nil
}

var row = regexp.MustCompile(`^\|\s*([a-z-]+)\s*\|\s*([a-z0-9-]+)\s*\|`)

// profileTable reads the table that starts with "| axis | profile |".
func profileTable(page string) map[string]string {
	out := map[string]string{}
	inside := false
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		cells := strings.FieldsFunc(line, func(r rune) bool { return r == '|' || r == ' ' })
		switch {
		case len(cells) >= 2 && cells[0] == "axis" && cells[1] == "profile":
			inside = true
		case !strings.HasPrefix(line, "|"):
			inside = false
		case inside:
			if m := row.FindStringSubmatch(line); m != nil && strings.Trim(m[1], "-") != "" {
				out[m[1]] = m[2]
			}
		}
	}
	return out
}

// What missing must not miss.
func TestMissing(t *testing.T) {
	t.Parallel()
	typ := provider.Type{
		Name: "nimbus", Summary: "a cloud", Profile: memory.Profile(),
		New: func(context.Context, provider.Config) (provider.Provider, error) { return nil, nil },
	}
	var table strings.Builder
	table.WriteString("# Provider nimbus\n\n| field | meaning |\n| --- | --- |\n| zone | ignored |\n\n## Profile\n\n| axis | profile |\n| --- | --- |\n")
	for a, v := range typ.Profile.Axes() {
		fmt.Fprintf(&table, "| %s | %s |\n", a.Code, v)
	}
	table.WriteString("\nText.\n")
	const test, page = "internal/provider/nimbus/contract_test.go", "docs/providers/nimbus.md"
	complete := func() fstest.MapFS {
		return fstest.MapFS{
			test: {Data: []byte("package nimbus\nfunc TestContract(t *testing.T) { providertest.Run(t, harness()) }\n")},
			page: {Data: []byte(table.String())},
		}
	}
	edit := func(old, new string) func(fstest.MapFS) {
		return func(f fstest.MapFS) {
			f[page].Data = []byte(strings.Replace(table.String(), old, new, 1))
		}
	}
	for what, tt := range map[string]struct {
		change func(fstest.MapFS)
		typ    func(*provider.Type)
		want   []string // beginnings
	}{
		"complete":       {},
		"no package":     {change: func(f fstest.MapFS) { delete(f, test) }, want: []string{"its package internal/provider/nimbus cannot be read"}},
		"no kit":         {change: func(f fstest.MapFS) { f[test].Data = []byte("package nimbus\n") }, want: []string{"no test in internal/provider/nimbus calls providertest.Run"}},
		"no page":        {change: func(f fstest.MapFS) { delete(f, page) }, want: []string{"its page docs/providers/nimbus.md cannot be read"}},
		"no row":         {change: edit("| gc-mark | native-labels |\n", ""), want: []string{page + ": the table of the profile has no row | gc-mark | native-labels |"}},
		"another answer": {change: edit("| quota | detected |", "| quota | absent |"), want: []string{page + ": the page says quota is absent, the type says detected"}},
		"no such axis":   {change: edit("| quota |", "| colour | blue |\n| quota |"), want: []string{page + ": colour is no axis"}},
		"bad profile":    {typ: func(t *provider.Type) { t.Profile.ReadyPoll = 0 }, want: []string{`provider type "nimbus": profile ReadyPoll`}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			root, typ := complete(), typ
			if tt.change != nil {
				tt.change(root)
			}
			if tt.typ != nil {
				tt.typ(&typ)
			}
			got := missing(root, typ)
			for i := range got {
				if i < len(tt.want) && strings.HasPrefix(got[i], tt.want[i]) {
					got[i] = tt.want[i]
				}
			}
			if diff := cmp.Diff(got, tt.want); diff != "" {
				t.Errorf("missing (-got +want):\n%s", diff)
			}
		})
	}
}
