// Package matrix renders what each provider type can do, from the list of types
// itself: the page docs/reference/providers.md and a part of README.md. Nothing
// in it names a type.
//
// What a type says of itself is taken from it. What its drivers implement is seen
// by building one, from the example on its page. What it is tested against
// follows from its simulator and from the Makefile.
package matrix

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/tollgate-dev/tollgate/internal/config"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/source"
)

//go:generate go run ./gendoc -root ../../../..

// Row is one provider type.
type Row struct {
	Type provider.Type
	// Checker, Pricer and Companions are the optional interfaces it implements.
	Checker, Pricer, Companions bool
	// Events: a source of the same name reports usage from the same account.
	Events bool
	// Tests say what the driver is tested against, and by what.
	Tests []Test
}

// Test is one thing that a driver is tested against.
type Test struct {
	// What is tested against, By the make target that does.
	What, By string
}

// Build makes the rows, in the order of the types, from the repository at root.
func Build(root fs.FS, types []provider.Type, sources []source.Type) ([]Row, error) {
	makefile, err := fs.ReadFile(root, "Makefile")
	if err != nil {
		return nil, err
	}
	var rows []Row
	var errs []error
	for _, t := range types {
		p, err := buildExample(root, t)
		if err != nil {
			errs = append(errs, fmt.Errorf("provider type %s: %w", t.Name, err))
			continue
		}
		r := Row{Type: t, Tests: testsOf(root, string(makefile), t)}
		_, r.Checker = provider.As[provider.Checker](p)
		_, r.Pricer = provider.As[provider.Pricer](p)
		_, r.Companions = provider.As[provider.Companions](p)
		r.Events = slices.ContainsFunc(sources, func(s source.Type) bool { return s.Name == t.Name })
		rows = append(rows, r)
	}
	return rows, errors.Join(errs...)
}

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// buildExample builds a provider of the type from the example on its page, which
// people copy.
func buildExample(root fs.FS, t provider.Type) (provider.Provider, error) {
	page := path.Join("docs/providers", t.Name+".md")
	text, err := fs.ReadFile(root, page)
	if err != nil {
		return nil, err
	}
	for _, m := range yamlBlock.FindAllStringSubmatch(string(text), -1) {
		if !strings.Contains("\n"+m[1], "\nproviders:\n") {
			continue
		}
		c, err := config.Parse([]byte("installation: example\nprobe: {target: 'example.org:443'}\n"+m[1]), page, config.Options{Types: []provider.Type{t}})
		if err != nil {
			return nil, fmt.Errorf("the example of %s: %w", page, err)
		}
		for _, name := range c.Names() {
			cfg, _ := c.Provider(name)
			p, err := t.New(context.Background(), provider.Config{Name: name, Installation: c.Installation, StateDir: "does-not-exist", Decode: cfg.Decode})
			if err != nil {
				return nil, fmt.Errorf("the example of %s: %w", page, err)
			}
			return p, nil
		}
	}
	return nil, fmt.Errorf("%s has no example: a block of YAML with providers", page)
}

// testsOf finds the simulator of a type and the make targets named after it.
func testsOf(root fs.FS, makefile string, t provider.Type) (out []Test) {
	if st, err := fs.Stat(root, path.Join("internal/provider", t.Name, t.Name+"sim")); err == nil && st.IsDir() {
		out = append(out, Test{"the simulator `" + t.Name + "sim`", "make test"})
	}
	if t.Profile.BackendTest == "make-test" {
		out = append(out, Test{"the real thing", "make test"})
	}
	for _, target := range []string{"test-" + t.Name, "test-integration-" + t.Name} {
		m := regexp.MustCompile(`(?m)^` + target + `:.*?## (.*)$`).FindStringSubmatch(makefile)
		if m != nil {
			out = append(out, Test{against(m[1]), "make " + target})
		}
	}
	return out
}

// against is what the help of a make target says that its tests are against.
func against(help string) string {
	_, what, found := strings.Cut(help, " against ")
	if !found {
		what = help
	}
	what, _, _ = strings.Cut(what, ";")
	what, _, _ = strings.Cut(what, ",")
	return what
}

func (r Row) page() string { return "providers/" + r.Type.Name + ".md" }

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// tests joins the tests for a cell of a table.
func (r Row) tests() string {
	var out []string
	for _, t := range r.Tests {
		out = append(out, fmt.Sprintf("%s (`%s`)", t.What, t.By))
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, "; ")
}
