package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"

	"github.com/tollgate-dev/tollgate/internal/metrics"
	"github.com/tollgate-dev/tollgate/internal/orphan"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Reaper are the activities of reapers; Reap belongs on the task queue of each
// provider. The fields are set once, before the worker starts.
type Reaper struct {
	// Installation is the id that marks carry: nothing of another one is touched.
	Installation string
	Lookup       Lookup
	Temporal     Temporal
	// Metrics may be nil.
	Metrics *metrics.Metrics
}

// reapReason is what a proxy says of why it is deleted.
const reapReason = "reaped: its instance is older than "

// Reap deletes the instances of this installation that match the selector and
// are old enough. The proxies that run are told to delete themselves first, or
// they would replace what vanishes. A listing that fails fails the activity;
// deletes that fail are counted.
func (a *Reaper) Reap(ctx context.Context, in api.ReaperInput) (ReapResult, error) {
	defer heartbeat(ctx).stop()
	if err := in.Validate(); err != nil {
		return ReapResult{}, final(string(provider.Permanent), err.Error())
	}
	p, _, err := resolve(a.Lookup, in.Provider)
	if err != nil {
		return ReapResult{}, err
	}
	sel := in.Selector
	sel.Installation = a.Installation
	now := time.Now()
	seen := &seenOnce{Provider: p}
	old, err := provider.ReapOlderThan(ctx, seen, sel, in.OlderThan.Std(), now, true)
	if err != nil {
		return ReapResult{}, toTemporal(ctx, err)
	}
	out := ReapResult{Matched: len(seen.all), Count: len(old)}
	for _, i := range seen.all {
		if i.CreatedAt.IsZero() {
			out.UnknownAge++
		}
	}
	slices.SortFunc(old, func(x, y provider.Instance) int {
		if c := x.CreatedAt.Compare(y.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(string(x.ID), string(y.ID))
	})
	reaped := make([]api.Reaped, len(old))
	for i, o := range old {
		reaped[i] = api.Reaped{ID: o.ID, Name: o.Name, Namespace: o.Marks.Namespace, Proxy: o.Marks.Proxy, CreatedAt: o.CreatedAt,
			Action: api.ReapActionWouldDelete}
	}
	forEach(ctx, len(old), temporalConcurrency, func(i int) { a.owner(ctx, in, old[i], &reaped[i]) })
	if !in.DryRun && ctx.Err() == nil {
		a.reap(ctx, seen, in, sel, now, reaped)
	}
	for _, r := range reaped {
		if r.Action == api.ReapActionFailed {
			out.Failed++
		}
	}
	out.Reaped = reaped[:min(len(reaped), api.MaxReaped)]
	return out, toTemporal(ctx, ctx.Err())
}

// owner finds out whether the instance's proxy runs and, unless it is a dry run,
// tells it to go.
func (a *Reaper) owner(ctx context.Context, in api.ReaperInput, i provider.Instance, r *api.Reaped) {
	fail := func(err error) { r.Action, r.Message = api.ReapActionFailed, err.Error() }
	reason, err := ownerOf(ctx, a.Temporal, orphan.Owner{Namespace: i.Marks.Namespace, Proxy: i.Marks.Proxy, UID: i.Marks.UID})
	if err != nil {
		fail(err)
		return
	}
	if r.Owned = reason == orphan.Owned; !r.Owned || in.DryRun {
		return
	}
	sctx, cancel := context.WithTimeout(ctx, temporalTimeout)
	defer cancel()
	err = a.Temporal.SignalWorkflow(sctx, workflows.ProxyID(i.Marks.Namespace, i.Marks.Proxy), "", workflows.SignalDelete,
		api.DeleteInput{Reason: reapReason + in.OlderThan.String()})
	if notFound := new(serviceerror.NotFound); err != nil && !errors.As(err, &notFound) {
		fail(fmt.Errorf("the proxy was not told to go: %w", err))
	}
}

// reap deletes what the dry look found, but for those whose owner could not be
// told: it would make them anew.
func (a *Reaper) reap(ctx context.Context, seen *seenOnce, in api.ReaperInput, sel provider.Selector, now time.Time, reaped []api.Reaped) {
	seen.skip = map[provider.InstanceID]bool{}
	for _, r := range reaped {
		if r.Action == api.ReapActionFailed {
			seen.skip[r.ID] = true
		}
	}
	gone, err := provider.ReapOlderThan(ctx, seen, sel, in.OlderThan.Std(), now, false)
	if err != nil {
		activity.GetLogger(ctx).Warn("some instances were not reaped", "provider", in.Provider, "error", err)
	}
	deleted := map[provider.InstanceID]bool{}
	for _, i := range gone {
		deleted[i.ID] = true
	}
	for i := range reaped {
		switch r := &reaped[i]; {
		case seen.skip[r.ID]:
		case deleted[r.ID]:
			r.Action = api.ReapActionDeleted
		default:
			r.Action, r.Message = api.ReapActionFailed, seen.failed[r.ID]
		}
	}
}

// seenOnce answers every listing with the first one, so that a run deletes what
// it has reported and nothing else.
type seenOnce struct {
	provider.Provider
	listed bool
	all    []provider.Instance
	skip   map[provider.InstanceID]bool
	failed map[provider.InstanceID]string
}

// List implements provider.Provider.
func (s *seenOnce) List(ctx context.Context, sel provider.Selector) ([]provider.Instance, error) {
	if !s.listed {
		all, err := s.Provider.List(ctx, sel)
		if err != nil {
			return nil, err
		}
		s.all, s.listed = all, true
	}
	return slices.DeleteFunc(slices.Clone(s.all), func(i provider.Instance) bool { return s.skip[i.ID] }), nil
}

// Delete implements provider.Provider and keeps why it failed.
func (s *seenOnce) Delete(ctx context.Context, id provider.InstanceID) error {
	err := s.Provider.Delete(ctx, id)
	if err != nil {
		if s.failed == nil {
			s.failed = map[provider.InstanceID]string{}
		}
		s.failed[id] = err.Error()
	}
	return err
}

// RecordReap counts and logs the end of a run.
func (a *Sweeps) RecordReap(ctx context.Context, in ReapDoneInput) error {
	a.Metrics.Reaped(in.Provider, in.Outcome, in.Deleted)
	log := activity.GetLogger(ctx)
	args := []any{"provider", in.Provider, "outcome", string(in.Outcome), "deleted", in.Deleted, "message", in.Message}
	if in.Outcome == api.ReapUnreadable || in.Outcome == api.ReapIncomplete {
		log.Warn("reaper not done", args...)
		return nil
	}
	log.Info("reaper done", args...)
	return nil
}
