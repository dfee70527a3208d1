package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

func isNotFound(err error) bool {
	var e *serviceerror.NotFound
	return errors.As(err, &e)
}

func isAlreadyStarted(err error) bool {
	var e *serviceerror.WorkflowExecutionAlreadyStarted
	return errors.As(err, &e)
}

// start starts the workflow of a new proxy. A name in use is a conflict; the
// name of a deleted proxy can be used again.
func (s *session) start(ctx context.Context, o object, p api.Proxy) error {
	spec := p.Spec
	_, err := s.conn.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                                       o.id(),
		TaskQueue:                                workflows.TaskQueue,
		WorkflowIDConflictPolicy:                 enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		TypedSearchAttributes: temporal.NewSearchAttributes(
			workflows.AttrProvider.ValueSet(spec.Provider),
			workflows.AttrNamespace.ValueSet(o.namespace),
			workflows.AttrPhase.ValueSet(string(api.PhasePending)),
		),
		StaticSummary: fmt.Sprintf("egress proxy %s/%s at %s", o.namespace, o.name, spec.Provider),
		StaticDetails: startDetails(o, spec),
	}, workflows.TypeProxy, api.ProxyInput{Spec: spec, Labels: p.Metadata.Labels})
	if isAlreadyStarted(err) {
		return fail(ExitConflict, fmt.Sprintf("change it with tollgate proxy update %s or tollgate apply -f FILE", o.args()), "%s exists already", o)
	}
	return s.translate(ctx, o.String(), err)
}

// startDetails is the fixed part of the run's page. It is Markdown.
func startDetails(o object, spec api.ProxySpec) string {
	return fmt.Sprintf("Egress proxy **%s/%s**, created with provider **%s**.\n\n"+
		"Cancel this workflow to delete the proxy and all it made. Terminating it leaves the instance to the next sweep.\n\n"+
		"`tollgate -n %s proxy get %s`", o.namespace, o.name, spec.Provider, o.namespace, o.name)
}

// newUpdateID makes the id by which repeats of one update are recognised.
func newUpdateID() string { return uuid.NewString() }

// update sends an update and waits for its result. Whatever cuts the wait short
// before ctx ends, the same update is asked for again: its id makes the repeats
// one.
func (s *session) update(ctx context.Context, workflowID, id, name string, in, out any) error {
	args := []any{in}
	if in == nil {
		args = nil
	}
	return s.answered(ctx, func(ctx context.Context) error {
		for {
			h, err := s.conn.Client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
				UpdateID: id, WorkflowID: workflowID, UpdateName: name, Args: args,
				WaitForStage: client.WorkflowUpdateStageCompleted,
			})
			if err == nil {
				err = h.Get(ctx, out)
			}
			if !cutShort(err) {
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(s.pollEvery):
			}
		}
	})
}

// cutShort reports whether a wait ended without an answer.
func cutShort(err error) bool {
	var late *client.WorkflowUpdateServiceTimeoutOrCanceledError
	var unavailable *serviceerror.Unavailable
	var deadline *serviceerror.DeadlineExceeded
	return errors.As(err, &late) || errors.As(err, &unavailable) || errors.As(err, &deadline)
}

// setSpec changes the spec of a running proxy.
func (s *session) setSpec(ctx context.Context, o object, in api.SetSpecInput) (api.SetSpecResult, error) {
	var r api.SetSpecResult
	err := s.update(ctx, o.id(), newUpdateID(), workflows.UpdateSetSpec, in, &r)
	return r, s.updateEnded(ctx, o, err)
}

// updateEnded translates how an update ended; one to a workflow that is over
// says how that came.
func (s *session) updateEnded(ctx context.Context, o object, err error) error {
	if isNotFound(err) {
		if d, derr := s.conn.Client.DescribeWorkflowExecution(ctx, o.id(), ""); derr == nil {
			if st := d.GetWorkflowExecutionInfo().GetStatus(); st != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
				return s.gone(ctx, o, st)
			}
		}
	}
	return s.translate(ctx, o.String(), err)
}
