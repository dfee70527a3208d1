package orphangc_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/mock"
	sdkactivity "go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
	"github.com/tollgate-dev/tollgate/workflows/orphangc"
)

// world is a sweep in the test environment. sightings are the answers of its
// looks in turn; an error is one too.
type world struct {
	env       *testsuite.TestWorkflowEnvironment
	sightings []any
	del       func(api.Orphan) (activities.DeleteOrphanResult, error)

	mu      sync.Mutex
	looks   []activities.FindOrphansInput
	at      []time.Time
	deleted []string
	counted []activities.SweepDoneInput
}

func newWorld(t *testing.T, sightings ...any) *world {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	w := &world{env: suite.NewTestWorkflowEnvironment(), sightings: sightings}
	w.env.RegisterActivityWithOptions(w.find, sdkactivity.RegisterOptions{Name: "FindOrphans"})
	w.env.RegisterActivityWithOptions(w.delete, sdkactivity.RegisterOptions{Name: "DeleteOrphan"})
	w.env.RegisterActivityWithOptions(w.record, sdkactivity.RegisterOptions{Name: "RecordSweep"})
	w.env.RegisterWorkflowWithOptions(orphangc.Workflow, workflow.RegisterOptions{Name: workflows.TypeOrphanGC})
	w.env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: workflows.OrphanGCID("local"), TaskQueue: workflows.TaskQueue})
	w.env.SetTestTimeout(time.Minute)
	w.env.OnUpsertTypedSearchAttributes(mock.Anything).Return(nil).Maybe()
	return w
}

func (w *world) find(_ context.Context, in activities.FindOrphansInput) (activities.FindOrphansResult, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.looks)
	w.looks, w.at = append(w.looks, in), append(w.at, w.env.Now())
	if err, ok := w.sightings[min(n, len(w.sightings)-1)].(error); ok {
		return activities.FindOrphansResult{}, err
	}
	return w.sightings[min(n, len(w.sightings)-1)].(activities.FindOrphansResult), nil
}

func (w *world) delete(_ context.Context, in activities.DeleteOrphanInput) (activities.DeleteOrphanResult, error) {
	w.mu.Lock()
	w.deleted = append(w.deleted, in.Orphan.ID)
	w.mu.Unlock()
	if w.del != nil {
		return w.del(in.Orphan)
	}
	return activities.DeleteOrphanResult{Action: api.OrphanDeleted}, nil
}

func (w *world) record(_ context.Context, in activities.SweepDoneInput) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counted = append(w.counted, in)
	return nil
}

func (w *world) run(t *testing.T, in api.OrphanGCInput) api.OrphanGCResult {
	t.Helper()
	w.env.ExecuteWorkflow(workflows.TypeOrphanGC, in)
	var out api.OrphanGCResult
	if err := w.env.GetWorkflowResult(&out); err != nil {
		t.Fatalf("the sweep failed: %v", err)
	}
	return out
}

