package shoot_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Nothing is lost between two runs, whatever a registration is in the middle of.
func TestContinuesAsNewWithAllItKnows(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(w *world){
		"registered": func(*world) {},
		"unresolved": func(w *world) {
			w.garden.SetSecret("garden-shared", "cloud", "", map[string]string{"tenantName": "x"})
		},
		"rotated": func(w *world) {
			w.at(10*time.Second, func() {
				w.tenant("tenant-b")
				w.env.SignalWorkflow(workflows.SignalShootRotated, api.ShootRotation{At: start.Add(5 * time.Second)})
			})
		},
		"missing": func(w *world) {
			w.signal(10*time.Second, workflows.SignalShootEnded, api.ShootEnd{At: start, Concluded: true})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			before(w)
			w.at(time.Minute, func() {
				w.env.SetCurrentHistoryLength(31)
				w.env.SignalWorkflow(workflows.SignalShootCreated, facts) // known already
			})
			in := begun
			in.ContinueAfter = 30
			err := w.run(in, time.Hour)
			var can *workflow.ContinueAsNewError
			if !errors.As(err, &can) {
				t.Fatalf("ended with %v, want a new run", err)
			}
			var next api.ShootRegistrationInput
			if err := converter.GetDefaultDataConverter().FromPayloads(can.Input, &next); err != nil {
				t.Fatal(err)
			}
			if can.WorkflowType.Name != workflows.TypeShootRegistration || next.Carried == nil || next.ContinueAfter != 30 {
				t.Fatalf("new run %+v", next)
			}
			want, now := w.status(), w.env.Now()
			w.newRun()
			w.env.SetStartTime(now)
			w.at(time.Second, func() {
				got := w.status()
				if diff := cmp.Diff(got, want); diff != "" {
					t.Errorf("status (-new run +old run):\n%s", diff)
				}
			})
			w.sleeps(next, 2*time.Second)
		})
	}
}
