//go:build bench

package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/tollgate-dev/tollgate/internal/codec"
	"github.com/tollgate-dev/tollgate/internal/devserver/devservertest"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/temporalclient"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// namespace is the one of all proxies here.
const namespace = "default"

// localNetwork is where the local provider's proxies get their addresses.
const localNetwork = "127.89.0.0/16"

// world is an engine, a worker process over a cloud in its memory, and forward
// proxies that say yes. The cloud takes no time for anything, so what is left is
// ours and the engine's.
type world struct {
	b      *testing.B
	dir    string
	engine *devservertest.Server
	client client.Client
	stub   *process
	worker *process
}

// setting is what differs between worlds.
type setting struct {
	probe, drift time.Duration // 0: hardly ever
	tls          bool
	pageSize     int
	secrets      string   // more of them
	more         string   // of the configuration
	env          []string // of the worker
}

const hardlyEver = 12 * time.Hour

func newWorld(b *testing.B, s setting) *world {
	b.Helper()
	w := &world{b: b, dir: b.TempDir(), engine: devservertest.Start(b)}
	if _, err := codec.Create(w.keyFile()); err != nil {
		b.Fatal(err)
	}
	w.stub = spawn(b, roleStub, order{CAFile: w.caFile()})
	w.client = w.dial()
	w.start(s)
	return w
}

func (w *world) keyFile() string { return filepath.Join(w.dir, "keys.json") }
func (w *world) caFile() string  { return filepath.Join(w.dir, "ca.pem") }

// start starts a worker, beside those that run already.
func (w *world) start(s setting) {
	w.b.Helper()
	if s.probe == 0 {
		s.probe = hardlyEver
	}
	if s.drift == 0 {
		s.drift = hardlyEver
	}
	stub := w.stub.first
	tls := ""
	if s.tls {
		tls = fmt.Sprintf("tls: {enabled: true, serverName: %s, caFile: %s}", stub.TargetName, w.caFile())
	}
	text := fmt.Sprintf(`installation: %s
providers:
  - {name: mem, type: memory, drift: {interval: %s}, budget: {requestsPerSecond: 10000}}
  - {name: local, type: local, drift: {interval: %s}, local: {network: %s}}
secrets:
  memory-token: {file: token}
  %s
probe:
  target: %q
  interval: %s
  %s
gc: {interval: 24h, minAge: 10m}
health: {interval: 1h}
codec: {keyFile: %s}
%s`, installation, s.drift, hardlyEver, localNetwork, s.secrets, stub.Target, s.probe, tls, w.keyFile(), s.more)
	config := filepath.Join(w.dir, "tollgate.yaml")
	for file, content := range map[string]string{config: text, filepath.Join(w.dir, "token"): "any"} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			w.b.Fatal(err)
		}
	}
	w.worker = spawn(w.b, roleWorker, order{
		Engine: w.engine.HostPort(), StateDir: filepath.Join(w.dir, "state"), Config: config,
		PageSize: s.pageSize, Addresses: stub.Addresses,
	}, append(s.env, "TOLLGATE_PROXY_BINARY="+program(w.b, "tollgate-proxy"))...)
}

// dial connects as the worker and the command line do.
func (w *world) dial() client.Client {
	w.b.Helper()
	return dial(w.b, w.engine.HostPort(), w.keyFile())
}

func dial(b *testing.B, address, keyFile string) client.Client {
	b.Helper()
	keys, err := codec.Open(keyFile, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	c, err := temporalclient.Dial(b.Context(), temporalclient.Options{
		Address: address, Namespace: "default", Isolated: true, Codec: codec.New(keys), Wait: 10 * time.Second,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	return c.Client
}

// program is one that "make build" has built.
func program(b *testing.B, name string) string {
	b.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "bin", name))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		b.Fatalf("%v (make build)", err)
	}
	return path
}

// spec is a proxy that the stub answers for.
func (w *world) spec() api.ProxySpec {
	return api.ProxySpec{Provider: "mem", Port: w.stub.first.Port, Placement: provider.Placement{Region: "north"}}
}

// create starts a proxy.
func (w *world) create(ctx context.Context, name string, spec api.ProxySpec) (client.WorkflowRun, error) {
	return w.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: workflows.ProxyID(namespace, name), TaskQueue: workflows.TaskQueue},
		workflows.TypeProxy, api.ProxyInput{Spec: spec})
}

// createAndWait starts a proxy and returns the time until Healthy is True, seen
// by a client that follows the history as one waits for a result: by long poll.
func (w *world) createAndWait(name string, spec api.ProxySpec) time.Duration {
	w.b.Helper()
	ctx, cancel := context.WithTimeout(w.b.Context(), time.Minute)
	defer cancel()
	start := time.Now()
	run, err := w.create(ctx, name, spec)
	if err != nil {
		w.b.Fatal(err)
	}
	events := w.client.GetWorkflowHistory(ctx, run.GetID(), run.GetRunID(), true, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			w.b.Fatalf("%s: %v", name, err)
		}
		if becameHealthy(e) {
			return time.Since(start)
		}
	}
	w.b.Fatalf("%s ended", name)
	return 0
}

// becameHealthy: the workflow task of this event is the one that set Healthy to
// True.
func becameHealthy(e *historypb.HistoryEvent) bool {
	fields := e.GetUpsertWorkflowSearchAttributesEventAttributes().GetSearchAttributes().GetIndexedFields()
	return healthyAttr(fields[workflows.AttrHealthy.GetName()])
}

func healthyAttr(p *commonpb.Payload) bool {
	var healthy bool
	return p != nil && converter.GetDefaultDataConverter().FromPayload(p, &healthy) == nil && healthy
}

// history is all events of a workflow's current run.
func (w *world) history(id string) ([]*historypb.HistoryEvent, error) { return w.historyOf(id, "") }

// historyOf is all events of a run.
func (w *world) historyOf(id, run string) ([]*historypb.HistoryEvent, error) {
	var out []*historypb.HistoryEvent
	events := w.client.GetWorkflowHistory(w.b.Context(), id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			return nil, fmt.Errorf("history of %s: %w", id, err)
		}
		out = append(out, e)
	}
	return out, nil
}

// table reads the fleet table.
func (w *world) table(ctx context.Context) (api.FleetTable, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var t api.FleetTable
	v, err := w.client.QueryWorkflow(ctx, workflows.FleetID("mem", 0), "", workflows.QueryTable)
	if err == nil {
		err = v.Get(&t)
	}
	return t, err
}

// waitHealthy waits until n proxies of the fleet serve.
func (w *world) waitHealthy(n int, limit time.Duration) {
	w.b.Helper()
	eventually(w.b, limit, time.Second, func() string {
		t, err := w.table(w.b.Context())
		healthy := 0
		for _, r := range t.Rows {
			if r.Healthy {
				healthy++
			}
		}
		if err != nil || healthy < n {
			return fmt.Sprintf("%d of %d proxies serve (%v)", healthy, n, err)
		}
		return ""
	})
}

// engineCPU is the CPU time of the engine so far.
func (w *world) engineCPU() time.Duration { return cpu(w.b, w.engine.PID()) }

// remove deletes proxies and waits until they are gone.
func (w *world) remove(names []string) {
	w.b.Helper()
	parallel(w.b, len(names), 16, func(i int) error {
		ctx, cancel := context.WithTimeout(w.b.Context(), time.Minute)
		defer cancel()
		id := workflows.ProxyID(namespace, names[i])
		return errors.Join(w.client.SignalWorkflow(ctx, id, "", workflows.SignalDelete, nil), w.client.GetWorkflow(ctx, id, "").Get(ctx, nil))
	})
}
