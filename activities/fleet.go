package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/tollgate-dev/tollgate/internal/metrics"
	"github.com/tollgate-dev/tollgate/internal/orphan"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Fleet are the activities of fleet tables that call no provider; they belong on
// workflows.TaskQueue. The fields are set once, before the worker starts, and
// the functions are safe for concurrent use.
type Fleet struct {
	Temporal Temporal
	// Shards is the configured number of shards of a provider's fleet table, 0
	// when it is not known, which counts as one.
	Shards func(providerName string) int
	// ProbeProxy makes one CONNECT through the proxy at addr ("ip:port"), and
	// ProbeControl one connection to the same target without a proxy.
	ProbeProxy   func(ctx context.Context, addr string, auth *provider.BasicAuth) ProbeResult
	ProbeControl func(ctx context.Context) ProbeResult
	// Secret resolves an entry of the configuration's secrets.
	Secret func(ctx context.Context, name string) (provider.Sensitive, error)
	// Concurrency is how many probes are made at once; nil means 64.
	Concurrency func() int
	// Metrics may be nil.
	Metrics *metrics.Metrics
}

// FleetStart is how a shard of a fleet table is started: the options and the
// input of its workflow. Whoever signals a shard starts it this way.
func FleetStart(providerName string, shard int) (client.StartWorkflowOptions, api.FleetWatchInput) {
	return client.StartWorkflowOptions{
		ID:                    workflows.FleetID(providerName, shard),
		TaskQueue:             workflows.TaskQueue,
		StaticSummary:         fmt.Sprintf("Watches the proxies of %s, shard %d", providerName, shard),
		TypedSearchAttributes: temporal.NewSearchAttributes(workflows.AttrProvider.ValueSet(providerName)),
	}, api.FleetWatchInput{Provider: providerName, Shard: shard}
}

// ReportFleet delivers a proxy's report to its shard, and starts the shard if it
// does not run.
func (a *Fleet) ReportFleet(ctx context.Context, in ReportFleetInput) error {
	return toTemporal(ctx, reportToFleet(ctx, a.Temporal, in.Provider, a.Shards(in.Provider), in.Report))
}

// SignalObserved delivers observations. A proxy that cannot be reached is asked
// for by Describe, and said to have ended only if it has for certain.
func (a *Fleet) SignalObserved(ctx context.Context, in SignalObservedInput) (SignalObservedResult, error) {
	defer heartbeat(ctx).stop()
	var (
		mu  sync.Mutex
		out SignalObservedResult
	)
	forEach(ctx, len(in.Items), temporalConcurrency, func(i int) {
		sent, ended, err := a.deliver(ctx, in.Items[i])
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
			out.Failed++
			if out.Error == "" {
				out.Error = err.Error()
			}
		case sent:
			out.Sent++
		}
		if ended && !slices.Contains(out.Ended, in.Items[i].UID) {
			out.Ended = append(out.Ended, in.Items[i].UID)
		}
	})
	slices.Sort(out.Ended)
	if err := ctx.Err(); err != nil {
		return out, toTemporal(ctx, err)
	}
	if out.Failed > 0 {
		activity.GetLogger(ctx).Warn("observations not delivered", "provider", in.Provider, "failed", out.Failed, "sent", out.Sent, "error", out.Error)
	}
	return out, nil
}

func (a *Fleet) deliver(ctx context.Context, o api.FleetObservation) (sent, ended bool, err error) {
	owner := orphan.Owner{Namespace: o.Namespace, Proxy: o.Name, UID: o.UID}
	if o.Observation.Kind == api.ObservedExtra {
		// The answer to this one is a delete, so it must not reach a later proxy
		// of the same name.
		if reason, err := ownerOf(ctx, a.Temporal, owner); err != nil || reason != orphan.Owned {
			return false, reason.Gone(), err
		}
	}
	sctx, cancel := context.WithTimeout(ctx, temporalTimeout)
	defer cancel()
	err = a.Temporal.SignalWorkflow(sctx, workflows.ProxyID(o.Namespace, o.Name), "", workflows.SignalObserved, o.Observation)
	var notFound *serviceerror.NotFound
	if !errors.As(err, &notFound) {
		return err == nil, false, err
	}
	reason, err := ownerOf(ctx, a.Temporal, owner)
	return false, reason.Gone(), err
}

