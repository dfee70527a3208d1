package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/client"

	"github.com/tollgate-dev/tollgate/internal/schedules"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

func TestKeys(t *testing.T) {
	t.Parallel()
	c := newCLI(t, newFake())
	list := func() (info struct {
		File, Current string
		IDs           []string
	}) {
		t.Helper()
		r := c.run("keys", "list", "-o", "json")
		r.expect(t, ExitOK, "")
		if err := json.Unmarshal([]byte(r.stdout), &info); err != nil {
			t.Fatal(err)
		}
		return info
	}
	c.run("keys", "list").expect(t, ExitUsage, "tollgate: key file: open "+c.dir+"/.tollgate/codec-keys.json: no such file or directory\n"+
		"  make one with tollgate keys generate, or name another with --codec-key-file or TOLLGATE_CODEC_KEYS\n")
	c.run("keys", "generate").expect(t, ExitOK, "")
	first := list()
	if first.File != c.dir+"/.tollgate/codec-keys.json" || len(first.IDs) != 1 || first.Current != first.IDs[0] {
		t.Fatalf("generated %+v", first)
	}
	if r := c.run("keys", "generate"); r.code != ExitUsage || !strings.HasSuffix(r.stderr, "file already exists\n  add a key to it with: tollgate keys rotate\n") {
		t.Errorf("generated again: exit code %d, %q", r.code, r.stderr)
	}
	c.run("keys", "rotate").expect(t, ExitOK, "")
	second := list()
	if second.Current == first.Current || len(second.IDs) != 2 {
		t.Errorf("rotated: %+v", second)
	}
	c.run("keys", "add").expect(t, ExitOK, "")
	if third := list(); third.Current != second.Current || len(third.IDs) != 3 {
		t.Errorf("added: %+v", third)
	}
	c.run("keys", "activate", first.Current).expect(t, ExitOK, "")
	c.run("keys", "retire", second.Current, "--yes").expect(t, ExitOK, "")
	if last := list(); last.Current != first.Current || len(last.IDs) != 2 {
		t.Errorf("activated and retired: %+v", last)
	}
	if r := c.run("keys", "retire", first.Current, "--yes"); r.code != ExitUsage || !strings.Contains(r.stderr, "is the current one: rotate first") {
		t.Errorf("retired the current key: exit code %d, %q", r.code, r.stderr)
	}
	if r := c.run("keys", "list"); !strings.Contains(r.stdout, first.Current+"   encrypts and decrypts") {
		t.Errorf("list\n%s", r.stdout)
	}
}

func TestKeyFileIsFound(t *testing.T) {
	t.Parallel()
	c := newCLI(t, newFake())
	a := newApp(Env{Dir: c.dir + "/deep/below", Getenv: func(k string) string { return c.env[k] }})
	if got := a.keyFile(); got != "" {
		t.Errorf("without a key file anywhere: %q", got)
	}
	c.write(".tollgate/codec-keys.json", "{}")
	if got := a.keyFile(); got != c.dir+"/.tollgate/codec-keys.json" {
		t.Errorf("in a directory above: %q", got)
	}
	c.env["TOLLGATE_CODEC_KEYS"] = "/etc/keys.json"
	if got := a.keyFile(); got != "/etc/keys.json" {
		t.Errorf("environment: %q", got)
	}
	a.keyFileFlag = "mine.json"
	if got := a.keyFile(); got != c.dir+"/deep/below/mine.json" {
		t.Errorf("flag: %q", got)
	}
}

const configFile = `installation: test
providers:
- {name: local, type: local}
- {name: other, type: local}
gc: {interval: 5m, minAge: 20m, cap: 7}
`

