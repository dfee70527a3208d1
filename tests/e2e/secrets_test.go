//go:build e2e

package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// sentinels are secret values that must not turn up anywhere, in any form.
type sentinels map[string][]byte

// forms are the ways in which a value can stand in a file: as it is, in hex and
// in both base64 alphabets at each of the three offsets.
func forms(value []byte) map[string][]byte {
	out := map[string][]byte{
		"plain": value,
		"hex":   []byte(hex.EncodeToString(value)), "HEX": []byte(strings.ToUpper(hex.EncodeToString(value))),
	}
	for name, enc := range map[string]*base64.Encoding{"base64": base64.RawStdEncoding, "base64url": base64.RawURLEncoding} {
		for offset := range 3 {
			text := enc.EncodeToString(append(make([]byte, offset), value...))
			// The first and the last characters hold bits of the neighbours, too.
			out[fmt.Sprint(name, "+", offset)] = []byte(text[(offset*8+5)/6 : (offset+len(value))*8/6])
		}
	}
	return out
}

// found names the sentinels that a text holds.
func (s sentinels) found(text []byte) (names []string) {
	for name, value := range s {
		for form, b := range forms(value) {
			if bytes.Contains(text, b) {
				names = append(names, name+" ("+form+")")
			}
		}
	}
	return names
}

// absent fails the test where a sentinel is in the text.
func (s sentinels) absent(t testing.TB, where string, text []byte) {
	t.Helper()
	if len(text) == 0 {
		t.Errorf("%s is empty: nothing was looked at", where)
	}
	if names := s.found(text); len(names) > 0 {
		t.Errorf("%s holds %s", where, strings.Join(names, ", "))
	}
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// database is all that the engine has on its disk but for its log.
func (w *world) database() (all []byte) {
	w.t.Helper()
	files, err := filepath.Glob(w.engine.DBFile() + "*")
	if err != nil || len(files) < 2 {
		w.t.Fatalf("database files %v, %v", files, err)
	}
	for _, f := range files {
		all = append(all, read(w.t, f)...)
	}
	return all
}

// TestSecrets puts secrets into everything that takes them, makes things fail,
// and looks for them everywhere. It looks at the traces of all that, too.
func TestSecrets(t *testing.T) {
	t.Parallel()
	const (
		ciRef, ciInline, auth = "sentinelCloudInitByRefQm4x", "sentinelCloudInitInlineV7pz", "sentinelPasswordW3kj"
		badAuth, token        = "sentinelMalformedAuthB8rt", "sentinelDiscoveryTokenC2hy"
	)
	secret := sentinels{"cloud-init by reference": []byte(ciRef), "inline cloud-init": []byte(ciInline), "password": []byte(auth),
		"malformed credentials": []byte(badAuth), "discovery token": []byte(token)}
	cloudInit := func(s string) string { return "#cloud-config\nusers:\n" + strings.Repeat("- passwd: "+s+"\n", 5) }
	spans := newTracer(t)
	w := newWorld(t, settings{
		token: token,
		extra: "  squid: {env: E2E_SQUID}\n  users: {file: users}\n  badusers: {file: badusers}",
		env:   append(spans.env(), "E2E_SQUID="+cloudInit(ciRef)),
	})
	w.write("users", "alice:"+auth)
	w.write("badusers", badAuth)
	w.write("ci.yaml", cloudInit(ciInline))
	secret.addKeys(t, w.keys)
	// What the command line says, all of it.
	var said bytes.Buffer
	run := func(args ...string) result {
		t.Helper()
		r := runProgram(t, w.cliCommand(nil, args...))
		said.WriteString(r.stdout + r.stderr)
		return r
	}

	traced := runProgram(t, w.cliCommand(spans.env(), "proxy", "create", "demo", "-p", "local", "--cloud-init-secret", "squid", "--auth-secret", "users", "--wait")).want(t, 0)
	said.WriteString(traced.stdout + traced.stderr)
	spans.wantOneTrace(t)
	demo := w.waitFor("demo", 10*time.Second, "running", running)
	run("proxy", "create", "inline", "-p", "local", "--cloud-init", "ci.yaml", "--wait").want(t, 0)
	inline := w.waitFor("inline", 10*time.Second, "running", running)

	// The secrets are in use, or their absence elsewhere would show nothing.
	sites := newTargets(t)
	if err := sites.reach(t.Context(), endpoint(demo), url.UserPassword("alice", auth)); err != nil {
		t.Error(err)
	}
	if err := sites.reach(t.Context(), endpoint(demo), url.UserPassword("alice", "wrong")); err == nil {
		t.Error("a wrong password is accepted")
	}
	for p, want := range map[*api.Proxy]string{&demo: cloudInit(ciRef), &inline: cloudInit(ciInline)} {
		got := read(t, filepath.Join(w.dir, "state", "providers", "local", "instances", p.Status.InstanceName, "user-data"))
		if string(got) != want {
			t.Errorf("%s got the user data %q, want %q", p.Metadata.Name, got, want)
		}
	}

	// Failures of all kinds, whose texts are kept and shown.
	run("proxy", "create", "bad-auth", "-p", "local", "--auth-secret", "badusers", "--wait").want(t, 9).has(t, `spec.auth.secretRef: "badusers"`)
	run("proxy", "create", "bad-zone", "-p", "local", "--zone", "z9", "--cloud-init", "ci.yaml", "--wait").want(t, 9).has(t, `placement.zone: "z9"`)
	run("proxy", "create", "no-secret", "-p", "local", "--cloud-init-secret", "nosuch", "--wait").want(t, 9).has(t, "nosuch")
	run("proxy", "update", "demo", "--cloud-init", "ci.yaml", "--machine-type", "huge", "--wait").want(t, 9).has(t, `placement.machineType: "huge"`)
	run("proxy", "update", "demo", "--cloud-init-secret", "squid", "--machine-type", "", "--wait").want(t, 0)
	refused := api.ProxyInput{Spec: api.ProxySpec{Provider: "local", Port: 70000, CloudInit: &api.SecretSource{Inline: cloudInit(ciInline)}}}
	bad, err := w.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: workflows.ProxyID("default", "bad-input"), TaskQueue: workflows.TaskQueue}, workflows.TypeProxy, refused)
	if err != nil {
		t.Fatal(err)
	}
	if err := bad.Get(t.Context(), nil); err == nil {
		t.Error("port 70000 is accepted")
	} else {
		said.WriteString(err.Error())
	}

	// Everything that shows a proxy.
	for _, name := range []string{"demo", "inline", "bad-auth", "bad-zone", "no-secret"} {
		for _, format := range []string{"table", "wide", "json", "yaml"} {
			run("proxy", "get", name, "-o", format).want(t, 0)
			run("proxy", "history", name, "--all", "--limit", "0", "-o", format).want(t, 0)
		}
	}
	run("proxy", "history", "bad-input", "--all").want(t, 0)
	for _, format := range []string{"table", "wide", "json", "yaml"} {
		run("proxy", "list", "-o", format).want(t, 0)
		run("fleet", "list", "-o", format).want(t, 0)
		run("providers", "check", "-o", format).want(t, 0)
	}
	doc := run("proxy", "get", "inline", "-o", "yaml").want(t, 0).has(t, "[redacted]").stdout
	w.write("inline.yaml", strings.Replace(doc, "port: 3128", "port: 3130", 1))
	run("apply", "-f", "inline.yaml", "--dry-run").want(t, 0).has(t, "spec.port: 3128 -> 3130")
	run("apply", "-f", "inline.yaml", "--wait").want(t, 0)
	inline = w.waitFor("inline", 10*time.Second, "running", running)
	if got := read(t, filepath.Join(w.dir, "state", "providers", "local", "instances", inline.Status.InstanceName, "user-data")); string(got) != cloudInit(ciInline) {
		t.Error("a redacted document lost the cloud-init")
	}
	run("proxy", "replace", "demo").want(t, 0)
	run("gc", "run", "local").want(t, 0)

	// The command lines and environments of the proxies.
	pids := w.processes()
	if len(pids) != 2 {
		t.Errorf("proxy processes %v, want two", pids)
	}
	for _, pid := range pids {
		secret.absent(t, "the command line of a proxy", read(t, fmt.Sprintf("/proc/%d/cmdline", pid)))
		if env := read(t, fmt.Sprintf("/proc/%d/environ", pid)); len(secret.found(env)) > 0 {
			t.Errorf("the environment of a proxy holds %v", secret.found(env))
		}
	}

	w.rounds(3) // of the background, which must not be in any trace
	metrics := w.metrics()
	run("proxy", "delete", "demo", "inline", "bad-auth", "bad-zone", "no-secret", "--wait").want(t, 0)
	w.clearText(secret)
	w.stopWorker() // its last spans are exported
	spans.wantNoBackground(t)

	secret.absent(t, "the command line's output", said.Bytes())
	secret.absent(t, "/metrics", []byte(metrics))
	secret.absent(t, "the engine's database", w.database())
	secret.absent(t, "the engine's log", append(read(t, w.engine.LogFile()), "log"...))
	secret.absent(t, "the worker's log", read(t, filepath.Join(w.dir, "worker.log")))
	secret.absent(t, "an export of spans", spans.bytes())
}

