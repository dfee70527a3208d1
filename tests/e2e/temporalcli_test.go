//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

const temporalPage = "docs/how-to/temporal-cli.md"

// TestWithoutOurCommandLine does everything with Temporal's own tools and JSON
// that a person types: each line of the page, as it stands there.
func TestWithoutOurCommandLine(t *testing.T) {
	t.Parallel()
	const cloudInit = "#cloud-config\n# of the temporal command line\n"
	cloud := httptest.NewServer(hetznersim.New(hetznersim.Options{OneProject: simToken, RateLimit: -1, Timing: hetznersim.Uniform(time.Millisecond)}))
	t.Cleanup(cloud.Close)
	bus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	t.Cleanup(bus.Close)
	w := newWorld(t, settings{
		extra: fmt.Sprintf(`  squid: {file: squid}
  hcloud: {env: E2E_HCLOUD_TOKEN}
sinks:
  - {name: bus, type: cloudevents, url: %q}
sources:
  - {name: hcloud, type: hetzner, account: acme, sink: bus, inventory: {interval: 24h}, hetzner: {token: hcloud, endpoint: %q}}`,
			bus.URL+"/in", cloud.URL+hetznersim.BasePath),
		env:   []string{"E2E_HCLOUD_TOKEN=" + simToken},
		codec: ", token: token, uiURL: 'http://127.0.0.1:8233'",
		gc:    "{interval: 10m, minAge: 10m, confirmAfter: 1s}",
	})
	w.write("squid", cloudInit)
	bins(t, "tctl")
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".tollgate"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".tollgate", "token"), []byte(w.token), 0o600); err != nil {
		t.Fatal(err)
	}
	d := readDocLines(t, temporalPage)
	connect := d.variables("Connect")
	d.shell = w.docShell(dir, append(connect, d.variables("Read and send encrypted payloads")...))
	plain := w.docShell(dir, connect)
	x := &byHand{t: t, w: w, d: d, dir: dir}

	x.temporal(cloudInit)
	x.tctl()
	x.deletes()
	x.document()
	x.sweeps()
	x.inventory()
	x.schedules()

	// Without the codec endpoint what is typed goes out in the clear, and works;
	// what workers wrote cannot be read.
	plain(d.lines["Create a proxy"][0]).want(t, 0)
	w.waitFor("demo", 30*10*time.Second, "running", running)
	out := plain(d.lines["See a proxy"][0]).stdout
	if strings.Contains(out, "Running") {
		t.Errorf("an answer is readable without the codec:\n%s", out)
	}
	plain(d.lines["Delete a proxy"][0]).want(t, 0)
	x.gone("demo", enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
	d.complete()
}

// byHand are the steps of TestWithoutOurCommandLine. Each begins and ends
// without a proxy or with the proxy demo, as it says.
type byHand struct {
	t   testing.TB
	w   *world
	d   *docLines
	dir string
}

const (
	create   = "Create a proxy"
	see      = "See a proxy"
	list     = "List proxies"
	change   = "Change a proxy"
	replace  = "Replace a proxy's instance"
	retry    = "Let a waiting proxy try again"
	del      = "Delete a proxy"
	watch    = "Watch a fleet"
	check    = "Check a provider"
	document = "Apply a document"
	sweep    = "Sweep"
	reap     = "Reap"
	compare  = "Inventory"
	schedule = "Schedules"
)

func (x *byHand) run(section, tool string, n int) result {
	x.t.Helper()
	return x.d.run(section, tool, n).want(x.t, 0)
}

func (x *byHand) running(ok func(api.Proxy) bool) api.Proxy {
	x.t.Helper()
	return x.w.waitFor("demo", 30*time.Second, "as wanted", func(p api.Proxy) bool { return running(p) && ok(p) })
}

func anyProxy(api.Proxy) bool { return true }

// gone waits until the workflow has ended in that way and nothing is left.
func (x *byHand) gone(name string, want enumspb.WorkflowExecutionStatus) {
	x.t.Helper()
	x.w.eventually(30*time.Second, func() string { return x.w.closed(name) })
	e, err := x.w.client.DescribeWorkflow(x.t.Context(), workflows.ProxyID("default", name), "")
	if err != nil {
		x.t.Fatal(err)
	}
	if got := e.Status; got != want {
		x.t.Errorf("%s ended as %s, want %s", name, got, want)
	}
	x.w.wantInstances(0, 10*time.Second)
}

