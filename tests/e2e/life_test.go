//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// TestLife is a proxy's whole life, driven by the command line: created, used,
// listed, killed, frozen, changed, replaced, kept over a restart of the worker,
// and deleted. The steps build on one another.
func TestLife(t *testing.T) {
	w := newWorld(t, settings{})
	sites := newTargets(t)

	out := w.tollgate("proxy", "create", "demo", "--provider", "local", "--label", "team=web", "--wait").want(t, 0)
	p := w.waitFor("demo", 10*time.Second, "running", running)
	out.has(t, "proxy default/demo: created", "proxy default/demo: serves at "+endpoint(p))
	w.wantInstances(1, time.Second)
	serves := func(step string) {
		t.Helper()
		if err := sites.reach(t.Context(), endpoint(p), nil); err != nil {
			t.Errorf("%s: %v", step, err)
		}
		w.wantListed(10*time.Second, map[string]string{"demo": endpoint(p)})
	}
	serves("created")
	w.wantShown(p)

	// Replacements are counted to the end: each step makes exactly one.
	replaced := 0
	step := func(what, reason string, limit time.Duration, do func(pid int)) {
		t.Helper()
		old, pid := p, w.process(p)
		do(pid)
		p = w.waitFor("demo", limit, what, func(n api.Proxy) bool { return running(n) && n.Status.InstanceID != old.Status.InstanceID })
		replaced++
		if p.Status.Replacements != replaced || !strings.HasPrefix(p.Status.LastReplacement, reason+": ") {
			t.Errorf("%s: %d replacements, the last one for %q; want %d and %q", what, p.Status.Replacements, p.Status.LastReplacement, replaced, reason)
		}
		if p.Metadata.UID != old.Metadata.UID {
			t.Errorf("%s: the UID changed from %s to %s", what, old.Metadata.UID, p.Metadata.UID)
		}
		w.wantInstances(1, 15*time.Second)
		if !zombie(pid) {
			t.Errorf("%s: process %d still runs", what, pid)
		}
		serves(what)
	}
	// Listings come every 2 s, probes every 1 s and twice before they count.
	step("killed", api.ReasonInstanceStopped, 30*time.Second, func(pid int) { signalProcess(t, pid, syscall.SIGKILL) })
	step("frozen", api.ReasonUnhealthy, 40*time.Second, func(pid int) { signalProcess(t, pid, syscall.SIGSTOP) })
	step("updated", api.ReasonSpecChanged, time.Second, func(int) {
		w.tollgate("proxy", "update", "demo", "--port", "3129", "--wait").want(t, 0).
			has(t, "proxy default/demo: changed, generation 2", "spec.port: 3128 -> 3129", ":3129")
	})
	if p.Status.Port != 3129 || p.Metadata.Generation != 2 || p.Status.ObservedGeneration != 2 {
		t.Errorf("after the update: port %d, generation %d, observed %d", p.Status.Port, p.Metadata.Generation, p.Status.ObservedGeneration)
	}
	step("replaced", api.ReasonRequested, time.Second, func(int) { w.replaceTwice(p) })

	// What is shown can be applied again, and changes nothing.
	doc := w.must("proxy", "get", "demo", "-o", "yaml")
	w.write("demo.yaml", doc)
	w.tollgate("apply", "-f", "demo.yaml").want(t, 0).has(t, "proxy default/demo: unchanged")
	w.write("demo.yaml", strings.Replace(doc, "port: 3129", "port: 3130", 1))
	step("applied", api.ReasonSpecChanged, time.Second, func(int) {
		w.tollgate("apply", "-f", "demo.yaml", "--wait").want(t, 0).has(t, "spec.port: 3129 -> 3130")
	})

	kept, pid := p, w.process(p)
	w.stopWorker()
	if err := sites.reach(t.Context(), endpoint(p), nil); err != nil {
		t.Errorf("without a worker: %v", err)
	}
	w.startWorker()
	w.rounds(2)
	p = w.waitFor("demo", 10*10*time.Second, "running", running)
	if p.Status.InstanceID != kept.Status.InstanceID || p.Status.Replacements != replaced || w.process(p) != pid {
		t.Errorf("the restart of the worker changed %+v\nto %+v", kept.Status, p.Status)
	}
	serves("after a restart of the worker")

	history := w.must("proxy", "history", "demo")
	for _, want := range []string{"seen     Unhealthy", "state=Stopped", "timeout", "SetSpec done", "asked    Replace", "twice"} {
		if !strings.Contains(history, want) {
			t.Errorf("the history lacks %q:\n%s", want, history)
		}
	}
	w.tollgate("proxy", "delete", "demo", "--wait").want(t, 0).has(t, "proxy default/demo")
	if !zombie(pid) {
		t.Errorf("process %s outlived the delete", pidText(pid))
	}
	w.wantNothing(5 * time.Second)
	w.tollgate("proxy", "get", "demo").want(t, 3).has(t, "proxy default/demo does not exist: it was deleted")
	w.tollgate("proxy", "delete", "demo").want(t, 3)
	w.tollgate("proxy", "delete", "demo", "--ignore-not-found").want(t, 0)

	// A name can be used again, by another proxy; a cancel deletes like a delete.
	w.must("proxy", "create", "demo", "--provider", "local", "--wait")
	again := w.waitFor("demo", 10*time.Second, "running", running)
	if again.Metadata.UID == p.Metadata.UID {
		t.Error("two proxies had the same UID")
	}
	w.cancels("demo", w.process(again))
}

