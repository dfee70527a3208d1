package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/tollgate-dev/tollgate/internal/metrics"
	"github.com/tollgate-dev/tollgate/internal/orphan"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// GC are the activities of sweeps that call a provider; they belong on the task
// queue of each provider. The fields are set once, before the worker starts.
type GC struct {
	// Installation is the id that marks carry.
	Installation string
	Lookup       Lookup
	Temporal     Temporal
	// Shards is the configured number of shards of a provider's fleet table, 0
	// when it is not known, which counts as one.
	Shards func(providerName string) int
	// Spend hears of what is gone; it may be nil.
	Spend *Spend
	// Metrics may be nil.
	Metrics *metrics.Metrics
}

// Sweeps are the activities of sweeps that call nothing; they belong on
// workflows.TaskQueue, where workflows run them locally.
type Sweeps struct {
	// Metrics may be nil.
	Metrics *metrics.Metrics
}

// ownerConcurrency is how many owners are looked up at once: many, because a
// sweep looks up every owner of the provider's whole fleet.
const ownerConcurrency = 24

// FindOrphans is one sighting. A listing that fails or is not complete fails the
// activity; an owner that cannot be looked up makes the result Unreadable.
func (a *GC) FindOrphans(ctx context.Context, in FindOrphansInput) (FindOrphansResult, error) {
	defer heartbeat(ctx).stop()
	p, _, err := resolve(a.Lookup, in.Provider)
	if err != nil {
		return FindOrphansResult{}, err
	}
	// The cloud comes first: whatever is listed was made before its owner is
	// looked up.
	now := time.Now()
	sel := provider.Selector{Installation: a.Installation}
	instances, err := p.List(ctx, sel)
	if err != nil {
		return FindOrphansResult{}, toTemporal(ctx, err)
	}
	var companions []provider.Companion
	if c, ok := provider.As[provider.Companions](p); ok {
		if companions, err = c.ListCompanions(ctx, sel); err != nil {
			return FindOrphansResult{}, toTemporal(ctx, err)
		}
	}
	sighting := orphan.Input{
		Installation: a.Installation, Now: now, MinAge: in.MinAge.Std(), Items: items(instances, companions),
		Seen: map[orphan.Ref]bool{},
	}
	for _, s := range in.Seen {
		sighting.Seen[orphan.Ref(s)] = true
	}
	var unreadable error
	sighting.Owners, unreadable = a.owners(ctx, orphan.Lookups(sighting))
	if err := ctx.Err(); err != nil {
		return FindOrphansResult{}, toTemporal(ctx, err)
	}
	out := FindOrphansResult{Instances: len(instances), Companions: len(companions)}
	if unreadable != nil {
		out.Unreadable = unreadable.Error()
	}
	for _, v := range orphan.Plan(sighting) {
		if out.Verdicts == nil {
			out.Verdicts = map[string]int{}
		}
		out.Verdicts[string(v.Reason)]++
		if v.Confirmed || v.Reason.Gone() && len(in.Seen) == 0 {
			out.Count++
			out.Orphans = append(out.Orphans, report(v))
		}
	}
	out.Orphans = ordered(out.Orphans, api.MaxOrphanCap)
	return out, nil
}

// items puts instances before companions.
func items(instances []provider.Instance, companions []provider.Companion) []orphan.Item {
	all := make([]orphan.Item, 0, len(instances)+len(companions))
	for _, i := range instances {
		all = append(all, orphan.Instance(i))
	}
	for _, c := range companions {
		all = append(all, orphan.Companion(c))
	}
	return all
}

func report(v orphan.Verdict) api.Orphan {
	return api.Orphan{
		Kind: v.Item.Kind, ID: v.Item.ID, Name: v.Item.Name, UID: v.Item.Marks.UID, Namespace: v.Item.Marks.Namespace,
		Proxy: v.Item.Marks.Proxy, CreatedAt: v.Item.CreatedAt, Reason: string(v.Reason),
	}
}

