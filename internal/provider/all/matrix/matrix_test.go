package matrix_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/all"
	"github.com/tollgate-dev/tollgate/internal/provider/all/matrix"
	"github.com/tollgate-dev/tollgate/internal/provider/memory"
	"github.com/tollgate-dev/tollgate/internal/source"
	sources "github.com/tollgate-dev/tollgate/internal/source/all"
)

const root = "../../../.."

// The pages in the tree are those that the list of types gives.
func TestPagesAreFresh(t *testing.T) {
	t.Parallel()
	rows, err := matrix.Build(os.DirFS(root), all.Types(), sources.Types())
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := matrix.Readme(readme, rows)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(readme), string(want)); diff != "" {
		t.Errorf("README.md is stale, run make docs (-have +want):\n%s", diff)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/reference/providers.md"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(page), string(matrix.Page(rows))); diff != "" {
		t.Errorf("docs/reference/providers.md is stale, run make docs (-have +want):\n%s", diff)
	}
	for _, r := range rows {
		if len(r.Tests) == 0 {
			t.Errorf("%s is tested against nothing that the Makefile or its package names", r.Type.Name)
		}
	}
}

// An invented type, and what is wrong with a tree.
func TestBuild(t *testing.T) {
	t.Parallel()
	profile := memory.Profile()
	profile.BackendTest = "integration-tag"
	nimbus := provider.Type{Name: "nimbus", Summary: "clouds", Profile: profile, New: func(ctx context.Context, c provider.Config) (provider.Provider, error) {
		return memory.New(ctx, memory.NewBackend(memory.Options{}), c)
	}}
	const example = "# Provider\n\n```yaml\nkind: Proxy\n```\n\n```yaml\nproviders:\n  - {name: a, type: nimbus}\n```\n"
	files := fstest.MapFS{
		"Makefile":                 {Data: []byte("test-nimbus: ## the driver against a real cloud, made for it; slow\ntest-integration-nimbus: build ## an account\ntest-nimbus-2: ## no\n")},
		"docs/providers/nimbus.md": {Data: []byte(example)},
		"internal/provider/nimbus/nimbussim/sim.go": {Data: []byte("package nimbussim\n")},
	}
	rows, err := matrix.Build(files, []provider.Type{nimbus}, []source.Type{{Name: "nimbus"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []matrix.Test{{What: "the simulator `nimbussim`", By: "make test"}, {What: "a real cloud", By: "make test-nimbus"}, {What: "an account", By: "make test-integration-nimbus"}}
	if diff := cmp.Diff(want, rows[0].Tests); diff != "" {
		t.Errorf("tests (-want +got):\n%s", diff)
	}
	if r := rows[0]; !r.Events || !r.Checker || r.Type.Name != "nimbus" {
		t.Errorf("row %+v", r)
	}
	page := string(matrix.Page(rows))
	for _, text := range []string{"| [nimbus](../providers/nimbus.md) | clouds | yes |", "| nimbus | a real cloud | `make test-nimbus` |", "| axis | [nimbus](../providers/nimbus.md) |\n| --- | --- |\n| readiness | "} {
		if !strings.Contains(page, text) {
			t.Errorf("the page lacks %q:\n%s", text, page)
		}
	}

	for what, change := range map[string]func(fstest.MapFS){
		"no such file":   func(f fstest.MapFS) { delete(f, "docs/providers/nimbus.md") },
		"has no example": func(f fstest.MapFS) { f["docs/providers/nimbus.md"] = &fstest.MapFile{Data: []byte("# Provider\n")} },
		"the example of": func(f fstest.MapFS) {
			f["docs/providers/nimbus.md"] = &fstest.MapFile{Data: []byte(strings.Replace(example, "nimbus}", "other}", 1))}
		},
		"file does not exist": func(f fstest.MapFS) { delete(f, "Makefile") },
	} {
		broken := fstest.MapFS{}
		for k, v := range files {
			broken[k] = v
		}
		change(broken)
		if _, err := matrix.Build(broken, []provider.Type{nimbus}, nil); err == nil || !strings.Contains(err.Error(), strings.Replace(what, "no such file", "file does not exist", 1)) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := matrix.Readme([]byte("# Tollgate\n"), rows); err == nil {
		t.Error("a README without the marks is taken")
	}
}