// wantShown compares all that shows a proxy.
func (w *world) wantShown(p api.Proxy) {
	w.t.Helper()
	table := w.must("proxy", "list")
	lines := strings.Split(strings.TrimSpace(table), "\n")
	if len(lines) != 2 {
		w.t.Fatalf("proxy list:\n%s", table)
	}
	if f := strings.Fields(lines[0]); len(f) < 5 || f[0] != "NAME" || f[4] != "ENDPOINT" {
		w.t.Errorf("proxy list has the head %q", lines[0])
	}
	if f := strings.Fields(lines[1]); len(f) < 5 || f[0] != "demo" || f[1] != "local" || f[2] != "Running" || f[3] != "yes" || f[4] != endpoint(p) {
		w.t.Errorf("proxy list has the row %q", lines[1])
	}
	var list struct {
		Kind  string
		Items []api.Proxy
	}
	w.mustJSON(&list, "proxy", "list", "-l", "team=web")
	if list.Kind != "ProxyList" || len(list.Items) != 1 {
		w.t.Fatalf("proxy list -o json: %+v", list)
	}
	if i := list.Items[0]; i.Metadata.UID != p.Metadata.UID || endpoint(i) != endpoint(p) || i.Status.Phase != api.PhaseRunning || !healthy(i) {
		w.t.Errorf("proxy list -o json: %+v", i)
	}
	if out := w.tollgate("proxy", "list", "-l", "team=db").want(w.t, 0); out.stdout != "" {
		w.t.Errorf("proxy list of another label:\n%s", out.stdout)
	}
	var got api.Proxy
	w.mustJSON(&got, "proxy", "get", "demo")
	if got.Metadata.UID != p.Metadata.UID || got.Metadata.Labels["team"] != "web" {
		w.t.Errorf("proxy get -o json: %+v", got.Metadata)
	}
}

// replaceTwice has two callers ask for a replacement at the same time: both are
// answered with the same new instance.
func (w *world) replaceTwice(old api.Proxy) {
	w.t.Helper()
	cmds := [2]func() result{}
	for i := range cmds {
		cmd := w.cliCommand(nil, "proxy", "replace", "demo", "--reason", "twice", "-o", "json")
		cmds[i] = func() result { return runProgram(w.t, cmd) }
	}
	var answers [2]result
	var wg sync.WaitGroup
	for i, run := range cmds {
		wg.Go(func() { answers[i] = run() })
	}
	wg.Wait()
	var got [2]api.ReplaceResult
	for i, a := range answers {
		a.want(w.t, 0)
		if err := json.Unmarshal([]byte(a.stdout), &got[i]); err != nil {
			w.t.Fatalf("%v:\n%s", err, a.stdout)
		}
	}
	if got[0].InstanceID != got[1].InstanceID || got[0].InstanceID == old.Status.InstanceID || got[0].Joined == got[1].Joined {
		w.t.Errorf("the callers were answered %+v and %+v, want one new instance, joined by one of them", got[0], got[1])
	}
}

// cancels cancels the workflow as the Web UI does.
func (w *world) cancels(name string, pid int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	id := workflows.ProxyID("default", name)
	if err := w.client.CancelWorkflow(ctx, id, ""); err != nil {
		w.t.Fatal(err)
	}
	err := w.client.GetWorkflow(ctx, id, "").Get(ctx, nil)
	var canceled *temporal.CanceledError
	if !errors.As(err, &canceled) {
		w.t.Errorf("the canceled workflow ended with %v, want it canceled", err)
	}
	if !zombie(pid) {
		w.t.Errorf("process %d outlived the cancel", pid)
	}
	w.wantNothing(5 * time.Second)
}
