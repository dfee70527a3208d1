package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tollgate-dev/tollgate/internal/provider/all"
	"github.com/tollgate-dev/tollgate/internal/source/hetzner"
)

func tollOptions() Options {
	o := Options{Types: all.Types(), SinkTypes: []string{"cloudevents", "reporting"}}
	o.SourceTypes = append(o.SourceTypes, hetzner.Type())
	return o
}

const tollsFile = `installation: acme
providers: [{name: local, type: local}]
secrets: {hcloud: {env: HCLOUD}, api: {env: API}}
sinks:
  - {name: billing, type: reporting, url: "https://reporting.example.com", token: api, timeout: 10s, batch: 200}
  - {name: bus, type: cloudevents, url: "http://127.0.0.1:9000/in", mode: batched}
sources:
  - name: prod
    type: hetzner
    account: acme-prod
    sink: billing
    interval: 30s
    start: 2026-11-01T00:00:00Z
    inventory: {interval: 10m, confirmAfter: 40s, maxEnds: 7, providers: [local]}
    hetzner: {token: hcloud, kinds: [server]}
  - {name: test, type: hetzner, account: acme-test, sink: bus}
`

func TestSourcesAndSinks(t *testing.T) {
	t.Parallel()
	c, err := Parse([]byte(tollsFile), "t.yaml", tollOptions())
	if err != nil {
		t.Fatal(err)
	}
	sinks := []Sink{
		{Name: "billing", Type: "reporting", URL: "https://reporting.example.com", Token: "api", Timeout: 10 * time.Second, Batch: 200},
		{Name: "bus", Type: "cloudevents", URL: "http://127.0.0.1:9000/in", Mode: "batched", Timeout: 30 * time.Second},
	}
	if diff := cmp.Diff(c.Sinks, sinks, cmpopts.IgnoreUnexported(Sink{})); diff != "" {
		t.Errorf("sinks (-got +want):\n%s", diff)
	}
	sources := []Source{
		{Name: "prod", Type: "hetzner", Account: "acme-prod", Sink: "billing", Interval: 30 * time.Second,
			Start: "2026-11-01T00:00:00Z", From: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC),
			Inventory: Inventory{Enabled: true, Interval: 10 * time.Minute, ConfirmAfter: 40 * time.Second, MaxEnds: 7, Providers: []string{"local"}}},
		{Name: "test", Type: "hetzner", Account: "acme-test", Sink: "bus", Interval: time.Minute, Start: StartBeginning,
			Inventory: Inventory{Enabled: true, Interval: 15 * time.Minute, ConfirmAfter: 2 * time.Minute, MaxEnds: 20}},
	}
	if diff := cmp.Diff(c.Sources, sources, cmpopts.IgnoreUnexported(Source{})); diff != "" {
		t.Errorf("sources (-got +want):\n%s", diff)
	}
	var o hetzner.Options
	if s, ok := c.Source("prod"); !ok || s.Decode(&o) != nil || o.Token != "hcloud" {
		t.Errorf("block %+v", o)
	}
	if _, ok := c.Source("other"); ok {
		t.Error("there is a source that is not in the file")
	}
	if _, ok := c.Sink("other"); ok {
		t.Error("there is a sink that is not in the file")
	}
}

func TestSourceAndSinkMistakes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ old, new, want string }{
		{"name: prod", "name: Prod!", `sources[0].name: "Prod!"`},
		{"name: test", "name: prod", `sources[1].name: "prod" is given twice, first in line 8`},
		{"type: hetzner\n", "type: nimbus\n", `sources[0].type: "nimbus" is unknown: use one of hetzner`},
		{"    account: acme-prod\n", "", `sources[0].account: is required`},
		{"account: acme-prod", "account: acme prod", `sources[0].account: "acme prod" is no name`},
		{"sink: billing", "sink: other", `sources[0].sink: "other" is no sink: sinks defines billing, bus`},
		{"interval: 30s", "interval: 1ms", `sources[0].interval: 1ms is out of range`},
		{"2026-11-01T00:00:00Z", "yesterday", `sources[0].start: "yesterday" is no place to start`},
		{"hetzner: {token", "hetznr: {token", `sources[0].hetznr: unknown field`},
		{"name: bus", "name: billing", `sinks[1].name: "billing" is given twice`},
		{"type: cloudevents", "type: kafka", `sinks[1].type: "kafka" is unknown: use one of cloudevents, reporting`},
		{"http://127.0.0.1:9000/in", "127.0.0.1", `sinks[1].url: is no address of a receiver`},
		{"token: api", "token: apy", `sinks[0].token: "apy" is no secret`},
		{"batch: 200", "batch: 0", `sinks[0].batch: 0 is out of range`},
		{"interval: 10m", "interval: 1s", `sources[0].inventory.interval: 1s is out of range`},
		{"confirmAfter: 40s", "confirmAfter: 40", `sources[0].inventory.confirmAfter: "40" is no duration`},
		{"maxEnds: 7", "maxEnds: 0", `sources[0].inventory.maxEnds: 0 is out of range`},
		{"providers: [local]", "providers: [other]", `sources[0].inventory.providers[0]: "other" is not configured: use one of local`},
		{"providers: [local]", "providers: [local, local]", `sources[0].inventory.providers[1]: "local" is there twice`},
		{"timeout: 10s", "timeout: 1h", `sinks[0].timeout: 1h is out of range`},
	} {
		text := strings.Replace(tollsFile, tc.old, tc.new, 1)
		if text == tollsFile {
			t.Fatalf("%q is not in the example", tc.old)
		}
		_, err := Parse([]byte(text), "t.yaml", tollOptions())
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %s", tc.new, err, tc.want)
		}
	}
}

// The hash of a source changes with what it amounts to, and with its sink.
func TestSourceHash(t *testing.T) {
	t.Parallel()
	hash := func(text string) string {
		t.Helper()
		c, err := Parse([]byte(text), "t.yaml", tollOptions())
		if err != nil {
			t.Fatal(err)
		}
		return c.SourceHash(c.Sources[0], []byte("key"))
	}
	base := hash(tollsFile)
	if again := hash("# a comment\n" + tollsFile); again != base {
		t.Error("a comment changes the hash")
	}
	for _, tc := range [][2]string{{"kinds: [server]", "kinds: [volume]"}, {"acme-prod", "acme-other"}, {"sink: billing", "sink: bus"}, {"reporting.example", "reports.example"}} {
		if hash(strings.Replace(tollsFile, tc[0], tc[1], 1)) == base {
			t.Errorf("%s does not change the hash", tc[1])
		}
	}
}

// Without a word about it, the fleet that is compared is that of the same account.
func TestProvidersOfAnAccount(t *testing.T) {
	t.Parallel()
	c := &Config{Providers: []Provider{
		{Name: "a", Type: "hetzner", Requests: Requests{Account: "acme"}}, {Name: "b", Type: "hetzner"}, {Name: "c", Type: "local"}}}
	for _, tc := range []struct {
		typ, account string
		want         []string
	}{{"hetzner", "acme", []string{"a"}}, {"hetzner", "other", nil}, {"local", "whatever", []string{"c"}}, {"openstack", "acme", nil}} {
		if diff := cmp.Diff(sameAccount(c, Source{Type: tc.typ, Account: tc.account}), tc.want); diff != "" {
			t.Errorf("%s of %s (-got +want)\n%s", tc.typ, tc.account, diff)
		}
	}
}