// RetryLatched signals "retry" to the latched proxies of a shard.
func (a *Fleet) RetryLatched(ctx context.Context, in ShardInput) (CountResult, error) {
	defer heartbeat(ctx).stop()
	t, err := table(ctx, a.Temporal, in.Provider, in.Shard)
	if err != nil {
		return CountResult{}, toTemporal(ctx, err)
	}
	latched := slices.DeleteFunc(t.Rows, func(r api.FleetRow) bool { return !r.Latched })
	return a.signalAll(ctx, len(latched), func(ctx context.Context, i int) error {
		return a.Temporal.SignalWorkflow(ctx, workflows.ProxyID(latched[i].Namespace, latched[i].Name), "",
			workflows.SignalRetry, map[string]string{"reason": "the provider's configuration changed"})
	})
}

// RequestReports asks every running proxy of the provider that visibility knows
// for its row. It is a help for a table that was lost: what it misses is found
// by the next listings.
func (a *Fleet) RequestReports(ctx context.Context, in ShardInput) (CountResult, error) {
	defer heartbeat(ctx).stop()
	query := fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running' AND %s = '%s'",
		workflows.TypeProxy, workflows.AttrProvider.GetName(), strings.ReplaceAll(in.Provider, "'", "''"))
	var total CountResult
	var page []byte
	for {
		list, err := a.Temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: query, NextPageToken: page})
		if err != nil {
			return total, toTemporal(ctx, fmt.Errorf("list of proxies: %w", err))
		}
		all := list.GetExecutions()
		got, err := a.signalAll(ctx, len(all), func(ctx context.Context, i int) error {
			if uid := all[i].GetFirstRunId(); uid != "" && workflows.ShardOf(uid, in.Shards) != in.Shard {
				return nil
			}
			return a.Temporal.SignalWorkflow(ctx, all[i].GetExecution().GetWorkflowId(), "", workflows.SignalObserved,
				api.Observation{Kind: api.ObservedReportWanted})
		})
		total.Signalled += got.Signalled
		total.Failed += got.Failed
		if err != nil {
			return total, err
		}
		if page = list.GetNextPageToken(); len(page) == 0 {
			return total, nil
		}
	}
}

// signalAll sends n signals and counts. A workflow that ended meanwhile is no
// failure.
func (a *Fleet) signalAll(ctx context.Context, n int, send func(ctx context.Context, i int) error) (CountResult, error) {
	var (
		mu  sync.Mutex
		out CountResult
	)
	forEach(ctx, n, temporalConcurrency, func(i int) {
		sctx, cancel := context.WithTimeout(ctx, temporalTimeout)
		defer cancel()
		err := send(sctx, i)
		var notFound *serviceerror.NotFound
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			out.Signalled++
		case !errors.As(err, &notFound):
			out.Failed++
		}
	})
	return out, toTemporal(ctx, ctx.Err())
}

// ForwardRows hands rows that belong to other shards over to them.
func (a *Fleet) ForwardRows(ctx context.Context, in ShardInput) (ForwardRowsResult, error) {
	defer heartbeat(ctx).stop()
	t, err := table(ctx, a.Temporal, in.Provider, in.Shard)
	if err != nil {
		return ForwardRowsResult{}, toTemporal(ctx, err)
	}
	rows := slices.DeleteFunc(t.Rows, func(r api.FleetRow) bool { return workflows.ShardOf(r.UID, in.Shards) == in.Shard })
	out := ForwardRowsResult{More: len(rows) > MaxForward}
	rows = rows[:min(len(rows), MaxForward)]
	var mu sync.Mutex
	var failed error
	forEach(ctx, len(rows), temporalConcurrency, func(i int) {
		err := reportToFleet(ctx, a.Temporal, in.Provider, in.Shards, api.FleetReport{Row: rows[i]})
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed = err
			return
		}
		out.Forwarded = append(out.Forwarded, RowRef{UID: rows[i].UID, Seq: rows[i].Seq})
	})
	if failed == nil {
		failed = ctx.Err()
	}
	slices.SortFunc(out.Forwarded, func(x, y RowRef) int { return strings.Compare(x.UID, y.UID) })
	return out, toTemporal(ctx, failed)
}
