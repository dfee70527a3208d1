// Package census counts the registrations of shoots by what they do. It asks
// Temporal's visibility, which lags some seconds: its figures are for people, and
// nothing is decided by them.
package census

import (
	"context"
	"fmt"
	"strings"

	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Visibility is the part of Temporal's client that a census needs.
type Visibility interface {
	CountWorkflow(context.Context, *workflowservice.CountWorkflowExecutionsRequest) (*workflowservice.CountWorkflowExecutionsResponse, error)
	ListWorkflow(context.Context, *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error)
}

// Group is what registrations have in common. Reason is empty for those that are
// well.
type Group struct {
	Phase  api.ShootPhase
	Reason string
}

// mostListed is how many registrations with a reason are looked at one by one. Of
// more, each reason that is among them is counted, at a query each.
const mostListed = 1000

// Take counts the registrations of a source that are not over. A phase in which
// there is none has a zero without a reason.
func Take(ctx context.Context, v Visibility, source string) (map[Group]int, error) {
	return take(ctx, v, source, mostListed)
}

func take(ctx context.Context, v Visibility, source string, most int32) (map[Group]int, error) {
	out := map[Group]int{}
	for _, p := range api.ShootPhases() {
		if p == api.ShootEnded {
			continue
		}
		n, err := count(ctx, v, query(source, term(workflows.AttrPhase.GetName(), string(p)), workflows.AttrHealthy.GetName()+" = true"))
		if err != nil {
			return nil, err
		}
		out[Group{Phase: p}] = n
	}
	r, err := v.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{PageSize: most, Query: query(source, workflows.AttrHealthy.GetName()+" = false")})
	if err != nil {
		return nil, fmt.Errorf("list registrations of %s: %w", source, err)
	}
	for _, e := range r.GetExecutions() {
		out[Group{api.ShootPhase(word(e, workflows.AttrPhase.GetName())), word(e, workflows.AttrReason.GetName())}]++
	}
	if len(r.GetNextPageToken()) == 0 {
		return out, nil
	}
	for g := range out {
		if g.Reason == "" {
			continue
		}
		if out[g], err = count(ctx, v, query(source, term(workflows.AttrPhase.GetName(), string(g.Phase)), term(workflows.AttrReason.GetName(), g.Reason))); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func count(ctx context.Context, v Visibility, q string) (int, error) {
	r, err := v.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Query: q})
	if err != nil {
		return 0, fmt.Errorf("count registrations: %w", err)
	}
	return int(r.GetCount()), nil
}

// query finds the registrations of a source that run.
func query(source string, terms ...string) string {
	return strings.Join(append([]string{
		term("WorkflowType", workflows.TypeShootRegistration), term("ExecutionStatus", "Running"), term(workflows.AttrSource.GetName(), source),
	}, terms...), " AND ")
}

func term(key, value string) string {
	return key + " = '" + strings.ReplaceAll(value, "'", "''") + "'"
}

// word is a search attribute; one that cannot be read is empty.
func word(e *workflowpb.WorkflowExecutionInfo, name string) (s string) {
	if p, ok := e.GetSearchAttributes().GetIndexedFields()[name]; ok {
		_ = converter.GetDefaultDataConverter().FromPayload(p, &s) // for people
	}
	return s
}