func (w *world) status(t *testing.T) api.OrphanSweep {
	t.Helper()
	v, err := w.env.QueryWorkflow(workflows.QueryStatus)
	if err != nil {
		t.Fatal(err)
	}
	var s api.OrphanSweep
	if err := v.Get(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

func orphans(n int) []api.Orphan {
	out := make([]api.Orphan, n)
	for i := range out {
		out[i] = api.Orphan{Kind: api.KindInstance, ID: fmt.Sprintf("id-%02d", i), Name: fmt.Sprintf("proxy-%02d", i), UID: fmt.Sprintf("uid-%02d", i),
			Namespace: "default", Proxy: fmt.Sprintf("p%02d", i), Reason: "OwnerClosed"}
	}
	return out
}

func sighting(n int) activities.FindOrphansResult {
	return activities.FindOrphansResult{Instances: 20, Companions: 3, Count: n, Orphans: orphans(n), Verdicts: map[string]int{"Owned": 23 - n, "OwnerClosed": n}}
}

func unreadable(n int) activities.FindOrphansResult {
	s := sighting(n)
	s.Unreadable = "owner proxy/default/a: deadline exceeded"
	return s
}

var local = api.OrphanGCInput{Provider: "local"}

func TestSweeps(t *testing.T) {
	t.Parallel()
	outage := temporal.NewNonRetryableApplicationError("401 from the API", string(provider.Permanent), nil)
	for name, tc := range map[string]struct {
		in        api.OrphanGCInput
		sightings []any
		outcome   api.SweepOutcome
		says      string
		looks     int
		deleted   int
		action    api.OrphanAction // of the first orphan
	}{
		"nothing":                  {local, []any{sighting(0)}, api.SweepClean, "Nothing to delete", 1, 0, ""},
		"orphans":                  {local, []any{sighting(3)}, api.SweepDeleted, "3 orphans deleted", 2, 3, api.OrphanDeleted},
		"one":                      {local, []any{sighting(1)}, api.SweepDeleted, "1 orphan deleted", 2, 1, api.OrphanDeleted},
		"exactly the cap":          {local, []any{sighting(10)}, api.SweepDeleted, "10 orphans deleted", 2, 10, api.OrphanDeleted},
		"seen once":                {local, []any{sighting(3), sighting(0)}, api.SweepClean, "gone or owned", 2, 0, ""},
		"fewer at the second":      {local, []any{sighting(30), sighting(2)}, api.SweepDeleted, "2 orphans deleted", 2, 2, api.OrphanDeleted},
		"over the cap":             {local, []any{sighting(11)}, api.SweepOverCap, "there are 11 orphans, and the cap is 10", 2, 0, ""},
		"over a cap of one":        {api.OrphanGCInput{Provider: "local", Cap: 1}, []any{sighting(2)}, api.SweepOverCap, "--cap 2", 2, 0, ""},
		"a larger cap":             {api.OrphanGCInput{Provider: "local", Cap: 11}, []any{sighting(11)}, api.SweepDeleted, "11 orphans deleted", 2, 11, api.OrphanDeleted},
		"dry run":                  {api.OrphanGCInput{Provider: "local", DryRun: true}, []any{sighting(3)}, api.SweepDryRun, "3 orphans would be deleted", 2, 0, api.OrphanWouldDelete},
		"dry run over the cap":     {api.OrphanGCInput{Provider: "local", DryRun: true}, []any{sighting(12)}, api.SweepOverCap, "12 orphans", 2, 0, ""},
		"dry run, nothing":         {api.OrphanGCInput{Provider: "local", DryRun: true}, []any{sighting(0)}, api.SweepClean, "Nothing", 1, 0, ""},
		"listing fails":            {local, []any{outage}, api.SweepUnreadable, "Permanent: 401 from the API", 1, 0, ""},
		"second listing fails":     {local, []any{sighting(3), outage}, api.SweepUnreadable, "Nothing was deleted", 2, 0, ""},
		"an owner is unreadable":   {local, []any{unreadable(3)}, api.SweepUnreadable, "owner proxy/default/a", 1, 0, ""},
		"unreadable at the second": {local, []any{sighting(3), unreadable(3)}, api.SweepUnreadable, "owner proxy/default/a", 2, 0, ""},
		"too many to remember": {local, []any{activities.FindOrphansResult{Instances: 9000, Count: 9000, Orphans: orphans(500), Verdicts: map[string]int{"OwnerNotFound": 9000}}},
			api.SweepOverCap, "there are 9000 orphans", 1, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tc.sightings...)
			out := w.run(t, tc.in)
			if out.Outcome != tc.outcome || !strings.Contains(out.Message, tc.says) {
				t.Errorf("outcome %s: %q, want %s and %q", out.Outcome, out.Message, tc.outcome, tc.says)
			}
			if len(w.looks) != tc.looks || len(w.deleted) != tc.deleted {
				t.Errorf("%d looks and %d deletes, want %d and %d", len(w.looks), len(w.deleted), tc.looks, tc.deleted)
			}
			if len(out.Orphans) > 0 && out.Orphans[0].Action != tc.action {
				t.Errorf("the first orphan: %+v, want action %q", out.Orphans[0], tc.action)
			}
			if len(out.Orphans) > 100 {
				t.Errorf("the report lists %d orphans", len(out.Orphans))
			}
			if len(w.counted) != 1 || w.counted[0].Outcome != tc.outcome {
				t.Errorf("counted %+v, want the outcome once", w.counted)
			}
			if tc.looks == 2 {
				if gap := w.at[1].Sub(w.at[0]); gap < 30*time.Second {
					t.Errorf("%s between the looks, want 30s at least", gap)
				}
				first := tc.sightings[0].(activities.FindOrphansResult)
				if len(w.looks[0].Seen) != 0 || len(w.looks[1].Seen) != first.Count || w.looks[1].MinAge.Std() != 10*time.Minute {
					t.Errorf("the second look: %+v", w.looks[1])
				}
			}
			if s := w.status(t); s.Step != api.SweepDone || s.Status.Outcome != tc.outcome || s.Spec.Cap == 0 {
				t.Errorf("status %+v, want it done", s)
			}
		})
	}
}

