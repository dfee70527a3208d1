//go:build e2e

package e2e

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

const notAName = "is not a name: use 1 to 63 lower-case letters, digits and '-', starting and ending with a letter or digit"

// config is a whole configuration with one mistake in it.
func config(lines ...string) string {
	return "installation: acme\nproviders:\n  - name: local\n    type: local\n" + strings.Join(lines, "\n") + "\n"
}

// badConfigs are mistakes in the workers' configuration.
var badConfigs = []struct{ name, file, want string }{
	{"no installation", "providers: [{name: local, type: local}]\n", "tollgate.yaml:1: installation: is required"},
	{"not YAML", "installation: [acme\n", "tollgate.yaml:1: is not YAML"},
	{"unknown field", config("probes: {}"), "tollgate.yaml:5: probes: unknown field (did you mean probe?): allowed are "},
	{"unknown nested field", config("gc: {intervall: 5m}"), "tollgate.yaml:5: gc.intervall: unknown field (did you mean interval?): allowed are cap, confirmAfter, interval, minAge"},
	{"key twice", config("gc:", "  cap: 1", "  cap: 2"), "tollgate.yaml:7: gc.cap: is given twice, first in line 6"},
	{"name of a provider", "installation: acme\nproviders:\n  - name: My_Cloud\n    type: local\n", `tollgate.yaml:3: providers[0].name: "My_Cloud" ` + notAName},
	{"name twice", config("  - name: local", "    type: local"), `tollgate.yaml:5: providers[1].name: "local" is given twice, first in line 3: names must be unique`},
	{"type of a provider", "installation: acme\nproviders:\n  - name: a\n    type: aws\n", `tollgate.yaml:4: providers[0].type: "aws" is unknown: use one of `},
	{"field of a provider's block", config("    local: {idleTimeot: 5m}"), "tollgate.yaml:5: providers[0].local.idleTimeot: unknown field (did you mean idleTimeout?): allowed are "},
	{"value in a provider's block", config("    local: {network: 10.0.0.0/8}"), "tollgate.yaml:5: providers[0].local.network: "},
	{"shards", config("    shards: 0"), "tollgate.yaml:5: providers[0].shards: 0 is out of range: use 1 to 64, or leave it out for 1"},
	{"duration without a unit", config("probe: {interval: 30}"), `tollgate.yaml:5: probe.interval: "30" is no duration with a unit: use 100ms to 24h, or leave it out for 30s`},
	{"probe target", config("probe: {target: example.com}"), `tollgate.yaml:5: probe.target: "example.com" is no target: use host:port, such as example.com:443`},
	{"secret with its value", config("secrets:", "  squid: hunter2"), "tollgate.yaml:6: secrets[squid]: is a string: want a mapping of fields"},
	{"two sources of a secret", config("secrets:", "  squid: {file: a, env: B}"), "tollgate.yaml:6: secrets[squid]: file and env are both set: use one"},
	{"unknown secret", config("discovery: {token: nope}"), `tollgate.yaml:5: discovery.token: "nope" is no secret: secrets defines none`},
	{"cap of sweeps", config("gc: {cap: 9999}"), "tollgate.yaml:5: gc.cap: 9999 is out of range: use 1 to 500, or leave it out for 10"},
	{"log level", config("log: {level: verbose}"), `tollgate.yaml:5: log.level: "verbose" is not a level: use trace, debug, info, warn or error`},
}

// TestBadConfigurations: both programs that read the file refuse it, before they
// do anything.
func TestBadConfigurations(t *testing.T) {
	t.Parallel()
	for _, tc := range badConfigs {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := &world{t: t, dir: t.TempDir()}
			w.write("tollgate.yaml", tc.file)
			cmd := exec.Command(bins(t, "tollgate-worker"), "--config", "tollgate.yaml", "--check")
			cmd.Dir, cmd.Env = w.dir, cleanEnv()
			runProgram(t, cmd).want(t, 2).has(t, tc.want)
			if tc.name == "no installation" {
				return // tollgate-dev makes one
			}
			s := &site{t: t, dir: w.dir, ports: newSite(t).ports}
			p := s.start("--config", "tollgate.yaml")
			if code := p.ended(time.Minute); code != 1 || !strings.Contains(p.output(), tc.want) {
				t.Errorf("tollgate-dev: exit code %d, %s", code, p.output())
			}
		})
	}
}