// ordered sorts orphans, instances and old ones first, and shortens the list.
func ordered(all []api.Orphan, most int) []api.Orphan {
	rank := func(o api.Orphan) int {
		if o.Kind == api.KindInstance {
			return 0
		}
		return 1
	}
	slices.SortFunc(all, func(x, y api.Orphan) int {
		return cmp.Or(cmp.Compare(rank(x), rank(y)), x.CreatedAt.Compare(y.CreatedAt), cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.ID, y.ID))
	})
	return all[:min(len(all), most)]
}

// owners looks up all owners. The error is the first of those that could not be
// looked up; it ends the search, since then nothing may be deleted anyway.
func (a *GC) owners(ctx context.Context, need []orphan.Owner) (map[orphan.Owner]orphan.Reason, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		mu    sync.Mutex
		found = make(map[orphan.Owner]orphan.Reason, len(need))
		first error
	)
	forEach(ctx, len(need), ownerConcurrency, func(i int) {
		reason, err := ownerOf(ctx, a.Temporal, need[i])
		mu.Lock()
		defer mu.Unlock()
		found[need[i]] = reason
		if err != nil && first == nil {
			first = err
			cancel()
		}
	})
	return found, first
}

// DeleteOrphan looks at one orphan and its owner a last time, tells the fleet
// that the proxy is gone, deletes it and, attempt by attempt, waits until the
// provider says that it is gone.
func (a *GC) DeleteOrphan(ctx context.Context, in DeleteOrphanInput) (DeleteOrphanResult, error) {
	p, profile, err := resolve(a.Lookup, in.Provider)
	if err != nil {
		return DeleteOrphanResult{}, err
	}
	var done deleteProgress
	if activity.HasHeartbeatDetails(ctx) {
		if err := activity.GetHeartbeatDetails(ctx, &done); err != nil {
			done = deleteProgress{} // at worst the delete is sent twice
		}
	}
	life := heartbeat(ctx, done)
	defer life.stop()

	thing, err := a.thing(p, in)
	if err != nil {
		return DeleteOrphanResult{}, err
	}
	item, exists, err := thing.get(ctx)
	switch {
	case err != nil:
		return DeleteOrphanResult{}, toTemporal(ctx, err)
	case !exists && done.SubmittedAt.IsZero():
		return DeleteOrphanResult{Action: api.OrphanGone, Message: "it was gone already"}, nil
	case !exists:
		return a.deleted(ctx, in), nil
	}
	if time.Since(done.SubmittedAt) > resubmitAfter {
		if why, err := a.lastLook(ctx, in, item); err != nil || why != "" {
			return DeleteOrphanResult{Action: api.OrphanKept, Message: why}, toTemporal(ctx, err)
		}
		gone := api.FleetReport{Gone: true, Row: api.FleetRow{UID: in.Orphan.UID, Seq: math.MaxInt64}}
		if err := reportToFleet(ctx, a.Temporal, in.Provider, a.Shards(in.Provider), gone); err != nil {
			return DeleteOrphanResult{}, toTemporal(ctx, fmt.Errorf("fleet not told of the end of %s: %w", in.Orphan.UID, err))
		}
		if err := thing.delete(ctx); err != nil {
			return DeleteOrphanResult{}, toTemporal(ctx, err)
		}
		done.SubmittedAt = time.Now()
		life.set(done)
	}
	if _, exists, err = thing.get(ctx); err != nil {
		return DeleteOrphanResult{}, toTemporal(ctx, err)
	} else if exists {
		return DeleteOrphanResult{}, again(ErrStillExists, max(profile.GonePoll, time.Second),
			fmt.Sprintf("%s %s is still there", in.Orphan.Kind, in.Orphan.ID))
	}
	return a.deleted(ctx, in), nil
}