// addKeys adds the keys of the codec.
func (s sentinels) addKeys(t testing.TB, path string) {
	t.Helper()
	var file struct{ Keys map[string]string }
	if err := json.Unmarshal(read(t, path), &file); err != nil || len(file.Keys) == 0 {
		t.Fatalf("key file %s: %v", path, err)
	}
	for id, text := range file.Keys {
		key, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		s["codec key "+id] = key
	}
}

// clearText shows that the search of the database can find something: what a
// person types in the clear.
func (w *world) clearText(secret sentinels) {
	w.t.Helper()
	plain := w.engine.Client()
	control := sentinels{"control": []byte("controlInTheClearZ6mn")}
	if got := control.found(w.database()); len(got) > 0 {
		w.t.Fatalf("the control was there before: %v", got)
	}
	_, err := plain.ExecuteWorkflow(w.t.Context(), client.StartWorkflowOptions{ID: workflows.ProxyID("default", "clear"), TaskQueue: workflows.TaskQueue},
		workflows.TypeProxy, map[string]any{"spec": map[string]any{"provider": "controlInTheClearZ6mn"}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.eventually(10*time.Second, func() string {
		if len(control.found(w.database())) == 0 {
			return "what was typed in the clear is not found in the database"
		}
		return ""
	})
	for name, value := range secret {
		if got := (sentinels{name: value}).found([]byte("x" + base64.StdEncoding.EncodeToString(append([]byte("ab"), value...)))); len(got) == 0 {
			w.t.Errorf("the search does not know %s in base64", name)
		}
	}
}
