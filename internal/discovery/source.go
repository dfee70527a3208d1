package discovery

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/converter"

	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Source reads one shard of a provider's fleet table as it is now.
type Source interface {
	Table(ctx context.Context, provider string, shard int) (api.FleetTable, error)
}

// Querier is the part of a Temporal client that a Source needs.
type Querier interface {
	QueryWorkflow(ctx context.Context, workflowID, runID, queryType string, args ...any) (converter.EncodedValue, error)
}

// Workflows returns the Source that asks the FleetWatch workflows. A query is
// answered after every report that the workflow got before it, so what it says
// was true at some moment after the query was sent.
func Workflows(q Querier) Source { return workflowSource{q} }

type workflowSource struct{ q Querier }

func (s workflowSource) Table(ctx context.Context, provider string, shard int) (api.FleetTable, error) {
	id := workflows.FleetID(provider, shard)
	v, err := s.q.QueryWorkflow(ctx, id, "", workflows.QueryTable)
	if err != nil {
		return api.FleetTable{}, fmt.Errorf("fleet table %s: %w", id, explain(err))
	}
	var t api.FleetTable
	if err := v.Get(&t); err != nil {
		return api.FleetTable{}, fmt.Errorf("fleet table %s: %w", id, err)
	}
	return t, nil
}

// explain puts the usual causes into words that need no knowledge of Temporal.
func explain(err error) error {
	var notFound *serviceerror.NotFound
	var failed *serviceerror.QueryFailed
	switch {
	case errors.As(err, &notFound):
		return errors.New("it is not started yet")
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("it does not answer in time; is a worker running?")
	case errors.As(err, &failed):
		return fmt.Errorf("it refuses to answer: %s", failed.Message)
	}
	return err
}