func (a *GC) deleted(ctx context.Context, in DeleteOrphanInput) DeleteOrphanResult {
	a.Metrics.OrphanDeleted(in.Provider, in.Orphan.Kind)
	if in.Orphan.Kind == api.KindInstance {
		a.Spend.gone(ctx, in.Provider, in.Orphan.Name)
	}
	activity.GetLogger(ctx).Info("orphan deleted", "provider", in.Provider, "kind", in.Orphan.Kind, "instance", in.Orphan.ID,
		"proxy", in.Orphan.Namespace+"/"+in.Orphan.Proxy, "reason", in.Orphan.Reason)
	return DeleteOrphanResult{Action: api.OrphanDeleted}
}

// lastLook applies the sweep's rules once more to what is there now. It returns
// why the orphan must be kept, or an error when that cannot be told.
func (a *GC) lastLook(ctx context.Context, in DeleteOrphanInput, item orphan.Item) (string, error) {
	sighting := orphan.Input{
		Installation: a.Installation, Now: time.Now(), MinAge: in.MinAge.Std(), Items: []orphan.Item{item},
		Seen: map[orphan.Ref]bool{{Kind: in.Orphan.Kind, ID: in.Orphan.ID, UID: in.Orphan.UID}: true},
	}
	var err error
	if sighting.Owners, err = a.owners(ctx, orphan.Lookups(sighting)); err != nil {
		return "", err
	}
	v := orphan.Plan(sighting)[0]
	switch {
	case v.Confirmed:
		return "", nil
	case v.Reason.Gone():
		return fmt.Sprintf("its marks changed: it belongs to uid %q now", item.Marks.UID), nil
	}
	return "it is no orphan any more: " + string(v.Reason), nil
}

// thing is how an instance or a companion is read and deleted.
type thing struct {
	get    func(ctx context.Context) (item orphan.Item, exists bool, err error)
	delete func(ctx context.Context) error
}

func (a *GC) thing(p provider.Provider, in DeleteOrphanInput) (thing, error) {
	if in.Orphan.Kind == api.KindInstance {
		id := provider.InstanceID(in.Orphan.ID)
		return thing{
			get: func(ctx context.Context) (orphan.Item, bool, error) {
				i, err := p.Get(ctx, id)
				if errors.Is(err, provider.NotFound) {
					return orphan.Item{}, false, nil
				}
				return orphan.Instance(i), err == nil, err
			},
			delete: func(ctx context.Context) error { return p.Delete(ctx, id) },
		}, nil
	}
	c, ok := provider.As[provider.Companions](p)
	if !ok {
		return thing{}, final(string(provider.Permanent), fmt.Sprintf("orphan.kind: provider %q has no companions, so no %s", in.Provider, in.Orphan.Kind))
	}
	var latest provider.Companion
	return thing{
		get: func(ctx context.Context) (orphan.Item, bool, error) {
			all, err := c.ListCompanions(ctx, provider.Selector{Installation: a.Installation, UID: in.Orphan.UID})
			if err != nil {
				return orphan.Item{}, false, err
			}
			for _, have := range all {
				if have.Kind == in.Orphan.Kind && have.ID == in.Orphan.ID {
					latest = have
					return orphan.Companion(have), true, nil
				}
			}
			return orphan.Item{}, false, nil
		},
		delete: func(ctx context.Context) error { return c.DeleteCompanion(ctx, latest) },
	}, nil
}

// RecordSweep counts and logs the end of a sweep.
func (a *Sweeps) RecordSweep(ctx context.Context, in SweepDoneInput) error {
	a.Metrics.Swept(in.Provider, in.Outcome, in.Orphans)
	log := activity.GetLogger(ctx)
	args := []any{"provider", in.Provider, "outcome", string(in.Outcome), "orphans", in.Orphans, "message", in.Message}
	switch in.Outcome {
	case api.SweepOverCap, api.SweepUnreadable:
		log.Error("sweep deleted nothing", args...)
	case api.SweepIncomplete:
		log.Warn("sweep not complete", args...)
	default:
		log.Info("sweep done", args...)
	}
	return nil
}
