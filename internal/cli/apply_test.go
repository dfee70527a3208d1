package cli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// entity is a namespace whose proxies keep what they are told, as the real
// workflow does.
func entity() *fakeTemporal {
	f := newFake()
	f.onStart = func(id string, in api.ProxyInput) *fakeRun {
		ns, name, _ := workflows.ParseProxyID(id)
		p := serving()
		p.Metadata.Name, p.Metadata.Namespace, p.Metadata.Labels = name, ns, in.Labels
		spec := in.Spec.WithDefaults()
		p.Spec = spec.Redact()
		run := running(workflows.TypeProxy, p)
		run.updates[workflows.UpdateSetSpec] = func(_ context.Context, arg []byte) (any, error) {
			var in api.SetSpecInput
			if err := json.Unmarshal(arg, &in); err != nil {
				return nil, err
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			if in.Labels != nil {
				p.Metadata.Labels = in.Labels
			}
			wanted := in.Spec.KeepInline(spec).WithDefaults()
			r := api.SetSpecResult{Generation: p.Metadata.Generation, Unchanged: wanted.Equal(spec)}
			if !r.Unchanged {
				spec = wanted
				p.Metadata.Generation++
				p.Status.ObservedGeneration = p.Metadata.Generation
				r.Generation = p.Metadata.Generation
			}
			p.Spec = spec.Redact()
			run.statuses = []any{p}
			return r, nil
		}
		return run
	}
	return f
}

const twoProxies = `apiVersion: tollgate/v1
kind: Proxy
metadata:
  name: a
  labels: {team: web}
spec:
  provider: local
---
apiVersion: tollgate/v1
kind: Proxy
metadata: {name: b, namespace: team-b}
spec:
  provider: local
  port: 8080
  placement: {region: fsn1}
`

func TestApplyIsIdempotentAndShowsWhatChanges(t *testing.T) {
	t.Parallel()
	c := newCLI(t, entity())
	c.write("p.yaml", twoProxies)
	step := func(want string, args ...string) {
		t.Helper()
		r := c.run(append([]string{"apply", "-f"}, args...)...)
		r.expect(t, ExitOK, "")
		if diff := cmp.Diff(r.stdout, want); diff != "" {
			t.Errorf("apply %v (-got +want)\n%s", args, diff)
		}
	}
	created := `  + metadata.labels[team]: web
  + spec.neverHealthyAfter: 10m0s
  + spec.port: 3128
  + spec.provider: local
  + spec.replacement: Recreate
`
	createdB := strings.Replace(strings.TrimPrefix(created, "  + metadata.labels[team]: web\n"), "  + spec.port: 3128", "  + spec.placement.region: fsn1\n  + spec.port: 8080", 1)
	step("proxy default/a: would be created\n"+created+"proxy team-b/b: would be created\n"+createdB, "p.yaml", "--dry-run")
	if len(c.fake.runs) != 0 {
		t.Fatal("a dry run created something")
	}
	step("proxy default/a: created\n"+created+"proxy team-b/b: created\n"+createdB, "p.yaml")
	step("proxy default/a: unchanged\nproxy team-b/b: unchanged\n", "p.yaml")

	c.write("p.yaml", strings.NewReplacer("port: 8080", "port: 8081", "  placement: {region: fsn1}\n", "  replacement: CreateBeforeDelete\n", "team: web", "team: ops").Replace(twoProxies))
	a := "  ~ metadata.labels[team]: web -> ops\n"
	b := "  - spec.placement.region: fsn1\n  ~ spec.port: 8080 -> 8081\n  ~ spec.replacement: Recreate -> CreateBeforeDelete\n"
	step("proxy default/a: would change\n"+a+"proxy team-b/b: would change\n"+b, "p.yaml", "--dry-run")
	step("proxy default/a: changed, generation 1\n"+a+"proxy team-b/b: changed, generation 2\n"+b, "p.yaml")
	step("proxy default/a: unchanged\nproxy team-b/b: unchanged\n", "p.yaml")
}

func TestApplyWaitsForAll(t *testing.T) {
	t.Parallel()
	c := newCLI(t, entity())
	c.write("p.yaml", twoProxies)
	r := c.run("apply", "-f", "p.yaml", "--wait")
	if r.code != ExitOK || strings.Count(r.stdout, ": serves at 127.0.0.7:3128\n") != 2 || strings.Count(r.stderr, "Healthy=True") != 2 {
		t.Errorf("exit code %d, stdout\n%s\nstderr\n%s", r.code, r.stdout, r.stderr)
	}
}

func TestApplyAsDocument(t *testing.T) {
	t.Parallel()
	c := newCLI(t, entity())
	c.write("p.yaml", twoProxies)
	c.run("apply", "-f", "p.yaml").expect(t, ExitOK, "")
	c.write("p.yaml", strings.Replace(twoProxies, "port: 8080", "port: 8081", 1))
	r := c.run("apply", "-f", "p.yaml", "-o", "json", "--dry-run")
	want := `[
  {
    "namespace": "default",
    "name": "a",
    "action": "unchanged",
    "generation": 1
  },
  {
    "namespace": "team-b",
    "name": "b",
    "action": "would change",
    "generation": 1,
    "changes": [
      {
        "path": "spec.port",
        "old": "8080",
        "new": "8081"
      }
    ]
  }
]
`
	if diff := cmp.Diff(r.stdout, want); diff != "" {
		t.Errorf("(-got +want)\n%s", diff)
	}
}

// What get and list print can be applied again and changes nothing, secrets
// included.
func TestApplyTakesWhatGetPrints(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"yaml", "json"} {
		for _, command := range []string{"get", "list"} {
			t.Run(command+" "+format, func(t *testing.T) {
				t.Parallel()
				f := entity()
				c := newCLI(t, f)
				c.write("keys.json", "{}")
				c.write("ci.txt", "#cloud-config s3cr3t\n")
				c.run("proxy", "create", "a", "-p", "local", "--cloud-init", "ci.txt", "--codec-key-file", "keys.json", "-l", "n=1").expect(t, ExitOK, "")
				fleet := running(workflows.TypeFleetWatch)
				fleet.table = api.FleetTable{Provider: "local", Shards: 1, Rows: []api.FleetRow{{Namespace: "default", Name: "a", Labels: map[string]string{"n": "1"}}}}
				f.runs[workflows.FleetID("local", 0)] = fleet
				args := []string{"proxy", "list", "-o", format}
				if command == "get" {
					args = []string{"proxy", "get", "a", "-o", format}
				}
				doc := c.run(args...)
				doc.expect(t, ExitOK, "")
				if strings.Contains(doc.stdout, "s3cr3t") || !strings.Contains(doc.stdout, api.RedactedInline) {
					t.Errorf("printed\n%s", doc.stdout)
				}
				c.stdin = doc.stdout
				r := c.run("apply", "-f", "-")
				r.expect(t, ExitOK, "")
				if r.stdout != "proxy default/a: unchanged\n" {
					t.Errorf("applied unchanged: %q", r.stdout)
				}
				c.stdin = strings.Replace(doc.stdout, "3128", "3129", 1)
				r = c.run("apply", "-f", "-")
				r.expect(t, ExitOK, "")
				if r.stdout != "proxy default/a: changed, generation 2\n  ~ spec.port: 3128 -> 3129\n" {
					t.Errorf("applied with another port: %q", r.stdout)
				}
			})
		}
	}
}

