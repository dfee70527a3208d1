package workflows_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/devserver/devservertest"
	"github.com/tollgate-dev/tollgate/internal/historytest"
	"github.com/tollgate-dev/tollgate/internal/metrics"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/memory"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
	"github.com/tollgate-dev/tollgate/workflows/fleetwatch"
	"github.com/tollgate-dev/tollgate/workflows/orphangc"
	"github.com/tollgate-dev/tollgate/workflows/providerhealth"
	"github.com/tollgate-dev/tollgate/workflows/reaper"
)

const installation = "acme"

// world is a real engine with a worker, a memory cloud named "mem", and proxies
// that do nothing but note what they are signalled.
type world struct {
	t       *testing.T
	engine  string // host:port
	client  client.Client
	backend *memory.Backend
	// fleet are the activities that the test may change before serve.
	fleet *activities.Fleet

	mu sync.Mutex
	// failing are the addresses whose probes fail; control is why the direct
	// connection does.
	failing map[string]bool
	control string
	shards  int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := newIdleWorld(t)
	w.serve()
	return w
}

// newIdleWorld is a world without workers.
func newIdleWorld(t *testing.T) *world {
	t.Helper()
	engine := devservertest.Start(t, devservertest.WithSearchAttributes(workflows.SearchAttributes()...))
	w := &world{t: t, engine: engine.HostPort(), client: engine.Client(), backend: memory.NewBackend(memory.Options{}), failing: map[string]bool{}, shards: 1}
	w.fleet = &activities.Fleet{
		Temporal: w.client, Shards: w.shardCount, Metrics: metrics.New(prometheus.NewRegistry()),
		ProbeProxy: func(_ context.Context, addr string, _ *provider.BasicAuth) activities.ProbeResult {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.failing[addr] {
				return activities.ProbeResult{Class: "timeout", Message: "CONNECT took too long"}
			}
			return activities.ProbeResult{OK: true}
		},
		ProbeControl: func(context.Context) activities.ProbeResult {
			w.mu.Lock()
			defer w.mu.Unlock()
			return activities.ProbeResult{OK: w.control == "", Message: w.control}
		},
		Secret: func(context.Context, string) (provider.Sensitive, error) { return provider.Sensitive{}, nil },
	}
	return w
}

func (w *world) shardCount(string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.shards
}

func (w *world) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// serve starts the workers of a process.
func (w *world) serve() {
	w.t.Helper()
	driver, err := memory.New(w.t.Context(), w.backend, provider.Config{Name: "mem", Installation: installation})
	if err != nil {
		w.t.Fatal(err)
	}
	lookup := func(name string) (provider.Provider, provider.Profile, bool, error) {
		return driver, memory.Profile(), name == "mem", nil
	}
	main := worker.New(w.client, workflows.TaskQueue, devservertest.WorkerOptions())
	registerWatchers(main)
	main.RegisterWorkflowWithOptions(proxyStub, workflow.RegisterOptions{Name: workflows.TypeProxy})
	main.RegisterActivity(w.fleet)
	main.RegisterActivity(&activities.Sweeps{})
	mem := worker.New(w.client, workflows.ProviderTaskQueue("mem"), worker.Options{DisableWorkflowWorker: true})
	mem.RegisterActivity(&activities.Drift{Installation: installation, Lookup: lookup, Temporal: w.client, Prices: &activities.Prices{}})
	mem.RegisterActivity(&activities.GC{Installation: installation, Lookup: lookup, Temporal: w.client, Shards: w.shardCount})
	mem.RegisterActivity(&activities.Health{Lookup: lookup, Type: func(string) string { return "memory" }})
	for _, x := range []worker.Worker{main, mem} {
		if err := x.Start(); err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(x.Stop)
	}
}

func registerWatchers(r worker.WorkflowRegistry) {
	r.RegisterWorkflowWithOptions(fleetwatch.Workflow, workflow.RegisterOptions{Name: workflows.TypeFleetWatch})
	r.RegisterWorkflowWithOptions(orphangc.Workflow, workflow.RegisterOptions{Name: workflows.TypeOrphanGC})
	r.RegisterWorkflowWithOptions(providerhealth.Workflow, workflow.RegisterOptions{Name: workflows.TypeProviderHealth})
	r.RegisterWorkflowWithOptions(reaper.Workflow, workflow.RegisterOptions{Name: workflows.TypeReaper})
}

// proxyStub answers to "seen" with what it was signalled.
func proxyStub(ctx workflow.Context) error {
	var seen []string
	if err := workflow.SetQueryHandler(ctx, "seen", func() ([]string, error) { return seen, nil }); err != nil {
		return err
	}
	s := workflow.NewSelector(ctx)
	s.AddReceive(workflow.GetSignalChannel(ctx, workflows.SignalObserved), func(c workflow.ReceiveChannel, _ bool) {
		var o api.Observation
		c.Receive(ctx, &o)
		seen = append(seen, string(o.Kind))
	})
	s.AddReceive(workflow.GetSignalChannel(ctx, workflows.SignalRetry), func(c workflow.ReceiveChannel, _ bool) {
		c.Receive(ctx, nil)
		seen = append(seen, "retry")
	})
	s.AddReceive(workflow.GetSignalChannel(ctx, workflows.SignalDelete), func(c workflow.ReceiveChannel, _ bool) {
		c.Receive(ctx, nil)
		seen = append(seen, "delete")
	})
	for {
		s.Select(ctx)
	}
}

