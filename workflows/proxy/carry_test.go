package proxy_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/internal/provider/memory"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// TestCarriedStateIsWhole continues a proxy as new in the middle of different
// situations and checks that the next run shows exactly what the last one did.
func TestCarriedStateIsWhole(t *testing.T) {
	t.Parallel()
	situations := map[string]func(w *world){
		"running": func(*world) {},
		"waiting for quota": func(w *world) {
			w.backend.Inject(memory.Fault{Calls: []memory.Call{memory.CallCreateServer}, Err: &memory.APIError{Status: 403, Code: "quota"}})
		},
	}
	for name, prepare := range situations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			prepare(w)
			var before api.Proxy
			w.env.RegisterDelayedCallback(func() {
				before = w.view()
				w.env.SetContinueAsNewSuggested(true)
				w.env.SignalWorkflow(workflows.SignalObserved, api.Observation{Kind: api.ObservedHealthy, InstanceID: "another"})
			}, time.Hour)
			w.env.ExecuteWorkflow(workflows.TypeProxy, api.ProxyInput{Spec: spec(), Labels: map[string]string{"a": "b"}})
			var can *workflow.ContinueAsNewError
			if err := w.env.GetWorkflowError(); !errors.As(err, &can) {
				t.Fatalf("the run ended with %v", err)
			}
			var next api.ProxyInput
			if err := converter.GetDefaultDataConverter().FromPayloads(can.Input, &next); err != nil {
				t.Fatal(err)
			}
			b, err := json.Marshal(next)
			if err != nil {
				t.Fatal(err)
			}
			var again api.ProxyInput
			if err := json.Unmarshal(b, &again); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(next, again); d != "" {
				t.Errorf("the state changes on its way through JSON:\n%s", d)
			}

			w2 := newWorld(t)
			w2.backend = w.backend
			var after api.Proxy
			w2.env.RegisterDelayedCallback(func() {
				after = w2.view()
				w2.env.CancelWorkflow()
			}, time.Second)
			w2.env.ExecuteWorkflow(workflows.TypeProxy, next)
			if d := cmp.Diff(before, after); d != "" {
				t.Errorf("the next run differs (-before +after):\n%s", d)
			}
			// A row that the fleet has already is not sent again.
			if n := len(w2.reports); n != 2 || w2.reports[0].Row.Phase != api.PhaseDeleting || !w2.reports[1].Gone {
				t.Errorf("the next run reported %+v", w2.reports)
			}
		})
	}
}

// TestRepeatedUpdateIsAnsweredOnce sends an update again after a
// continue-as-new, as a caller does whose connection broke: the newer spec that
// came in between must stay.
func TestRepeatedUpdateIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	older, newer := spec(func(s *api.ProxySpec) { s.Port = 1111 }), spec(func(s *api.ProxySpec) { s.Port = 2222 })
	send := func(w *world, id string, s api.ProxySpec) *answer {
		a := &answer{}
		w.env.UpdateWorkflow(workflows.UpdateSetSpec, id, &testsuite.TestUpdateCallback{
			OnAccept: func() {}, OnReject: func(err error) { a.rejected = err },
			OnComplete: func(r any, err error) { a.result, a.err, a.done = r, err, true },
		}, api.SetSpecInput{Spec: s})
		return a
	}
	carried := api.CarriedProxy{
		Spec: newer.WithDefaults(), Generation: 3, CreatedAt: time.Now().UTC(),
		Answers: []api.CarriedAnswer{{ID: "first", SetSpec: &api.SetSpecResult{Generation: 2}}, {ID: "second", SetSpec: &api.SetSpecResult{Generation: 3}}},
	}
	var again, fresh *answer
	w.env.RegisterDelayedCallback(func() { again = send(w, "first", older) }, time.Hour)
	w.env.RegisterDelayedCallback(func() {
		if p := w.view(); p.Spec.Port != 2222 || p.Metadata.Generation != 3 {
			t.Errorf("port %d, generation %d after a repeated update", p.Spec.Port, p.Metadata.Generation)
		}
		if r, ok := again.result.(api.SetSpecResult); !again.done || !ok || r.Generation != 2 {
			t.Errorf("the repeated update was answered %+v", again)
		}
		fresh = send(w, "third", older)
	}, 2*time.Hour)
	w.env.RegisterDelayedCallback(func() {
		if r, ok := fresh.result.(api.SetSpecResult); !fresh.done || !ok || r.Generation != 4 || w.view().Spec.Port != 1111 {
			t.Errorf("a new update was answered %+v", fresh)
		}
		w.delete()
	}, 3*time.Hour)
	w.env.ExecuteWorkflow(workflows.TypeProxy, api.ProxyInput{Carried: &carried})
	w.wantNothingLeft()
}
