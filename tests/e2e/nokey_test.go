//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/workflows/api"
)

// TestCommandsWithoutTheKey: without the workers' key file nothing that workers
// wrote can be read. Each command says so, names the way out, and changes
// nothing that it cannot see the end of.
func TestCommandsWithoutTheKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	demo := w.create("demo")
	w.write("demo.yaml", "apiVersion: tollgate/v1\nkind: Proxy\nmetadata: {name: demo}\nspec: {provider: local, port: 4000}\n")
	plain := func(args string) result {
		t.Helper()
		return runProgram(t, w.cliCommand([]string{"TOLLGATE_CODEC_KEYS="}, strings.Fields(args)...))
	}
	for _, args := range []string{
		"proxy get demo", "proxy get demo -o yaml", "proxy list", "proxy list -o json", "proxy update demo --port 4000",
		"proxy update demo --port 4000 --wait", "proxy replace demo", "proxy delete demo --wait", "apply -f demo.yaml",
		"apply -f demo.yaml --dry-run", "fleet list", "fleet list -o json", "fleet release local", "providers list",
		"providers check", "gc run", "gc run local --dry-run", "proxy create other -p local --wait",
	} {
		r := plain(args).want(t, 1).has(t, "is encrypted, and no key file is given", "  give the workers' key file with --codec-key-file or TOLLGATE_CODEC_KEYS")
		if out := strings.ReplaceAll(r.stdout, "proxy default/other: created\n", ""); out != "" || strings.Contains(r.stderr, "payload") {
			t.Errorf("%s:\n%s%s", args, r.stdout, r.stderr)
		}
	}
	if p := w.waitFor("demo", 10*time.Second, "running", running); p.Status.InstanceID != demo.Status.InstanceID || p.Metadata.Generation != 1 {
		t.Errorf("demo was changed to %+v", p)
	}
	// What needs no answer works all the same.
	plain("proxy history demo").want(t, 0).has(t, "details are encrypted and left out", "--codec-key-file", "WaitRunning")
	plain("schedules list").want(t, 0).has(t, "gc/local")
	plain("proxy replace demo --wait=false").want(t, 0)
	w.waitFor("demo", 20*time.Second, "replaced", func(p api.Proxy) bool { return running(p) && p.Status.Replacements == 1 })
	plain("proxy delete demo other").want(t, 0)
	for _, name := range []string{"demo", "other"} {
		w.eventually(30*time.Second, func() string { return w.closed(name) })
	}
	w.wantNothing(10 * time.Second)

	// Another key than the workers' is another mistake.
	w.create("again")
	w.must("keys", "generate", "--codec-key-file", "new-keys.json")
	w.tollgate("proxy", "get", "again", "--codec-key-file", "new-keys.json").want(t, 1).
		has(t, "proxy default/again: the answer cannot be decrypted", "which the key file", "look with tollgate keys list")
	w.must("proxy", "delete", "again", "--wait")
}
