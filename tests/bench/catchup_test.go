//go:build bench

package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/reportingserver"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
	sinks "github.com/tollgate-dev/tollgate/internal/reporting/sink/all"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// actionsEnv is how many actions are caught up with.
const actionsEnv = "TOLLGATE_BENCH_ACTIONS"

const (
	defaultActions = 50_000
	// actionsPerPage is the vendor's limit, and so the size of a batch.
	actionsPerPage = 50
)

func actionsWanted(b *testing.B) int {
	b.Helper()
	text := os.Getenv(actionsEnv)
	if text == "" {
		return defaultActions
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1000 || n%(2*actionsPerPage) != 0 {
		b.Fatalf("%s: %q: want a multiple of %d, 1000 or more", actionsEnv, text, 2*actionsPerPage)
	}
	return n
}

// timed is a server that remembers when it was used.
type timed struct {
	http.Handler
	mu          sync.Mutex
	requests    int
	first, last time.Time
}

func (t *timed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t.mu.Lock()
	if t.requests++; t.first.IsZero() {
		t.first = time.Now()
	}
	t.mu.Unlock()
	t.Handler.ServeHTTP(w, r)
	t.mu.Lock()
	t.last = time.Now()
	t.mu.Unlock()
}

func serve(b *testing.B, h http.Handler) (*timed, string) {
	b.Helper()
	t := &timed{Handler: h}
	s := httptest.NewServer(t)
	b.Cleanup(s.Close)
	return t, s.URL
}

// reference is a Reporting API on a database of its own.
func reference(b *testing.B) http.Handler {
	b.Helper()
	s, err := reportingserver.New(b.Context(), reportingserver.Options{Path: filepath.Join(b.TempDir(), "reporting.db"), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

// nothingStored takes everything and keeps nothing.
func nothingStored(*testing.B) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusOK)
	})
}

// BenchmarkCatchUp reads a project's actions from the beginning and delivers an
// event for each, by the real driver over HTTP and the real worker on the real
// engine. Beside it, in the same run, a loop fetches the same pages with the same
// client and posts as many events in the same batches to the same sort of sink,
// and does nothing else: half of it before and half of it afterwards.
func BenchmarkCatchUp(b *testing.B) {
	for _, s := range []struct {
		name, config string
		sink         func(*testing.B) http.Handler
	}{
		{"reporting", "{name: out, type: reporting, url: %q}", reference},
		{"null", "{name: out, type: cloudevents, mode: batched, url: %q}", nothingStored},
	} {
		b.Run(s.name, func(b *testing.B) { catchUp(b, s.name, s.config, s.sink) })
	}
}

func catchUp(b *testing.B, kind, config string, newSink func(*testing.B) http.Handler) {
	actions := actionsWanted(b)
	var c caught
	for b.Loop() {
		c = catchUpOnce(b, kind, config, newSink, actions)
	}
	million := 1e6 / float64(actions)
	summary.add(b, "events/s", fmt.Sprintf("%d actions caught up with", actions), perSecond(actions, c.ours), "/s", info)
	summary.add(b, "bare-events/s", "a loop that fetches and posts, and nothing else", perSecond(actions, c.bare), "/s", info)
	aim := atLeast(0.8)
	if kind == "null" {
		aim = info // a sink that costs nothing is none that there is
	}
	summary.add(b, "over-bare", "the one over the other", c.bare.Seconds()/c.ours.Seconds(), "x", aim)
	summary.add(b, "requests/page", "requests to the vendor for each page", float64(c.requests)*actionsPerPage/float64(actions), "", info)
	summary.add(b, "history-events/million", "history events for a million actions", float64(c.events)*million, "", info)
	summary.add(b, "history-KiB/million", "history for a million actions", float64(c.bytes)/1024*million, "KiB", info)
	summary.add(b, "continued", "continued as new", float64(c.runs-1), "times", info)
	summary.add(b, "worker-cpu-us/event", "CPU time of the worker for each event", c.cpu.Seconds()*1e6/float64(actions), "us", info)
	summary.add(b, "engine-cpu-ms", "CPU time of the engine meanwhile", ms(c.engine), "ms", info)
	summary.add(b, "rss-mib", "most memory of the worker", mib(c.peak), "MiB", atMost(300))
}

// caught is what catching up took.
type caught struct {
	ours, bare   time.Duration
	cpu, engine  time.Duration
	requests     int
	events, runs int
	bytes, peak  int64
}

