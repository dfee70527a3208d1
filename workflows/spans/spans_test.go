package spans_test

import (
	"testing"

	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/workflows/spans"
)

func TestAdoptAndDetach(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		start := workflow.WithValue(ctx, spans.ContextKey, "start")
		update := workflow.WithValue(start, spans.ContextKey, "update")
		for name, got := range map[string]any{
			"update": spans.Adopt(start, update).Value(spans.ContextKey),
			"start":  start.Value(spans.ContextKey),
		} {
			if got != name {
				t.Errorf("span is %v, want %q", got, name)
			}
		}
		if got := spans.Detach(update).Value(spans.ContextKey); got != nil {
			t.Errorf("span after Detach is %v", got)
		}
		if got := spans.Adopt(update, spans.Detach(start)).Value(spans.ContextKey); got != nil {
			t.Errorf("span adopted from a detached context is %v", got)
		}
		return nil
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
}
