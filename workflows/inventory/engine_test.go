package inventory_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/devserver/devservertest"
	"github.com/tollgate-dev/tollgate/internal/historytest"
	plan "github.com/tollgate-dev/tollgate/internal/inventory"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting"
	rapi "github.com/tollgate-dev/tollgate/internal/reporting/api"
	"github.com/tollgate-dev/tollgate/internal/reporting/reportingserver"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
	sinks "github.com/tollgate-dev/tollgate/internal/reporting/sink/all"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/memory"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
	"github.com/tollgate-dev/tollgate/workflows/eventcursor"
	"github.com/tollgate-dev/tollgate/workflows/inventory"
)

// rig is a real engine with a feed in memory, its cursor, and a Reporting API.
type rig struct {
	t        *testing.T
	client   client.Client
	feed     *memory.Feed
	reports  *reporting.Client
	receiver *httptest.Server
	acts     *activities.Inventory
	fail     atomic.Pointer[func(read int) error]
	reads    atomic.Int64
	// open: the sink can be asked.
	open atomic.Bool
}

func register(r worker.WorkflowRegistry) {
	r.RegisterWorkflowWithOptions(eventcursor.Workflow, workflow.RegisterOptions{Name: workflows.TypeEventCursor})
	r.RegisterWorkflowWithOptions(inventory.Workflow, workflow.RegisterOptions{Name: workflows.TypeInventory})
}

