package eventcursor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/devserver/devservertest"
	"github.com/tollgate-dev/tollgate/internal/historytest"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/fault"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/memory"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
	"github.com/tollgate-dev/tollgate/workflows/eventcursor"
)

// rig is a real engine with a feed in memory and a receiver.
type rig struct {
	t      *testing.T
	client client.Client
	feed   *memory.Feed

	mu     sync.Mutex
	stored map[string]int
	down   bool
	refuse map[string]bool
	// broken are the parts of the source that cannot be read.
	broken []source.Broken
	// tired: the receiver takes one delivery, and is away until it was asked.
	tired bool
}

func newRig(t *testing.T) *rig {
	t.Helper()
	engine := devservertest.Start(t, devservertest.WithSearchAttributes(workflows.SearchAttributes()...))
	return &rig{t: t, client: engine.Client(), feed: &memory.Feed{PageSize: 5}, stored: map[string]int{}, refuse: map[string]bool{}}
}

func (r *rig) set(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// Deliver implements sink.Sink.
func (r *rig) Deliver(_ context.Context, events []event.Event) ([]sink.Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := sink.Unsent(events)
	if r.down {
		return out, &fault.Error{Class: fault.Retryable, Err: errors.New("away")}
	}
	for i, e := range events {
		switch {
		case r.refuse[e.ID]:
			out[i].Outcome, out[i].Reason = sink.Rejected, "unknown account"
			continue
		case r.stored[e.ID] > 0:
			out[i].Outcome = sink.Duplicate
		default:
			out[i].Outcome = sink.Accepted
		}
		r.stored[e.ID]++
	}
	r.down = r.tired
	return out, nil
}

// Check implements activities.SinkChecker.
func (r *rig) Check(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down {
		r.down = !r.tired
		return errors.New("away")
	}
	return nil
}

// parted is a source of which some parts cannot be read.
type parted struct {
	source.Source
	r *rig
}

func (p parted) Next(ctx context.Context, c source.Cursor) (source.Page, error) {
	page, err := p.Source.Next(ctx, c)
	p.r.set(func() { page.Broken = p.r.broken })
	return page, err
}

func register(r worker.WorkflowRegistry) {
	r.RegisterWorkflowWithOptions(eventcursor.Workflow, workflow.RegisterOptions{Name: workflows.TypeEventCursor})
}

// serve starts the workers of a process.
func (r *rig) serve() (stop func()) {
	r.t.Helper()
	main := worker.New(r.client, workflows.TaskQueue, devservertest.WorkerOptions())
	register(main)
	src := worker.New(r.client, workflows.SourceTaskQueue("cloud"), worker.Options{DisableWorkflowWorker: true})
	src.RegisterActivity(&activities.Cursors{
		Stream: func(name, stream string) (source.Source, bool, error) {
			return parted{memory.New(name, "acme", r.feed), r}, true, nil
		},
		Sink: func(string) (sink.Sink, bool, error) { return r, true, nil },
		Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	})
	for _, w := range []worker.Worker{main, src} {
		if err := w.Start(); err != nil {
			r.t.Fatal(err)
		}
	}
	stop = sync.OnceFunc(func() { src.Stop(); main.Stop() })
	r.t.Cleanup(stop)
	return stop
}

func (r *rig) start(stream string, continueAfter int) string {
	r.t.Helper()
	id := workflows.CursorID("cloud", stream)
	_, err := r.client.ExecuteWorkflow(r.t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: workflows.TaskQueue}, workflows.TypeEventCursor,
		api.EventCursorInput{Source: "cloud", Stream: stream, ContinueAfter: continueAfter,
			Config: api.CursorConfig{Sink: "billing", Interval: api.Duration(time.Second)}})
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

func (r *rig) add(n int) (ids []string) {
	for range n {
		ids = append(ids, r.feed.Add(fmt.Sprint("t", time.Now().UnixNano()), source.VerbCreate, 1).EventID("acme"))
	}
	return ids
}

func (r *rig) received() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := []string{}
	for id := range r.stored {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (r *rig) status(id string) api.Cursor {
	r.t.Helper()
	return devservertest.Query[api.Cursor](r.t, r.client, id, workflows.QueryStatus)
}

func (r *rig) eventually(what string, ok func() bool) {
	r.t.Helper()
	devservertest.Eventually(r.t, what, ok)
}

func (r *rig) update(id, name string, in, out any) {
	r.t.Helper()
	var args []any
	if in != nil {
		args = append(args, in)
	}
	h, err := r.client.UpdateWorkflow(r.t.Context(), client.UpdateWorkflowOptions{
		WorkflowID: id, UpdateName: name, Args: args, WaitForStage: client.WorkflowUpdateStageCompleted})
	if err == nil {
		err = h.Get(r.t.Context(), out)
	}
	if err != nil {
		r.t.Fatalf("update %s: %v", name, err)
	}
}

// replay replays the history of a run, and records it when that is asked for.
func (r *rig) replay(id, runID, name string) {
	r.t.Helper()
	if err := historytest.ReplayHistory(historytest.Fetch(r.t, r.client, id, runID), register); err != nil {
		r.t.Errorf("replay of %s: %v", id, err)
	}
	if historytest.Recording() {
		historytest.Record(r.t, r.client, id, runID, name)
	}
}

func (r *rig) wantReceived(want []string) {
	r.t.Helper()
	want = slices.Clone(want)
	slices.Sort(want)
	r.eventually("everything is received", func() bool { return len(r.received()) >= len(want) })
	if diff := cmp.Diff(r.received(), want); diff != "" {
		r.t.Errorf("received (-got +want):\n%s", diff)
	}
}

// A cursor's life on a real engine: reading, pausing, rewinding, backfilling, dead
// letters and new runs.
func TestLifeOnTheEngine(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.serve()
	want := r.add(12)
	id := r.start("thing", 0)
	r.wantReceived(want)
	r.eventually("caught up", func() bool { return r.status(id).Status.Phase == api.CursorCaughtUp })

	var c api.Cursor
	r.update(id, workflows.UpdatePause, nil, &c)
	if !c.Status.Paused {
		t.Errorf("status %+v, want it paused", c.Status)
	}
	more := r.add(3)
	hated := more[1]
	r.set(func() { r.refuse[hated] = true })
	r.update(id, workflows.UpdateResume, nil, &c)
	want = append(want, more[0], more[2])
	r.wantReceived(want)
	r.eventually("a dead letter", func() bool { return len(r.status(id).Status.DeadLetters) == 1 })

	r.set(func() { clear(r.refuse) })
	var res api.RedriveResult
	r.update(id, workflows.UpdateRedrive, api.RedriveInput{}, &res)
	want = append(want, hated)
	r.wantReceived(want)
	if res.Delivered != 1 || len(r.status(id).Status.DeadLetters) != 0 {
		t.Errorf("redrive %+v, status %+v", res, r.status(id).Status)
	}

	r.update(id, workflows.UpdateRewind, api.RewindInput{To: time.Now().Add(-time.Hour)}, &c)
	r.eventually("read again", func() bool { return r.status(id).Status.Counts.Duplicates >= int64(len(want)) })
	r.update(id, workflows.UpdateBackfill, api.BackfillInput{From: time.Now().Add(-time.Hour), To: time.Now()}, &c)
	r.eventually("backfilled", func() bool { b := r.status(id).Status.Backfill; return b != nil && !b.Done.IsZero() })
	if b := r.status(id).Status.Backfill; b.Counts.Duplicates != int64(len(want)) || b.Counts.Delivered != 0 {
		t.Errorf("backfill %+v, want everything known", b)
	}
	r.wantReceived(want)
	r.replay(id, "", "life")
}

// While the sink is down the source is left alone; then nothing is missing.
func TestSinkOutageOnTheEngine(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.serve()
	r.set(func() { r.down = true })
	want := r.add(8)
	id := r.start("thing", 0)
	r.eventually("sink down", func() bool { return r.status(id).Status.Phase == api.CursorSinkDown })
	reads := r.feed.Reads()
	if reads != 1 {
		t.Errorf("%d reads until the sink counts as down, want one", reads)
	}
	// The first check is made after five seconds, and fails.
	r.eventually("the sink is checked", func() bool { return len(pending(r, id)) > 0 })
	if n := r.feed.Reads() - reads; n != 0 {
		t.Errorf("%d reads during the outage", n)
	}
	r.set(func() { r.down = false })
	r.update(id, workflows.UpdateResume, nil, &api.Cursor{}) // without waiting for the next check
	r.wantReceived(want)
	r.replay(id, "", "sink-outage")
}

// A sink that takes a page and fails, again and again, is tried again each time as
// soon as after a first failure.
func TestTiredSinkOnTheEngine(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.serve()
	r.set(func() { r.tired = true })
	want := r.add(17)
	id := r.start("thing", 0)
	most := int64(0)
	r.eventually("everything arrived", func() bool {
		most = max(most, r.status(id).Status.Failures)
		return len(r.received()) == len(want)
	})
	if most != 1 {
		t.Errorf("up to %d failures in a row, want one after each page", most)
	}
	r.wantReceived(want)
	r.eventually("caught up", func() bool { return r.status(id).Status.Phase == api.CursorCaughtUp })
	r.replay(id, "", "tired-sink")
}

// While a part of the source cannot be read, the rest is delivered and the cursor
// says so; afterwards it is caught up again.
func TestBrokenPartOnTheEngine(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.serve()
	r.set(func() {
		r.broken = []source.Broken{{Part: "RegionTwo", Err: provider.Wrap(provider.Transient, source.OpNext, "cloud", "", errors.New("away"))}}
	})
	want := r.add(7)
	id := r.start("thing", 0)
	r.wantReceived(want)
	r.eventually("degraded", func() bool { return r.status(id).Status.Phase == api.CursorDegraded })
	if b := r.status(id).Status.Broken; len(b) != 1 || b[0].Part != "RegionTwo" || b[0].Class != string(provider.Transient) {
		t.Errorf("broken parts %+v, want RegionTwo", b)
	}
	want = append(want, r.add(2)...)
	r.wantReceived(want)
	r.set(func() { r.broken = nil })
	r.eventually("caught up", func() bool { return r.status(id).Status.Phase == api.CursorCaughtUp })
	r.wantReceived(want)
	r.replay(id, "", "broken-part")
}

// pending lists the activities under way.
func pending(r *rig, id string) (names []string) {
	d, err := r.client.DescribeWorkflow(r.t.Context(), id, "")
	if err != nil {
		r.t.Fatal(err)
	}
	for _, a := range d.RawResponse.GetPendingActivities() {
		names = append(names, a.GetActivityType().GetName())
	}
	return names
}

// Runs follow each other while changes happen and workers come and go, and
// nothing is lost or doubled between them.
func TestContinuesOnTheEngine(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	stop := r.serve()
	id := r.start("thing", 40)
	var want []string
	for round := range 4 {
		want = append(want, r.add(7)...)
		r.wantReceived(want)
		if round == 1 {
			stop()
			stop = r.serve()
		}
	}
	r.eventually("a new run", func() bool {
		runs, err := historytest.Runs(t.Context(), r.client, id)
		want = append(want, r.add(1)...)
		return err == nil && len(runs) > 1
	})
	r.wantReceived(want)
	r.set(func() {
		for got, n := range r.stored {
			if n != 1 {
				t.Errorf("%s was delivered %d times", got, n)
			}
		}
	})
	r.eventually("all runs together have counted everything", func() bool { return r.status(id).Status.Counts.Delivered == int64(len(want)) })
	runs, err := historytest.Runs(t.Context(), r.client, id)
	if err != nil {
		t.Fatal(err)
	}
	r.replay(id, runs[0], "continued")
}
