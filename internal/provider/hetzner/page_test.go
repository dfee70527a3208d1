package hetzner_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/config"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner"
)

// TestPageExample: people copy the page's configuration.
func TestPageExample(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/providers/hetzner.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)```yaml\n(secrets:.*?)```").FindSubmatch(page)
	if m == nil {
		t.Fatal("the page has no configuration")
	}
	text := "installation: acme\nprobe: {target: 'example.com:443'}\n" + string(m[1])
	c, err := config.Parse([]byte(text), "hetzner.md", config.Options{Types: []provider.Type{hetzner.Type()}})
	if err != nil {
		t.Fatal(err)
	}
	p, ok := c.Provider("cloud")
	if !ok {
		t.Fatal("no provider is named cloud")
	}
	if _, err := hetzner.New(provider.Config{Name: p.Name, Installation: c.Installation, Decode: p.Decode}); err != nil {
		t.Error(err)
	}
}
