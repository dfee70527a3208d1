package activities

import (
	"context"
	"slices"
	"time"

	"github.com/tollgate-dev/tollgate/internal/drift"
	"github.com/tollgate-dev/tollgate/internal/metrics"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Drift compares fleet tables with listings; it belongs on the task queue of
// each provider. The fields are set once, before the worker starts.
type Drift struct {
	// Installation is the id that marks carry.
	Installation string
	Lookup       Lookup
	Temporal     Temporal
	// Prices remembers prices; nil leaves the costs out.
	Prices *Prices
	// Metrics may be nil.
	Metrics *metrics.Metrics
}

// listingShare of an account's requests is for listings of the fleet.
const listingShare = 0.1

// between is how far apart listings of so many requests have to be.
func between(p provider.Provider, requests int) time.Duration {
	t, ok := provider.As[provider.Throttler](p)
	if !ok || requests == 0 {
		return 0
	}
	perHour := t.Throttle().PerHour
	if perHour == 0 {
		return 0
	}
	return time.Duration(float64(requests) / (listingShare * float64(perHour)) * float64(time.Hour)).Round(time.Second)
}

// CompareFleet makes one listing of the provider, then reads the tables of all
// shards, and returns the differences. It fails, and concludes nothing, unless
// it could read all of it.
func (a *Drift) CompareFleet(ctx context.Context, in CompareFleetInput) (CompareFleetResult, error) {
	defer heartbeat(ctx).stop()
	p, _, err := resolve(a.Lookup, in.Provider)
	if err != nil {
		return CompareFleetResult{}, err
	}
	out := CompareFleetResult{ListedAt: time.Now().UTC()}
	lctx, requests := provider.CountRequests(ctx)
	listing, err := p.List(lctx, provider.Selector{Installation: a.Installation})
	if err != nil {
		a.Metrics.ListingFailed(in.Provider, provider.ClassOf(err))
		return out, toTemporal(ctx, err)
	}
	out.AtLeast = api.Duration(between(p, requests()))
	a.Metrics.Listed(in.Provider, out.ListedAt, len(listing))
	var rows []api.FleetRow
	var held []string
	for shard := range max(in.Shards, 1) {
		t, err := table(ctx, a.Temporal, in.Provider, shard)
		if err != nil {
			return out, toTemporal(ctx, err)
		}
		rows = append(rows, t.Rows...)
		held = append(held, t.Held...)
	}
	if a.Prices != nil {
		slices.Sort(held)
		if out.Spend = a.Prices.sum(ctx, in.Provider, p, listing, held); out.Spend != nil {
			a.Metrics.Cost(in.Provider, out.Spend.Total, out.Spend.Unpriced)
		}
	}
	items := drift.Compare(drift.Input{Installation: a.Installation, ListedAt: out.ListedAt, Listing: listing, Rows: rows})
	out.Instances, out.Rows, out.Found = len(listing), len(rows), drift.Count(items)
	out.Items, out.Next = drift.Page(items, in.After, MaxObservations)
	a.Metrics.Observed(in.Provider, drift.Count(out.Items))
	return out, nil
}
