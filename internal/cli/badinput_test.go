package cli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each mistake is refused before anything is changed, with the place, the value
// and what is allowed.
func TestBadCommandLines(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ args, want string }{
		{"prxoy list", "tollgate: \"prxoy\" is no command of tollgate: use apply, completion, cursor, fleet, gc, inventory, keys, providers, proxy, reap, schedules, shoot or version\n  did you mean tollgate proxy?\n"},
		{"proxy lsit", "tollgate: \"lsit\" is no command of tollgate proxy: use create, delete, get, history, list, replace, retry or update\n  did you mean tollgate proxy list?\n"},
		{"proxy get", "tollgate: tollgate proxy get: NAME is required; usage: tollgate proxy get NAME\n"},
		{"proxy get a b", "tollgate: tollgate proxy get: \"b\" is one argument too many; usage: tollgate proxy get NAME\n"},
		{"proxy get Demo_1", "tollgate: name: \"Demo_1\" is not a name: use 1 to 63 lower-case letters, digits and '-', starting and ending with a letter or digit\n"},
		{"proxy get demo -n Team", "tollgate: --namespace: \"Team\" is not a name: use 1 to 63 lower-case letters, digits and '-', starting and ending with a letter or digit\n"},
		{"proxy get demo -o xml", "tollgate: --output: \"xml\" is not allowed: use table, wide, json or yaml\n"},
		{"proxy get demo --timeout 5", "tollgate: --timeout: \"5\" is not allowed: use a number with a unit, such as 90s or 10m\n"},
		{"proxy get demo --timeout -5s", "tollgate: --timeout: -5s is negative: use a duration such as 30s or 10m, or 0 for the command's default\n"},
		{"proxy get demo --colour", "tollgate: unknown flag: --colour\n  see tollgate proxy get --help\n"},
		{"proxy create demo", "tollgate: tollgate proxy create: --provider is required\n"},
		{"proxy create demo -p Local!", "tollgate: spec.provider: \"Local!\" is not a name: use 1 to 63 lower-case letters, digits and '-', starting and ending with a letter or digit\n"},
		{"proxy create demo -p local --port 70000", "tollgate: --port: \"70000\" is not allowed: use a TCP port, 1 to 65535\n"},
		{"proxy create demo -p local --port http", "tollgate: --port: \"http\" is not allowed: use a TCP port, 1 to 65535\n"},
		{"proxy create demo -p local --replacement Rolling", "tollgate: --replacement: \"Rolling\" is not allowed: use Recreate or CreateBeforeDelete\n"},
		{"proxy create demo -p local --never-healthy-after 10", "tollgate: --never-healthy-after: \"10\" is not allowed: use a number with a unit, such as 90s or 10m\n"},
		{"proxy create demo -p local --never-healthy-after 48h", "tollgate: spec.neverHealthyAfter: 48h0m0s is out of range: use 1s to 24h, or leave it out for 10m0s\n"},
		{"proxy create demo -p local -l team", "tollgate: --label: \"team\" is no label: use key=value\n"},
		{"proxy create demo -p local -l team-", "tollgate: --label: \"team-\" is no label: use key=value\n"},
		{"proxy create demo -p local -l te?m=x", "tollgate: --label: key \"te?m\": use 1 to 63 of letters, digits, '-', '_', '.' and '/'\n"},
		{"proxy create demo -p local --cloud-init nope.yaml", "tollgate: --cloud-init: nope.yaml: no such file or directory\n"},
		{"proxy create demo -p local --cloud-init empty.txt", "tollgate: --cloud-init: empty.txt: is empty\n"},
		{"proxy create demo -p local --cloud-init binary.bin", "tollgate: --cloud-init: binary.bin: is no UTF-8 text\n"},
		{"proxy create demo -p local --cloud-init ci.txt --cloud-init-secret x", "tollgate: --cloud-init and --cloud-init-secret are both given: use one\n"},
		{"proxy create demo -p local --cloud-init ci.txt", "tollgate: spec.cloudInit.inline: would leave this machine unencrypted, as there is no key file: put the value into the workers' secrets and name it in spec.cloudInit.secretRef, or give the workers' key file with --codec-key-file or TOLLGATE_CODEC_KEYS\n"},
		{"proxy create demo -p local --auth-secret a/b", "tollgate: --auth-secret: \"a/b\" is not a name: use 1 to 63 lower-case letters, digits and '-', starting and ending with a letter or digit\n"},
		{"proxy update demo --provider x", "tollgate: unknown flag: --provider\n  see tollgate proxy update --help\n"},
		{"proxy delete", "tollgate: tollgate proxy delete: NAME is required; usage: tollgate proxy delete NAME...\n"},
		{"proxy delete demo -f p.yaml", "tollgate: tollgate proxy delete: names and --filename are both given: use one\n"},
		{"proxy list --phase Dead", "tollgate: --phase: \"Dead\" is not allowed: use Pending, Provisioning, Running, Replacing or Deleting\n"},
		{"proxy history demo --limit -1", "tollgate: --limit: -1 is negative: use 0 for no limit\n"},
		{"proxy replace demo --wait=maybe", "tollgate: --wait: \"maybe\" is not allowed: use true or false\n"},
		{"gc run local --cap 1000", "tollgate: cap: 1000 is out of range: use 1 to 500, or leave it out for 10\n"},
		{"gc run local --cap ten", "tollgate: --cap: \"ten\" is not allowed: use a whole number\n"},
		{"gc run local --min-age -1m", "tollgate: minAge: -1m0s is out of range: use up to 720h, or leave it out for 10m0s\n"},
		{"inventory run cloud --max-ends -1", "tollgate: maxEnds: -1 is negative: use 1 or more, or leave it out for 20\n"},
		{"inventory get", "tollgate: tollgate inventory get: SOURCE is required; usage: tollgate inventory get SOURCE...\n"},
		{"schedules apply", "tollgate: tollgate schedules apply: --config is required: the workers' configuration file, or TOLLGATE_CONFIG\n"},
		{"schedules apply --config bad.yaml", "tollgate: bad.yaml:2: providers[0].name: \"Bad Name\" is not a name: use 1 to 63 lower-case letters, digits and '-', starting and ending with a letter or digit\n"},
		{"apply", "tollgate: tollgate apply: --filename is required\n"},
		{"apply -f nope.yaml", "tollgate: nope.yaml: no such file or directory\n"},
		{"apply -f none", "tollgate: none: no .yaml, .yml or .json file in this directory\n"},
		{"keys retire k1", "tollgate: keys retire: what k1 encrypted can never be decrypted again: confirm with --yes\n"},
		{"proxy get demo --codec-key-file nope.json", "tollgate: key file: open /home/me/nope.json: no such file or directory\n  make one with tollgate keys generate, or name another with --codec-key-file or TOLLGATE_CODEC_KEYS\n"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			t.Parallel()
			f := world()
			c := newCLI(t, f)
			if strings.Contains(tc.args, "nope.json") {
				c.connect = connect
			}
			c.write("empty.txt", "")
			c.write("binary.bin", "\xff\xfe")
			c.write("ci.txt", "#cloud-config\n")
			c.write("none/readme.txt", "")
			c.write("bad.yaml", "providers:\n- {name: Bad Name, type: local}\n")
			r := c.run(strings.Fields(tc.args)...)
			if r.code != ExitUsage || r.stdout != "" {
				t.Errorf("exit code %d, stdout %q", r.code, r.stdout)
			}
			if diff := cmp.Diff(strings.ReplaceAll(r.stderr, c.dir, "/home/me"), tc.want); diff != "" {
				t.Errorf("stderr (-got +want)\n%s", diff)
			}
			if len(f.signals) != 0 || len(f.runs) != len(world().runs) {
				t.Error("something was changed")
			}
		})
	}
}