// proxy starts a proxy and returns its uid.
func (w *world) proxy(name string) string {
	w.t.Helper()
	run, err := w.client.ExecuteWorkflow(w.t.Context(), client.StartWorkflowOptions{
		ID: workflows.ProxyID("default", name), TaskQueue: workflows.TaskQueue,
		TypedSearchAttributes: temporal.NewSearchAttributes(workflows.AttrProvider.ValueSet("mem")),
	}, workflows.TypeProxy)
	if err != nil {
		w.t.Fatal(err)
	}
	return run.GetRunID()
}

func (w *world) seen(name string) []string {
	w.t.Helper()
	return query[[]string](w, workflows.ProxyID("default", name), "seen")
}

// told is what a proxy was told of its instances.
func (w *world) told(name string) []string {
	w.t.Helper()
	return slices.DeleteFunc(w.seen(name), func(s string) bool { return s == string(api.ObservedReportWanted) })
}

// row is a running proxy's, old enough to be compared.
func row(uid, name string, edit ...func(*api.FleetRow)) api.FleetRow {
	r := api.FleetRow{UID: uid, Namespace: "default", Name: name, Seq: 1, Phase: api.PhaseRunning, Healthy: true,
		InstanceID: provider.InstanceID("none/" + name), InstanceName: "inst-" + name, Own: []string{"inst-" + name},
		IP: "10.1.0.1", Port: 3128, Since: time.Now().Add(-time.Hour)}
	for _, e := range edit {
		e(&r)
	}
	return r
}

func (w *world) report(r api.FleetReport) {
	w.t.Helper()
	if err := w.fleet.ReportFleet(w.t.Context(), activities.ReportFleetInput{Provider: "mem", Report: r}); err != nil {
		w.t.Fatal(err)
	}
}

func fleetConfig() api.FleetConfig {
	return api.FleetConfig{ConfigHash: "h1", Shards: 1, DriftInterval: api.Duration(time.Second), ProbeInterval: api.Duration(time.Second),
		UnhealthyAfter: 2, HealthyAfter: 1, BrakeFraction: .5, BrakeMin: 3}
}

func (w *world) configure(shard int, c api.FleetConfig, edit ...func(*api.FleetWatchInput)) {
	w.t.Helper()
	options, in := activities.FleetStart("mem", shard)
	for _, e := range edit {
		e(&in)
	}
	_, err := w.client.SignalWithStartWorkflow(w.t.Context(), options.ID, workflows.SignalConfigure, c, options, workflows.TypeFleetWatch, in)
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) signal(id, name string, arg any) {
	w.t.Helper()
	if err := w.client.SignalWorkflow(w.t.Context(), id, "", name, arg); err != nil {
		w.t.Fatal(err)
	}
}

func query[T any](w *world, id, name string) T {
	w.t.Helper()
	return devservertest.Query[T](w.t, w.client, id, name)
}

func (w *world) fleetStatus(shard int) api.FleetStatus {
	w.t.Helper()
	return query[api.Fleet](w, workflows.FleetID("mem", shard), workflows.QueryStatus).Status
}

func (w *world) rows(shard int) map[string]api.FleetRow {
	w.t.Helper()
	out := map[string]api.FleetRow{}
	for _, r := range query[api.FleetTable](w, workflows.FleetID("mem", shard), workflows.QueryTable).Rows {
		out[r.UID] = r
	}
	return out
}

// eventually waits until cond holds.
func (w *world) eventually(what string, cond func() bool) {
	w.t.Helper()
	devservertest.Eventually(w.t, what, cond)
}

// replay replays the latest run of a workflow, and records it under a name when
// histories are to be recorded.
func (w *world) replay(id, runID, name string) {
	w.t.Helper()
	h := historytest.Fetch(w.t, w.client, id, runID)
	if err := historytest.ReplayHistory(h, registerWatchers); err != nil {
		w.t.Errorf("replay of %s: %v", id, err)
	}
	if historytest.Recording() {
		historytest.Record(w.t, w.client, id, runID, name)
	}
}

// events counts the events of a type in the latest run.
func (w *world) events(id, typ string) int {
	w.t.Helper()
	n := 0
	for _, e := range historytest.Fetch(w.t, w.client, id, "").GetEvents() {
		if e.GetEventType().String() == typ {
			n++
		}
	}
	return n
}

func count(all []string, want string) int {
	n := 0
	for _, s := range all {
		if s == want {
			n++
		}
	}
	return n
}

func contains(all []string, want string) bool { return slices.Contains(all, want) }

func has(text string, parts ...string) bool {
	return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(text, p) })
}

// details reads the current details of a workflow as the UI shows them.
func (w *world) details(id string) string {
	w.t.Helper()
	return query[*sdkpb.WorkflowMetadata](w, id, "__temporal_workflow_metadata").GetCurrentDetails()
}
