package inventory_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
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
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
	"github.com/tollgate-dev/tollgate/workflows/inventory"
)

// scene is an inventory in the test environment, with what its activities answer.
type scene struct {
	env    *testsuite.TestWorkflowEnvironment
	look   func() (activities.LookInventoryResult, error)
	repair func(activities.RepairInventoryInput) (activities.RepairInventoryResult, error)
	asked  []activities.RepairInventoryInput
	at     []time.Time
	done   []activities.InventoryDoneInput
}

func newScene() *scene {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	s := &scene{env: suite.NewTestWorkflowEnvironment()}
	s.look = func() (activities.LookInventoryResult, error) {
		return activities.LookInventoryResult{Sink: "billing", Streams: []activities.LookedStream{
			{InventoryStream: api.InventoryStream{Stream: "server", Listed: 2, Reported: 3}, At: s.env.Now(), Until: s.env.Now(), Seen: make([]byte, 8)},
			{InventoryStream: api.InventoryStream{Stream: "volume", Listed: 1, Reported: 1}},
		}}, nil
	}
	reg := func(name string, f any) {
		s.env.RegisterActivityWithOptions(f, sdkactivity.RegisterOptions{Name: name})
	}
	reg("LookInventory", func(context.Context, activities.LookInventoryInput) (activities.LookInventoryResult, error) {
		s.at = append(s.at, s.env.Now())
		return s.look()
	})
	reg("RepairInventory", func(_ context.Context, in activities.RepairInventoryInput) (activities.RepairInventoryResult, error) {
		s.at = append(s.at, s.env.Now())
		s.asked = append(s.asked, in)
		return s.repair(in)
	})
	reg("RecordInventory", func(_ context.Context, in activities.InventoryDoneInput) error {
		s.done = append(s.done, in)
		return nil
	})
	s.env.RegisterWorkflowWithOptions(inventory.Workflow, workflow.RegisterOptions{Name: workflows.TypeInventory})
	s.env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: workflows.InventoryID("hcloud"), TaskQueue: workflows.TaskQueue})
	s.env.OnUpsertTypedSearchAttributes(mock.Anything).Return(nil).Maybe()
	return s
}

