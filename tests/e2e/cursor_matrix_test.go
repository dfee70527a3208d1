//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
	"github.com/tollgate-dev/tollgate/internal/reporting/api"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
	"github.com/tollgate-dev/tollgate/workflows"
	wapi "github.com/tollgate-dev/tollgate/workflows/api"
)

// The points at which processes are killed.
const (
	workerBeforeRead     = "worker: it asks the cloud"
	workerAfterRead      = "worker: the cloud has answered, the answer is lost"
	workerBeforeDelivery = "worker: it delivers, nothing has arrived"
	workerDuringDelivery = "worker: while the sink stores"
	workerAfterDelivery  = "worker: the sink has stored, the answer is lost"
	workerBeforeCommit   = "worker: it has the answer, the cursor has not moved"

	beforeStoring = ": nothing has arrived"
	whileStoring  = ": while it stores"
	afterStoring  = ": it has stored, the answer is lost"
	afterAnswer   = ": it has stored and answered"
)

// matrix is what stands between workers, cloud and sinks and strikes.
type matrix struct {
	t    testing.TB
	crew *crew
	*strikes
	reads atomic.Int64
}

// abort breaks a connection.
func abort() { panic(http.ErrAbortHandler) }

func soon(most time.Duration) time.Duration { return time.Duration(rand.Int64N(int64(most))) }

// cloud lets workers die around every third read of actions.
func (m *matrix) cloud(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/actions") || r.Method != http.MethodGet || m.reads.Add(1)%3 != 0 {
			next.ServeHTTP(w, r)
			return
		}
		k := m.crew.at(r.RemoteAddr)
		stage := ""
		if k != nil {
			stage = m.take(workerBeforeRead, workerAfterRead)
		}
		switch stage {
		case "":
			next.ServeHTTP(w, r)
		case workerAfterRead:
			next.ServeHTTP(httptest.NewRecorder(), r)
			fallthrough
		default:
			k.kill()
			abort()
		}
	})
}

// gate is the way to a sink. Every other delivery is struck, and of the rest some
// go wrong otherwise.
type gate struct {
	*matrix
	name  string
	sink  *sinkProcess
	posts atomic.Int64
	down  atomic.Bool
	// striking is held while the sink is killed and started again.
	striking sync.Mutex
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	switch {
	case g.down.Load():
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.Method != http.MethodPost:
		g.forward(w, r, body)
	default:
		g.post(w, r, body)
	}
}

func (g *gate) post(w http.ResponseWriter, r *http.Request, body []byte) {
	n := g.posts.Add(1)
	stage := ""
	var k *member
	if n%2 == 0 {
		var stages []string
		if g.striking.TryLock() {
			defer g.striking.Unlock()
			stages = append(stages, g.name+beforeStoring, g.name+whileStoring, g.name+afterStoring, g.name+afterAnswer)
		}
		if k = g.crew.at(r.RemoteAddr); k != nil {
			stages = append(stages, workerBeforeDelivery, workerDuringDelivery, workerAfterDelivery, workerBeforeCommit)
		}
		stage = g.take(stages...)
	}
	lost := httptest.NewRecorder()
	switch strings.TrimPrefix(stage, g.name) {
	case workerBeforeDelivery:
		k.kill()
		abort()
	case workerDuringDelivery:
		killed := make(chan struct{})
		go func() {
			defer close(killed)
			time.Sleep(soon(5 * time.Millisecond))
			k.kill()
		}()
		g.forward(lost, r, body)
		<-killed
		abort()
	case workerAfterDelivery:
		g.forward(lost, r, body)
		k.kill()
		abort()
	case workerBeforeCommit:
		g.forward(w, r, body)
		time.AfterFunc(soon(20*time.Millisecond), k.kill)
	case beforeStoring:
		g.sink.kill()
		g.restart()
		abort()
	case whileStoring:
		killed := make(chan struct{})
		go func() {
			defer close(killed)
			time.Sleep(soon(10 * time.Millisecond))
			g.sink.kill()
		}()
		g.forward(w, r, body)
		<-killed
		g.restart()
	case afterStoring:
		g.forward(lost, r, body)
		g.sink.kill()
		g.restart()
		abort()
	case afterAnswer:
		g.forward(w, r, body)
		g.sink.kill()
		g.restart()
	default:
		g.odd(w, r, body, n)
	}
}

func (g *gate) restart() {
	if err := g.sink.start(); err != nil {
		g.t.Error(err)
	}
}

