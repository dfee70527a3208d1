package config

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tollgate-dev/tollgate/internal/provider"
)

var testOptions = Options{Types: []provider.Type{
	{Name: "local", Profile: provider.Profile{Isolated: true, ClientKind: "local-process"}}, {Name: "hetzner"},
}}

func TestParseFillsDefaults(t *testing.T) {
	t.Parallel()
	got, err := Parse([]byte("installation: acme\nproviders: [{name: one, type: local}, {name: two, type: hetzner}]\nprobe: {target: 'x:1'}\n"), "c.yaml", testOptions)
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		Installation: "acme",
		Providers: []Provider{
			{Name: "one", Type: "local", Shards: 1, Budget: Budget{RequestsPerSecond: 1000, Burst: 1000}, DriftInterval: 2 * time.Minute},
			{Name: "two", Type: "hetzner", Shards: 1, Budget: Budget{RequestsPerSecond: 20, Burst: 40}, DriftInterval: 2 * time.Minute},
		},
		Secrets: map[string]Secret{},
		Probe: Probe{
			Target: "x:1", Interval: 30 * time.Second, Timeout: 5 * time.Second, UnhealthyAfter: 3, HealthyAfter: 1,
			BrakeFraction: 0.2, BrakeMin: 3, Concurrency: 64,
		},
		GC:     GC{Interval: 10 * time.Minute, MinAge: 10 * time.Minute, ConfirmAfter: 30 * time.Second, Cap: 10},
		Health: Health{Interval: time.Minute},
		Log:    Log{Level: slog.LevelInfo, Format: "text"},
		File:   "c.yaml",
	}
	opts := cmp.Options{cmpopts.IgnoreFields(Config{}, "Version"), cmpopts.IgnoreUnexported(Config{}, Provider{})}
	if diff := cmp.Diff(want, got, opts); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	if got.Version == "" {
		t.Error("no version")
	}
}

func TestParseReadsEverything(t *testing.T) {
	t.Parallel()
	reserve := 200
	got, err := Load("testdata/full.yaml", testOptions)
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		Installation: "acme-prod",
		Providers: []Provider{
			{Name: "here", Type: "local", Shards: 2, Budget: Budget{RequestsPerSecond: 100, Burst: 200}, DriftInterval: 30 * time.Second},
			{Name: "fsn", Type: "hetzner", Shards: 1, Budget: Budget{RequestsPerSecond: 0.5, Burst: 5}, DriftInterval: 5 * time.Minute,
				Requests: Requests{PerHour: 1800, Reserve: &reserve, Account: "acme"}, SpendCap: 1_500_000,
				Prices: provider.PriceList{{Region: "fsn1", MachineType: "cx23", EURPerHour: 4900}, {EURPerHour: 12_500}}},
		},
		Secrets: map[string]Secret{
			"squid-cloud-init": {File: "/etc/tollgate/squid.yaml"},
			"hcloud-token":     {Env: "HCLOUD_TOKEN"},
			"discovery":        {File: filepath.Join("testdata", "token")},
		},
		Probe: Probe{
			Target: "example.com:443", Interval: 10 * time.Second, Timeout: time.Second, UnhealthyAfter: 2, HealthyAfter: 2,
			BrakeFraction: 0.5, BrakeMin: 5, Concurrency: 8,
			TLS: ProbeTLS{Enabled: true, ServerName: "example.com", CAFile: filepath.Join("testdata", "ca.pem")},
		},
		GC:     GC{Interval: time.Minute, MinAge: 5 * time.Minute, ConfirmAfter: 10 * time.Second, Cap: 3},
		Health: Health{Interval: 2 * time.Minute},
		Reap: []Reap{
			{Provider: "fsn", Selector: provider.Selector{Namespace: "ci"}, OlderThan: 6 * time.Hour, Interval: 15 * time.Minute},
			{Provider: "fsn", Selector: provider.Selector{Namespace: "ci", Proxy: "nightly"}, OlderThan: time.Hour, Interval: 5 * time.Minute},
		},
		Discovery: Discovery{Token: "discovery"},
		Codec:     Codec{KeyFile: "/etc/tollgate/keys.json", Token: "discovery", UIURL: "https://temporal.example.com"},
		Log:       Log{Level: slog.LevelDebug, Format: "json"},
		File:      "testdata/full.yaml",
	}
	opts := cmp.Options{cmpopts.IgnoreFields(Config{}, "Version"), cmpopts.IgnoreUnexported(Config{}, Provider{})}
	if diff := cmp.Diff(want, got, opts); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}

	var block struct {
		Location       string `yaml:"location"`
		TokenSecretRef string `yaml:"tokenSecretRef"`
	}
	p, ok := got.Provider("fsn")
	if !ok {
		t.Fatal("provider fsn is missing")
	}
	if err := p.Decode(&block); err != nil {
		t.Fatal(err)
	}
	if block.Location != "fsn1" || block.TokenSecretRef != "hcloud-token" {
		t.Errorf("block = %+v", block)
	}
	err = p.Annotate(errors.Join(errors.New(`location: "fsn1" is closed`), nil, errors.New("tokenSecretRef: is empty")))
	if want := "testdata/full.yaml:19: providers[1].hetzner.location: \"fsn1\" is closed\n" +
		"testdata/full.yaml:20: providers[1].hetzner.tokenSecretRef: is empty"; err == nil || err.Error() != want {
		t.Errorf("annotated:\n%v\nwant\n%s", err, want)
	}
	here, _ := got.Provider("here")
	err = here.Annotate(errors.New("network: is required"))
	if want := "testdata/full.yaml:3: providers[0].local: network: is required"; err == nil || err.Error() != want {
		t.Errorf("annotated without a block:\n%v\nwant\n%s", err, want)
	}
	if err := p.Annotate(nil); err != nil {
		t.Errorf("annotated nothing: %v", err)
	}

	var strict struct {
		Location string `yaml:"location"`
	}
	err = p.Decode(&strict)
	if want := "testdata/full.yaml:20: providers[1].hetzner.tokenSecretRef: unknown field: allowed are location"; err == nil || err.Error() != want {
		t.Errorf("strict decode of the block = %v, want %s", err, want)
	}
}

