package openstack_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/tollgate-dev/tollgate/internal/config"
	"github.com/tollgate-dev/tollgate/internal/openstack/cloud"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/openstack"
)

func TestConfigErrors(t *testing.T) {
	t.Setenv("OS_CLOUD", "")
	t.Setenv("OS_AUTH_URL", "")
	build := func(change func(*openstack.Options)) error {
		o := openstack.Options{Access: cloud.Access{Auth: cloud.Auth{URL: "https://cloud.example.com:5000/v3", Username: "u", Project: "p", Password: "pw"}}}
		change(&o)
		_, err := openstack.New(source.Config{Name: "x", Account: "a", Decode: func(into any) error {
			*into.(*openstack.Options) = o
			return nil
		}})
		return err
	}
	if err := build(func(*openstack.Options) {}); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*openstack.Options){
		"auth.url: is required":                                func(o *openstack.Options) { o.Auth.URL = "" },
		"auth.project: is required":                            func(o *openstack.Options) { o.Auth.Project = "" },
		`interface: "private": want one of public`:             func(o *openstack.Options) { o.Interface = "private" },
		`regions[1]: "a": want names, each once`:               func(o *openstack.Options) { o.Regions = []string{"a", "a"} },
		"regions: 7 are too many: at most 6":                   func(o *openstack.Options) { o.Regions = strings.Split("abcdefg", "") },
		`kinds[0]: "port" is unknown: use server, volume, flo`: func(o *openstack.Options) { o.Kinds = []string{"port"} },
		`kinds[1]: "server" is there twice`:                    func(o *openstack.Options) { o.Kinds = []string{"server", "server"} },
		"overlap: 1s is out of range: use 10s to 24h0m0s":      func(o *openstack.Options) { o.Overlap = 1e9 },
		"gapAfter: 1s is out of range":                         func(o *openstack.Options) { o.GapAfter = 1e9 },
		"pageSize: 2000 is out of range: use 1 to 1000":        func(o *openstack.Options) { o.PageSize = 2000 },
		"callTimeout: 1ns: want 1s to 5m0s":                    func(o *openstack.Options) { o.CallTimeout = 1 },
	} {
		if err := build(change); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

// TestPageExample: people copy the page's configuration.
func TestPageExample(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/sources/openstack.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)```yaml\n(secrets:.*?)```").FindSubmatch(page)
	if m == nil {
		t.Fatal("the page has no configuration")
	}
	text := "installation: acme\nprobe: {target: 'example.com:443'}\nproviders: [{name: here, type: memory}]\n" + string(m[1])
	c, err := config.Parse([]byte(text), "openstack.md", config.Options{Types: []provider.Type{{Name: "memory"}}, SourceTypes: []source.Type{openstack.Type()}, SinkTypes: []string{"reporting"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Sources) != 1 {
		t.Fatalf("%d sources", len(c.Sources))
	}
	s := c.Sources[0]
	if _, err := openstack.New(source.Config{Name: s.Name, Account: s.Account, Decode: s.Decode}); err != nil {
		t.Error(err)
	}
}