func TestDeletesThatDoNotHappen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sighting(4))
	w.del = func(o api.Orphan) (activities.DeleteOrphanResult, error) {
		switch o.ID {
		case "id-00":
			return activities.DeleteOrphanResult{}, temporal.NewNonRetryableApplicationError("403: forbidden", string(provider.Permanent), nil)
		case "id-01":
			return activities.DeleteOrphanResult{Action: api.OrphanGone, Message: "it was gone already"}, nil
		case "id-02":
			return activities.DeleteOrphanResult{Action: api.OrphanKept, Message: "it is no orphan any more: Owned"}, nil
		}
		return activities.DeleteOrphanResult{Action: api.OrphanDeleted}, nil
	}
	out := w.run(t, local)
	if out.Outcome != api.SweepIncomplete || !strings.Contains(out.Message, "1 of 4 orphans deleted, 1 failed") {
		t.Errorf("outcome %s: %q", out.Outcome, out.Message)
	}
	var got []string
	for _, o := range out.Orphans {
		got = append(got, string(o.Action)+" "+o.Message)
	}
	want := []string{"Failed 403: forbidden", "Gone it was gone already", "Kept it is no orphan any more: Owned", "Deleted "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
}

func TestOwnedAgainIsNoFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sighting(2))
	w.del = func(o api.Orphan) (activities.DeleteOrphanResult, error) {
		if o.ID == "id-00" {
			return activities.DeleteOrphanResult{Action: api.OrphanKept}, nil
		}
		return activities.DeleteOrphanResult{Action: api.OrphanDeleted}, nil
	}
	if out := w.run(t, local); out.Outcome != api.SweepDeleted || out.Message != "1 orphan deleted, 1 gone or owned again by then." {
		t.Errorf("outcome %s: %q", out.Outcome, out.Message)
	}
}

func TestInstancesGoBeforeCompanions(t *testing.T) {
	t.Parallel()
	s := sighting(3)
	s.Orphans[2].Kind = "volume"
	w := newWorld(t, s)
	w.run(t, local)
	if len(w.deleted) != 3 || w.deleted[2] != "id-02" {
		t.Errorf("deleted in the order %v, want the volume last", w.deleted)
	}
}

func TestALargeCapDeletesAFewAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sighting(35))
	var mu sync.Mutex
	running, most := 0, 0
	w.del = func(api.Orphan) (activities.DeleteOrphanResult, error) {
		mu.Lock()
		running++
		most = max(most, running)
		mu.Unlock()
		defer func() {
			mu.Lock()
			running--
			mu.Unlock()
		}()
		return activities.DeleteOrphanResult{Action: api.OrphanDeleted}, nil
	}
	out := w.run(t, api.OrphanGCInput{Provider: "local", Cap: 50})
	slices.Sort(w.deleted)
	if out.Outcome != api.SweepDeleted || len(slices.Compact(w.deleted)) != 35 || most > 10 {
		t.Errorf("outcome %s, %d deleted, %d at once", out.Outcome, len(w.deleted), most)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sighting(3))
	w.env.RegisterDelayedCallback(w.env.CancelWorkflow, 10*time.Second)
	w.env.ExecuteWorkflow(workflows.TypeOrphanGC, local)
	if err := w.env.GetWorkflowError(); !temporal.IsCanceledError(err) {
		t.Errorf("the sweep ended with %v, want the cancellation", err)
	}
	if len(w.deleted) != 0 || len(w.counted) != 1 || w.counted[0].Outcome != api.SweepCanceled {
		t.Errorf("%v deleted, counted %+v", w.deleted, w.counted)
	}
}

func TestInvalidInput(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in   api.OrphanGCInput
		says string
	}{
		"no provider":   {api.OrphanGCInput{}, "provider: is required"},
		"cap":           {api.OrphanGCInput{Provider: "local", Cap: 501}, "cap: 501 is out of range: use 1 to 500"},
		"negative cap":  {api.OrphanGCInput{Provider: "local", Cap: -1}, "cap: -1"},
		"age":           {api.OrphanGCInput{Provider: "local", MinAge: api.Duration(-time.Second)}, "minAge: -1s"},
		"confirmAfter":  {api.OrphanGCInput{Provider: "local", ConfirmAfter: api.Duration(2 * time.Hour)}, "confirmAfter: 2h0m0s"},
		"more than one": {api.OrphanGCInput{Cap: -1}, "provider: is required"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, sighting(1))
			w.env.ExecuteWorkflow(workflows.TypeOrphanGC, tc.in)
			var app *temporal.ApplicationError
			if err := w.env.GetWorkflowError(); !errors.As(err, &app) || app.Type() != orphangc.ErrInvalidInput || !strings.Contains(app.Message(), tc.says) {
				t.Errorf("the sweep ended with %v, want %q", err, tc.says)
			}
			if len(w.looks) != 0 {
				t.Error("it looked nevertheless")
			}
		})
	}
}

func TestStatusSaysWhatItDoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sighting(2))
	var waiting api.OrphanSweep
	w.env.RegisterDelayedCallback(func() { waiting = w.status(t) }, 10*time.Second)
	w.run(t, local)
	if waiting.Step != api.SweepWaiting || waiting.Status.OrphanCount != 2 || waiting.Status.Outcome != "" || waiting.Kind != api.KindOrphanSweep {
		t.Errorf("status %+v, want it waiting with two orphans", waiting)
	}
}
