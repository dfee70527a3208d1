package activities_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"go.temporal.io/api/workflowservice/v1"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// unlisted is a Temporal without visibility.
type unlisted struct {
	*fakeTemporal
	lists atomic.Int32
}

func (u *unlisted) ListWorkflow(context.Context, *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	u.lists.Add(1)
	return nil, errors.New("visibility is down")
}

// A sweep rests on no list: with visibility down it finds and deletes the same.
func TestSweepsNeedNoVisibility(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	u := &unlisted{fakeTemporal: y.temporal}
	y.gc.Temporal = u
	y.temporal.proxy("owned", "uid-owned", running)
	y.temporal.proxy("lost", "uid-lost", terminated)
	y.place("owned", marks("uid-owned", "owned").Labels())
	y.place("lost", marks("uid-lost", "lost").Labels())
	first, err := y.find(t)
	if err != nil || first.Count != 1 || first.Unreadable != "" {
		t.Fatalf("first sighting: %+v, %v; want one orphan", first, err)
	}
	second, err := y.find(t, refs(first.Orphans)...)
	if err != nil || second.Count != 1 {
		t.Fatalf("second sighting: %+v, %v; want one orphan", second, err)
	}
	out, err := call[activities.DeleteOrphanResult](t, activityEnv(y.gc), y.gc.DeleteOrphan,
		activities.DeleteOrphanInput{Provider: "mem", MinAge: api.Duration(1), Orphan: second.Orphans[0]})
	if err != nil || out.Action != api.OrphanDeleted {
		t.Errorf("DeleteOrphan = %+v, %v", out, err)
	}
	if y.has("lost") || !y.has("owned") {
		t.Errorf("the lost one exists: %v, the owned one: %v", y.has("lost"), y.has("owned"))
	}
	if n := u.lists.Load(); n != 0 {
		t.Errorf("%d lists were asked for", n)
	}
}
