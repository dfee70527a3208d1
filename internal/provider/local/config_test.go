package local

import (
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/strictyaml"
)

func decodeYAML(text string) func(any) error {
	return func(into any) error { return strictyaml.Decode(strings.NewReader(text), "tollgate.yaml", into) }
}

func TestConfigurationFromYAML(t *testing.T) {
	t.Parallel()
	p, err := New(provider.Config{Name: "here", StateDir: "/elsewhere", Decode: decodeYAML(`
dir: /var/lib/tollgate/local
network: 127.80.7.9/16
binary: /opt/tollgate-proxy
maxInstances: 50
allowPorts: [80, 443]
idleTimeout: 1m
drain: 0s
`)})
	if err != nil {
		t.Fatal(err)
	}
	got := p.opt
	if got.network.String() != "127.80.0.0/16" {
		t.Errorf("network %v, want 127.80.0.0/16", got.network)
	}
	want := options{
		network: got.network, dir: "/var/lib/tollgate/local", binary: "/opt/tollgate-proxy", maxInstances: 50,
		allowPorts: []int{80, 443}, idleTimeout: time.Minute,
	}
	if diff := cmp.Diff(got, want, cmp.AllowUnexported(options{}), cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
	for text, want := range map[string]string{
		"netwrok: x":                   "netwrok",
		"maxInstances: many":           "maxInstances",
		"idleTimeout: 5":               "duration",
		"allowPorts: [http]":           "allowPorts",
		"maxInstances: 1\nbinary: [x]": "binary",
	} {
		_, err := New(provider.Config{Name: "here", StateDir: "/elsewhere", Decode: decodeYAML(text)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error that names %s", text, err, want)
		}
	}
}

func TestPageSaysWhatTheProfileSays(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../../docs/providers/local.md")
	if err != nil {
		t.Fatal(err)
	}
	page := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\| ([a-z][a-z-]*) \| ([a-z][a-z0-9-]*) \|$`).FindAllStringSubmatch(string(b), -1) {
		page[m[1]] = m[2]
	}
	delete(page, "axis")
	want := map[string]string{}
	for axis, answer := range Type().Profile.Axes() {
		want[axis.Code] = answer
	}
	if diff := cmp.Diff(page, want); diff != "" {
		t.Errorf("docs/providers/local.md and the profile differ (-page +profile):\n%s", diff)
	}
	for _, setting := range []string{"dir", "network", "binary", "maxInstances", "allowPorts", "idleTimeout", "drain"} {
		if !strings.Contains(string(b), "| `"+setting+"` |") {
			t.Errorf("docs/providers/local.md does not describe %s", setting)
		}
	}
}
