package census

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/tollgate-dev/tollgate/internal/devserver/devservertest"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// begin starts registrations that nobody works on, with the search attributes that
// a registration has in such a state. One with an empty phase has none yet.
func begin(t *testing.T, c client.Client, source string, g Group, n int) (ids []string) {
	t.Helper()
	attrs := []temporal.SearchAttributeUpdate{workflows.AttrSource.ValueSet(source)}
	if g.Phase != "" {
		attrs = append(attrs, workflows.AttrPhase.ValueSet(string(g.Phase)), workflows.AttrReason.ValueSet(g.Reason),
			workflows.AttrHealthy.ValueSet(g.Reason == "" && g.Phase != api.ShootUnresolved))
	}
	for i := range n {
		id := workflows.ShootID("dev", "web", fmt.Sprintf("%s-%s-%s-%d", strings.ReplaceAll(source, "'", ""), g.Phase, g.Reason, i))
		if _, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: "nobody", TypedSearchAttributes: temporal.NewSearchAttributes(attrs...)},
			workflows.TypeShootRegistration, api.ShootRegistrationInput{}); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// eventually waits until visibility has caught up.
func eventually(t *testing.T, v Visibility, source string, most int32, want map[Group]int) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		got, err := take(t.Context(), v, source, most)
		if err == nil && cmp.Equal(got, want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s, %v (-got +want):\n%s", source, err, cmp.Diff(got, want))
		}
	}
}

func TestRegistrationsAreCounted(t *testing.T) {
	t.Parallel()
	c := devservertest.Start(t, devservertest.WithSearchAttributes(workflows.SearchAttributes()...)).Client()
	want := map[Group]int{
		{Phase: api.ShootPending}: 1, {Phase: api.ShootRegistered}: 5, {Phase: api.ShootRegistering}: 0, {Phase: api.ShootEnding}: 2, {Phase: api.ShootUnresolved}: 0,
		{api.ShootUnresolved, api.ReasonNotMapped}: 3, {api.ShootUnresolved, api.ReasonSecretMissing}: 1,
		{api.ShootRegistering, api.ReasonReportingUnavailable}: 2, {api.ShootRegistered, api.ReasonWaitingForEnd}: 1,
	}
	for g, n := range want {
		begin(t, c, "garden", g, n)
	}
	begin(t, c, "garden", Group{}, 1) // it has just been started
	begin(t, c, "other's", Group{api.ShootUnresolved, api.ReasonNotMapped}, 1)
	over := begin(t, c, "over", Group{Phase: api.ShootRegistered}, 1)
	eventually(t, c, "garden", mostListed, want)
	// Of more than are looked at, those of each reason are all counted.
	got, err := take(t.Context(), c, "garden", 4)
	if err != nil {
		t.Fatal(err)
	}
	reasons := 0
	for g, n := range got {
		if n != want[g] {
			t.Errorf("%d of %v with a short list, want %d", n, g, want[g])
		}
		if g.Reason != "" {
			reasons++
		}
	}
	if reasons < 2 {
		t.Errorf("%d reasons among the four listed: %v", reasons, got)
	}
	none := map[Group]int{{Phase: api.ShootPending}: 0, {Phase: api.ShootRegistered}: 0, {Phase: api.ShootRegistering}: 0, {Phase: api.ShootEnding}: 0, {Phase: api.ShootUnresolved}: 0}
	if err := c.TerminateWorkflow(t.Context(), over[0], "", "over"); err != nil {
		t.Fatal(err)
	}
	eventually(t, c, "over", mostListed, none)
	eventually(t, c, "unknown", mostListed, none)
	other := map[Group]int{{api.ShootUnresolved, api.ReasonNotMapped}: 1}
	for g := range none {
		other[g] = 0
	}
	eventually(t, c, "other's", mostListed, other)
}

// broken fails at one of its calls.
type broken struct {
	calls int
	at    int
}

var errAway = errors.New("away")

func (b *broken) next() error {
	if b.calls++; b.calls == b.at {
		return errAway
	}
	return nil
}

func (b *broken) CountWorkflow(context.Context, *workflowservice.CountWorkflowExecutionsRequest) (*workflowservice.CountWorkflowExecutionsResponse, error) {
	return &workflowservice.CountWorkflowExecutionsResponse{Count: 1}, b.next()
}

func (b *broken) ListWorkflow(context.Context, *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	return &workflowservice.ListWorkflowExecutionsResponse{}, b.next()
}

// A count that is not complete is none.
func TestPartOfACountIsNone(t *testing.T) {
	t.Parallel()
	all := &broken{}
	if _, err := Take(t.Context(), all, "garden"); err != nil || all.calls < 6 {
		t.Fatalf("%d calls, %v", all.calls, err)
	}
	for at := 1; at <= all.calls; at++ {
		if got, err := Take(t.Context(), &broken{at: at}, "garden"); !errors.Is(err, errAway) || got != nil {
			t.Errorf("call %d fails: %v, %v", at, got, err)
		}
	}
}
