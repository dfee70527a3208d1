package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// reapers answers every start of a reaper with the report.
func reapers(r api.ReaperResult) *fakeTemporal {
	f := world()
	f.onStart = func(string, api.ProxyInput) *fakeRun {
		run := running(workflows.TypeReaper, api.Reap{Kind: api.KindReap})
		run.result = r
		return run
	}
	return f
}

func TestReap(t *testing.T) {
	t.Parallel()
	reaped := api.Reaped{ID: "104/x", Name: "proxy-x", Namespace: "ci", Proxy: "job-1", CreatedAt: testNow.Add(-7 * time.Hour), Owned: true, Action: api.ReapActionDeleted}
	for _, tc := range []struct {
		name   string
		report api.ReaperResult
		args   string
		code   ExitCode
		out    string
		stderr string
		input  string
	}{
		{"reaped", api.ReaperResult{Outcome: api.ReapDone, Message: "1 instance deleted.", Matched: 3, Count: 1, Reaped: []api.Reaped{reaped}},
			"--provider local --selector namespace=ci --older-than 6h", ExitOK,
			"reaper of local: Reaped: 1 instance deleted. (1 of 3 instances)\n" +
				"ID      NAME      PROXY      AGE   ITS PROXY RUNS   ACTION    MESSAGE\n" +
				"104/x   proxy-x   ci/job-1   7h    yes              Deleted   -\n", "",
			`{"provider":"local","selector":{"namespace":"ci"},"olderThan":"6h0m0s"}`},
		{"dry run", api.ReaperResult{Outcome: api.ReapDryRun, Message: "This was a dry run."}, "-p local -l namespace=ci -l proxy=job-1 --older-than 6h --dry-run", ExitOK,
			"reaper of local: DryRun: This was a dry run. (0 of 0 instances)\n", "",
			`{"provider":"local","selector":{"namespace":"ci","proxy":"job-1"},"olderThan":"6h0m0s","dryRun":true}`},
		{"all", api.ReaperResult{Outcome: api.ReapNothing, Message: "Nothing."}, "-p local --all --older-than 1m", ExitOK, "reaper of local: Nothing: Nothing. (0 of 0 instances)\n", "",
			`{"provider":"local","all":true,"olderThan":"1m0s"}`},
		{"incomplete", api.ReaperResult{Outcome: api.ReapIncomplete, Message: "1 of 2 failed."}, "-p local -l uid=u --older-than 6h", ExitUnhealthy,
			"reaper of local: Incomplete: 1 of 2 failed. (0 of 0 instances)\n", "tollgate: reaper of local: Incomplete: 1 of 2 failed.\n", ""},
		{"not waited for", api.ReaperResult{}, "-p local -l uid=u --older-than 6h --wait=false", ExitOK, "reaper of local: started, workflow reap/local/uid=u/20260102T030405.000Z\n", "", ""},
		{"unknown provider", api.ReaperResult{}, "-p nope -l uid=u --older-than 6h", ExitNotFound, "", "tollgate: provider \"nope\" is not known: no worker with it in its configuration ever ran\n  look with: tollgate providers list\n", ""},
		{"no provider", api.ReaperResult{}, "-l uid=u --older-than 6h", ExitUsage, "", "tollgate: tollgate reap: --provider is required\n", ""},
		{"no age", api.ReaperResult{}, "-p local -l uid=u", ExitUsage, "", "tollgate: tollgate reap: --older-than is required\n", ""},
		{"young", api.ReaperResult{}, "-p local -l uid=u --older-than 10s", ExitUsage, "", "tollgate: --older-than: 10s is out of range: use at least 1m0s\n", ""},
		{"no selector", api.ReaperResult{}, "-p local --older-than 6h", ExitUsage, "", "or --all for all instances of the installation\n", ""},
		{"selector and all", api.ReaperResult{}, "-p local --all -l uid=u --older-than 6h", ExitUsage, "", "tollgate: --all: is given beside --selector: use one of them\n", ""},
		{"selector twice", api.ReaperResult{}, "-p local -l uid=u -l uid=v --older-than 6h", ExitUsage, "", "tollgate: --selector: uid is given twice\n", ""},
		{"selector key", api.ReaperResult{}, "-p local -l team=web --older-than 6h", ExitUsage, "", "tollgate: --selector: \"team\" is not known: use namespace, proxy or uid\n", ""},
		{"selector form", api.ReaperResult{}, "-p local -l namespace --older-than 6h", ExitUsage, "", "tollgate: --selector: \"namespace\" is not key=value, such as namespace=ci\n", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := reapers(tc.report)
			before := len(f.runs)
			r := newCLI(t, f).run(append([]string{"reap"}, strings.Fields(tc.args)...)...)
			if r.code != tc.code || r.stdout != tc.out || !strings.HasSuffix(r.stderr, tc.stderr) || tc.stderr == "" && r.stderr != "" {
				t.Errorf("exit code %d, stdout\n%s\nstderr\n%s", r.code, r.stdout, r.stderr)
			}
			if tc.code == ExitUsage && len(f.runs) != before {
				t.Error("a workflow was started")
			}
			if tc.input == "" {
				return
			}
			for id, run := range f.runs {
				if strings.HasPrefix(id, workflows.ReaperPrefix) && string(run.input) != tc.input {
					t.Errorf("input %s, want %s", run.input, tc.input)
				}
			}
			if len(f.runs) != before+1 {
				t.Errorf("%d workflows were started", len(f.runs)-before)
			}
		})
	}
}

func TestSchedulesOfReapers(t *testing.T) {
	t.Parallel()
	f := world()
	c := newCLI(t, f)
	c.write("tollgate.yaml", configFile+"reap: [{provider: local, selector: {namespace: ci}, olderThan: 6h}]\n")
	c.run("schedules", "apply", "--config", "tollgate.yaml").expect(t, ExitOK, "")
	r := c.run("schedules", "list")
	if !strings.Contains(r.stdout, "reap/local/namespace=ci   local      15m0s") {
		t.Errorf("the list:\n%s", r.stdout)
	}
	// A schedule of a reaper names no provider of that long name.
	if r := c.run("providers", "list"); strings.Contains(r.stdout, "reap/") {
		t.Errorf("providers:\n%s", r.stdout)
	}
}