// seen repeats a line until its output has the text: visibility lags.
func (x *byHand) seen(section, tool string, n int, has string, want bool) {
	x.t.Helper()
	x.w.eventually(30*time.Second, func() string {
		if r := x.run(section, tool, n); strings.Contains(r.stdout, has) != want {
			return r.line + " does not come to show (or hide) " + has + ":\n" + r.stdout
		}
		return ""
	})
}

// temporal makes the proxy demo and does all but delete it.
func (x *byHand) temporal(cloudInit string) {
	x.t.Helper()
	t, w := x.t, x.w
	x.run(create, "temporal", 1)
	p := x.running(anyProxy)
	if p.Metadata.Labels["team"] != "web" || p.Status.Port != 3128 {
		t.Errorf("created %+v", p)
	}
	if got := read(t, filepath.Join(w.dir, "state", "providers", "local", "instances", p.Status.InstanceName, "user-data")); string(got) != cloudInit {
		t.Errorf("user data %q", got)
	}
	if r := x.d.run(create, "temporal", 1); r.code == 0 {
		t.Error("a name in use is not refused")
	}
	x.run(see, "temporal", 1).has(t, `"phase":"Running"`)
	var status api.ProxyStatus
	if r := x.run(see, "temporal", 2); json.Unmarshal([]byte(r.stdout), &status) != nil || status.InstanceID != p.Status.InstanceID {
		t.Errorf("%s:\n%s", r.line, r.stdout)
	}
	x.run(see, "temporal", 3).has(t, "proxy/default/demo", "TollgatePhase")
	x.run(see, "temporal", 4).has(t, "WorkflowExecutionStarted", "ActivityTaskCompleted")
	x.run(list, "temporal", 1).has(t, `"name":"demo"`)
	x.seen(list, "temporal", 2, "proxy/default/demo", true)
	x.seen(list, "temporal", 3, "proxy/default/demo", false)

	x.run(change, "temporal", 1).has(t, "generation")
	old := x.running(func(p api.Proxy) bool { return p.Status.Port == 3129 && p.Metadata.Generation == 2 })
	x.run(replace, "temporal", 1).has(t, "instanceID")
	p = x.running(func(p api.Proxy) bool { return p.Status.InstanceID != old.Status.InstanceID })
	// The same update id is the same update.
	x.run(replace, "temporal", 1).has(t, string(p.Status.InstanceID))
	x.run(replace, "temporal", 2)
	p = x.running(func(n api.Proxy) bool { return n.Status.InstanceID != p.Status.InstanceID })
	if p.Status.Replacements != 3 || !strings.Contains(p.Status.LastReplacement, "address is blocked") {
		t.Errorf("%d replacements, the last one %q", p.Status.Replacements, p.Status.LastReplacement)
	}
	x.run(retry, "temporal", 1)
	x.run(watch, "temporal", 1).has(t, `"kind":"Fleet"`)
	x.run(watch, "temporal", 2)
	x.run(check, "temporal", 1).has(t, `"kind":"ProviderHealth"`)
	x.run(check, "temporal", 2).has(t, "AllTargetsReady")
	x.run(check, "temporal", 3)
	if n := x.running(anyProxy); n.Status.InstanceID != p.Status.InstanceID {
		t.Errorf("looking at things replaced %s", p.Status.InstanceID)
	}
}

// tctl does what tctl can with the proxy demo, deletes it, and makes and deletes
// it again.
func (x *byHand) tctl() {
	x.t.Helper()
	t := x.t
	p := x.running(anyProxy)
	x.run(create, "tctl", 2) // shows the one that runs, and changes nothing
	if n := x.running(anyProxy); n.Metadata.UID != p.Metadata.UID || n.Metadata.Generation != p.Metadata.Generation {
		t.Errorf("a start of a name in use changed %+v to %+v", p.Metadata, n.Metadata)
	}
	x.run(see, "tctl", 5).has(t, "Running", string(p.Status.InstanceID))
	x.run(see, "tctl", 6).has(t, "proxy/default/demo")
	x.run(see, "tctl", 7).has(t, "WorkflowExecutionStarted")
	x.run(list, "tctl", 4).has(t, "demo", p.Status.IP)
	x.seen(list, "tctl", 5, "proxy/default/demo", true)
	x.run(replace, "tctl", 3)
	p = x.running(func(n api.Proxy) bool { return n.Status.InstanceID != p.Status.InstanceID })
	x.run(retry, "tctl", 2)
	x.run(watch, "tctl", 3).has(t, "ProbesTrusted")
	x.run(watch, "tctl", 4)
	x.run(check, "tctl", 4).has(t, "AllTargetsReady")
	x.run(check, "tctl", 5)
	x.run(del, "tctl", 5)
	x.gone("demo", enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)

	x.run(create, "tctl", 2)
	x.running(anyProxy)
	x.run(del, "tctl", 6)
	x.gone("demo", enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED)
}

