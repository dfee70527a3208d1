package eventcursor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/mock"
	sdkactivity "go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
	"github.com/tollgate-dev/tollgate/workflows/eventcursor"
)

type world struct {
	t     *testing.T
	env   *testsuite.TestWorkflowEnvironment
	start time.Time

	mu    sync.Mutex
	calls []string
	read  func(activities.ReadSourceInput) (activities.ReadSourceResult, error)
	check func() error
	drive func(activities.RedriveInput) (api.RedriveResult, error)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	w := &world{t: t, env: suite.NewTestWorkflowEnvironment(), start: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	w.env.SetStartTime(w.start)
	w.read = func(in activities.ReadSourceInput) (activities.ReadSourceResult, error) {
		return w.caughtUp(in, 1), nil
	}
	w.check = func() error { return nil }
	register := func(name string, f any) {
		w.env.RegisterActivityWithOptions(f, sdkactivity.RegisterOptions{Name: name})
	}
	register("ReadSource", func(_ context.Context, in activities.ReadSourceInput) (activities.ReadSourceResult, error) {
		what := "read " + string(in.Cursor)
		if !in.To.IsZero() {
			what = "backfill " + string(in.Cursor)
		}
		return w.read2(what, in)
	})
	register("SeekSource", func(_ context.Context, in activities.SeekSourceInput) (activities.SeekSourceResult, error) {
		w.called("seek " + in.To.Format(time.TimeOnly))
		return activities.SeekSourceResult{Cursor: source.Cursor("at-" + in.To.Format(time.TimeOnly))}, nil
	})
	register("CheckSink", func(context.Context, activities.CheckSinkInput) error {
		w.called("check sink")
		return w.check()
	})
	register("RedriveDeadLetters", func(_ context.Context, in activities.RedriveInput) (api.RedriveResult, error) {
		w.called(fmt.Sprintf("redrive %d", len(in.Letters)))
		return w.drive(in)
	})
	w.env.RegisterWorkflowWithOptions(eventcursor.Workflow, workflow.RegisterOptions{Name: workflows.TypeEventCursor})
	w.env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: workflows.CursorID("cloud", "server"), TaskQueue: workflows.TaskQueue})
	w.env.SetTestTimeout(time.Minute)
	w.env.OnUpsertTypedSearchAttributes(mock.Anything).Return(nil).Maybe()
	return w
}

func (w *world) read2(what string, in activities.ReadSourceInput) (activities.ReadSourceResult, error) {
	w.called(what)
	w.mu.Lock()
	f := w.read
	w.mu.Unlock()
	return f(in)
}

// caughtUp is a read that found n events and the end.
func (w *world) caughtUp(in activities.ReadSourceInput, n int64) activities.ReadSourceResult {
	now := w.env.Now().UTC()
	return activities.ReadSourceResult{Cursor: in.Cursor + "x", CaughtUp: true, UpTo: now, ReadAt: now, LastEventAt: now, Counts: api.CursorCounts{Pages: 1, Delivered: n}}
}

func (w *world) called(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, w.env.Now().Sub(w.start).Round(time.Second).String()+" "+what)
}

func (w *world) seen() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string{}, w.calls...)
}

func (w *world) at(after time.Duration, step func()) { w.env.RegisterDelayedCallback(step, after) }

func (w *world) run(in api.EventCursorInput, stop time.Duration) error {
	w.at(stop, w.env.CancelWorkflow)
	w.env.ExecuteWorkflow(workflows.TypeEventCursor, in)
	return w.env.GetWorkflowError()
}

func (w *world) mustStop(in api.EventCursorInput, stop time.Duration) {
	w.t.Helper()
	if err := w.run(in, stop); !temporal.IsCanceledError(err) {
		w.t.Fatalf("the workflow ended with %v, want the cancellation", err)
	}
}

func (w *world) status() api.Cursor {
	w.t.Helper()
	v, err := w.env.QueryWorkflow(workflows.QueryStatus)
	var s api.Cursor
	if err == nil {
		err = v.Get(&s)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// answer keeps what an update answers.
type answer struct {
	rejected, err error
	value         any
}

func (w *world) update(after time.Duration, name string, arg ...any) *answer {
	a := &answer{}
	w.at(after, func() {
		w.env.UpdateWorkflow(name, fmt.Sprint(name, after), &testsuite.TestUpdateCallback{
			OnAccept: func() {}, OnReject: func(err error) { a.rejected = err },
			OnComplete: func(v any, err error) { a.value, a.err = v, err },
		}, arg...)
	})
	return a
}

var (
	in      = api.EventCursorInput{Source: "cloud", Stream: "server", Config: api.CursorConfig{Sink: "billing", Interval: api.Duration(time.Minute)}}
	letters = []api.DeadLetter{{Ref: "a", Reason: "no"}, {Ref: "b", Reason: "no"}}
)

func TestReadsEveryInterval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustStop(in, 150*time.Second)
	if diff := cmp.Diff(w.seen(), []string{"0s read ", "1m0s read x", "2m0s read xx"}); diff != "" {
		t.Errorf("calls (-got +want):\n%s", diff)
	}
	s := w.status().Status
	if s.Phase != api.CursorCaughtUp || s.Counts.Delivered != 3 || s.CaughtUpTo.IsZero() || s.LastEventAt.IsZero() {
		t.Errorf("status %+v", s)
	}
}

// A cursor of an empty feed is not "Reading" for as long as reads may last: only
// once it has caught up does a read wait for something to happen.
func TestOnlyWhoHasCaughtUpWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var waits []bool
	w.read = func(in activities.ReadSourceInput) (activities.ReadSourceResult, error) {
		w.mu.Lock()
		waits = append(waits, !in.ReturnBy.IsZero())
		n := len(waits)
		w.mu.Unlock()
		out := w.caughtUp(in, 0)
		out.CaughtUp = n > 1
		return out, nil
	}
	w.mustStop(in, 90*time.Second)
	if diff := cmp.Diff(waits, []bool{false, false, true}); diff != "" {
		t.Errorf("reads that wait (-got +want):\n%s", diff)
	}
}

func TestReadsOnWhileThereIsMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.read = func(in activities.ReadSourceInput) (activities.ReadSourceResult, error) {
		out := w.caughtUp(in, 100)
		out.CaughtUp = len(out.Cursor) == 3
		return out, nil
	}
	w.mustStop(in, 30*time.Second)
	if diff := cmp.Diff(w.seen(), []string{"0s read ", "0s read x", "0s read xx"}); diff != "" {
		t.Errorf("calls (-got +want):\n%s", diff)
	}
}

// While the sink is down nothing is asked of the source.
func TestSinkDownForHours(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	down := true
	w.read = func(in activities.ReadSourceInput) (activities.ReadSourceResult, error) {
		if down {
			return activities.ReadSourceResult{Cursor: in.Cursor, Stop: &api.Stop{Sink: true, Class: "Retryable", Reason: api.ReasonSinkUnavailable, Message: "connection refused"}}, nil
		}
		return w.caughtUp(in, 1), nil
	}
	w.check = func() error {
		if down {
			return temporal.NewApplicationErrorWithOptions("down", activities.ErrSinkUnavailable, temporal.ApplicationErrorOptions{NextRetryDelay: 15 * time.Second})
		}
		return nil
	}
	w.at(3*time.Hour, func() {
		if s := w.status().Status; s.Phase != api.CursorSinkDown || s.Reason != api.ReasonSinkUnavailable || s.Message == "" {
			t.Errorf("status %+v, want the sink down", s)
		}
		reads := 0
		for _, c := range w.seen() {
			if strings.Contains(c, " read") {
				reads++
			}
		}
		if reads != 1 {
			t.Errorf("%d reads in three hours of outage, want the one that found the sink down", reads)
		}
		down = false
	})
	w.mustStop(in, 3*time.Hour+6*time.Minute)
	if s := w.status().Status; s.Phase != api.CursorCaughtUp || s.Failures != 0 {
		t.Errorf("status %+v, want it caught up", s)
	}
}

func TestFailuresAreTriedAgainByClass(t *testing.T) {
	t.Parallel()
	for class, want := range map[provider.Class][]string{
		provider.Transient:   {"0s read ", "5s read ", "15s read ", "35s read "},
		provider.RateLimited: {"0s read ", "40s read "},
		provider.Permanent:   {"0s read "},
	} {
		t.Run(string(class), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.read = func(in activities.ReadSourceInput) (activities.ReadSourceResult, error) {
				stop := &api.Stop{Class: string(class), Message: "no"}
				if class == provider.RateLimited {
					stop.RetryAfter = api.Duration(40 * time.Second)
				}
				return activities.ReadSourceResult{Cursor: in.Cursor, Stop: stop}, nil
			}
			w.mustStop(in, 70*time.Second)
			if diff := cmp.Diff(w.seen(), want); diff != "" {
				t.Errorf("calls (-got +want):\n%s", diff)
			}
			if s := w.status().Status; s.Phase != api.CursorFailing || s.Reason != string(class) || s.Message != "no" {
				t.Errorf("status %+v", s)
			}
		})
	}
}

// What was delivered before a failure ends the row of failures.
func TestAFailureAfterProgressIsTheFirst(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pages int64
		want  []string
	}{
		"after pages": {1, []string{"0s read ", "5s read x", "10s read xx", "15s read xxx"}},
		"at once":     {0, []string{"0s read ", "5s read x", "15s read xx"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.read = func(in activities.ReadSourceInput) (activities.ReadSourceResult, error) {
				return activities.ReadSourceResult{Cursor: in.Cursor + "x", Counts: api.CursorCounts{Pages: tc.pages, Delivered: tc.pages},
					Stop: &api.Stop{Class: string(provider.Transient), Message: "no"}}, nil
			}
			w.mustStop(in, 19*time.Second)
			if diff := cmp.Diff(w.seen(), tc.want); diff != "" {
				t.Errorf("calls (-got +want):\n%s", diff)
			}
		})
	}
}

func TestAChangedConfigurationIsTriedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.read = func(in activities.ReadSourceInput) (activities.ReadSourceResult, error) {
		if in.Sink == "billing" {
			return activities.ReadSourceResult{}, temporal.NewNonRetryableApplicationError("no sink", activities.ErrSinkNotConfigured, errors.New("x"))
		}
		return w.caughtUp(in, 1), nil
	}
	w.at(10*time.Second, func() {
		w.env.SignalWorkflow(workflows.SignalConfigure, api.CursorConfig{Sink: "other", ConfigHash: "2"})
	})
	w.mustStop(in, 20*time.Second)
	if diff := cmp.Diff(w.seen(), []string{"0s read ", "10s read "}); diff != "" {
		t.Errorf("calls (-got +want):\n%s", diff)
	}
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.update(30*time.Second, workflows.UpdatePause)
	w.at(5*time.Minute, func() {
		if s := w.status().Status; !s.Paused || s.Phase != api.CursorPaused {
			t.Errorf("status %+v, want it paused", s)
		}
		w.env.SignalWorkflow(workflows.SignalResume, nil)
	})
	w.mustStop(in, 5*time.Minute+10*time.Second)
	if diff := cmp.Diff(w.seen(), []string{"0s read ", "5m0s read x"}); diff != "" {
		t.Errorf("calls (-got +want):\n%s", diff)
	}
}

func TestRewind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	to := w.start.Add(-time.Hour)
	good := w.update(30*time.Second, workflows.UpdateRewind, api.RewindInput{To: to})
	future := w.update(35*time.Second, workflows.UpdateRewind, api.RewindInput{To: w.start.Add(time.Hour)})
	none := w.update(36*time.Second, workflows.UpdateRewind, api.RewindInput{})
	w.mustStop(in, 50*time.Second)
	if diff := cmp.Diff(w.seen(), []string{"0s read ", "30s seek 11:00:00", "30s read at-11:00:00"}); diff != "" {
		t.Errorf("calls (-got +want):\n%s", diff)
	}
	if good.err != nil || good.rejected != nil || future.rejected == nil || none.rejected == nil {
		t.Errorf("answers %+v, %+v, %+v", good, future, none)
	}
}

// A start from a time seeks first.
func TestFrom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	from := w.start.Add(-2 * time.Hour)
	in := in
	in.From = &from
	w.mustStop(in, 10*time.Second)
	if diff := cmp.Diff(w.seen(), []string{"0s seek 10:00:00", "0s read at-10:00:00"}); diff != "" {
		t.Errorf("calls (-got +want):\n%s", diff)
	}
}

// A backfill goes on beside the reading and leaves the cursor where it is.
func TestBackfill(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.read = func(in activities.ReadSourceInput) (activities.ReadSourceResult, error) {
		out := w.caughtUp(in, 1)
		if !in.To.IsZero() {
			out.Counts, out.CaughtUp = api.CursorCounts{Duplicates: 7}, false
			out.Done = len(out.Cursor) == len("at-11:00:00xx")
		}
		return out, nil
	}
	begun := w.update(30*time.Second, workflows.UpdateBackfill, api.BackfillInput{From: w.start.Add(-time.Hour), To: w.start})
	wrong := w.update(40*time.Second, workflows.UpdateBackfill, api.BackfillInput{From: w.start, To: w.start})
	w.mustStop(in, 70*time.Second)
	want := []string{"0s read ", "30s seek 11:00:00", "30s backfill at-11:00:00", "30s backfill at-11:00:00x", "1m0s read x"}
	if diff := cmp.Diff(w.seen(), want); diff != "" {
		t.Errorf("calls (-got +want):\n%s", diff)
	}
	b := w.status().Status.Backfill
	if begun.err != nil || wrong.rejected == nil || b == nil || b.Done.IsZero() || b.Counts.Duplicates != 14 {
		t.Errorf("answers %+v, %+v, backfill %+v", begun, wrong, b)
	}
}

func TestDeadLettersAreDrivenAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.read = func(in activities.ReadSourceInput) (activities.ReadSourceResult, error) {
		out := w.caughtUp(in, 1)
		out.DeadLetters = letters
		return out, nil
	}
	w.drive = func(in activities.RedriveInput) (api.RedriveResult, error) {
		return api.RedriveResult{Delivered: 1, Left: []api.DeadLetter{{Ref: "b", Reason: "still no", Tries: 1}}}, nil
	}
	strange := w.update(10*time.Second, workflows.UpdateRedrive, api.RedriveInput{Refs: []source.Ref{"z"}})
	all := w.update(20*time.Second, workflows.UpdateRedrive, api.RedriveInput{})
	w.mustStop(in, 30*time.Second)
	if strange.rejected == nil || all.err != nil {
		t.Errorf("answers %+v, %+v", strange, all)
	}
	got := w.status().Status.DeadLetters
	if len(got) != 1 || got[0].Ref != "b" || got[0].Reason != "still no" || got[0].Tries != 1 {
		t.Errorf("dead letters %+v, want the one that is left", got)
	}
}
