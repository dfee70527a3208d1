package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"golang.org/x/sync/errgroup"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/codec"
	"github.com/tollgate-dev/tollgate/internal/config"
	"github.com/tollgate-dev/tollgate/internal/schedules"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

const (
	announceTimeout = time.Minute
	announceFirst   = time.Second
	announceMost    = 30 * time.Second
	announceAtOnce  = 8
	tableTimeout    = 5 * time.Second
)

// announcer brings Temporal in step with the configuration: the workers of the
// providers, schedules, fleets and health workflows. It tries until it succeeds, so that a server that is down for a
// moment costs nothing but the delay.
type announcer struct {
	app  *App
	kick chan struct{}
	log  *slog.Logger
	// done is the version that was last announced.
	done atomic.Pointer[version]
}

// changed asks for an announcement of the current version.
func (n *announcer) changed() {
	select {
	case n.kick <- struct{}{}:
	default: // one is due already, and it takes the newest version
	}
}

func (n *announcer) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.kick:
		}
		for wait := announceFirst; ; wait = min(2*wait, announceMost) {
			v := n.app.current.Load()
			err := n.announce(ctx, v)
			if err == nil {
				n.done.Store(v)
				n.app.markReady()
				break
			}
			if ctx.Err() != nil {
				return
			}
			n.log.Error("the configuration could not be announced, trying again", "error", err, "wait", wait)
			select {
			case <-ctx.Done():
				return
			case <-n.kick: // a newer version, at once
			case <-time.After(wait):
			}
		}
	}
}

func (n *announcer) announce(ctx context.Context, v *version) error {
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	c := n.app.conn.Client
	served := errors.Join(n.app.pool.serve(v.cfg.Providers), n.app.pool.serveSources(v.cfg.Sources))
	results, err := schedules.Apply(ctx, c.ScheduleClient(), schedules.Wanted(v.cfg), schedules.Options{
		Converter: codec.DataConverter(codec.New(n.app.keys)),
	})
	errs := []error{served, err}
	for _, r := range results {
		switch r.Action {
		case schedules.Unchanged:
		case schedules.Foreign:
			if !n.removed(v, r.ID) {
				n.log.Warn("a schedule that is not configured here; if no other worker has it: tollgate schedules apply --prune", "schedule", r.ID)
			}
		default:
			n.log.Info("schedule applied", "schedule", r.ID, "action", string(r.Action))
		}
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(announceAtOnce)
	for _, p := range v.cfg.Providers {
		g.Go(func() error { return n.provider(gctx, v, p) })
	}
	for _, s := range v.cfg.Sources {
		g.Go(func() error { return n.cursors(gctx, v, s) })
	}
	errs = append(errs, g.Wait())
	if was := n.done.Load(); was != nil {
		errs = append(errs, n.endReapers(ctx, was, v))
		for _, p := range was.cfg.Providers {
			if _, still := v.cfg.Provider(p.Name); !still {
				errs = append(errs, n.remove(ctx, p.Name))
			}
		}
	}
	return errors.Join(errs...)
}

// removed reports whether the schedule is of a provider that this announcement
// removes.
func (n *announcer) removed(v *version, schedule string) bool {
	was := n.done.Load()
	if was == nil {
		return false
	}
	for _, p := range was.cfg.Providers {
		if _, still := v.cfg.Provider(p.Name); !still && workflows.OrphanGCSchedule(p.Name) == schedule {
			return true
		}
	}
	return slices.Contains(endedReapers(was, v), schedule)
}

// endedReapers are the schedules of reapers and inventories that a reload has
// taken out.
func endedReapers(was, v *version) []string {
	ids := func(v *version) (out []string) {
		for _, s := range schedules.Wanted(v.cfg) {
			if s.Reap != nil || s.Inventory != nil {
				out = append(out, s.ID)
			}
		}
		return out
	}
	now := ids(v)
	return slices.DeleteFunc(ids(was), func(id string) bool { return slices.Contains(now, id) })
}

// endReapers deletes those: they would go on.
func (n *announcer) endReapers(ctx context.Context, was, v *version) error {
	var errs []error
	for _, id := range endedReapers(was, v) {
		err := n.app.conn.Client.ScheduleClient().GetHandle(ctx, id).Delete(ctx)
		if notFound := new(serviceerror.NotFound); err != nil && !errors.As(err, &notFound) {
			errs = append(errs, fmt.Errorf("delete schedule %s: %w", id, err))
			continue
		}
		n.log.Info("removed from the configuration: its schedule is deleted", "schedule", id)
	}
	return errors.Join(errs...)
}

// provider tells the fleet and the health of one provider.
func (n *announcer) provider(ctx context.Context, v *version, p config.Provider) error {
	c, hash := n.app.conn.Client, v.hashes[p.Name]
	fleet := v.cfg.FleetConfig(p, hash)
	// Shards that are too many now have to hand their rows over.
	for shard := range max(p.Shards, n.shardsBefore(ctx, p.Name)) {
		options, in := activities.FleetStart(p.Name, shard)
		if _, err := c.SignalWithStartWorkflow(ctx, options.ID, workflows.SignalConfigure, fleet, options, workflows.TypeFleetWatch, in); err != nil {
			return fmt.Errorf("configure %s: %w", options.ID, err)
		}
	}
	health := v.cfg.HealthConfig(hash)
	options := client.StartWorkflowOptions{
		ID: workflows.ProviderHealthID(p.Name), TaskQueue: workflows.TaskQueue,
		StaticSummary:         fmt.Sprintf("Checks %s", p.Name),
		TypedSearchAttributes: temporal.NewSearchAttributes(workflows.AttrProvider.ValueSet(p.Name)),
	}
	in := api.ProviderHealthInput{Provider: p.Name, Config: health}
	if _, err := c.SignalWithStartWorkflow(ctx, options.ID, workflows.SignalConfigure, health, options, workflows.TypeProviderHealth, in); err != nil {
		return fmt.Errorf("configure %s: %w", options.ID, err)
	}
	return nil
}

// shardsBefore is the number of shards that the fleet had so far, as far as it
// can be told.
func (n *announcer) shardsBefore(ctx context.Context, name string) int {
	ctx, cancel := context.WithTimeout(ctx, tableTimeout)
	defer cancel()
	v, err := n.app.conn.Client.QueryWorkflow(ctx, workflows.FleetID(name, 0), "", workflows.QueryTable)
	var t api.FleetTable
	if err == nil {
		err = v.Get(&t)
	}
	var notFound *serviceerror.NotFound
	if err != nil && !errors.As(err, &notFound) {
		n.log.Warn("the old number of shards is unknown; rows of shards beyond the new number wait for the next start", "provider", name, "error", err)
	}
	return t.Shards
}

// remove ends what watches a provider that a reload has removed: nobody would
// serve it. Its fleet stays, since its proxies do.
func (n *announcer) remove(ctx context.Context, name string) error {
	c := n.app.conn.Client
	var errs []error
	for what, err := range map[string]error{
		"delete schedule " + workflows.OrphanGCSchedule(name): c.ScheduleClient().GetHandle(ctx, workflows.OrphanGCSchedule(name)).Delete(ctx),
		"cancel " + workflows.ProviderHealthID(name):          c.CancelWorkflow(ctx, workflows.ProviderHealthID(name), ""),
	} {
		if notFound := new(serviceerror.NotFound); err != nil && !errors.As(err, &notFound) {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
		}
	}
	if len(errs) == 0 {
		n.log.Info("provider removed: its schedule is deleted and its health workflow cancelled", "provider", name)
	}
	return errors.Join(errs...)
}
