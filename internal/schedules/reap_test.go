package schedules_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/client"

	"github.com/tollgate-dev/tollgate/internal/config"
	"github.com/tollgate-dev/tollgate/internal/devserver/devservertest"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/schedules"
	"github.com/tollgate-dev/tollgate/workflows"
)

func TestReapersOnARealEngine(t *testing.T) {
	t.Parallel()
	engine := devservertest.Start(t, devservertest.WithSearchAttributes(workflows.SearchAttributes()...))
	sc := engine.Client().ScheduleClient()
	c := &config.Config{
		Providers: []config.Provider{{Name: "a"}},
		GC:        config.GC{Interval: 10 * time.Minute, MinAge: 20 * time.Minute, ConfirmAfter: time.Minute, Cap: 7},
		Reap: []config.Reap{
			{Provider: "a", Selector: provider.Selector{Namespace: "ci"}, OlderThan: 6 * time.Hour, Interval: 15 * time.Minute},
			{Provider: "a", Selector: provider.Selector{Namespace: "ci", Proxy: "nightly"}, OlderThan: time.Hour, Interval: 5 * time.Minute},
		},
	}
	const ci, nightly = "reap/a/namespace=ci", "reap/a/namespace=ci,proxy=nightly"
	step := func(name string, o schedules.Options, want ...schedules.Result) {
		t.Helper()
		got, err := schedules.Apply(t.Context(), sc, schedules.Wanted(c), o)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(got, want); diff != "" {
			t.Errorf("%s (-got +want)\n%s", name, diff)
		}
	}
	result := func(id string, a schedules.Action) schedules.Result { return schedules.Result{ID: id, Action: a} }
	step("first time", schedules.Options{}, result("gc/a", schedules.Created), result(ci, schedules.Created), result(nightly, schedules.Created))
	step("again", schedules.Options{}, result("gc/a", schedules.Unchanged), result(ci, schedules.Unchanged), result(nightly, schedules.Unchanged))
	d, err := sc.GetHandle(t.Context(), ci).Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if a := d.Schedule.Action.(*client.ScheduleWorkflowAction); a.ID != ci || a.Workflow != workflows.TypeReaper || a.TaskQueue != workflows.TaskQueue {
		t.Errorf("it starts %+v", a)
	}
	c.Reap[0].OlderThan = 5 * time.Hour
	step("changed", schedules.Options{}, result("gc/a", schedules.Unchanged), result(ci, schedules.Updated), result(nightly, schedules.Unchanged))
	c.Reap = c.Reap[:1]
	for deadline := time.Now().Add(time.Minute); ; { // the list of schedules follows after a moment
		got, err := schedules.Apply(t.Context(), sc, schedules.Wanted(c), schedules.Options{Prune: true, DryRun: true})
		if err != nil {
			t.Fatal(err)
		}
		want := []schedules.Result{result("gc/a", schedules.Unchanged), result(ci, schedules.Unchanged), result(nightly, schedules.Deleted)}
		if diff := cmp.Diff(got, want); diff == "" {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("an entry less (-got +want)\n%s", diff)
		}
		select {
		case <-t.Context().Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	step("pruned", schedules.Options{Prune: true}, result("gc/a", schedules.Unchanged), result(ci, schedules.Unchanged), result(nightly, schedules.Deleted))
}