func catchUpOnce(b *testing.B, kind, config string, newSink func(*testing.B) http.Handler, actions int) (c caught) {
	b.Helper()
	const token = "sim-token"
	began := time.Now().Add(-24 * time.Hour).Truncate(time.Second)
	cloud, cloudURL := serve(b, hetznersim.New(hetznersim.Options{OneProject: token, RateLimit: -1, Past: hetznersim.Past{
		Actions: actions, Began: began, Every: 20 * time.Hour / time.Duration(actions)}}))
	_, bareURL := serve(b, newSink(b))
	out, outURL := serve(b, newSink(b))
	half := order{Endpoint: cloudURL + hetznersim.BasePath, Sink: kind, URL: bareURL, Pages: actions / actionsPerPage / 2}
	c.bare = spawn(b, roleLoop, half).first.Took
	cloud.mu.Lock()
	cloud.requests, cloud.first = 0, time.Time{}
	cloud.mu.Unlock()

	w := newWorld(b, setting{secrets: "hcloud: {env: BENCH_HCLOUD_TOKEN}", env: []string{"BENCH_HCLOUD_TOKEN=" + token}, more: fmt.Sprintf(`sinks:
  - %s
sources:
  - {name: hcloud, type: hetzner, account: acme, sink: out, hetzner: {token: hcloud, endpoint: %q, kinds: [server]}}
`, fmt.Sprintf(config, outURL), cloudURL+hetznersim.BasePath)})
	pid := w.worker.cmd.Process.Pid
	used, engine := cpu(b, pid), w.engineCPU()
	var cur api.Cursor
	eventually(b, 2*time.Minute+time.Duration(actions)*5*time.Millisecond, 200*time.Millisecond, func() string {
		v, err := w.client.QueryWorkflow(b.Context(), workflows.CursorID("hcloud", "server"), "", workflows.QueryStatus)
		if err == nil {
			err = v.Get(&cur)
		}
		if s := cur.Status; err != nil || s.Phase != api.CursorCaughtUp {
			return fmt.Sprintf("%v: %s, %+v: %s", err, s.Phase, s.Counts, s.Message)
		}
		return ""
	})
	if n := cur.Status.Counts; n.Delivered != int64(actions) || n.Duplicates+n.Rejected+n.Ignored != 0 || cur.Status.GapCount != 0 {
		b.Errorf("%+v, want %d delivered", n, actions)
	}
	_, c.peak = resident(b, pid)
	c.cpu, c.engine = cpu(b, pid)-used, w.engineCPU()-engine
	cloud.mu.Lock()
	c.requests = cloud.requests
	out.mu.Lock()
	c.ours = out.last.Sub(cloud.first)
	out.mu.Unlock()
	cloud.mu.Unlock()
	c.events, c.bytes, c.runs = w.chain(workflows.CursorID("hcloud", "server"))

	half.From = half.Pages
	c.bare += spawn(b, roleLoop, half).first.Took
	return c
}

// chain adds up the histories of all runs of a workflow that continues as new.
func (w *world) chain(id string) (events int, bytes int64, runs int) {
	w.b.Helper()
	for run := ""; ; runs++ {
		d, err := w.client.DescribeWorkflow(w.b.Context(), id, run)
		if err != nil {
			w.b.Fatal(err)
		}
		info := d.RawResponse.GetWorkflowExecutionInfo()
		events += int(info.GetHistoryLength())
		bytes += info.GetHistorySizeBytes()
		h, err := w.historyOf(id, info.GetExecution().GetRunId())
		if err != nil {
			w.b.Fatal(err)
		}
		if run = h[0].GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId(); run == "" {
			return events, bytes, runs + 1
		}
	}
}

// serveLoop fetches pages and posts them, one after the other.
func serveLoop(o order, orders *json.Decoder, answers *json.Encoder) error {
	ctx := context.Background()
	client := hcloud.NewClient(hcloud.WithToken("sim-token"), hcloud.WithEndpoint(o.Endpoint), hcloud.WithRetryOpts(hcloud.RetryOpts{MaxRetries: 0}))
	cfg := sinks.Config{Type: "reporting", URL: o.URL}
	if o.Sink == "null" {
		cfg = sinks.Config{Type: "cloudevents", URL: o.URL, Mode: "batched"}
	}
	to, err := sinks.New(cfg)
	if err != nil {
		return err
	}
	begun := time.Now()
	for page := o.From + 1; page <= o.From+o.Pages; page++ {
		list, _, err := client.Server.Action.List(ctx, hcloud.ActionListOpts{ListOpts: hcloud.ListOpts{Page: page, PerPage: actionsPerPage}, Sort: []string{"id:asc"}})
		if err != nil {
			return err
		}
		events := make([]event.Event, 0, len(list))
		for _, a := range list {
			events = append(events, bareEvent(a))
		}
		results, err := to.Deliver(ctx, events)
		if err != nil {
			return err
		}
		for _, r := range results {
			if r.Outcome != sink.Accepted {
				return fmt.Errorf("page %d: %+v", page, r)
			}
		}
	}
	if err := answers.Encode(answer{Took: time.Since(begun)}); err != nil {
		return err
	}
	return orders.Decode(&o)
}

// bareEvent is an event of an action as the source makes it when the server is
// gone.
func bareEvent(a *hcloud.Action) event.Event {
	verb, change := "resize", event.Change("action", strconv.FormatInt(a.ID, 10))
	sized := []string{event.VCPUs, event.RAMGB, event.DiskGB, event.ServerType}
	switch {
	case strings.HasPrefix(a.Command, "create_"):
		verb, change = "create", event.ChangeCreate
	case strings.HasPrefix(a.Command, "delete_"):
		verb, change = "delete", event.ChangeDelete
	case a.Command == "start_server":
		verb, sized = "power_on", nil
	case a.Command == "stop_server":
		verb, sized = "power_off", nil
	}
	return event.New(event.TypeOf(event.Server, verb), a.Finished, event.Data{
		Platform: event.Hetzner, Account: "acme", Resource: event.Resource{Type: event.Server, ID: strconv.FormatInt(a.Resources[0].ID, 10)},
		Change: change, UnknownSize: sized, Sequence: a.ID,
	})
}
