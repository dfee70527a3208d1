package enginebin

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// tools are command lines that tests and checks run, by the file names of their
// binaries. Each has a module of its own, because none resolves together with
// another or with ours.
var tools = map[string]program{
	"temporal": {
		name: "temporal", what: "temporal command line", took: "about 5 minutes on two cores",
		dir: "internal/devserver/tools/temporal", pkg: "github.com/temporalio/cli/cmd/temporal", under: "tools/temporal",
	},
	"tctl": {
		name: "tctl", what: "tctl command line", took: "about 2 minutes on two cores",
		dir: "internal/devserver/tools/tctl", pkg: "github.com/temporalio/tctl/cmd/tctl", under: "tools/tctl",
	},
	"promtool": {
		name: "promtool", what: "promtool command line", took: "about 2 minutes on two cores",
		dir: "internal/devserver/tools/promtool", pkg: "github.com/prometheus/prometheus/cmd/promtool", under: "tools/promtool",
		// It finds no targets here.
		tags: "remove_all_sd",
	},
}

// Tools are the names that BuildTool knows, sorted.
func Tools() []string { return slices.Sorted(maps.Keys(tools)) }

// BuildTool returns the binary of a tool of the tests, out of the cache if it is
// there. It builds like Build, and concurrent calls build once.
func BuildTool(ctx context.Context, name string, progress io.Writer) (string, error) {
	p, ok := tools[name]
	if !ok {
		return "", fmt.Errorf("tool %q is not known: use one of %s", name, strings.Join(Tools(), ", "))
	}
	return p.build(ctx, progress)
}
