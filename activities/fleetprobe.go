package activities

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/tollgate-dev/tollgate/internal/fleethealth"
	"github.com/tollgate-dev/tollgate/internal/metrics"
	"github.com/tollgate-dev/tollgate/internal/orphan"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

const (
	defaultProbeConcurrency = 64
	// ownersPerRound is how many rows' owners a round looks at, so that rows of
	// proxies that were terminated do not stay.
	ownersPerRound = 20
	// ownersAtRest is how long a row must not have changed to be looked at.
	ownersAtRest = time.Minute
	// maxAfterRound is how long gauges of a round are shown, in rounds.
	maxAfterRound = 5
)

// ProbeFleet probes every running proxy of a shard and returns what the shard
// should know: thresholds that were crossed, counters of failures, whether the
// results can be believed, and rows whose owners are gone.
func (a *Fleet) ProbeFleet(ctx context.Context, in ProbeFleetInput) (ProbeFleetResult, error) {
	defer heartbeat(ctx).stop()
	out := ProbeFleetResult{At: time.Now().UTC()}
	t, err := table(ctx, a.Temporal, in.Provider, in.Shard)
	if err != nil {
		return out, toTemporal(ctx, err)
	}
	var rows []api.FleetRow
	for _, r := range t.Rows {
		if r.Phase == api.PhaseRunning && r.IP != "" {
			rows = append(rows, r)
		}
	}
	results, skipped, err := a.probeRows(ctx, in.Provider, rows)
	if err != nil {
		return out, toTemporal(ctx, err)
	}
	control := ""
	if slices.ContainsFunc(results, func(r fleethealth.Result) bool { return !r.OK }) {
		if r := a.ProbeControl(ctx); !r.OK {
			control = cmp.Or(r.Message, r.Class)
		}
	}
	if err := ctx.Err(); err != nil {
		return out, toTemporal(ctx, err)
	}
	j := fleethealth.Judge(fleethealth.Input{
		Config: in.Config, Counters: in.Counters, Results: results, Skipped: skipped,
		ControlFailed: control, Released: in.Released, Now: out.At,
	})
	out.Probed, out.Failing, out.Skipped = len(results), j.Failing, len(skipped)
	out.Counters, out.Items, out.Brake = j.Counters, j.Items, j.Brake
	if len(out.Items) > MaxObservations {
		// Only without a brake. The reminders of the judge catch up on the rest.
		out.Items = out.Items[:MaxObservations]
	}
	out.Ended, out.OwnersAfter = a.lookAtOwners(ctx, t.Rows, results, in.OwnersAfter)

	failing := 0
	for _, n := range out.Failing {
		failing += n
	}
	a.Metrics.FleetRound(in.Provider, in.Shard, metrics.Fleet{
		At: out.At, Rows: t.Rows, Brake: out.Brake, Failing: failing, Refused: in.Refused,
	}, maxAfterRound*in.Config.ProbeInterval.Std())
	if out.Brake.On {
		activity.GetLogger(ctx).Warn("probe failures are not believed", "provider", in.Provider, "shard", in.Shard,
			"reason", out.Brake.Reason, "failing", failing, "probed", out.Probed)
	}
	return out, nil
}

// probeRows probes all rows. Rows whose secret cannot be read are skipped: that
// is the worker's fault and says nothing about a proxy.
func (a *Fleet) probeRows(ctx context.Context, providerName string, rows []api.FleetRow) ([]fleethealth.Result, map[string]bool, error) {
	auths := a.logins(ctx, rows)
	concurrency := defaultProbeConcurrency
	if a.Concurrency != nil {
		concurrency = a.Concurrency()
	}
	all := make([]*fleethealth.Result, len(rows))
	forEach(ctx, len(rows), concurrency, func(i int) {
		row := rows[i]
		login := auths[row.AuthRef]
		if login.err != nil {
			return
		}
		r := a.ProbeProxy(ctx, net.JoinHostPort(row.IP, strconv.Itoa(row.Port)), login.auth)
		a.Metrics.ProbeResult(providerName, r.Class, r.Latency.Std())
		all[i] = &fleethealth.Result{Row: row, OK: r.OK, Class: r.Class, Message: r.Message}
	})
	if err := ctx.Err(); err != nil {
		// Probes that were cut off look like failures and prove nothing.
		return nil, nil, err
	}
	results := make([]fleethealth.Result, 0, len(rows))
	skipped := map[string]bool{}
	for i, r := range all {
		if r == nil {
			skipped[rows[i].UID] = true
			continue
		}
		results = append(results, *r)
	}
	return results, skipped, nil
}

type login struct {
	auth *provider.BasicAuth
	err  error
}

// logins reads every secret that the rows name once.
func (a *Fleet) logins(ctx context.Context, rows []api.FleetRow) map[string]login {
	all := map[string]login{"": {}}
	for _, r := range rows {
		if _, ok := all[r.AuthRef]; ok {
			continue
		}
		var l login
		s, err := a.Secret(ctx, r.AuthRef)
		if err == nil {
			l.auth, err = ParseBasicAuth(s)
		}
		l.err = err
		all[r.AuthRef] = l
		if err != nil {
			activity.GetLogger(ctx).Warn("proxies not probed, their secret cannot be read", "secret", r.AuthRef, "error", err)
		}
	}
	return all
}

// lookAtOwners asks whether the owners of some rows still run: first those of
// failing proxies, then a few more, which moves on from round to round.
func (a *Fleet) lookAtOwners(ctx context.Context, rows []api.FleetRow, results []fleethealth.Result, after string) ([]RowRef, string) {
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(x, y api.FleetRow) int { return cmp.Compare(x.UID, y.UID) })
	picked := map[string]api.FleetRow{}
	for _, r := range results {
		if !r.OK && len(picked) < ownersPerRound {
			picked[r.Row.UID] = r.Row
		}
	}
	next := ""
	for n, r := range rows {
		if r.UID <= after {
			continue
		}
		picked[r.UID] = r
		if next = r.UID; n == len(rows)-1 {
			next = ""
		}
		if len(picked) >= 2*ownersPerRound {
			break
		}
	}
	var look []api.FleetRow
	for _, r := range picked {
		if time.Since(r.Since) > ownersAtRest {
			look = append(look, r)
		}
	}
	var (
		mu    sync.Mutex
		ended []RowRef
	)
	forEach(ctx, len(look), temporalConcurrency, func(i int) {
		r := look[i]
		reason, err := ownerOf(ctx, a.Temporal, orphan.Owner{Namespace: r.Namespace, Proxy: r.Name, UID: r.UID})
		if err != nil && !errors.Is(err, context.Canceled) {
			activity.GetLogger(ctx).Debug("owner of a row not readable", "proxy", r.Namespace+"/"+r.Name, "error", err)
		}
		if reason.Gone() {
			mu.Lock()
			defer mu.Unlock()
			ended = append(ended, RowRef{UID: r.UID, Seq: r.Seq})
		}
	})
	slices.SortFunc(ended, func(x, y RowRef) int { return cmp.Compare(x.UID, y.UID) })
	return ended, next
}