func TestSchedules(t *testing.T) {
	t.Parallel()
	f := newFake()
	c := newCLI(t, f)
	c.write("tollgate.yaml", configFile)
	step := func(want string, args ...string) {
		t.Helper()
		r := c.run(append([]string{"schedules", "apply", "--config", "tollgate.yaml"}, args...)...)
		r.expect(t, ExitOK, "")
		if diff := cmp.Diff(r.stdout, want); diff != "" {
			t.Errorf("(-got +want)\n%s", diff)
		}
	}
	step("schedule gc/local: would be created\nschedule gc/other: would be created\n", "--dry-run")
	step("schedule gc/local: created\nschedule gc/other: created\n")
	step("schedule gc/local: unchanged\nschedule gc/other: unchanged\n")
	if in, err := schedules.Input(*f.schedules["gc/local"], nil); err != nil || in.Cap != 7 || in.MinAge.Std().Minutes() != 20 || in.Provider != "local" {
		t.Errorf("input %+v, %v", in, err)
	}
	f.schedules["gc/local"].State = &client.ScheduleState{Paused: true, Note: "maintenance"}
	c.write("tollgate.yaml", strings.Replace(configFile, "- {name: other, type: local}\n", "", 1))
	step("schedule gc/local: unchanged (paused)\nschedule gc/other: not in the configuration\n")
	c.write("tollgate.yaml", strings.Replace(configFile, "cap: 7", "cap: 8", 1))
	step("schedule gc/local: would be updated (paused)\nschedule gc/other: would be updated\n", "--dry-run")
	step("schedule gc/local: updated (paused)\nschedule gc/other: updated\n")
	if !f.schedules["gc/local"].State.Paused {
		t.Error("the update let a paused schedule go on")
	}
	c.golden("schedules", "schedules", "list")
	c.golden("schedules-wide", "schedules", "list", "-o", "wide")
	c.write("tollgate.yaml", strings.Replace(configFile, "- {name: other, type: local}\n", "", 1))
	step("schedule gc/local: updated (paused)\nschedule gc/other: deleted\n", "--prune")
	if len(f.schedules) != 1 {
		t.Errorf("schedules left: %v", f.schedules)
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	report := func(outcome api.SweepOutcome, message string, orphans ...api.Orphan) api.OrphanGCResult {
		return api.OrphanGCResult{Outcome: outcome, Message: message, Instances: 4, Orphans: orphans, OrphanCount: len(orphans)}
	}
	orphan := api.Orphan{Kind: api.KindInstance, ID: "local/x", Name: "proxy-x", Namespace: "default", Proxy: "gone", CreatedAt: testNow.Add(-50 * 60e9),
		Reason: "OwnerNotFound", Action: api.OrphanDeleted}
	start := func(r api.OrphanGCResult) *fakeTemporal {
		f := world()
		f.onStart = func(string, api.ProxyInput) *fakeRun {
			run := running(workflows.TypeOrphanGC, api.OrphanSweep{Step: api.SweepListing})
			run.result = r
			return run
		}
		return f
	}
	t.Run("deleted", func(t *testing.T) {
		t.Parallel()
		f := start(report(api.SweepDeleted, "1 orphan deleted.", orphan))
		c := newCLI(t, f)
		c.write("tollgate.yaml", configFile)
		c.run("schedules", "apply", "--config", "tollgate.yaml").expect(t, ExitOK, "")
		r := c.run("gc", "run", "local", "--cap", "3")
		if r.code != ExitOK || r.stdout != `sweep of local: Deleted: 1 orphan deleted. (4 instances, 0 companions, 1 orphans)
KIND       ID        NAME      OWNER          AGE   REASON          ACTION    MESSAGE
instance   local/x   proxy-x   default/gone   50m   OwnerNotFound   Deleted   -
` {
			t.Errorf("exit code %d, stdout\n%s\nstderr\n%s", r.code, r.stdout, r.stderr)
		}
		// The schedule's settings hold where no flag says otherwise.
		run := f.runs["gc/local/20260102T030405.000Z"]
		if run == nil {
			t.Fatalf("no such workflow: %v", f.runs)
		}
		if got, want := string(run.input), `{"provider":"local","minAge":"20m0s","confirmAfter":"30s","cap":3}`; got != want {
			t.Errorf("input %s, want %s", got, want)
		}
	})
	for _, tc := range []struct {
		name   string
		report api.OrphanGCResult
		args   string
		code   ExitCode
		out    string
		stderr string
	}{
		{"all providers, dry run", report(api.SweepClean, "Nothing to do."), "--dry-run", ExitOK,
			"sweep of hetzner: Clean: Nothing to do. (4 instances, 0 companions, 0 orphans)\nsweep of local: Clean: Nothing to do. (4 instances, 0 companions, 0 orphans)\n", ""},
		{"over the cap", report(api.SweepOverCap, "12 orphans are more than 10.", orphan), "local", ExitUnhealthy, "", "tollgate: sweep of local: OverCap: 12 orphans are more than 10.\n"},
		{"unreadable", report(api.SweepUnreadable, "The provider could not be listed."), "local", ExitUnhealthy, "", "tollgate: sweep of local: Unreadable: The provider could not be listed.\n"},
		{"unknown provider", report(api.SweepClean, ""), "nope", ExitNotFound, "", "tollgate: provider \"nope\" is not known: no worker with it in its configuration ever ran\n  look with: tollgate providers list\n"},
		{"not waited for", report(api.SweepClean, ""), "local --wait=false", ExitOK, "sweep of local: started, workflow gc/local/20260102T030405.000Z\n", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newCLI(t, start(tc.report)).run(append([]string{"gc", "run"}, strings.Fields(tc.args)...)...)
			if r.code != tc.code || tc.out != "" && r.stdout != tc.out || !strings.HasSuffix(r.stderr, tc.stderr) {
				t.Errorf("exit code %d, stdout\n%s\nstderr\n%s", r.code, r.stdout, r.stderr)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	c := newCLI(t, newFake())
	if r := c.run("version"); r.code != ExitOK || !strings.HasPrefix(r.stdout, "tollgate ") {
		t.Errorf("exit code %d, %q", r.code, r.stdout)
	}
	var v struct{ GoVersion string }
	if r := c.run("version", "-o", "json"); json.Unmarshal([]byte(r.stdout), &v) != nil || !strings.HasPrefix(v.GoVersion, "go") {
		t.Errorf("%q", r.stdout)
	}
}
