package fleetwatch

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// job is an activity under way.
type job struct {
	future workflow.Future
	end    func()
}

// alarm is the timer for the next round.
type alarm struct {
	at     time.Time
	future workflow.Future
	cancel workflow.CancelFunc
}

// start starts every job that is due and not under way.
func (f *fleet) start() {
	now := workflow.Now(f.ctx)
	for k := range jobKinds {
		if f.jobs[k] != nil {
			continue
		}
		if at, ok := f.due(k, now); ok && !at.After(now) {
			f.jobs[k] = f.begin(k, now)
		}
	}
}

// alarm returns a timer for the next round, nil when there is none to wait for.
func (f *fleet) alarm() *alarm {
	now := workflow.Now(f.ctx)
	var first time.Time
	which := jobDrift
	for _, k := range []jobKind{jobDrift, jobProbe, jobWake} {
		if at, ok := f.due(k, now); ok && f.jobs[k] == nil && at.After(now) && (first.IsZero() || at.Before(first)) {
			first, which = at, k
		}
	}
	if f.timer != nil && f.timer.at.Equal(first) {
		return f.timer
	}
	if f.timer != nil {
		f.timer.cancel()
		f.timer = nil
	}
	if first.IsZero() {
		return nil
	}
	ctx, cancel := workflow.WithCancel(f.ctx)
	f.timer = &alarm{at: first, cancel: cancel, future: workflow.NewTimerWithOptions(ctx, first.Sub(now),
		workflow.TimerOptions{Summary: "until the next " + which.String() + " round"})}
	return f.timer
}

// options are those of an activity that may be repeated.
func (f *fleet) options(queue, summary string, attempt, total time.Duration, attempts int32) workflow.Context {
	return workflow.WithActivityOptions(f.ctx, workflow.ActivityOptions{
		TaskQueue: queue, Summary: summary,
		StartToCloseTimeout: attempt, ScheduleToCloseTimeout: total, HeartbeatTimeout: 5 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second, MaximumAttempts: attempts},
	})
}

func (f *fleet) begin(k jobKind, now time.Time) *job {
	switch k {
	case jobSend:
		return f.beginSend()
	case jobForward:
		return f.beginForward()
	case jobRebuild:
		return f.beginRebuild()
	case jobRetry:
		return f.beginRetry()
	case jobWake:
		return f.beginWake()
	case jobDrift:
		return f.beginDrift(now)
	default:
		return f.beginProbe(now)
	}
}

// run makes a job of an activity; done gets its result or its error.
func run[T any](ctx workflow.Context, activity, input any, done func(T, error)) *job {
	future := workflow.ExecuteActivity(ctx, activity, input)
	return &job{future, func() {
		var out T
		err := future.Get(ctx, &out)
		done(out, err)
	}}
}

// fleetActs names activities; it is never called.
var fleetActs *activities.Fleet

func (f *fleet) beginSend() *job {
	batch := slices.Clone(f.outbox[:min(len(f.outbox), activities.MaxObservations)])
	ctx := f.options(workflows.TaskQueue, fmt.Sprintf("tell %d proxies what was seen", len(batch)), 2*time.Minute, 10*time.Minute, 0)
	return run(ctx, fleetActs.SignalObserved, activities.SignalObservedInput{Provider: f.provider, Items: batch},
		func(out activities.SignalObservedResult, err error) {
			// The batch is done in any case: whatever was not delivered and is still
			// so is seen by later rounds.
			f.outbox = slices.Clone(f.outbox[len(batch):])
			if err != nil {
				f.log.Warn("observations lost", "provider", f.provider, "shard", f.shard, "count", len(batch), "error", err)
			}
			for _, uid := range out.Ended {
				if row, ok := f.rows[uid]; ok {
					f.endRow(uid, row.Seq)
				}
			}
		})
}

func (f *fleet) endRow(uid string, seq int64) {
	f.log.Info("row dropped, its proxy is gone", "provider", f.provider, "proxy", f.rows[uid].Namespace+"/"+f.rows[uid].Name)
	f.end(workflow.Now(f.ctx), uid, seq)
}

func (f *fleet) shardInput() activities.ShardInput {
	return activities.ShardInput{Provider: f.provider, Shard: f.shard, Shards: f.config.Shards}
}

func (f *fleet) beginForward() *job {
	f.forward = false
	ctx := f.options(workflows.TaskQueue, "hand rows over to their shards", 2*time.Minute, time.Hour, 0)
	return run(ctx, fleetActs.ForwardRows, f.shardInput(), func(out activities.ForwardRowsResult, err error) {
		for _, ref := range out.Forwarded {
			// A row that was reported again meanwhile goes in the next turn.
			if row, ok := f.rows[ref.UID]; ok && row.Seq == ref.Seq {
				f.drop(ref.UID)
			}
		}
		f.forward = f.forward || err != nil || out.More || f.misplaced()
	})
}

// misplaced reports whether a row belongs to another shard.
func (s *state) misplaced() bool {
	for uid := range s.rows {
		if workflows.ShardOf(uid, s.config.Shards) != s.shard {
			return true
		}
	}
	return false
}

func (f *fleet) beginRebuild() *job {
	f.rebuild = false
	ctx := f.options(workflows.TaskQueue, "ask running proxies to report", 5*time.Minute, 15*time.Minute, 5)
	return run(ctx, fleetActs.RequestReports, f.shardInput(), func(out activities.CountResult, err error) {
		// Best effort: the listings find whom this misses.
		f.log.Info("proxies asked to report", "provider", f.provider, "shard", f.shard, "asked", out.Signalled, "error", err)
	})
}