// deletes makes and deletes the proxy demo in each way of temporal.
func (x *byHand) deletes() {
	x.t.Helper()
	for n, want := range map[int]enumspb.WorkflowExecutionStatus{
		1: enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, 2: enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED, 3: enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED,
	} {
		x.run(create, "temporal", 1)
		x.running(anyProxy)
		r := x.run(del, "temporal", n)
		if n == 3 {
			r.has(x.t, "deleted")
			// It answered, so nothing is left by now.
			x.w.wantInstances(0, 0)
			x.run(del, "temporal", 4).has(x.t, "Requested")
		}
		x.gone("demo", want)
	}
}

// document makes the proxy demo out of a document, applies that again, and
// deletes it.
func (x *byHand) document() {
	x.t.Helper()
	doc := api.Proxy{APIVersion: api.APIVersion, Kind: api.KindProxy, Metadata: api.Metadata{Name: "demo", Labels: map[string]string{"tier": "db"}},
		Spec: api.ProxySpec{Provider: "local", Port: 3333}}
	b, err := json.Marshal(doc)
	if err != nil {
		x.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(x.dir, "demo.json"), b, 0o600); err != nil {
		x.t.Fatal(err)
	}
	x.run(document, "jq", 1)
	x.run(document, "temporal", 2)
	p := x.running(func(p api.Proxy) bool { return p.Status.Port == 3333 })
	if p.Metadata.Labels["tier"] != "db" {
		x.t.Errorf("labels %v", p.Metadata.Labels)
	}
	x.run(document, "temporal", 3).has(x.t, "unchanged")
	x.run(del, "temporal", 3)
	x.gone("demo", enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED)
}

// inventory compares an empty cloud with nothing that was reported.
func (x *byHand) inventory() {
	x.t.Helper()
	x.run(compare, "temporal", 1)
	x.run(compare, "temporal", 2).has(x.t, `"outcome":"Clean"`)
	x.seen(compare, "temporal", 3, "inventory/hcloud/by-hand", true)
}

// sweeps runs dry sweeps and the reaper; nothing is there to find.
func (x *byHand) sweeps() {
	x.t.Helper()
	x.run(sweep, "temporal", 1)
	x.run(sweep, "temporal", 3).has(x.t, `"outcome":"Clean"`)
	x.run(sweep, "temporal", 2).has(x.t, `"step":"Done"`)
	x.run(sweep, "tctl", 4)
	x.run(sweep, "tctl", 5).has(x.t, "Clean")
	x.run(reap, "temporal", 1)
	x.run(reap, "temporal", 2).has(x.t, `"outcome":"Nothing"`)
}

func (x *byHand) schedules() {
	x.t.Helper()
	t := x.t
	h := x.w.client.ScheduleClient().GetHandle(t.Context(), workflows.OrphanGCSchedule("local"))
	paused := func() bool {
		s, err := h.Describe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s.Schedule.State.Paused
	}
	runs := func() int {
		s, err := h.Describe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s.Info.NumActions
	}
	x.seen(schedule, "temporal", 1, "gc/local", true)
	x.run(schedule, "temporal", 2).has(t, "OrphanGC")
	x.run(schedule, "temporal", 3)
	if !paused() {
		t.Error("the schedule is not paused")
	}
	x.run(schedule, "temporal", 4)
	if paused() {
		t.Error("the schedule is still paused")
	}
	for _, line := range []struct {
		tool string
		n    int
	}{{"temporal", 5}, {"tctl", 8}} {
		before := runs()
		x.run(schedule, line.tool, line.n)
		x.w.eventually(20*time.Second, func() string {
			if runs() == before {
				return "the schedule started nothing"
			}
			return ""
		})
	}
	x.seen(schedule, "tctl", 6, "gc/local", true)
	x.run(schedule, "tctl", 7).has(t, "OrphanGC")
	if err := h.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	x.run(schedule, "temporal", 9)
	s, err := h.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Schedule.Spec.Intervals; len(got) != 1 || got[0].Every != 10*time.Minute || s.Schedule.Policy.Overlap != enumspb.SCHEDULE_OVERLAP_POLICY_SKIP || s.Schedule.Policy.CatchupWindow != time.Minute {
		t.Errorf("made the schedule %+v, %+v", s.Schedule.Spec, s.Schedule.Policy)
	}
	// A worker finds it as it would have made it.
	x.w.stopWorker()
	x.w.startWorker()
	x.w.tollgate("schedules", "list").want(t, 0).has(t, "gc/local")
}
