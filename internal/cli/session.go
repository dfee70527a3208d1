package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

const (
	// callTimeout and waitTimeout are the time a command has when --timeout says
	// nothing: without waiting, and with it. The latter is longer than the default
	// limit for a new instance's proof.
	callTimeout = 30 * time.Second
	waitTimeout = 15 * time.Minute
	shortCall   = 3 * time.Second
	// workerGrace is how long an answer may take before it is asked whether
	// anybody is there to give it.
	workerGrace = 3 * time.Second
)

// session is one command's connection and settings.
type session struct {
	env              Env
	conn             *Connection
	timeout          time.Duration
	grace, pollEvery time.Duration
}

// noWorker reports whether it is certain that no worker polls for workflow
// tasks. Temporal remembers a poller for some minutes, so false proves nothing.
func (s *session) noWorker(ctx context.Context) bool {
	r, err := s.conn.Client.DescribeTaskQueue(ctx, workflows.TaskQueue, enumspb.TASK_QUEUE_TYPE_WORKFLOW)
	return err == nil && len(r.GetPollers()) == 0
}

// answered makes a call that a worker has to answer, and gives it up early when
// there is none.
func (s *session) answered(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(s.grace, func() {
		if s.noWorker(ctx) {
			cancel(errNoWorker)
		}
	})
	defer watch.Stop()
	err := call(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errNoWorker) {
		return errNoWorker
	}
	return err
}

// closedError says that a workflow is there and has ended.
type closedError struct {
	status enumspb.WorkflowExecutionStatus
}

func (e *closedError) Error() string { return "the workflow has ended: " + e.status.String() }

// query asks a running workflow. A closed one gives a *closedError.
func (s *session) query(ctx context.Context, id, name string, into any) error {
	return s.answered(ctx, func(ctx context.Context) error {
		r, err := s.conn.Client.QueryWorkflowWithOptions(ctx, &client.QueryWorkflowWithOptionsRequest{
			WorkflowID: id, QueryType: name, QueryRejectCondition: enumspb.QUERY_REJECT_CONDITION_NOT_OPEN,
		})
		if err != nil {
			return err
		}
		if r.QueryRejected != nil {
			return &closedError{r.QueryRejected.GetStatus()}
		}
		return r.QueryResult.Get(into)
	})
}

// object names a proxy in the way users see it.
type object struct{ namespace, name string }

func (o object) String() string { return "proxy " + o.namespace + "/" + o.name }

// args names the proxy on a command line.
func (o object) args() string {
	if o.namespace == api.DefaultNamespace {
		return o.name
	}
	return "-n " + o.namespace + " " + o.name
}

func (o object) id() string { return workflows.ProxyID(o.namespace, o.name) }

// status reads a proxy that exists.
func (s *session) status(ctx context.Context, o object) (api.Proxy, error) {
	var p api.Proxy
	err := s.query(ctx, o.id(), workflows.QueryStatus, &p)
	var closed *closedError
	if errors.As(err, &closed) {
		return p, s.gone(ctx, o, closed.status)
	}
	if err == nil && p.Kind != api.KindProxy {
		err = fmt.Errorf("workflow %s answers with kind %q: it is no Proxy", o.id(), p.Kind)
	}
	return p, s.translate(ctx, o.String(), err)
}

// gone says how a proxy that once was came to its end.
func (s *session) gone(ctx context.Context, o object, status enumspb.WorkflowExecutionStatus) error {
	when := ""
	if d, err := s.conn.Client.DescribeWorkflowExecution(ctx, o.id(), ""); err == nil {
		if t := d.GetWorkflowExecutionInfo().GetCloseTime(); t != nil {
			when = " " + formatTime(t.AsTime())
		}
	}
	how, hint := "it was deleted"+when, "its life is shown by: tollgate proxy history "+o.args()
	switch status {
	case enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED:
		how = "its workflow was terminated" + when
		hint = "its instance is collected by the next sweep: tollgate gc run"
	case enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		how = "its workflow ended in a failure" + when
		// Its result is that failure.
		if app, ok := asApplication(s.conn.Client.GetWorkflow(ctx, o.id(), "").Get(ctx, nil)); ok {
			how += ": " + app.Message()
		}
	}
	return fail(ExitNotFound, hint, "%s does not exist: %s", o, how)
}

// mustRun makes sure that a proxy is there, without a worker's help.
func (s *session) mustRun(ctx context.Context, o object) error {
	d, err := s.conn.Client.DescribeWorkflowExecution(ctx, o.id(), "")
	if err != nil {
		return s.translate(ctx, o.String(), err)
	}
	if st := d.GetWorkflowExecutionInfo().GetStatus(); st != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return s.gone(ctx, o, st)
	}
	return nil
}