// Only the workflow can compare an inline secret with the one it has.
func TestApplyOfAnInlineSecret(t *testing.T) {
	t.Parallel()
	c := newCLI(t, entity())
	c.write("keys.json", "{}")
	doc := "apiVersion: tollgate/v1\nkind: Proxy\nmetadata: {name: a}\nspec: {provider: local, cloudInit: {inline: one}}\n"
	for _, tc := range []struct{ doc, want string }{
		{doc, "proxy default/a: created\n  + spec.cloudInit.inline: [redacted]\n  + spec.neverHealthyAfter: 10m0s\n  + spec.port: 3128\n  + spec.provider: local\n  + spec.replacement: Recreate\n"},
		{doc, "proxy default/a: unchanged\n"},
		{strings.Replace(doc, "inline: one", "inline: two", 1), "proxy default/a: changed, generation 2\n  ? spec.cloudInit.inline: given; the present value is not shown\n"},
		{strings.Replace(doc, "inline: one", "secretRef: squid", 1), "proxy default/a: changed, generation 3\n  - spec.cloudInit.inline: [redacted]\n  + spec.cloudInit.secretRef: squid\n"},
	} {
		c.stdin = tc.doc
		r := c.run("apply", "-f", "-", "--codec-key-file", "keys.json")
		r.expect(t, ExitOK, "")
		if diff := cmp.Diff(r.stdout, tc.want); diff != "" {
			t.Errorf("(-got +want)\n%s", diff)
		}
	}
}