// odd is what goes wrong without anybody dying.
func (g *gate) odd(w http.ResponseWriter, r *http.Request, body []byte, n int64) {
	switch {
	case n%11 == 0:
		g.forward(httptest.NewRecorder(), r, body)
		abort()
	case n%23 == 0:
		w.WriteHeader(http.StatusInternalServerError)
	case n%37 == 0:
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	case n%29 == 0:
		w.WriteHeader(http.StatusBadGateway)
	default:
		g.forward(w, r, body)
	}
}

// forward passes a request on. An answer that says of everything that it was there
// before is put in the words of another receiver, in turns.
func (g *gate) forward(w http.ResponseWriter, r *http.Request, body []byte) {
	req, err := http.NewRequestWithContext(r.Context(), r.Method, "http://"+g.sink.addr+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		g.t.Error(err)
		return
	}
	req.Header = r.Header.Clone()
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	if status := []int{http.StatusOK, http.StatusBadRequest, http.StatusConflict}[g.posts.Load()%3]; r.Method == http.MethodPost && status != http.StatusOK && allThere(answer) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"type":%q,"title":"Duplicate","status":%d,"detail":"every event is stored already"}`, api.UrnTollgateProblemConflict, status)
		return
	}
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(answer)
}

func allThere(answer []byte) bool {
	var out api.EventResults
	if json.Unmarshal(answer, &out) != nil {
		return false
	}
	return len(out.Results) > 0 && !slices.ContainsFunc(out.Results, func(r api.EventResult) bool { return r.Outcome != sink.Duplicate })
}

const (
	simToken = "sim-token"
	// Accounts of the sources that see what happens meanwhile.
	liveReporting, liveEvents = "live-reporting", "live-events"
	// Sizes of the matrix: kills at each point, sources of each sink, actions of
	// each source's past, worker processes.
	workerKills, sinkKills = 7, 11
	pastSources            = 4
	pastActions            = 100
	workers                = 5
)

// streamsOf are the streams of a source.
func streamsOf(source string) []string {
	switch source {
	case liveReporting:
		return []string{"volume"}
	case liveEvents:
		return []string{"volume", "floating_ip"}
	}
	return []string{"server"}
}

// A project of Hetzner Cloud is read for two sinks of either type, while workers
// and sinks are killed at every point of reading, delivering and moving on, answers
// are lost and receivers complain: each sink has every event, once, and no other.
func TestCursorKillMatrix(t *testing.T) {
	t.Parallel()
	sim := hetznersim.New(hetznersim.Options{OneProject: simToken, RateLimit: -1, Timing: hetznersim.Uniform(300 * time.Millisecond), MaxPerPage: 5,
		Past: hetznersim.Past{Actions: pastActions, Began: time.Now().Add(-24 * time.Hour), Every: time.Minute}})
	m := &matrix{t: t, strikes: newStrikes(workerKills, workerBeforeRead, workerAfterRead, workerBeforeDelivery, workerDuringDelivery,
		workerAfterDelivery, workerBeforeCommit)}
	for _, s := range []string{"reporting", "events"} {
		for _, at := range []string{beforeStoring, whileStoring, afterStoring, afterAnswer} {
			m.left[s+at] = sinkKills
		}
	}
	reporting, events := &gate{matrix: m, name: "reporting"}, &gate{matrix: m, name: "events"}
	var servers []*httptest.Server
	serve := func(h http.Handler) string {
		s := httptest.NewUnstartedServer(h)
		servers = append(servers, s)
		t.Cleanup(s.Close)
		return "http://" + s.Listener.Addr().String()
	}
	endpoint := serve(m.cloud(sim)) + hetznersim.BasePath
	reportingURL, eventsURL := serve(reporting), serve(events)
	l := &life{t: t, url: endpoint, want: map[string][]string{}}
	config := fmt.Sprintf(`  hcloud: {env: E2E_HCLOUD_TOKEN}
sinks:
  - {name: reporting, type: reporting, url: %q}
  - {name: events, type: cloudevents, url: %q}
sources:
  - {name: %s, type: hetzner, account: %s, sink: reporting, interval: 1s, hetzner: {token: hcloud, endpoint: %q, kinds: [volume]}}
  - {name: %s, type: hetzner, account: %s, sink: events, interval: 1s, hetzner: {token: hcloud, endpoint: %q, kinds: [volume, floating_ip]}}
