package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every test and clause that the page of failures names exists.
func TestFailuresAreTested(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("explanation", "failures.md"))
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := e.Name(); e.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") && !strings.Contains(path, "sourcetest") || filepath.Ext(path) != ".go" {
			return nil
		}
		b, err := os.ReadFile(path)
		code.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`\bTest[A-Z]\w+|\bSC-\d\d\b`).FindAllString(string(page), -1)
	if len(names) < 40 {
		t.Fatalf("the page names %d tests", len(names))
	}
	for _, name := range names {
		if strings.HasPrefix(name, "TestFlows") { // a project
			continue
		}
		if !strings.Contains(code.String(), "func "+name+"(") && !strings.Contains(code.String(), `"`+name+`"`) {
			t.Errorf("%s does not exist", name)
		}
	}
}
