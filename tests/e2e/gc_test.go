//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

const (
	gcMinAge   = 4 * time.Second
	gcSettings = "{interval: 5s, minAge: 4s, confirmAfter: 1s, cap: 3}"
)

// yard is a directory that several installations share.
type yard struct {
	t   testing.TB
	dir string
}

func newYard(t testing.TB) *yard {
	t.Helper()
	y := &yard{t: t, dir: t.TempDir()}
	t.Cleanup(func() {
		for _, pid := range y.processes() {
			_ = syscall.Kill(pid, syscall.SIGKILL) // a failed test's
		}
	})
	return y
}

// processes are the proxies of all installations.
func (y *yard) processes() []int { return (&world{dir: y.dir}).processes() }

// created is when an instance was made.
func (y *yard) created(p api.Proxy) time.Time {
	y.t.Helper()
	var meta struct{ CreatedAt time.Time }
	b, err := os.ReadFile(filepath.Join(y.dir, "instances", p.Status.InstanceName, "meta.json"))
	if err == nil {
		err = json.Unmarshal(b, &meta)
	}
	if err != nil {
		y.t.Fatal(err)
	}
	return meta.CreatedAt
}

// wantProcesses waits until exactly n proxies run.
func (y *yard) wantProcesses(n int) {
	y.t.Helper()
	poll(y.t, 15*time.Second, func() string {
		if p := y.processes(); len(p) != n {
			return fmt.Sprintf("processes %v, want %d", p, n)
		}
		return ""
	})
}

func (y *yard) instances() []string {
	entries, err := os.ReadDir(filepath.Join(y.dir, "instances"))
	if err != nil {
		y.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (y *yard) has(name string) bool { return slices.Contains(y.instances(), name) }

// place makes an instance like that of p: stopped, two years old, and with other
// labels. Nobody's workflow made it.
func (y *yard) place(name string, p api.Proxy, labels map[string]string) {
	y.t.Helper()
	b, err := os.ReadFile(filepath.Join(y.dir, "instances", p.Status.InstanceName, "meta.json"))
	if err != nil {
		y.t.Fatal(err)
	}
	var meta map[string]any
	if err := json.Unmarshal(b, &meta); err != nil {
		y.t.Fatal(err)
	}
	meta["name"], meta["labels"] = name, labels
	meta["createdAt"] = time.Now().Add(-2 * 365 * 24 * time.Hour).UTC()
	delete(meta, "process")
	if b, err = json.Marshal(meta); err != nil {
		y.t.Fatal(err)
	}
	dir := filepath.Join(y.dir, "instances", name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		y.t.Fatal(err)
	}
	for file, content := range map[string][]byte{"process.lock": nil, "meta.json": b} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			y.t.Fatal(err)
		}
	}
}

// create makes a proxy and returns it once it serves.
func (w *world) create(name string) api.Proxy {
	w.t.Helper()
	w.must("proxy", "create", name, "--provider", "local", "--wait")
	return w.waitFor(name, 10*time.Second, "running", running)
}

// terminate ends a proxy's workflow without any clean-up.
func (w *world) terminate(names ...string) {
	w.t.Helper()
	for _, n := range names {
		if err := w.client.TerminateWorkflow(w.t.Context(), workflows.ProxyID("default", n), "", "e2e"); err != nil {
			w.t.Fatal(err)
		}
	}
}

// sweep runs a sweep by the command line.
func (w *world) sweep(code int, flags ...string) (api.OrphanGCResult, result) {
	w.t.Helper()
	r := w.tollgate(append([]string{"gc", "run", "local", "-o", "json"}, flags...)...).want(w.t, code)
	var sweeps []struct{ Report api.OrphanGCResult }
	if err := json.Unmarshal([]byte(r.stdout), &sweeps); err != nil || len(sweeps) != 1 {
		w.t.Fatalf("%s: %v:\n%s", r.line, err, r.stdout)
	}
	return sweeps[0].Report, r
}