func newRig(t *testing.T) *rig {
	t.Helper()
	engine := devservertest.Start(t, devservertest.WithSearchAttributes(workflows.SearchAttributes()...))
	r := &rig{t: t, client: engine.Client(), feed: &memory.Feed{PageSize: 3}}
	r.open.Store(true)
	r.feed.OnRead = func(context.Context, int) error {
		n := r.reads.Add(1)
		if f := r.fail.Load(); f != nil {
			return (*f)(int(n))
		}
		return nil
	}
	server, err := reportingserver.New(t.Context(), reportingserver.Options{Path: t.TempDir() + "/r.db"})
	if err != nil {
		t.Fatal(err)
	}
	r.receiver = httptest.NewServer(server)
	t.Cleanup(func() { r.receiver.Close(); _ = server.Close() })
	if r.reports, err = reporting.New(reporting.Options{URL: r.receiver.URL}); err != nil {
		t.Fatal(err)
	}
	token := func(context.Context) (provider.Sensitive, error) { return provider.Sensitive{}, nil }
	to, err := sinks.New(sinks.Config{Type: "reporting", URL: r.receiver.URL, Token: token, Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	lookup := func(string) (sink.Sink, bool, error) { return to, true, nil }
	r.acts = &activities.Inventory{
		Installation: "one",
		Source: func(name string) (source.Entry, bool) {
			return source.Entry{Name: name, Type: memory.Type(r.feed), Account: "acme",
				Streams: []source.Stream{{Name: "thing", Source: memory.New(name, "acme", r.feed)}}}, true
		},
		SinkOf: func(string) string { return "billing" }, Sink: lookup,
		Receiver:  func(string) (plan.Receiver, bool) { return plan.ReceiverOf(r.reports), r.open.Load() },
		Providers: func(string) []string { return nil }, Shards: func(string) int { return 1 },
		Temporal: r.client, Converter: converter.GetDefaultDataConverter(), Store: plan.NewStore(),
	}
	main := worker.New(r.client, workflows.TaskQueue, devservertest.WorkerOptions())
	register(main)
	main.RegisterActivity(&activities.Inventories{})
	src := worker.New(r.client, workflows.SourceTaskQueue("cloud"), worker.Options{DisableWorkflowWorker: true, MaxHeartbeatThrottleInterval: time.Second})
	src.RegisterActivity(&activities.Cursors{
		Stream: func(name, _ string) (source.Source, bool, error) { return memory.New(name, "acme", r.feed), true, nil },
		Sink:   lookup,
	})
	src.RegisterActivity(r.acts)
	for _, w := range []worker.Worker{main, src} {
		if err := w.Start(); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(sync.OnceFunc(func() { src.Stop(); main.Stop() }))
	if _, err := r.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: workflows.CursorID("cloud", "thing"), TaskQueue: workflows.TaskQueue},
		workflows.TypeEventCursor, api.EventCursorInput{Source: "cloud", Stream: "thing", Config: api.CursorConfig{Sink: "billing", Interval: api.Duration(time.Second)}}); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) setFail(f func(read int) error) {
	if f == nil {
		r.fail.Store(nil)
		return
	}
	r.fail.Store(&f)
}

// run makes an inventory.
func (r *rig) run(name string, in api.InventoryInput) api.InventoryResult {
	r.t.Helper()
	in.Source, in.ConfirmAfter = "cloud", api.Duration(4*time.Second)
	run, err := r.client.ExecuteWorkflow(r.t.Context(), client.StartWorkflowOptions{ID: workflows.InventoryID("cloud") + "/" + name, TaskQueue: workflows.TaskQueue},
		workflows.TypeInventory, in)
	if err != nil {
		r.t.Fatal(err)
	}
	var out api.InventoryResult
	if err := run.Get(r.t.Context(), &out); err != nil {
		r.t.Fatalf("%s: %v", name, err)
	}
	if err := historytest.ReplayHistory(historytest.Fetch(r.t, r.client, run.GetID(), ""), register); err != nil {
		r.t.Errorf("%s: replay: %v", name, err)
	}
	if historytest.Recording() {
		historytest.Record(r.t, r.client, run.GetID(), "", name)
	}
	if st := devservertest.Query[api.Inventory](r.t, r.client, run.GetID(), workflows.QueryStatus); st.Step != api.InventoryDone || st.Status.Outcome != out.Outcome {
		r.t.Errorf("%s: status %+v", name, st)
	}
	return out
}

// events are what the receiver has, as id and what it says of the size.
func (r *rig) events() (out []string) {
	r.t.Helper()
	err := r.reports.Events(r.t.Context(), rapi.ListEventsParams{}, func(e rapi.StoredEvent) bool {
		id := e.Event.ID
		if i := strings.Index(id, "inventory:"); i > 0 {
			id = id[:i] + "inventory"
		}
		text := fmt.Sprintf("%s %s %s", id, e.Event.Data.Size["units"], e.Event.Data.Derived)
		if len(e.Event.Data.UnknownSize) > 0 {
			text = fmt.Sprintf("%s unknown %s", id, e.Event.Data.Derived)
		}
		out = append(out, strings.TrimSpace(strings.TrimPrefix(text, "memory/acme/thing/")))
		return true
	})
	if err != nil {
		r.t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

func (r *rig) wantEvents(when string, want ...string) {
	r.t.Helper()
	slices.Sort(want)
	deadline := time.Now().Add(devservertest.Patience)
	for {
		got := r.events()
		diff := cmp.Diff(got, want)
		if diff == "" {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%s (-received +want)\n%s", when, diff)
		}
		select {
		case <-r.t.Context().Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func kinds(out api.InventoryResult) string {
	var all []string
	for _, d := range out.Differences {
		all = append(all, fmt.Sprintf("%s %s %s", d.Kind, d.Resource.ID, d.Action))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func (r *rig) want(name string, out api.InventoryResult, outcome api.InventoryOutcome, differences string) {
	r.t.Helper()
	if got := kinds(out); out.Outcome != outcome || got != differences {
		r.t.Errorf("%s: %s, %q: %s; want %s, %q\n%+v", name, out.Outcome, got, out.Message, outcome, differences, out.Streams)
	}
}

func (r *rig) steer(update string) {
	r.t.Helper()
	h, err := r.client.UpdateWorkflow(r.t.Context(), client.UpdateWorkflowOptions{
		WorkflowID: workflows.CursorID("cloud", "thing"), UpdateName: update, WaitForStage: client.WorkflowUpdateStageCompleted})
	if err == nil {
		err = h.Get(r.t.Context(), nil)
	}
	if err != nil {
		r.t.Fatalf("%s: %v", update, err)
	}
}

// An inventory on a real engine, with a real receiver, from one state to the next.
func TestInventoriesOnTheEngine(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		r.feed.Add(name, source.VerbCreate, 1)
	}
	have := []string{"a/create 1", "b/create 1", "c/create 1", "d/create 1", "e/create 1"}
	r.wantEvents("the feed", have...)
	r.want("clean", r.run("clean", api.InventoryInput{}), api.InventoryClean, "")

	// A page of the listing that cannot be read: nothing follows from the others.
	r.feed.Vanish("a")
	r.setFail(func(int) error { return &memory.APIError{Status: 401} })
	out := r.run("unreadable", api.InventoryInput{})
	r.want("unreadable", out, api.InventoryUnreadable, "")
	if !strings.Contains(out.Message, "thing: ") || !strings.Contains(out.Message, "401") {
		t.Errorf("message %q", out.Message)
	}
	r.setFail(nil)
	r.steer(workflows.UpdateResume)
	r.wantEvents("after a listing that failed", have...)

	// A dry run delivers nothing.
	r.want("dry-run", r.run("dry-run", api.InventoryInput{DryRun: true}), api.InventoryDryRun, "missing_delete a WouldRepair")
	r.wantEvents("after a dry run", have...)

	// Gone, resized and made without an entry in the feed.
	r.feed.Set("b", 2)
	r.feed.Set("f", 7)
	r.want("repaired", r.run("repaired", api.InventoryInput{}), api.InventoryRepaired,
		"missing_create f Repaired, missing_delete a Repaired, size_differs b Repaired")
	have = append(have, "a/delete 1 inventory", "b/inventory 2 inventory", "f/create unknown inventory", "f/inventory 7 inventory")
	r.wantEvents("after the repairs", have...)
	r.want("again", r.run("again", api.InventoryInput{}), api.InventoryClean, "")
	r.wantEvents("after a second run", have...)

	// While the cursor is paused, the feed may still tell everything.
	r.steer(workflows.UpdatePause)
	r.feed.Add("g", source.VerbCreate, 3)
	r.feed.Add("h", source.VerbCreate, 3)
	r.feed.Add("h", source.VerbDelete, 3)
	out = r.run("paused", api.InventoryInput{})
	r.want("paused", out, api.InventoryRepaired, "missing_create g Waits")
	if len(out.Differences) == 1 && !strings.Contains(out.Differences[0].Message, "Paused") {
		t.Errorf("%+v", out.Differences[0])
	}
	r.wantEvents("while the cursor is paused", have...)
	r.steer(workflows.UpdateResume)
	have = append(have, "g/create 3", "h/create 3", "h/delete 3")
	r.wantEvents("after the pause", have...)
	r.want("after-the-pause", r.run("after-the-pause", api.InventoryInput{}), api.InventoryClean, "")
	r.wantEvents("after all", have...)

	// A sink that cannot be asked.
	r.open.Store(false)
	r.feed.Vanish("b")
	out = r.run("two-way", api.InventoryInput{})
	r.want("two-way", out, api.InventoryClean, "")
	if !strings.Contains(out.Streams[0].Note, "cannot be asked") {
		t.Errorf("%+v", out.Streams)
	}
	r.open.Store(true)

	// A receiver that is away.
	r.receiver.CloseClientConnections()
	r.receiver.Close()
	r.want("receiver-away", r.run("receiver-away", api.InventoryInput{}), api.InventoryUnreadable, "")
}

// An Extra is asked in every inventory, and its failure is its own.
func TestExtras(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	x := &extra{}
	r.acts.Extras = func(string) []plan.Extra { return []plan.Extra{x} }
	r.feed.Add("a", source.VerbCreate, 1)
	r.wantEvents("the feed", "a/create 1")
	r.want("extra", r.run("extra", api.InventoryInput{}), api.InventoryRepaired, "missing_relation a Repaired")
	x.err.Store(true)
	out := r.run("extra-fails", api.InventoryInput{})
	r.want("extra-fails", out, api.InventoryIncomplete, "")
	if !strings.Contains(out.Message, "relations: garden away") {
		t.Errorf("%s", out.Message)
	}
}

type extra struct{ err atomic.Bool }

func (x *extra) Name() string { return "relations" }

func (x *extra) Compare(_ context.Context, in plan.ExtraInput) (plan.ExtraResult, error) {
	if x.err.Load() {
		return plan.ExtraResult{}, errors.New("garden away")
	}
	if len(in.Streams) != 1 || in.Sink != "billing" {
		return plan.ExtraResult{}, fmt.Errorf("input %+v", in)
	}
	return plan.ExtraResult{Listed: 1, Differences: []api.Difference{{Kind: "missing_relation", Action: api.DifferenceRepaired,
		Resource: in.Streams[0].Snapshot.Resources[0].Resource}}}, nil
}
