package activities

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/tollgate-dev/tollgate/internal/orphan"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Temporal is the part of a client.Client that activities use.
type Temporal interface {
	SignalWorkflow(ctx context.Context, workflowID, runID, signalName string, arg any) error
	SignalWithStartWorkflow(ctx context.Context, workflowID, signalName string, signalArg any,
		options client.StartWorkflowOptions, workflow any, workflowArgs ...any) (client.WorkflowRun, error)
	QueryWorkflow(ctx context.Context, workflowID, runID, queryType string, args ...any) (converter.EncodedValue, error)
	DescribeWorkflow(ctx context.Context, workflowID, runID string) (*client.WorkflowExecutionDescription, error)
	ListWorkflow(ctx context.Context, request *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error)
}

// Lookup finds a configured provider and its profile. ok is false when there is
// none of that name; err says why a configured one cannot be used.
type Lookup = func(name string) (p provider.Provider, profile provider.Profile, ok bool, err error)

func resolve(lookup Lookup, name string) (provider.Provider, provider.Profile, error) {
	p, profile, ok, err := lookup(name)
	switch {
	case !ok:
		return nil, profile, final(ErrProviderNotConfigured, fmt.Sprintf("provider: no provider %q is configured", name))
	case err != nil:
		return nil, profile, final(ErrProviderNotConfigured, fmt.Sprintf("provider: %q cannot be used: %v", name, err))
	}
	return p, profile, nil
}

// Bounds of what one activity does to Temporal at once, and of one call.
const (
	temporalConcurrency = 16
	temporalTimeout     = 15 * time.Second
)

// ownerOf says whether the proxy that marks name still runs. It asks for the
// workflow itself, which is strongly consistent, and never a list. The error
// explains an OwnerUnreadable.
func ownerOf(ctx context.Context, t Temporal, o orphan.Owner) (orphan.Reason, error) {
	ctx, cancel := context.WithTimeout(ctx, temporalTimeout)
	defer cancel()
	d, err := t.DescribeWorkflow(ctx, workflows.ProxyID(o.Namespace, o.Proxy), "")
	var notFound *serviceerror.NotFound
	if errors.As(err, &notFound) {
		return orphan.OwnerNotFound, nil
	}
	if err != nil {
		return orphan.OwnerUnreadable, fmt.Errorf("owner %s: %w", workflows.ProxyID(o.Namespace, o.Proxy), err)
	}
	info := d.RawResponse.GetWorkflowExecutionInfo()
	switch status := info.GetStatus(); status {
	case enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, enumspb.WORKFLOW_EXECUTION_STATUS_PAUSED:
		switch info.GetFirstRunId() {
		case o.UID:
			return orphan.Owned, nil
		case "":
			return orphan.OwnerUnreadable, fmt.Errorf("owner %s: the server does not say its first run", workflows.ProxyID(o.Namespace, o.Proxy))
		}
		return orphan.OwnerReplaced, nil
	case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, enumspb.WORKFLOW_EXECUTION_STATUS_FAILED,
		enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED, enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED,
		enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		return orphan.OwnerClosed, nil
	default:
		// Continued as new between two reads, or a status of a later server.
		return orphan.OwnerUnreadable, fmt.Errorf("owner %s: its status is %s", workflows.ProxyID(o.Namespace, o.Proxy), status)
	}
}

// reportToFleet signals a report to the shard that the proxy belongs to and
// starts the shard if it does not run.
func reportToFleet(ctx context.Context, t Temporal, providerName string, shards int, report api.FleetReport) error {
	shard := workflows.ShardOf(report.Row.UID, shards)
	return signalFleet(ctx, t, providerName, shard, workflows.SignalReport, report)
}

func signalFleet(ctx context.Context, t Temporal, providerName string, shard int, signal string, arg any) error {
	ctx, cancel := context.WithTimeout(ctx, temporalTimeout)
	defer cancel()
	options, in := FleetStart(providerName, shard)
	_, err := t.SignalWithStartWorkflow(ctx, options.ID, signal, arg, options, workflows.TypeFleetWatch, in)
	return err
}

// table reads the rows of one shard. A shard that does not run has none.
func table(ctx context.Context, t Temporal, providerName string, shard int) (api.FleetTable, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*temporalTimeout)
	defer cancel()
	id := workflows.FleetID(providerName, shard)
	v, err := t.QueryWorkflow(ctx, id, "", workflows.QueryTable)
	var notFound *serviceerror.NotFound
	if errors.As(err, &notFound) {
		return api.FleetTable{Provider: providerName, Shard: shard}, nil
	}
	var out api.FleetTable
	if err == nil {
		err = v.Get(&out)
	}
	if err != nil {
		return out, fmt.Errorf("table of %s: %w", id, err)
	}
	return out, nil
}

// forEach calls do for every index below n, a bounded number at once, and
// returns when all are done. Once ctx ends it starts no more.
func forEach(ctx context.Context, n, concurrency int, do func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(n, max(concurrency, 1)) {
		wg.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	wg.Wait()
}