func TestBadDocuments(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: tollgate/v1\nkind: Proxy\nmetadata: {name: a}\n"
	const notAName = "is not a name: use 1 to 63 lower-case letters, digits and '-', starting and ending with a letter or digit"
	specFields := "allowed are auth, cloudInit, neverHealthyAfter, placement, port, provider, replacement"
	for _, tc := range []struct{ name, doc, want string }{
		{"empty", "# nothing\n", "p.yaml: no documents"},
		{"syntax", head + "spec:\n  provider: [local\n", "p.yaml:4: is not YAML: did not find expected ',' or ']'"},
		{"a list", "- a\n", "p.yaml:1: is no object: want apiVersion: tollgate/v1, kind: Proxy"},
		{"no version", "kind: Proxy\n", "p.yaml:1: apiVersion: is required: use tollgate/v1"},
		{"other version", "apiVersion: tollgate/v2\nkind: Proxy\n", `p.yaml:1: apiVersion: "tollgate/v2" is unknown: use tollgate/v1`},
		{"no kind", "apiVersion: tollgate/v1\n", "p.yaml:1: kind: is required: use Proxy"},
		{"other kind", "apiVersion: tollgate/v1\nkind: Pod\n", `p.yaml:2: kind: "Pod" is unknown: use Proxy or ProxyList`},
		{"no name", "apiVersion: tollgate/v1\nkind: Proxy\nspec: {provider: local}\n", "p.yaml:1: metadata.name: is required"},
		{"bad name", "apiVersion: tollgate/v1\nkind: Proxy\nmetadata:\n  name: My Proxy\nspec: {provider: local}\n", `p.yaml:4: metadata.name: "My Proxy" ` + notAName},
		{"number as a name", "apiVersion: tollgate/v1\nkind: Proxy\nmetadata:\n  name: 7\nspec: {provider: local}\n", "p.yaml:4: metadata.name: 7 is a whole number: want a string; put it in quotes"},
		{"bad namespace", "apiVersion: tollgate/v1\nkind: Proxy\nmetadata:\n  name: a\n  namespace: A\nspec: {provider: local}\n", `p.yaml:5: metadata.namespace: "A" ` + notAName},
		{"no spec", head, "p.yaml:1: spec.provider: is required: the name of a configured provider (tollgate providers list)"},
		{"unknown field", head + "spec:\n  provider: local\n  prot: 1\n", "p.yaml:6: spec.prot: unknown field (did you mean port?): " + specFields},
		{"unknown field at the top", head + "specs: {}\n", "p.yaml:4: specs: unknown field (did you mean spec?): allowed are apiVersion, kind, metadata, spec, status"},
		{"duplicate key", head + "spec:\n  provider: local\n  provider: other\n", "p.yaml:6: spec.provider: is given twice, first in line 5"},
		{"string as a port", head + "spec: {provider: local, port: http}\n", `p.yaml:4: spec.port: "http" is a string: want a whole number`},
		{"port out of range", head + "spec:\n  provider: local\n  port: 70000\n", "p.yaml:6: spec.port: 70000 is not a TCP port: use 1 to 65535, or leave it out for 3128"},
		{"fraction as a port", head + "spec: {provider: local, port: 80.5}\n", "p.yaml:4: spec.port: 80.5 is a number: want a whole number"},
		{"duration without a unit", head + "spec: {provider: local, neverHealthyAfter: 10}\n", `p.yaml:4: spec.neverHealthyAfter: duration "10": want a number with a unit, such as "10m" or "90s"`},
		{"duration out of range", head + "spec: {provider: local, neverHealthyAfter: 1ms}\n", "p.yaml:4: spec.neverHealthyAfter: 1ms is out of range: use 1s to 24h, or leave it out for 10m0s"},
		{"unknown strategy", head + "spec: {provider: local, replacement: Rolling}\n", `p.yaml:4: spec.replacement: "Rolling" is unknown: use Recreate or CreateBeforeDelete`},
		{"number as a label", "apiVersion: tollgate/v1\nkind: Proxy\nmetadata: {name: a, labels: {tier: 1}}\nspec: {provider: local}\n", "p.yaml:3: metadata.labels[tier]: 1 is a whole number: want a string; put it in quotes"},
		{"bad label", "apiVersion: tollgate/v1\nkind: Proxy\nmetadata:\n  name: a\n  labels:\n    team: 'a b'\nspec: {provider: local}\n", `p.yaml:6: metadata.labels[team]: value "a b": use up to 63 of letters, digits, '-', '_' and '.'`},
		{"both sources of a secret", head + "spec:\n  provider: local\n  cloudInit: {inline: x, secretRef: y}\n", "p.yaml:6: spec.cloudInit: inline and secretRef are both set: use one"},
		{"no source of a secret", head + "spec: {provider: local, cloudInit: {}}\n", "p.yaml:4: spec.cloudInit: one of inline and secretRef is required"},
		{"inline credentials", head + "spec:\n  provider: local\n  auth: {inline: 'a:s3cr3t'}\n", "p.yaml:6: spec.auth.inline: is not allowed: put username:password into the workers' secrets and name it in spec.auth.secretRef"},
		{"secret where a source is wanted", head + "spec:\n  provider: local\n  cloudInit: '#cloud-config s3cr3t'\n", "p.yaml:6: spec.cloudInit: is a string: want a mapping of fields"},
		{"inline secret without a key", head + "spec:\n  provider: local\n  cloudInit:\n    inline: s3cr3t\n", "p.yaml:7: spec.cloudInit.inline: would leave this machine unencrypted, as there is no key file: put the value into the workers' secrets and name it in spec.cloudInit.secretRef, or give the workers' key file with --codec-key-file or TOLLGATE_CODEC_KEYS"},
		{"redacted secret of a new proxy", head + "spec:\n  provider: local\n  cloudInit: {inline: '[redacted]'}\n", `p.yaml:6: spec.cloudInit.inline: "[redacted]" stands for a value, and proxy default/a does not exist: give the value, or a secretRef`},
		{"the same proxy twice", head + "spec: {provider: local}\n---\n" + head + "spec: {provider: local}\n", "p.yaml:8: metadata.name: proxy default/a stands in p.yaml:1 too: give each proxy once"},
		{"in a list", "apiVersion: tollgate/v1\nkind: ProxyList\nitems:\n- apiVersion: tollgate/v1\n  kind: Proxy\n  metadata: {name: a}\n  spec: {provider: local, port: x}\n", `p.yaml:7: items[0].spec.port: "x" is a string: want a whole number`},
		{"several at once", head + "spec:\n  provider: L\n  port: -1\n  replacement: R\n", "p.yaml:5: spec.provider: \"L\" " + notAName + "\np.yaml:6: spec.port: -1 is not a TCP port: use 1 to 65535, or leave it out for 3128\np.yaml:7: spec.replacement: \"R\" is unknown: use Recreate or CreateBeforeDelete"},
		{"change of the provider", "apiVersion: tollgate/v1\nkind: Proxy\nmetadata: {name: demo}\nspec:\n  provider: hetzner\n", `p.yaml:5: spec.provider: cannot be changed from "local" to "hetzner": delete the proxy and create it anew`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := world()
			c := newCLI(t, f)
			c.write("p.yaml", tc.doc)
			r := c.run("apply", "-f", "p.yaml")
			if r.code != ExitUsage || r.stdout != "" {
				t.Errorf("exit code %d, stdout %q", r.code, r.stdout)
			}
			want := "tollgate: " + strings.ReplaceAll(tc.want, "\n", "\ntollgate: ")
			if diff := cmp.Diff(strings.TrimSuffix(r.stderr, "\n"), want); diff != "" {
				t.Errorf("stderr (-got +want)\n%s", diff)
			}
			if strings.Contains(r.stderr, "s3cr3t") {
				t.Error("a secret is in the message")
			}
			if len(f.runs) != len(world().runs) {
				t.Error("something was created")
			}
		})
	}
}

func TestNamespaceOfDocumentsAndFlag(t *testing.T) {
	t.Parallel()
	c := newCLI(t, entity())
	c.write("p.yaml", twoProxies)
	c.run("apply", "-f", "p.yaml", "-n", "other").expect(t, ExitUsage, "tollgate: p.yaml:11: metadata.namespace: \"team-b\" is not the namespace given by --namespace, \"other\"\n")
	c.env["TOLLGATE_NAMESPACE"] = "other"
	if r := c.run("apply", "-f", "p.yaml"); r.code != ExitOK || !strings.Contains(r.stdout, "proxy other/a: created") || !strings.Contains(r.stdout, "proxy team-b/b: created") {
		t.Errorf("exit code %d, %s%s", r.code, r.stdout, r.stderr)
	}
}
