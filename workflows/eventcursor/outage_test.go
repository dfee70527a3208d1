package eventcursor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/fault"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/memory"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
	"github.com/tollgate-dev/tollgate/workflows/eventcursor"
)

// failing is a receiver that takes nothing for some hours.
type failing struct {
	mu            sync.Mutex
	down          bool
	there         bool // it says that it is, all the same
	stored        map[string]int
	sends, checks int
}

func (f *failing) Deliver(_ context.Context, events []event.Event) ([]sink.Result, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := sink.Unsent(events)
	if f.sends++; f.down {
		return out, &fault.Error{Class: fault.Retryable, Status: 500, Err: errors.New("no database")}
	}
	for i, e := range events {
		out[i].Outcome = sink.Accepted
		if f.stored[e.ID]++; f.stored[e.ID] > 1 {
			out[i].Outcome = sink.Duplicate
		}
	}
	return out, nil
}

func (f *failing) Check(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.checks++; f.down && !f.there {
		return errors.New("connection refused")
	}
	return nil
}

func (f *failing) set(down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = down
}

func (f *failing) counts() (sends, checks int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sends, f.checks
}

// A sink is down for six hours, in which events go on happening: the source is
// hardly asked, the sink is not hammered, nothing is given up, and in the end every
// event is there once.
func TestOutageOfSixHours(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		there                 bool
		reads, sends, perHour int
	}{
		"nobody is there":                        {false, 1, 3, 3600 / int(activities.CheckEvery/time.Second)},
		"it says it is there, and takes nothing": {true, 6*12 + 8, (6*12 + 8) * 12, 60},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var suite testsuite.WorkflowTestSuite
			suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
			env := suite.NewTestWorkflowEnvironment()
			env.SetTestTimeout(time.Minute)
			env.SetStartTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
			env.RegisterWorkflowWithOptions(eventcursor.Workflow, workflow.RegisterOptions{Name: workflows.TypeEventCursor})
			env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: workflows.CursorID("cloud", "thing"), TaskQueue: workflows.TaskQueue})
			feed := &memory.Feed{PageSize: 10, Now: env.Now}
			sinkOf := &failing{there: tc.there, stored: map[string]int{}}
			env.RegisterActivity(&activities.Cursors{
				Stream: func(string, string) (source.Source, bool, error) { return memory.New("cloud", "acme", feed), true, nil },
				Sink:   func(string) (sink.Sink, bool, error) { return sinkOf, true, nil },
				Now:    env.Now, Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
			})
			env.OnUpsertTypedSearchAttributes(mock.Anything).Return(nil).Maybe()
			var want []string
			happen := func() {
				want = append(want, feed.Add(fmt.Sprint("t", len(want)), source.VerbCreate, 1).EventID("acme"))
			}
			for at := time.Minute; at < 8*time.Hour; at += 10 * time.Minute {
				env.RegisterDelayedCallback(happen, at)
			}
			var reads, sends, checks int
			env.RegisterDelayedCallback(func() { sinkOf.set(true) }, time.Hour)
			env.RegisterDelayedCallback(func() {
				reads = feed.Reads()
				sends, checks = sinkOf.counts()
			}, time.Hour+15*time.Minute)
			env.RegisterDelayedCallback(func() {
				if n := feed.Reads() - reads; n > tc.reads {
					t.Errorf("%d reads of the source in the outage, want at most %d", n, tc.reads)
				}
				s, c := sinkOf.counts()
				if n := s - sends; n > tc.sends {
					t.Errorf("%d deliveries in the outage, want at most %d", n, tc.sends)
				}
				if n := c - checks; n > 6*tc.perHour {
					t.Errorf("%d questions whether the sink is there, want at most %d an hour", n, tc.perHour)
				}
				sinkOf.set(false)
			}, 7*time.Hour)
			env.RegisterDelayedCallback(env.CancelWorkflow, 8*time.Hour+time.Minute)
			env.ExecuteWorkflow(workflows.TypeEventCursor, api.EventCursorInput{Source: "cloud", Stream: "thing",
				Config: api.CursorConfig{Sink: "billing", Interval: api.Duration(time.Minute)}})
			if err := env.GetWorkflowError(); !temporal.IsCanceledError(err) {
				t.Fatal(err)
			}
			got := []string{}
			for id := range sinkOf.stored {
				got = append(got, id)
			}
			slices.Sort(got)
			slices.Sort(want)
			if diff := cmp.Diff(got, want); diff != "" {
				t.Errorf("received (-got +want):\n%s", diff)
			}
			v, err := env.QueryWorkflow(workflows.QueryStatus)
			var c api.Cursor
			if err == nil {
				err = v.Get(&c)
			}
			if err != nil || len(c.Status.DeadLetters) != 0 || c.Status.Phase != api.CursorCaughtUp {
				t.Errorf("%+v, %v", c.Status, err)
			}
		})
	}
}