`, reportingURL, eventsURL+"/in", liveReporting, liveReporting, endpoint, liveEvents, liveEvents, endpoint)
	accounts := map[string][]string{"reporting": {liveReporting}, "events": {liveEvents}}
	for _, s := range []string{"reporting", "events"} {
		for i := range pastSources {
			name := fmt.Sprintf("past-%s-%d", s, i)
			config += fmt.Sprintf("  - {name: %s, type: hetzner, account: %s, sink: %s, interval: 1s, hetzner: {token: hcloud, endpoint: %q, kinds: [server]}}\n", name, name, s, endpoint)
			accounts[s] = append(accounts[s], name)
			expectPast(l, name)
		}
	}
	w := newWorld(t, settings{extra: strings.TrimSuffix(config, "\n"), env: []string{"E2E_HCLOUD_TOKEN=" + simToken}, idle: true})
	reporting.sink, events.sink, m.crew = referenceServer(w), eventReceiver(w), &crew{w: w}
	for _, s := range servers {
		s.Start()
	}
	m.crew.start(workers)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("cursors:\n%s", w.tollgate("cursor", "list").stdout)
			for _, of := range accounts {
				for _, source := range of {
					for _, stream := range streamsOf(source) {
						t.Log(w.explain(workflows.CursorID(source, stream)))
					}
				}
			}
		}
	})

	begun := time.Now()
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for !m.over() {
		if time.Since(begun) > 3*time.Minute {
			t.Fatalf("not everything was struck: %s\n%s", m.strikes, w.logTail())
		}
		l.more()
		<-tick.C
	}
	t.Logf("all struck after %s", time.Since(begun).Round(time.Second))
	if n := m.count("worker"); n < 40 {
		t.Errorf("%d workers were killed", n)
	}
	for _, s := range []string{"reporting", "events"} {
		if n := m.count(s + ":"); n < 40 {
			t.Errorf("sink %s was killed %d times", s, n)
		}
	}
	received := func() string {
		return cmp.Diff(storedByReference(t, reporting.sink.addr), l.of(accounts["reporting"]...)) + cmp.Diff(storedByReceiver(t, w), l.of(accounts["events"]...))
	}
	stored := func() int { return len(storedByReference(t, reporting.sink.addr)) + len(storedByReceiver(t, w)) }
	w.eventuallyMoving(2*time.Minute, stored, received)
	t.Logf("all received after %s", time.Since(begun).Round(time.Second))

	w.outage(events, reporting, l, sim)
	w.eventuallyMoving(2*time.Minute, stored, received)
	for _, names := range accounts {
		for _, name := range names {
			for _, kind := range streamsOf(name) {
				if s := w.cursor(name, kind).Status; len(s.DeadLetters) != 0 || s.GapCount != 0 || s.Counts.Rejected != 0 {
					t.Errorf("%s/%s: %+v, want neither dead letters nor gaps", name, kind, s)
				}
			}
		}
	}
}

func (w *world) cursor(source, stream string) (c wapi.Cursor) {
	w.t.Helper()
	w.eventually(30*time.Second, func() string {
		v, err := w.client.QueryWorkflow(w.t.Context(), workflows.CursorID(source, stream), "", workflows.QueryStatus)
		if err == nil {
			err = v.Get(&c)
		}
		if err != nil {
			return err.Error()
		}
		return ""
	})
	return c
}

// outage takes a sink away: the source is left alone until it is back, whatever
// happens to workers.
func (w *world) outage(g, other *gate, l *life, sim *hetznersim.Sim) {
	w.t.Helper()
	const list = "GET /floating_ips/actions"
	g.down.Store(true)
	l.floatingIP()
	w.eventually(time.Minute, func() string {
		if s := w.cursor(liveEvents, "floating_ip").Status; s.Phase != wapi.CursorSinkDown {
			return fmt.Sprintf("phase %s: %s", s.Phase, s.Message)
		}
		return ""
	})
	asked := sim.Count(list)
	g.crew.members[0].kill()
	g.crew.members[1].kill()
	l.floatingIP()
	// The others go on meanwhile: what happens now is seen by the other sink.
	l.more()
	w.eventually(time.Minute, func() string {
		stored := slices.DeleteFunc(storedByReference(w.t, other.sink.addr), func(id string) bool { return !strings.Contains(id, liveReporting) })
		return cmp.Diff(stored, l.of(liveReporting))
	})
	if n := sim.Count(list) - asked; n != 0 {
		w.t.Errorf("the source was asked %d times during the outage", n)
	}
	g.down.Store(false)
}
