package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/config"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/schedules"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// inventories is a world with a source and the report of its inventory.
func inventories(t *testing.T, r api.InventoryResult) *fakeTemporal {
	t.Helper()
	f := world()
	st := api.Inventory{APIVersion: api.APIVersion, Kind: api.KindInventory, Metadata: api.Metadata{Name: "cloud"}, Step: api.InventoryDone,
		Spec: api.InventoryInput{Source: "cloud", Sink: "billing"}, Status: r}
	f.runs["cursor/cloud/server"] = running(workflows.TypeEventCursor)
	f.runs["inventory/cloud-2026-01-02T03:00:00Z"] = running(workflows.TypeInventory, st)
	f.onStart = func(string, api.ProxyInput) *fakeRun {
		run := running(workflows.TypeInventory, st)
		run.result = r
		return run
	}
	c := &config.Config{Sources: []config.Source{{Name: "cloud", Inventory: config.Inventory{Enabled: true, Interval: 15 * time.Minute, ConfirmAfter: 40 * time.Second, MaxEnds: 30}}}}
	if _, err := schedules.Apply(t.Context(), f.ScheduleClient(), schedules.Wanted(c), schedules.Options{}); err != nil {
		t.Fatal(err)
	}
	return f
}

func report(outcome api.InventoryOutcome) api.InventoryResult {
	return api.InventoryResult{
		Outcome: outcome, Message: "2 differences.", Count: 2, StartedAt: testNow.Add(-5 * time.Minute), Delivered: 1,
		Streams: []api.InventoryStream{{Stream: "volume", Listed: 3, Reported: 4, Found: map[api.DifferenceKind]int{api.MissingDelete: 1}, Repaired: map[api.DifferenceKind]int{api.MissingDelete: 1}},
			{Stream: "server", Error: "429"}},
		Differences: []api.Difference{{Stream: "volume", Kind: api.MissingDelete, Resource: event.Resource{Type: event.Volume, ID: "7", Name: "data"},
			Reported: "size_gb 10", Action: api.DifferenceRepaired, EventID: "hetzner/acme/volume/7/delete"}},
	}
}

const reportText = `inventory of cloud: Repaired: 2 differences.
  volume: 3 listed, 4 reported, 1 missing_delete (1 repaired)
  server: not compared: 429
STREAM   DIFFERENCE       RESOURCE   NAME   REPORTED     EXISTS   ACTION     MESSAGE
volume   missing_delete   volume/7   data   size_gb 10   -        Repaired   -
-        1 more           -          -      -            -        -          -
`

func TestInventory(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, args string
		outcome    api.InventoryOutcome
		code       ExitCode
		out        string
		stderr     string
		input      string
	}{
		{"list", "list", api.InventoryRepaired, ExitOK,
			"SOURCE   OUTCOME    STARTED   LISTED   REPORTED   DIFFERENCES   REPAIRED   OPEN   MESSAGE\n" +
				"cloud    Repaired   5m ago    3        4          2             1          1      2 differences.\n", "", ""},
		{"get", "get cloud", api.InventoryRepaired, ExitOK, reportText, "", ""},
		{"run", "run cloud", api.InventoryRepaired, ExitOK, reportText, "", `{"source":"cloud","confirmAfter":"40s","maxEnds":30}`},
		{"run all", "run --dry-run", api.InventoryRepaired, ExitOK, reportText, "", `{"source":"cloud","dryRun":true,"confirmAfter":"40s","maxEnds":30}`},
		{"flags", "run cloud --confirm-after 5s --max-ends 500", api.InventoryRepaired, ExitOK, reportText, "", `{"source":"cloud","confirmAfter":"5s","maxEnds":500}`},
		{"held", "run cloud", api.InventoryHeld, ExitUnhealthy, strings.Replace(reportText, "Repaired: 2", "Held: 2", 1), "tollgate: inventory of cloud: Held: 2 differences.\n", ""},
		{"not waited for", "run cloud --wait=false", api.InventoryRepaired, ExitOK, "inventory of cloud: started, workflow inventory/cloud/20260102T030405.000Z\n", "", ""},
		{"unknown", "run nope", api.InventoryRepaired, ExitNotFound, "", "tollgate: source \"nope\" is not known: no worker with it in its configuration ever ran\n  look with: tollgate cursor list\n", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := inventories(t, report(tc.outcome))
			r := newCLI(t, f).run(append([]string{"inventory"}, strings.Fields(tc.args)...)...)
			if r.code != tc.code || r.stdout != tc.out || !strings.HasSuffix(r.stderr, tc.stderr) {
				t.Errorf("exit code %d, stdout\n%s\nstderr\n%s", r.code, r.stdout, r.stderr)
			}
			found := tc.input == ""
			for id, run := range f.runs {
				found = found || strings.HasPrefix(id, "inventory/cloud/") && string(run.input) == tc.input
			}
			if !found {
				t.Errorf("no inventory was started with %s", tc.input)
			}
		})
	}
	// A source without inventories, beside providers that are none.
	f := world()
	if r := newCLI(t, f).run("inventory", "get", "cloud"); r.code != ExitNotFound || !strings.Contains(r.stderr, `source "cloud" has had no inventory`) {
		t.Errorf("exit code %d, %s", r.code, r.stderr)
	}
	f = inventories(t, report(api.InventoryClean))
	if r := newCLI(t, f).run("providers", "list"); strings.Contains(r.stdout, "cloud") {
		t.Errorf("a source is no provider:\n%s", r.stdout)
	}
	if r := newCLI(t, f).run("schedules", "list"); !strings.Contains(r.stdout, "inventory/cloud") {
		t.Errorf("schedules:\n%s", r.stdout)
	}
	if r := newCLI(t, f).run("inventory", "get", "cloud", "-o", "json"); !strings.Contains(r.stdout, `"eventID": "hetzner/acme/volume/7/delete"`) {
		t.Errorf("%s", r.stdout)
	}
}
