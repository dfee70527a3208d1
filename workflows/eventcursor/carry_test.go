package eventcursor_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
	"github.com/tollgate-dev/tollgate/workflows/eventcursor"
)

func TestInvalidInput(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]api.EventCursorInput{
		"no source": {Stream: "server", Config: in.Config}, "other id": {Source: "cloud", Stream: "volume", Config: in.Config},
		"no sink": {Source: "cloud", Stream: "server"},
	} {
		w := newWorld(t)
		err := w.run(bad, time.Minute)
		var app *temporal.ApplicationError
		if !errors.As(err, &app) || app.Type() != eventcursor.ErrInvalidInput || !app.NonRetryable() {
			t.Errorf("%s: %v, want it refused for good", name, err)
		}
	}
}

// Nothing is lost between two runs.
func TestContinuesAsNewWithAllItKnows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.read = func(in activities.ReadSourceInput) (activities.ReadSourceResult, error) {
		out := w.caughtUp(in, 3)
		out.DeadLetters, out.Pending = letters, 2
		out.Gaps = []source.Gap{{From: w.start.Add(-time.Hour), To: w.start}}
		out.Done = !in.To.IsZero()
		return out, nil
	}
	w.at(10*time.Second, func() { w.env.SetCurrentHistoryLength(31) })
	w.update(5*time.Second, workflows.UpdateBackfill, api.BackfillInput{From: w.start.Add(-time.Hour), To: w.start})
	in := in
	in.ContinueAfter = 30
	err := w.run(in, time.Hour)
	var can *workflow.ContinueAsNewError
	if !errors.As(err, &can) {
		t.Fatalf("ended with %v, want a new run", err)
	}
	var next api.EventCursorInput
	if err := converter.GetDefaultDataConverter().FromPayloads(can.Input, &next); err != nil {
		t.Fatal(err)
	}
	if can.WorkflowType.Name != workflows.TypeEventCursor || next.Carried == nil || next.ContinueAfter != 30 {
		t.Fatalf("new run %+v", next)
	}
	before := w.status()
	again := newWorld(t)
	again.read = func(in activities.ReadSourceInput) (activities.ReadSourceResult, error) {
		if in.Cursor != next.Carried.Cursor && in.To.IsZero() {
			t.Errorf("the new run reads from %q, want %q", in.Cursor, next.Carried.Cursor)
		}
		return activities.ReadSourceResult{}, temporal.NewApplicationError("enough", "Transient")
	}
	again.env.SetStartTime(w.env.Now())
	next.Carried.Status.Paused = true // nothing may happen before it is looked at
	again.at(time.Second, func() {
		got := again.status()
		got.Status.Paused = before.Status.Paused
		if diff := cmp.Diff(got, before); diff != "" {
			t.Errorf("status (-new run +old run):\n%s", diff)
		}
	})
	again.mustStop(next, 2*time.Second)
}
