package fleetwatch_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

func TestMoreShards(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	uids := []string{"a", "b", "c", "d", "e", "f"}
	var other []string
	w.signal(0, workflows.SignalConfigure, config())
	for _, uid := range uids {
		w.signal(0, workflows.SignalReport, report(uid, 1))
		if workflows.ShardOf(uid, 2) != 0 {
			other = append(other, uid)
		}
	}
	c := config()
	c.Shards = 2
	w.signal(time.Minute, workflows.SignalConfigure, c)
	w.forward = func(in activities.ShardInput) (activities.ForwardRowsResult, error) {
		if in.Shards != 2 {
			t.Errorf("rows are handed over to %d shards", in.Shards)
		}
		// One at a time, and the first call fails.
		if len(w.seen("forward")) == 1 {
			return activities.ForwardRowsResult{}, errors.New("unavailable")
		}
		out := activities.ForwardRowsResult{Forwarded: []activities.RowRef{{UID: other[0], Seq: 1}}, More: len(other) > 1}
		other = other[1:]
		return out, nil
	}
	w.at(5*time.Minute, func() {
		for _, r := range w.table().Rows {
			if workflows.ShardOf(r.UID, 2) != 0 {
				t.Errorf("row %s is still in shard 0", r.UID)
			}
		}
	})
	w.mustStop(local, 6*time.Minute)
	if len(other) != 0 {
		t.Errorf("rows not handed over: %v", other)
	}
}

func TestAShardTooManyEndsOnceItIsEmpty(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.signal(0, workflows.SignalReport, report("a", 1))
	w.signal(time.Minute, workflows.SignalConfigure, config()) // one shard
	w.forward = func(activities.ShardInput) (activities.ForwardRowsResult, error) {
		return activities.ForwardRowsResult{Forwarded: []activities.RowRef{{UID: "a", Seq: 1}}}, nil
	}
	if err := w.run(api.FleetWatchInput{Provider: "local", Shard: 1}, time.Hour); err != nil {
		t.Errorf("the workflow ended with %v, want success", err)
	}
	if diff := cmp.Diff([]string{"1m0s forward"}, w.seen("")); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestAFleetThatNobodyServesEndsOnceItIsEmpty(t *testing.T) {
	t.Parallel()
	gone := report("a", 2)
	gone.Gone = true
	t.Run("never configured", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, 0)
		w.signal(0, workflows.SignalReport, report("a", 1))
		w.signal(time.Minute, workflows.SignalReport, gone)
		if err := w.run(local, time.Hour); err != nil || w.env.Now().Sub(w.start) > 2*time.Minute {
			t.Errorf("the workflow ended with %v after %s, want success at the end of its proxy", err, w.env.Now().Sub(w.start))
		}
	})
	t.Run("no longer configured", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, 0)
		w.signal(0, workflows.SignalConfigure, config())
		w.signal(0, workflows.SignalReport, report("a", 1))
		w.compare = func(activities.CompareFleetInput) (activities.CompareFleetResult, error) {
			return activities.CompareFleetResult{}, temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)
		}
		w.at(10*time.Minute, func() {
			if c := condition(w.status(), api.CondListed); c.Reason != "NoWorker" {
				t.Errorf("condition %+v, want that no worker serves it", c)
			}
		})
		w.signal(11*time.Minute, workflows.SignalReport, gone)
		if err := w.run(local, time.Hour); err != nil {
			t.Errorf("the workflow ended with %v, want success at the end of its proxy", err)
		}
	})
}