func TestApplyReadsDirectories(t *testing.T) {
	t.Parallel()
	c := newCLI(t, entity())
	doc := func(name string) string {
		return "apiVersion: tollgate/v1\nkind: Proxy\nmetadata: {name: " + name + "}\nspec: {provider: local}\n"
	}
	c.write("d/2.yml", doc("second"))
	c.write("d/1.yaml", doc("first"))
	c.write("d/3.json", `{"apiVersion": "tollgate/v1", "kind": "Proxy", "metadata": {"name": "third"}, "spec": {"provider": "local"}}`)
	c.write("d/README.md", "not a document")
	c.write("d/below/4.yaml", doc("fourth"))
	names := func(args ...string) string {
		var out []string
		for line := range strings.Lines(c.run(append([]string{"apply", "--dry-run", "-f", "d"}, args...)...).stdout) {
			if name, ok := strings.CutSuffix(line, ": would be created\n"); ok {
				out = append(out, strings.TrimPrefix(name, "proxy default/"))
			}
		}
		return strings.Join(out, " ")
	}
	if got := names(); got != "first second third" {
		t.Errorf("directory: %s", got)
	}
	if got := names("-R"); got != "first second third fourth" {
		t.Errorf("directory with those below: %s", got)
	}
}

// One proxy's trouble does not keep the others from being applied.
func TestApplyGoesOnAfterAFailure(t *testing.T) {
	t.Parallel()
	f := entity()
	c := newCLI(t, f)
	c.write("p.yaml", twoProxies)
	broken := running(workflows.TypeProxy, serving())
	broken.statuses = []any{"not a proxy"}
	f.runs["proxy/default/a"] = broken
	r := c.run("apply", "-f", "p.yaml")
	if r.code != ExitFailure || !strings.Contains(r.stdout, "proxy team-b/b: created") || !strings.HasPrefix(r.stderr, "tollgate: proxy default/a: the answer cannot be read: ") {
		t.Errorf("exit code %d, stdout\n%s\nstderr\n%s", r.code, r.stdout, r.stderr)
	}
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	c := newCLI(t, entity())
	c.run("proxy", "create", "a", "-p", "local", "-l", "team=web", "-l", "tier=1", "--cloud-init-secret", "squid", "--auth-secret", "users").expect(t, ExitOK, "")
	for _, tc := range []struct{ args, want string }{
		{"", "proxy default/a: unchanged\n"},
		{"--port 3128", "proxy default/a: unchanged\n"},
		{"--port 3129 --dry-run", "proxy default/a: would change\n  ~ spec.port: 3128 -> 3129\n"},
		{"--port 3129", "proxy default/a: changed, generation 2\n  ~ spec.port: 3128 -> 3129\n"},
		{"-l tier- -l team=ops", "proxy default/a: changed, generation 2\n  ~ metadata.labels[team]: web -> ops\n  - metadata.labels[tier]: 1\n"},
		{"--auth-secret= --never-healthy-after 2m", "proxy default/a: changed, generation 3\n  - spec.auth.secretRef: users\n  ~ spec.neverHealthyAfter: 10m0s -> 2m0s\n"},
		{"--region fsn1 --wait", "proxy default/a: changed, generation 4\n  + spec.placement.region: fsn1\nproxy default/a: serves at 127.0.0.7:3128\n"},
	} {
		r := c.run(append([]string{"proxy", "update", "a"}, strings.Fields(tc.args)...)...)
		if diff := cmp.Diff(r.stdout, tc.want); diff != "" || r.code != ExitOK {
			t.Errorf("update %s: exit code %d, stderr %q (-got +want)\n%s", tc.args, r.code, r.stderr, diff)
		}
	}
}