// badCommands are mistakes on the command line and in documents, and what only
// the workers can know. {} stands for the directory.
var badCommands = []struct {
	args string
	file string // p.yaml
	code int
	want string
}{
	{"prxoy list", "", 2, "\"prxoy\" is no command of tollgate: use apply, completion, cursor, fleet, gc, inventory, keys, providers, proxy, reap, schedules, shoot or version\n  did you mean tollgate proxy?"},
	{"proxy create Demo_1 -p local", "", 2, `name: "Demo_1" ` + notAName},
	{"proxy create demo", "", 2, "tollgate proxy create: --provider is required"},
	{"proxy create demo -p local --port 70000", "", 2, `--port: "70000" is not allowed: use a TCP port, 1 to 65535`},
	{"proxy create demo -p local --replacement Rolling", "", 2, `--replacement: "Rolling" is not allowed: use Recreate or CreateBeforeDelete`},
	{"proxy create demo -p local --never-healthy-after 48h", "", 2, "spec.neverHealthyAfter: 48h0m0s is out of range: use 1s to 24h, or leave it out for 10m0s"},
	{"proxy create demo -p local -l team", "", 2, `--label: "team" is no label: use key=value`},
	{"proxy create demo -p local --cloud-init nope.yaml", "", 2, "--cloud-init: nope.yaml: no such file or directory"},
	{"proxy create taken -p local", "", 4, "proxy default/taken exists already\n  change it with tollgate proxy update taken or tollgate apply -f FILE"},
	{"proxy create lost -p nowhere --wait", "", 9, `no provider "nowhere" is configured`},
	{"proxy create lost2 -p local --auth-secret nobody --wait", "", 9, `spec.auth.secretRef: secret "nobody": no such secret: secrets in {}/tollgate.yaml defines token`},
	{"proxy create lost3 -p local --zone z1 --wait", "", 9, `placement.zone: "z1": want none`},
	{"proxy get nobody", "", 3, "proxy default/nobody does not exist"},
	{"proxy get taken -o xml", "", 2, `--output: "xml" is not allowed: use table, wide, json or yaml`},
	{"proxy get taken --timeout 5", "", 2, `--timeout: "5" is not allowed: use a number with a unit, such as 90s or 10m`},
	{"proxy get taken -n Team", "", 2, `--namespace: "Team" ` + notAName},
	{"proxy get taken --codec-key-file nope.json", "", 2, "key file: open {}/nope.json: no such file or directory\n  make one with tollgate keys generate"},
	{"proxy update taken --port x", "", 2, `--port: "x" is not allowed: use a TCP port, 1 to 65535`},
	{"proxy list -p elsewhere", "", 3, `provider "elsewhere" has no fleet: it is not configured, or no proxy ever named it`},
	{"gc run nowhere", "", 3, `provider "nowhere" is not known: no worker with it in its configuration ever ran`},
	{"gc run local --cap 1000", "", 2, "cap: 1000 is out of range: use 1 to 500, or leave it out for 10"},
	{"providers check nowhere", "", 3, "provider nowhere is not configured: it has no health workflow"},
	{"proxy list --temporal-namespace nowhere", "", 5, `namespace "nowhere" does not exist`},
	{"proxy list --address 127.0.0.1:1", "", 5, "temporal cannot be reached at 127.0.0.1:1"},
	{"apply -f p.yaml", "apiVersion: tollgate/v2\nkind: Proxy\n", 2, `p.yaml:1: apiVersion: "tollgate/v2" is unknown: use tollgate/v1`},
	{"apply -f p.yaml", "apiVersion: tollgate/v1\nkind: Proxy\nmetadata: {name: a}\nspec:\n  provider: local\n  prot: 1\n", 2, "p.yaml:6: spec.prot: unknown field (did you mean port?): allowed are auth, cloudInit, neverHealthyAfter, placement, port, provider, replacement"},
	{"apply -f p.yaml", "apiVersion: tollgate/v1\nkind: Proxy\nmetadata: {name: a}\nspec:\n  provider: local\n  port: http\n", 2, `p.yaml:6: spec.port: "http" is a string: want a whole number`},
	{"apply -f p.yaml", "apiVersion: tollgate/v1\nkind: Proxy\nmetadata: {name: a}\nspec:\n  provider: local\n  auth: {inline: 'me:secret'}\n", 2, "p.yaml:6: spec.auth.inline: is not allowed: put username:password into the workers' secrets and name it in spec.auth.secretRef"},
	{"apply -f p.yaml", "apiVersion: tollgate/v1\nkind: Proxy\nmetadata: {name: taken}\nspec:\n  provider: other\n", 2, `p.yaml:5: spec.provider: cannot be changed from "local" to "other": delete the proxy and create it anew`},
}

// TestBadCommands: the command line says what is wrong, and changes nothing.
func TestBadCommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	taken := w.create("taken")
	for _, tc := range badCommands {
		name := tc.args
		if tc.file != "" {
			name = tc.want
		}
		t.Run(name, func(t *testing.T) {
			if tc.file != "" {
				w.write("p.yaml", tc.file)
			}
			r := w.tollgate(strings.Fields(tc.args)...).want(t, tc.code).has(t, strings.ReplaceAll(tc.want, "{}", w.dir))
			if !strings.Contains("\n"+r.stderr, "\ntollgate: ") || strings.Contains(r.stderr, "me:secret") {
				t.Errorf("standard error is\n%s", r.stderr)
			}
		})
	}
	// Those that the workers had to judge exist, wait for a change, and can go.
	var list struct{ Items []api.Proxy }
	w.mustJSON(&list, "proxy", "list")
	if len(list.Items) != 4 {
		t.Errorf("%d proxies exist, want taken and the three that wait", len(list.Items))
	}
	if p := w.waitFor("taken", 10*time.Second, "running", running); p.Status.InstanceID != taken.Status.InstanceID || p.Metadata.Generation != 1 {
		t.Errorf("taken was changed to %+v", p)
	}
	w.wantInstances(1, time.Second)

	// An update that reaches the workflow is judged there, too, and leaves no
	// trace in its history.
	before := w.point("taken")
	for want, spec := range map[string]api.ProxySpec{
		"spec.port: 70000 is not a TCP port: use 1 to 65535, or leave it out for 3128": {Provider: "local", Port: 70000},
		`spec.provider: cannot be changed from "local" to "other"`:                     {Provider: "other"},
	} {
		err := w.update(t.Context(), "taken", workflows.UpdateSetSpec, api.SetSpecInput{Spec: spec}, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the update to %+v was answered %v, want %q", spec, err, want)
		}
	}
	if after := w.point("taken"); after != before {
		t.Errorf("refused updates moved the history from %s to %s", before, after)
	}
	w.must("proxy", "delete", "taken", "lost", "lost2", "lost3", "--wait")
	w.wantNothing(10 * time.Second)
}