// problems names a kind of mistake, the file, and the exact messages.
var problems = map[string]struct{ yaml, want string }{
	"empty file":       {"", "c.yaml: is empty: installation and providers are required"},
	"only a comment":   {"# nothing\n", "c.yaml: is empty: installation and providers are required"},
	"two documents":    {"installation: a\n---\ninstallation: b\n", "c.yaml:3: a second document starts here: one is wanted"},
	"not a mapping":    {"- a\n", "c.yaml:1: is a list: want a mapping of fields"},
	"no installation":  {"providers: [{name: a, type: local}]\n", "c.yaml:1: installation: is required: a name for this Tollgate that no other one in the same cloud accounts has"},
	"bad installation": {"installation: Acme Prod\nproviders: [{name: a, type: local}]\n", `c.yaml:1: installation: "Acme Prod" is not a name: use 1 to 63 lower-case letters, digits and '-', starting and ending with a letter or digit`},
	"no providers":     {"installation: a\n", "c.yaml:1: providers: is required: a list of at least one provider, each with a name and a type (local, hetzner)"},
	"unknown field at the top": {base + "provders: []\n",
		"c.yaml:5: provders: unknown field (did you mean providers?): allowed are codec, discovery, gc, health, installation, log, probe, providers, reap, secrets, sinks, sources"},
	"unknown field below": {base + "gc: {intervall: 5m}\n",
		"c.yaml:5: gc.intervall: unknown field (did you mean interval?): allowed are cap, confirmAfter, interval, minAge"},
	"key twice": {base + "gc: {cap: 1, cap: 2}\n", "c.yaml:5: gc.cap: is given twice, first in line 5"},
	"provider without name": {"installation: a\nproviders:\n  - type: local\n",
		"c.yaml:3: providers[0].name: is required: what spec.provider of a proxy refers to"},
	"provider name not DNS-1123": {"installation: a\nproviders:\n  - type: local\n    name: My_Cloud\n",
		`c.yaml:4: providers[0].name: "My_Cloud" is not a name: use 1 to 63 lower-case letters, digits and '-', starting and ending with a letter or digit`},
	"provider name twice": {base + "  - name: one\n    type: local\n",
		`c.yaml:5: providers[1].name: "one" is given twice, first in line 3: names must be unique`},
	"provider without type":   {"installation: a\nproviders:\n  - name: one\n", "c.yaml:3: providers[0].type: is required: use one of local, hetzner"},
	"provider type unknown":   {"installation: a\nproviders:\n  - name: one\n    type: aws\n", `c.yaml:4: providers[0].type: "aws" is unknown: use one of local, hetzner`},
	"block of another type":   {base + "    hetzner: {}\n", `c.yaml:5: providers[0].hetzner: is the block of type hetzner, but the type is "local": name the block after the type`},
	"unknown provider field":  {base + "    region: x\n", "c.yaml:5: providers[0].region: unknown field: allowed are name, type, shards, budget, spendCap, prices, drift, local"},
	"shards out of range":     {base + "    shards: 0\n", "c.yaml:5: providers[0].shards: 0 is out of range: use 1 to 64, or leave it out for 1"},
	"shards not a number":     {base + "    shards: many\n", `c.yaml:5: providers[0].shards: "many" is a string: want a whole number`},
	"budget not positive":     {base + "    budget: {requestsPerSecond: 0}\n", "c.yaml:5: providers[0].budget.requestsPerSecond: 0 is out of range: use 0.01 to 10000, or leave it out for 1000"},
	"drift without unit":      {base + "    drift: {interval: 120}\n", `c.yaml:5: providers[0].drift.interval: "120" is no duration with a unit: use 1s to 24h, or leave it out for 2m`},
	"secret without a source": {base + "secrets:\n  a: {}\n", "c.yaml:6: secrets[a]: one of file and env is required"},
	"secret with two sources": {base + "secrets:\n  a: {file: x, env: X}\n", "c.yaml:6: secrets[a]: file and env are both set: use one"},
	"secret with its value": {base + "secrets:\n  a: hunter2\n",
		"c.yaml:6: secrets[a]: is a string: want a mapping of fields"},
	"secret name": {base + "secrets:\n  A: {env: X}\n",
		`c.yaml:6: secrets[A]: "A" is not a name: use 1 to 63 lower-case letters, digits and '-', starting and ending with a letter or digit`},
	"secret env name":          {base + "secrets:\n  a: {env: A-B}\n", `c.yaml:6: secrets[a].env: "A-B" is not the name of an environment variable: use letters, digits and '_'`},
	"unknown discovery secret": {base + "discovery: {token: nope}\n", `c.yaml:5: discovery.token: "nope" is no secret: secrets defines none`},
	"unknown secret in a block": {base + "    local:\n      auth: {secretRef: nope}\nsecrets:\n  b: {env: B}\n  a: {env: A}\n",
		`c.yaml:6: providers[0].local.auth.secretRef: "nope" is no secret: secrets defines a, b`},
	"unknown secret in a block's list": {base + "    local:\n      users:\n        - tokenSecretRef: nope\n",
		`c.yaml:7: providers[0].local.users[0].tokenSecretRef: "nope" is no secret: secrets defines none`},
	"probe target without port": {base + "probe: {target: example.com}\n", `c.yaml:5: probe.target: "example.com" is no target: use host:port, such as example.com:443`},
	"probe target port":         {base + "probe: {target: 'example.com:70000'}\n", `c.yaml:5: probe.target: "example.com:70000" is no target: use host:port, such as example.com:443`},
	"probe timeout":             {base + "probe: {timeout: 2m}\n", "c.yaml:5: probe.timeout: 2m is out of range: use 10ms to 1m, or leave it out for 5s"},
	"probe threshold":           {base + "probe: {unhealthyAfter: 0}\n", "c.yaml:5: probe.unhealthyAfter: 0 is out of range: use 1 to 100, or leave it out for 3"},
	"probe tls without enabled": {base + "probe: {tls: {serverName: x}}\n",
		"c.yaml:5: probe.tls: serverName and caFile have no effect while enabled is false: set enabled: true, or leave tls out"},
	"brake fraction": {base + "probe: {brake: {fraction: 20}}\n", "c.yaml:5: probe.brake.fraction: 20 is out of range: use 0.01 to 1, or leave it out for 0.2"},
	"brake type":     {base + "probe: {brake: {fraction: 20%}}\n", `c.yaml:5: probe.brake.fraction: "20%" is a string: want a number`},
	"gc cap":         {base + "gc: {cap: -1}\n", "c.yaml:5: gc.cap: -1 is out of range: use 1 to 500, or leave it out for 10"},
	"health":         {base + "health: {interval: 10ms}\n", "c.yaml:5: health.interval: 10ms is out of range: use 5s to 24h, or leave it out for 1m"},
	"target for a provider elsewhere": {"installation: a\nproviders:\n  - name: fsn\n    type: hetzner\nprobe: {interval: 5s}\n",
		`c.yaml:5: probe.target: is required: provider "fsn" is not on this machine and cannot reach the worker's own HTTP server; use host:port, such as example.com:443`},
	"codec ui without token": {base + "codec: {uiURL: 'http://127.0.0.1:8233'}\n",
		"c.yaml:5: codec.uiURL: has no effect without codec.token, the secret with which people reach the codec endpoint"},
	"codec token without ui": {base + "codec: {token: t, uiURL: somewhere}\nsecrets: {t: {env: T}}\n",
		`c.yaml:5: codec.uiURL: "somewhere" is no address of a web UI: use an http or https URL, such as http://127.0.0.1:8233`},
	"codec token unknown": {base + "codec: {token: t, uiURL: 'http://127.0.0.1:8233'}\n", `c.yaml:5: codec.token: "t" is no secret: secrets defines none`},
	"log level":           {base + "log: {level: verbose}\n", `c.yaml:5: log.level: "verbose" is not a level: use trace, debug, info, warn or error`},
	"log format":          {base + "log: {format: xml}\n", `c.yaml:5: log.format: "xml" is unknown: use text or json`},
	"several at once, in the order of the lines": {
		"installation: a\nproviders:\n  - name: one\n    type: aws\n    shards: x\nlog: {level: loud}\nsurprise: 1\n",
		`c.yaml:4: providers[0].type: "aws" is unknown: use one of local, hetzner` + "\n" +
			`c.yaml:5: providers[0].shards: "x" is a string: want a whole number` + "\n" +
			`c.yaml:6: log.level: "loud" is not a level: use trace, debug, info, warn or error` + "\n" +
			"c.yaml:7: surprise: unknown field: allowed are codec, discovery, gc, health, installation, log, probe, providers, reap, secrets, sinks, sources",
	},
}

