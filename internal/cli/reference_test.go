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

// The lines of the temporal CLI in help and guides agree on the names that are
// part of the public surface.
func TestGuideCoversEveryTemporalLine(t *testing.T) {
	t.Parallel()
	var guides strings.Builder
	for _, page := range []string{"temporal-cli.md", "cursors.md", "shoot-registration.md"} {
		b, err := os.ReadFile("../../docs/how-to/" + page)
		if err != nil {
			t.Fatal(err)
		}
		guides.Write(b)
	}
	name := regexp.MustCompile(`--(?:name|type) (\S+)`)
	for _, m := range name.FindAllStringSubmatch(Reference(), -1) {
		if !strings.Contains(guides.String(), m[0]) {
			t.Errorf("no guide in docs/how-to shows %q", m[0])
		}
	}
}
