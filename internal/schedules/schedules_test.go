package schedules_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/tollgate-dev/tollgate/internal/config"
	"github.com/tollgate-dev/tollgate/internal/devserver/devservertest"
	"github.com/tollgate-dev/tollgate/internal/schedules"
	"github.com/tollgate-dev/tollgate/workflows"
)

func wanted(providers ...string) []schedules.Schedule {
	c := &config.Config{GC: config.GC{Interval: 10 * time.Minute, MinAge: 20 * time.Minute, ConfirmAfter: time.Minute, Cap: 7}}
	for _, p := range providers {
		c.Providers = append(c.Providers, config.Provider{Name: p})
	}
	return schedules.Wanted(c)
}

func TestApplyOnARealEngine(t *testing.T) {
	t.Parallel()
	engine := devservertest.Start(t, devservertest.WithSearchAttributes(workflows.SearchAttributes()...))
	sc := engine.Client().ScheduleClient()
	step := func(name string, w []schedules.Schedule, o schedules.Options, want ...schedules.Result) {
		t.Helper()
		got, err := schedules.Apply(t.Context(), sc, w, o)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(got, want); diff != "" {
			t.Errorf("%s (-got +want)\n%s", name, diff)
		}
	}
	result := func(id string, a schedules.Action, paused bool) schedules.Result {
		return schedules.Result{ID: id, Action: a, Paused: paused}
	}
	// The list of schedules follows a change after a moment.
	listed := func(n int) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; {
			it, err := sc.List(t.Context(), client.ScheduleListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			have := 0
			for it.HasNext() {
				e, err := it.Next()
				if err != nil {
					t.Fatal(err)
				}
				if e.WorkflowType.Name != "" {
					have++
				}
			}
			if have == n {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d schedules are listed, want %d", have, n)
			}
			select {
			case <-t.Context().Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	}

	atOnce(t, sc)
	listed(0)

	step("dry run", wanted("a"), schedules.Options{DryRun: true}, result("gc/a", schedules.Created, false))
	step("first time", wanted("a", "b"), schedules.Options{}, result("gc/a", schedules.Created, false), result("gc/b", schedules.Created, false))
	listed(2)
	step("again", wanted("a", "b"), schedules.Options{}, result("gc/a", schedules.Unchanged, false), result("gc/b", schedules.Unchanged, false))

	d, err := sc.GetHandle(t.Context(), "gc/a").Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	action := d.Schedule.Action.(*client.ScheduleWorkflowAction)
	if action.ID != "gc/a" || action.Workflow != workflows.TypeOrphanGC || action.TaskQueue != workflows.TaskQueue ||
		d.Schedule.Policy.Overlap != enumspb.SCHEDULE_OVERLAP_POLICY_SKIP || d.Schedule.Policy.CatchupWindow != time.Minute ||
		len(d.Schedule.Spec.Intervals) != 1 || d.Schedule.Spec.Intervals[0].Every != 10*time.Minute {
		t.Errorf("schedule %+v, action %+v", d.Schedule, action)
	}
	if in, err := schedules.Input(d.Schedule, nil); err != nil || in != wanted("a")[0].Input {
		t.Errorf("input %+v, %v", in, err)
	}

	if err := sc.GetHandle(t.Context(), "gc/a").Pause(t.Context(), client.SchedulePauseOptions{Note: "maintenance"}); err != nil {
		t.Fatal(err)
	}
	changed := wanted("a", "b")
	changed[0].Interval = 5 * time.Minute
	changed[1].Input.Cap = 8
	step("changed", changed, schedules.Options{}, result("gc/a", schedules.Updated, true), result("gc/b", schedules.Updated, false))
	step("changed again", changed, schedules.Options{}, result("gc/a", schedules.Unchanged, true), result("gc/b", schedules.Unchanged, false))

	// What is not ours stays, even under our prefix.
	if _, err := sc.Create(t.Context(), client.ScheduleOptions{
		ID: "gc/else", Spec: client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{{Every: time.Hour}}},
		Action: &client.ScheduleWorkflowAction{ID: "else", Workflow: "Else", TaskQueue: "else"},
	}); err != nil {
		t.Fatal(err)
	}
	listed(3)
	step("a provider less", changed[:1], schedules.Options{}, result("gc/a", schedules.Unchanged, true), result("gc/b", schedules.Foreign, false))
	step("pruned, dry run", changed[:1], schedules.Options{Prune: true, DryRun: true}, result("gc/a", schedules.Unchanged, true), result("gc/b", schedules.Deleted, false))
	step("pruned", changed[:1], schedules.Options{Prune: true}, result("gc/a", schedules.Unchanged, true), result("gc/b", schedules.Deleted, false))
	listed(2)
	step("pruned again", changed[:1], schedules.Options{Prune: true}, result("gc/a", schedules.Unchanged, true))
}

// atOnce lets several processes apply the same new schedule at once, and takes it
// away again.
func atOnce(t *testing.T, sc client.ScheduleClient) {
	t.Helper()
	errs := make(chan error, 4)
	for range cap(errs) {
		go func() {
			got, err := schedules.Apply(t.Context(), sc, wanted("both"), schedules.Options{})
			if err == nil && (len(got) != 1 || got[0].Action != schedules.Created && got[0].Action != schedules.Unchanged) {
				err = errors.New("unexpected result " + string(got[0].Action))
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if err := sc.GetHandle(t.Context(), "gc/both").Delete(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestInputOfAnotherSchedule(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]client.Schedule{
		"no action":    {},
		"no arguments": {Action: &client.ScheduleWorkflowAction{}},
		"no payload":   {Action: &client.ScheduleWorkflowAction{Args: []any{"x"}}},
	} {
		if in, err := schedules.Input(s, nil); err == nil {
			t.Errorf("%s: read %+v", name, in)
		}
	}
}
