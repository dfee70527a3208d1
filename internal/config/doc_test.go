package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/provider/all"
)

// fields lists the paths of all fields of the file.
func fields(t reflect.Type, path string) []string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[duration]():
		return []string{path}
	case t.Kind() == reflect.Struct:
		var out []string
		for i := range t.NumField() {
			name, opts, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
			switch {
			case opts == "inline":
				out = append(out, path+".<type>")
			default:
				out = append(out, fields(t.Field(i).Type, strings.TrimPrefix(path+"."+name, "."))...)
			}
		}
		return out
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Map:
		return append([]string{path}, fields(t.Elem(), path+"[]")...)
	}
	return []string{path}
}

func TestReferenceHasEveryField(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reference/config.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for line := range strings.Lines(string(page)) {
		if name, ok := strings.CutPrefix(line, "| `"); ok {
			name, _, _ = strings.Cut(name, "`")
			rows = append(rows, name)
		}
	}
	want := map[string]bool{}
	for _, f := range fields(reflect.TypeFor[raw](), "") {
		want[f] = true
	}
	if len(want) < 30 {
		t.Fatalf("only %d fields were found", len(want))
	}
	for _, r := range rows {
		if !want[r] {
			t.Errorf("the page has %s, which the file does not", r)
		}
		delete(want, r)
	}
	for f := range want {
		t.Errorf("the page lacks %s", f)
	}
}

func TestExamplesAreRight(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reference/config.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(page), "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	c, err := Parse([]byte(example), "config.md", Options{Types: all.Types()})
	if err != nil {
		t.Errorf("the example of the page: %v", err)
	} else if c.Installation != "acme-prod" {
		t.Errorf("the example of the page is not the one that was looked for: %+v", c)
	}
	for _, dir := range []string{"../../deploy/compose/config", "../../deploy/kustomize/example"} {
		if _, err := Load(filepath.Join(dir, "tollgate.yaml"), Options{Types: all.Types()}); err != nil {
			t.Error(err)
		}
	}
}