const base = "installation: a\nproviders:\n  - name: one\n    type: local\n"

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range problems {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := Parse([]byte(tc.yaml), "c.yaml", testOptions)
			if err == nil {
				t.Fatalf("accepted: %+v", c)
			}
			if diff := cmp.Diff(tc.want, err.Error()); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseNotYAML(t *testing.T) {
	t.Parallel()
	_, err := Parse([]byte("a: [\n"), "c.yaml", testOptions)
	if err == nil || !strings.HasPrefix(err.Error(), "c.yaml:") || !strings.Contains(err.Error(), "is not YAML") {
		t.Errorf("got %v", err)
	}
}

func TestLoadNamesTheFileThatCannotBeRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for path, want := range map[string]string{
		filepath.Join(dir, "none.yaml"): "none.yaml: cannot be read: no such file or directory",
		dir:                             "cannot be read: " + dir + " is a directory, not a file",
	} {
		_, err := Load(path, testOptions)
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("Load(%s) = %v, want it to end in %q", path, err, want)
		}
	}
	big := filepath.Join(dir, "big.yaml")
	if err := os.WriteFile(big, make([]byte, maxConfigFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(big, testOptions); err == nil || !strings.Contains(err.Error(), "more than 1048576 bytes") {
		t.Errorf("a file over the limit: %v", err)
	}
}

func TestGeneratedInstallationIsADefaultOnly(t *testing.T) {
	t.Parallel()
	o := testOptions
	o.Installation = "dev-1234"
	c, err := Parse([]byte("providers: [{name: one, type: local}]\n"), "c.yaml", o)
	if err != nil {
		t.Fatal(err)
	}
	if c.Installation != "dev-1234" {
		t.Errorf("installation = %q", c.Installation)
	}
	c, err = Parse([]byte(base), "c.yaml", o)
	if err != nil {
		t.Fatal(err)
	}
	if c.Installation != "a" {
		t.Errorf("installation = %q, want the file's", c.Installation)
	}
}
