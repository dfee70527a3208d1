// Package reports reads the reports of inventories from Temporal, for the command
// line and the page.
package reports

import (
	"context"
	"fmt"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Report is an inventory and its report, and where it is in Temporal.
type Report struct {
	api.Inventory
	WorkflowID string `json:"workflowID"`
	RunID      string `json:"runID,omitempty"`
}

// Temporal is what is asked.
type Temporal interface {
	ListWorkflow(ctx context.Context, request *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error)
	QueryWorkflowWithOptions(ctx context.Context, request *client.QueryWorkflowWithOptionsRequest) (*client.QueryWorkflowWithOptionsResponse, error)
}

// looked is how many of the latest runs are looked at for the latest one.
const looked = 20

// Latest reads the latest inventory of a source; ok is false when there is none
// that Temporal still has.
func Latest(ctx context.Context, t Temporal, source string) (r Report, ok bool, err error) {
	list, err := t.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		PageSize: looked, Query: fmt.Sprintf("WorkflowType = '%s' AND %s = '%s'", workflows.TypeInventory, workflows.AttrSource.GetName(), source)})
	if err != nil {
		return Report{}, false, err
	}
	var latest int64
	for _, e := range list.GetExecutions() {
		if at := e.GetStartTime().AsTime().UnixNano(); at > latest {
			latest = at
			r.WorkflowID, r.RunID = e.GetExecution().GetWorkflowId(), e.GetExecution().GetRunId()
		}
	}
	if r.WorkflowID == "" {
		return Report{}, false, nil
	}
	v, err := t.QueryWorkflowWithOptions(ctx, &client.QueryWorkflowWithOptionsRequest{WorkflowID: r.WorkflowID, RunID: r.RunID, QueryType: workflows.QueryStatus})
	if err == nil {
		err = v.QueryResult.Get(&r.Inventory)
	}
	return r, err == nil, err
}