func (s *scene) run(t *testing.T, in api.InventoryInput) api.InventoryResult {
	t.Helper()
	s.env.ExecuteWorkflow(workflows.TypeInventory, in)
	if err := s.env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	var out api.InventoryResult
	if err := s.env.GetWorkflowResult(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

// repaired answers with one difference and what was done about it.
func repaired(action api.DifferenceAction, kind api.DifferenceKind) func(activities.RepairInventoryInput) (activities.RepairInventoryResult, error) {
	return func(in activities.RepairInventoryInput) (activities.RepairInventoryResult, error) {
		st := in.Streams[0].InventoryStream
		st.Found = map[api.DifferenceKind]int{kind: 1}
		return activities.RepairInventoryResult{Streams: []api.InventoryStream{st}, Count: 1, Actions: map[api.DifferenceAction]int{action: 1},
			Differences: []api.Difference{{Stream: "server", Kind: kind, Resource: event.Resource{Type: event.Server, ID: "7"}, Action: action}}}, nil
	}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	for action, want := range map[api.DifferenceAction]api.InventoryOutcome{
		api.DifferenceRepaired: api.InventoryRepaired, api.DifferenceKnown: api.InventoryRepaired, api.DifferenceWaits: api.InventoryRepaired,
		api.DifferenceNone: api.InventoryDiffers, api.DifferenceHeld: api.InventoryHeld, api.DifferenceRefused: api.InventoryIncomplete,
		api.DifferenceFailed: api.InventoryIncomplete,
	} {
		s := newScene()
		s.repair = repaired(action, api.MissingDelete)
		out := s.run(t, api.InventoryInput{Source: "hcloud", ConfirmAfter: api.Duration(time.Minute)})
		if out.Outcome != want || !strings.HasPrefix(out.Message, "1 difference: 1 ") || len(out.Streams) != 2 || out.Streams[0].Found[api.MissingDelete] != 1 {
			t.Errorf("%s: %+v, want %s", action, out, want)
		}
		if d := s.at[1].Sub(s.at[0]); d < time.Minute {
			t.Errorf("%s between the looks", d)
		}
		if len(s.asked[0].Streams) != 1 || s.asked[0].Streams[0].Stream != "server" || s.asked[0].Sink != "billing" || s.asked[0].MaxEnds != 20 {
			t.Errorf("asked %+v, want the stream with differences", s.asked)
		}
		if len(s.done) != 1 || s.done[0].Outcome != want || s.done[0].Count != 1 {
			t.Errorf("recorded %+v", s.done)
		}
	}
}

// Only a stream that could be read is concluded from.
func TestPartlyUnreadable(t *testing.T) {
	t.Parallel()
	s := newScene()
	look := s.look
	s.look = func() (activities.LookInventoryResult, error) {
		out, err := look()
		out.Streams[1].Error = "429."
		return out, err
	}
	s.repair = repaired(api.DifferenceRepaired, api.MissingDelete)
	if out := s.run(t, api.InventoryInput{Source: "hcloud"}); out.Outcome != api.InventoryIncomplete || !strings.Contains(out.Message, "volume: 429.") {
		t.Errorf("%+v", out)
	}
	s = newScene()
	s.look = func() (activities.LookInventoryResult, error) {
		return activities.LookInventoryResult{}, temporal.NewNonRetryableApplicationError("no source", activities.ErrSourceNotConfigured, nil)
	}
	if out := s.run(t, api.InventoryInput{Source: "hcloud"}); out.Outcome != api.InventoryUnreadable || !strings.Contains(out.Message, "SourceNotConfigured: no source.") || len(s.asked) > 0 {
		t.Errorf("%+v", out)
	}
}

// What the inventory before has left is remembered, and since when.
func TestRemembersTheOneBefore(t *testing.T) {
	t.Parallel()
	s := newScene()
	first := time.Date(2026, 11, 2, 11, 0, 0, 0, time.UTC)
	d := func(id string, a api.DifferenceAction) api.Difference {
		return api.Difference{Stream: "server", Kind: api.MissingDelete, Account: "acme", Resource: event.Resource{Type: event.Server, ID: id}, FirstSeen: first, Action: a}
	}
	s.env.SetLastCompletionResult(api.InventoryResult{Differences: []api.Difference{d("1", api.DifferenceWaits), d("2", api.DifferenceRepaired)}})
	s.repair = repaired(api.DifferenceRepaired, api.MissingDelete)
	s.run(t, api.InventoryInput{Source: "hcloud"})
	want := []activities.SeenDifference{{Stream: "server", Kind: api.MissingDelete, Account: "acme", Type: event.Server, ID: "1", FirstSeen: first}}
	if diff := cmp.Diff(s.asked[0].Before, want); diff != "" {
		t.Errorf("(-got +want)\n%s", diff)
	}
}

func TestCanceledBetweenTheLooks(t *testing.T) {
	t.Parallel()
	s := newScene()
	s.env.RegisterDelayedCallback(s.env.CancelWorkflow, 30*time.Second)
	s.env.ExecuteWorkflow(workflows.TypeInventory, api.InventoryInput{Source: "hcloud", ConfirmAfter: api.Duration(time.Minute)})
	if err := s.env.GetWorkflowError(); !temporal.IsCanceledError(errors.Unwrap(err)) && !temporal.IsCanceledError(err) {
		t.Errorf("%v, want it canceled", err)
	}
	if len(s.asked) > 0 || len(s.done) != 1 || s.done[0].Outcome != api.InventoryCanceled {
		t.Errorf("asked %+v, recorded %+v", s.asked, s.done)
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	s := newScene()
	s.env.ExecuteWorkflow(workflows.TypeInventory, api.InventoryInput{ConfirmAfter: api.Duration(2 * time.Hour), MaxEnds: -1})
	err := s.env.GetWorkflowError()
	var app *temporal.ApplicationError
	if !errors.As(err, &app) || app.Type() != inventory.ErrInvalidInput {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{"source: is required", "confirmAfter: 2h0m0s is out of range", "maxEnds: -1 is negative"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %s", err, want)
		}
	}
}