func (f *fleet) beginRetry() *job {
	f.retry = false
	ctx := f.options(workflows.TaskQueue, "tell latched proxies to try again", 2*time.Minute, time.Hour, 0)
	return run(ctx, fleetActs.RetryLatched, f.shardInput(), func(out activities.CountResult, err error) {
		f.retry = f.retry || err != nil || out.Failed > 0
		f.log.Info("latched proxies told to try again", "provider", f.provider, "shard", f.shard, "told", out.Signalled, "failed", out.Failed)
	})
}

var driftActs *activities.Drift

func (f *fleet) beginDrift(now time.Time) *job {
	interval := f.config.DriftInterval.Std()
	f.spend.TriedAt = now
	summary := "compare " + f.provider + "'s listing with the table"
	ctx := f.options(workflows.ProviderTaskQueue(f.provider), summary, 5*time.Minute, max(interval, 5*time.Minute), 3)
	in := activities.CompareFleetInput{Provider: f.provider, Shards: f.config.Shards, After: f.driftAfter}
	return run(ctx, driftActs.CompareFleet, in, func(out activities.CompareFleetResult, err error) {
		end := workflow.Now(f.ctx)
		if err != nil {
			class, text, wait := explain(err)
			f.drift.Failures++
			f.drift.Class, f.drift.Error = class, text
			f.driftAfter = ""
			f.nextDrift = next(now, end, interval, wait)
			f.log.Warn("no listing, nothing concluded", "provider", f.provider, "class", class, "failures", f.drift.Failures, "error", text)
			return
		}
		f.drift = api.DriftState{ListedAt: out.ListedAt, Instances: out.Instances, Rows: out.Rows, Found: out.Found}
		f.listed(now, out.Spend)
		f.send(out.Items)
		f.driftAfter, f.nextDrift = out.Next, next(now, end, interval, out.AtLeast.Std())
		if out.Next != "" {
			f.nextDrift = end
		}
	})
}

func (f *fleet) beginProbe(now time.Time) *job {
	interval := f.config.ProbeInterval.Std()
	ctx := f.options(workflows.TaskQueue, fmt.Sprintf("probe the running ones of %d proxies", len(f.rows)), 10*time.Minute, 15*time.Minute, 3)
	in := activities.ProbeFleetInput{
		Provider: f.provider, Shard: f.shard, Config: *f.config, Counters: f.counters, Released: f.brake.Released,
		OwnersAfter: f.ownersAfter, Refused: f.refused.Count,
	}
	return run(ctx, fleetActs.ProbeFleet, in, func(out activities.ProbeFleetResult, err error) {
		end := workflow.Now(f.ctx)
		f.nextProbe = next(now, end, interval, 0)
		if err != nil {
			_, f.probe.Error, _ = explain(err)
			f.probe.Failures++
			f.log.Warn("no probe round", "provider", f.provider, "shard", f.shard, "error", f.probe.Error)
			return
		}
		f.probed(end, in, out)
	})
}

// probed takes the result of a probe round.
func (f *fleet) probed(now time.Time, in activities.ProbeFleetInput, out activities.ProbeFleetResult) {
	f.probe = api.ProbeState{At: out.At, Probed: out.Probed, Failing: out.Failing, Skipped: out.Skipped}
	f.ownersAfter = out.OwnersAfter
	for _, ref := range out.Ended {
		if row, ok := f.rows[ref.UID]; ok && row.Seq == ref.Seq {
			f.endRow(ref.UID, ref.Seq)
		}
	}
	if f.brake.Released && !in.Released {
		// Released while the round was under way: its judgement is an old one.
		f.nextProbe = now
		return
	}
	f.counters = slices.DeleteFunc(out.Counters, func(c api.ProbeCounter) bool { _, ok := f.rows[c.UID]; return !ok })
	f.send(out.Items)
	brake := out.Brake
	if brake.On {
		brake.Since = now
		if f.brake.On && f.brake.Reason == brake.Reason {
			brake.Since = f.brake.Since
		} else {
			f.log.Warn("brake on", "provider", f.provider, "shard", f.shard, "reason", brake.Reason, "message", brake.Message)
		}
	} else if f.brake.On {
		f.log.Info("brake off", "provider", f.provider, "shard", f.shard)
	}
	f.brake = brake
}

// classNoWorker is the class of an activity that no worker took.
const classNoWorker = "NoWorker"

// explain reads an activity's failure: its class, its text, and how long the
// backend asked to be left alone.
func explain(err error) (class, text string, wait time.Duration) {
	var app *temporal.ApplicationError
	var timeout *temporal.TimeoutError
	switch {
	case errors.As(err, &app):
		var d activities.FailureDetails
		if app.HasDetails() && app.Details(&d) == nil {
			wait = d.RetryAfter
		}
		return app.Type(), app.Message(), wait
	case errors.As(err, &timeout) && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START:
		return classNoWorker, "no worker took it; is the provider configured on any?", 0
	case errors.As(err, &timeout):
		return "Timeout", "timed out: " + timeout.TimeoutType().String(), 0
	}
	return "Unknown", err.Error(), 0
}

func sortedCounts[K ~string](m map[K]int) []K { return slices.Sorted(maps.Keys(m)) }
