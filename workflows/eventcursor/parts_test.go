package eventcursor_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

var broken = []api.BrokenPart{{Part: "RegionTwo", Class: string(provider.Transient), Message: "away"}}

// A part of a source that cannot be read is shown, and holds up nothing: the rest is
// read as often as ever.
func TestBrokenPartIsShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var knew []int
	w.read = func(in activities.ReadSourceInput) (activities.ReadSourceResult, error) {
		out := w.caughtUp(in, 1)
		if n := len(in.Cursor); n >= 1 && n < 3 {
			out.Broken, out.UpTo = broken, w.start
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		knew = append(knew, len(in.Broken))
		return out, nil
	}
	w.at(130*time.Second, func() {
		s := w.status().Status
		if s.Phase != api.CursorDegraded || s.Reason != string(provider.Transient) || !strings.Contains(s.Message, "RegionTwo cannot be read: away") ||
			len(s.Broken) != 1 || s.Failures != 0 || !s.CaughtUpTo.Equal(w.start) || s.Lag.Std() < 2*time.Minute {
			t.Errorf("status %+v", s)
		}
	})
	w.mustStop(in, 190*time.Second)
	if diff := cmp.Diff(w.seen(), []string{"0s read ", "1m0s read x", "2m0s read xx", "3m0s read xxx"}); diff != "" {
		t.Errorf("calls (-got +want):\n%s", diff)
	}
	if diff := cmp.Diff(knew, []int{0, 0, 1, 1}); diff != "" {
		t.Errorf("broken parts that the activity was told of (-got +want):\n%s", diff)
	}
	if s := w.status().Status; s.Phase != api.CursorCaughtUp || len(s.Broken) > 0 || s.Message != "" || s.Counts.Delivered != 4 {
		t.Errorf("status %+v", s)
	}
}

// A backfill waits for a part that cannot be read, without reading all the time and
// without holding up the reading.
func TestBackfillWaitsForBrokenPart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.read = func(in activities.ReadSourceInput) (activities.ReadSourceResult, error) {
		out := w.caughtUp(in, 1)
		if in.To.IsZero() {
			return out, nil
		}
		if out.Done = strings.HasSuffix(string(in.Cursor), "x"); !out.Done {
			out.Broken, out.Stop = broken, &api.Stop{Class: string(provider.Transient), Message: "RegionTwo: away"}
		}
		return out, nil
	}
	w.update(30*time.Second, workflows.UpdateBackfill, api.BackfillInput{From: w.start.Add(-time.Hour), To: w.start})
	w.at(2*time.Minute, func() {
		s := w.status().Status
		if s.Phase != api.CursorCaughtUp || s.Backfill == nil || !s.Backfill.Done.IsZero() || !strings.Contains(s.Backfill.Message, "RegionTwo") {
			t.Errorf("status %+v, backfill %+v", s, s.Backfill)
		}
	})
	w.mustStop(in, 7*time.Minute-time.Second)
	var backfills, reads int
	for _, c := range w.seen() {
		if strings.Contains(c, "backfill") {
			backfills++
		} else if strings.Contains(c, "read") {
			reads++
		}
	}
	b := w.status().Status.Backfill
	if backfills != 2 || reads < 6 || b.Done.IsZero() || b.Message != "" {
		t.Errorf("%v, backfill %+v", w.seen(), b)
	}
}
