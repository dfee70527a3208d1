package shoot_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/testsuite"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/inventory"
	"github.com/tollgate-dev/tollgate/internal/registration"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// shootItem is an event of a source about the shoot.
func shootItem(t event.Type, at time.Time, change string) source.Item {
	return source.Item{Ref: "r", Event: event.New(t, at, event.Data{Platform: event.Gardener, Account: "landscape/dev",
		Resource: event.Resource{Type: event.Shoot, ID: "uid-1", Name: "web"}, Change: change})}
}

// What a source reports starts and ends registrations, however often it is told
// and in whatever order.
func TestFollowerOnTheEngine(t *testing.T) {
	t.Parallel()
	r := newEngineRig(t)
	r.serve()
	follow := &activities.ShootFollower{Temporal: r.client, Account: func(name string) (string, bool) { return "landscape", name == "garden" }}
	tell := func(items ...source.Item) {
		t.Helper()
		if err := follow.Follow(t.Context(), "garden", items); err != nil {
			t.Fatal(err)
		}
	}
	other := shootItem(event.ShootCreate, created, event.ChangeCreate)
	other.Event.Data.Account = "elsewhere/dev"
	create, scale, end := shootItem(event.ShootCreate, start, event.ChangeCreate), shootItem(event.ShootWorkerScale, start, "scale:2"), shootItem(event.ShootDelete, gone, event.ChangeDelete)
	tell(create, create, scale, other)
	r.eventually("registered", registered)
	before := historyLength(r)
	tell(scale, scale, scale)
	if n := historyLength(r); n != before {
		t.Errorf("%d events of history for changes that are none of its matter", n-before)
	}
	concluded := shootItem(event.ShootDelete, gone.Add(time.Minute), event.ChangeDelete)
	concluded.Event.Data.Derived = event.FromInventory
	tell(concluded)
	r.eventually("it waits for somebody who saw the end", func(s api.ShootStatus) bool { return s.Reason == api.ReasonWaitingForEnd })
	tell(end, create, end)
	run := r.client.GetWorkflow(t.Context(), id, "")
	r.result(run)
	r.wantRelations(relation("tenant-a", created, gone))
	tell(create, end)
	again, err := r.client.DescribeWorkflow(t.Context(), id, "")
	if err != nil || again.RawResponse.GetWorkflowExecutionInfo().GetExecution().GetRunId() != run.GetRunID() {
		t.Errorf("what is over was started again: %v", err)
	}
	if err := (&activities.ShootFollower{Temporal: r.client, Account: follow.Account}).Follow(t.Context(), "other", []source.Item{create}); err != nil {
		t.Error(err)
	}
}

func historyLength(r *rig) int64 {
	r.t.Helper()
	d, err := r.client.DescribeWorkflow(r.t.Context(), id, "")
	if err != nil {
		r.t.Fatal(err)
	}
	return d.RawResponse.GetWorkflowExecutionInfo().GetHistoryLength()
}

// The inventory of relations: one that is missing is written, another tenant is
// noticed, one whose shoot is gone is closed.
func TestRelationsOnTheEngine(t *testing.T) {
	t.Parallel()
	r := newEngineRig(t)
	r.serve()
	compare := &activities.ShootRelations{Temporal: r.client, Resolver: &registration.Resolver{},
		Settings: func(string) (activities.ShootSettings, bool) { return r.settings, true }}
	at := start
	look := func(dry bool, want ...api.DifferenceKind) []api.Difference {
		t.Helper()
		out, err := compare.Compare(t.Context(), inventory.ExtraInput{Source: "garden", Platform: event.Gardener, DryRun: dry, Now: at})
		if err != nil {
			t.Fatal(err)
		}
		var got []api.DifferenceKind
		for _, d := range out.Differences {
			got = append(got, d.Kind)
			if dry != (d.Action == api.DifferenceWouldRepair) {
				t.Errorf("difference %+v", d)
			}
		}
		if diff := cmp.Diff(got, want); diff != "" {
			t.Errorf("differences (-got +want):\n%s", diff)
		}
		return out.Differences
	}
	look(true, registration.RelationMissing)
	if _, err := r.client.DescribeWorkflow(t.Context(), id, ""); err == nil {
		t.Error("a dry run started a registration")
	}
	look(false, registration.RelationMissing)
	r.eventually("registered", registered)
	look(false)

	r.tenant("tenant-b")
	at = start.Add(10 * time.Minute)
	look(true, registration.RelationDiffers)
	look(false, registration.RelationDiffers)
	r.eventually("the other tenant", func(s api.ShootStatus) bool { return len(s.Relations) == 2 && registered(s) })
	look(false)

	// The relation is lost: its registration, which sleeps, writes it again.
	s := r.now().Status
	if _, err := r.reporting.CloseRelation(t.Context(), s.ProjectID, s.Relations[1].ID, at.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	look(false, registration.RelationMissing)
	r.eventually("written again", func(s api.ShootStatus) bool { return len(s.Relations) == 3 && registered(s) })

	r.garden.DeleteShoot("dev", "web")
	look(false, registration.RelationLeftOpen)
	r.eventually("it waits for somebody who saw the end", func(s api.ShootStatus) bool { return s.Reason == api.ReasonWaitingForEnd })
	r.signal(workflows.SignalShootEnded, api.ShootEnd{At: at.Add(5 * time.Minute)})
	r.result(r.client.GetWorkflow(t.Context(), id, ""))
	look(false)
	first, second := at, at.Add(time.Minute)
	r.wantRelations(relation("tenant-a", created, first), relation("tenant-b", first, second), relation("tenant-b", second, at.Add(5*time.Minute)))
}

// A registration that is over and a relation that is open again, as after a
// restored backup: it is closed where the registration knew the end.
func TestARelationOfAnEndedRegistrationIsClosed(t *testing.T) {
	t.Parallel()
	r := newEngineRig(t)
	r.serve()
	in := begun
	in.End = &api.ShootEnd{At: gone}
	r.result(r.start(in))
	r.garden.DeleteShoot("dev", "web")
	restored := newWorld(t) // an empty Reporting API
	r.settings.Reporting = restored.reporting
	open := restored.settings
	open.Garden = r.garden
	f := facts
	f.CreatedAt = created
	shoots := &activities.Shoots{Settings: func(string) (activities.ShootSettings, bool) { return open, true }}
	if _, err := settleNow(t, shoots, f); err != nil {
		t.Fatal(err)
	}
	compare := &activities.ShootRelations{Temporal: r.client, Resolver: &registration.Resolver{}, Settings: shoots.Settings}
	out, err := compare.Compare(t.Context(), inventory.ExtraInput{Source: "garden", Now: start.Add(time.Hour)})
	if err != nil || len(out.Differences) != 1 || out.Differences[0].Action != api.DifferenceRepaired {
		t.Fatalf("%+v, %v: want it closed", out, err)
	}
	restored.wantRelations(relation("tenant-a", created, gone))
}

// settleNow writes the relation of a shoot, as the activity does.
func settleNow(t *testing.T, a *activities.Shoots, f api.ShootFacts) (activities.SettleRelationResult, error) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(a)
	v, err := env.ExecuteActivity(a.SettleRelation, activities.SettleRelationInput{ShootStep: activities.ShootStep{Facts: f},
		Relation: api.ShootRelation{Tenant: api.Tenant{Platform: "openstack", ExternalID: "Default/tenant-a"}, ValidFrom: created}})
	var out activities.SettleRelationResult
	if err == nil {
		err = v.Get(&out)
	}
	return out, err
}
