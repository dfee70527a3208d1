package register_test

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/register"
)

// registry records what is registered. Methods beyond those that All may use
// panic.
type registry struct {
	worker.WorkflowRegistry
	byName map[string]any
}

func (r *registry) RegisterWorkflowWithOptions(w any, o workflow.RegisterOptions) {
	r.byName[o.Name] = w
}

func TestAllRegistersThePublicNames(t *testing.T) {
	t.Parallel()
	r := &registry{byName: map[string]any{}}
	register.All(r)
	want := []string{workflows.TypeEventCursor, workflows.TypeFleetWatch, workflows.TypeInventory, workflows.TypeOrphanGC, workflows.TypeProviderHealth, workflows.TypeProxy, workflows.TypeReaper, workflows.TypeShootRegistration}
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(r.byName))); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	for name, w := range r.byName {
		f := reflect.TypeOf(w)
		if f.Kind() != reflect.Func || f.NumIn() != 2 || f.In(0) != reflect.TypeFor[workflow.Context]() || f.In(1).Kind() != reflect.Struct {
			t.Errorf("%s is %s: a workflow takes a context and one input struct", name, f)
		}
	}
}