// pauseSweeps holds the schedule, as the docs say, or lets it go on.
func (w *world) pauseSweeps(on bool) {
	w.t.Helper()
	ctx := w.t.Context()
	h := w.client.ScheduleClient().GetHandle(ctx, workflows.OrphanGCSchedule("local"))
	var err error
	if on {
		err = h.Pause(ctx, client.SchedulePauseOptions{Note: "e2e"})
	} else {
		err = h.Unpause(ctx, client.ScheduleUnpauseOptions{Note: "e2e"})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func orphanNames(r api.OrphanGCResult) []string {
	var names []string
	for _, o := range r.Orphans {
		names = append(names, o.Name)
	}
	slices.Sort(names)
	return names
}

// TestSweeps has two installations with a proxy of the same name in one
// directory, and in it what somebody else made.
func TestSweeps(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	a := newWorld(t, settings{installation: "one", shared: y.dir, gc: gcSettings})
	b := newWorld(t, settings{installation: "two", shared: y.dir, gc: gcSettings})
	a.pauseSweeps(true)
	b.pauseSweeps(true)

	demoA, demoB := a.create("demo"), b.create("demo")
	y.place("unmarked", demoA, map[string]string{"team": "somebody"})
	y.place("managed-by-nobody", demoA, provider.Marks{UID: "uid-nobody", Namespace: "default", Proxy: "never"}.Labels())
	y.place("of-a-third", demoA, provider.Marks{UID: "uid-third", Installation: "three", Namespace: "default", Proxy: "never"}.Labels())
	stay := []string{"unmarked", "managed-by-nobody", "of-a-third", demoA.Status.InstanceName, demoB.Status.InstanceName}
	slices.Sort(stay)
	wantStay := func(when string, more ...string) {
		t.Helper()
		want := slices.Sorted(slices.Values(append(slices.Clone(stay), more...)))
		if got := y.instances(); !slices.Equal(got, want) {
			t.Errorf("%s: instances are\n%v, want\n%v", when, got, want)
		}
	}
	if r, _ := a.sweep(0, "--min-age", "1ms"); r.Outcome != api.SweepClean || r.OrphanCount != 0 || r.Instances != 1 || r.Verdicts["Owned"] != 1 {
		t.Errorf("a sweep of what is owned: %+v", r)
	}

	// Young ones are left alone, whoever owned them.
	first := a.create("first")
	a.terminate("first")
	if r, _ := a.sweep(0, "--min-age", "1h"); r.Outcome != api.SweepClean || r.Verdicts["Young"] != 2 {
		t.Errorf("a sweep of young instances: %+v", r)
	}
	wantStay("young", first.Status.InstanceName)

	second := a.create("second")
	a.terminate("second")
	orphans := slices.Sorted(slices.Values([]string{first.Status.InstanceName, second.Status.InstanceName}))
	// The schedule's minimum age holds until it is over.
	a.eventually(time.Minute, func() string {
		r, _ := a.sweep(0, "--dry-run")
		if r.OrphanCount < 2 {
			return fmt.Sprintf("a dry run finds %+v", r)
		}
		if age := time.Since(y.created(second)); age < gcMinAge {
			t.Errorf("an orphan of age %s was found, the minimum is %s", age, gcMinAge)
		}
		if r.Outcome != api.SweepDryRun || !slices.Equal(orphanNames(r), orphans) {
			t.Errorf("a dry run reports %+v, want %v", r, orphans)
		}
		for _, o := range r.Orphans {
			if o.Action != api.OrphanWouldDelete || o.Reason != "OwnerClosed" {
				t.Errorf("a dry run would do %s for %s to %s", o.Action, o.Reason, o.Name)
			}
		}
		return ""
	})
	wantStay("after a dry run", orphans...)

	r, out := a.sweep(11, "--cap", "1")
	if r.Outcome != api.SweepOverCap || r.OrphanCount != 2 {
		t.Errorf("a sweep over the cap: %+v", r)
	}
	out.has(t, "sweep of local: OverCap", "there are 2 orphans, and the cap is 1")
	wantStay("over the cap", orphans...)
	a.wantMetric(`tollgate_gc_sweeps_total{outcome="OverCap",provider="local"} 1`)

	// The other installation's sweep sees none of it.
	if r, _ := b.sweep(0, "--min-age", "1ms"); r.Outcome != api.SweepClean || r.Instances != 1 || r.Verdicts["Owned"] != 1 {
		t.Errorf("a sweep of the other installation: %+v", r)
	}
	wantStay("after the other's sweep", orphans...)

	r, _ = a.sweep(0)
	if r.Outcome != api.SweepDeleted || !slices.Equal(orphanNames(r), orphans) {
		t.Errorf("a sweep reports %+v, want %v deleted", r, orphans)
	}
	for _, o := range r.Orphans {
		if o.Action != api.OrphanDeleted || o.Namespace != "default" || o.Proxy == "" {
			t.Errorf("orphan %+v", o)
		}
	}
	wantStay("after the sweep")
	y.wantProcesses(2)
	a.wantListed(15*time.Second, map[string]string{"demo": endpoint(demoA)})

	// Without anybody's help, and as soon as it is old enough.
	last := a.create("last")
	lastMade := y.created(last)
	a.pauseSweeps(false)
	a.terminate("last")
	a.eventually(time.Minute, func() string {
		if y.has(last.Status.InstanceName) {
			return last.Status.InstanceName + " is not collected"
		}
		return ""
	})
	if age := time.Since(lastMade); age < gcMinAge {
		t.Errorf("collected at the age of %s, the minimum is %s", age, gcMinAge)
	}
	b.pauseSweeps(false)
	a.rounds(1)
	b.rounds(1)
	wantStay("in the end")
	for _, x := range []struct {
		w *world
		p api.Proxy
	}{{a, demoA}, {b, demoB}} {
		if p := x.w.waitFor("demo", 10*time.Second, "running", running); p.Status.InstanceID != x.p.Status.InstanceID || p.Status.Replacements != 0 {
			t.Errorf("demo was %+v and is %+v", x.p.Status, p.Status)
		}
	}

	// The deletes of one leave the other alone, too.
	a.must("proxy", "delete", "demo", "--wait")
	stay = slices.DeleteFunc(stay, func(n string) bool { return n == demoA.Status.InstanceName })
	b.rounds(1)
	wantStay("after the delete of one's demo")
	b.must("proxy", "delete", "demo", "--wait")
	stay = slices.DeleteFunc(stay, func(n string) bool { return n == demoB.Status.InstanceName })
	wantStay("after the delete of both")
	y.wantProcesses(0)
}
