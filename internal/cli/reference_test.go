package cli

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReferenceIsFresh(t *testing.T) {
	t.Parallel()
	got, err := os.ReadFile("../../docs/reference/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(got), Reference()); diff != "" {
		t.Errorf("docs/reference/cli.md is stale: go run ./internal/cli/gendoc (-file +commands)\n%s", diff)
	}
}

// The lines of the temporal CLI in help and guide agree on the names that are
// part of the public surface.
func TestGuideCoversEveryTemporalLine(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../docs/how-to/temporal-cli.md")
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`--(?:name|type) (\S+)`)
	for _, m := range name.FindAllStringSubmatch(Reference(), -1) {
		if !strings.Contains(string(guide), m[0]) {
			t.Errorf("docs/how-to/temporal-cli.md does not show %q", m[0])
		}
	}
}
