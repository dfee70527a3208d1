package sinktest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
)

// Reply writes the answer of a kind of receiver that has taken in a request.
// single is false for a batch.
type Reply func(w http.ResponseWriter, single bool, results []sink.Result)

// ReplyReporting answers as the Reporting API does.
func ReplyReporting(w http.ResponseWriter, single bool, results []sink.Result) {
	if single && results[0].Outcome == sink.Rejected {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = fmt.Fprintf(w, `{"type":"urn:tollgate:problem:rejected-event","title":"Rejected event","status":422,"detail":%q}`, results[0].Reason)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"results": results})
}

// ReplyStatus answers with a status alone, as most receivers of CloudEvents do. A
// batch with a rejected event is refused as a whole.
func ReplyStatus(w http.ResponseWriter, _ bool, results []sink.Result) {
	for _, r := range results {
		if r.Outcome == sink.Rejected {
			http.Error(w, r.Reason, http.StatusBadRequest)
			return
		}
	}
	w.WriteHeader(http.StatusAccepted)
}

// plan is what goes wrong with a request.
type plan struct {
	status     int           // answered at once, nothing is stored
	header     [2]string     // goes with it
	body       string        // goes with it
	lose       bool          // stores and breaks the connection
	duplicates int           // answered when all are stored already
	hang       bool          // answers never
	delay      time.Duration // passes first
}

// receiver is a scripted receiver of events.
type receiver struct {
	tb    testing.TB
	url   string
	reply Reply
	token string // what is let in; empty lets everybody in
	quit  chan struct{}

	mu       sync.Mutex
	plan     func(request int, events []event.Event) plan
	poison   map[string]bool
	stored   map[string]event.Event
	sent     map[string]int // how often each id came
	requests int
}

func newReceiver(tb testing.TB, reply Reply) *receiver {
	r := &receiver{tb: tb, reply: reply, quit: make(chan struct{}), poison: map[string]bool{}, stored: map[string]event.Event{}, sent: map[string]int{}}
	s := httptest.NewServer(r)
	r.url = s.URL
	tb.Cleanup(func() {
		close(r.quit)
		s.CloseClientConnections()
		s.Close()
	})
	return r
}

// next sets what goes wrong from now on; nil is nothing.
func (r *receiver) next(p func(request int, events []event.Event) plan) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.plan, r.requests = p, 0
}

// always makes the same go wrong with every request.
func (r *receiver) always(p plan) { r.next(func(int, []event.Event) plan { return p }) }

func (r *receiver) ids() map[string]event.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.stored)
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests
}

// ServeHTTP takes a delivery.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the client has gone
	}
	var events []event.Event
	single := strings.HasPrefix(req.Header.Get("Content-Type"), "application/cloudevents+json")
	if single {
		events = make([]event.Event, 1)
		err = json.Unmarshal(body, &events[0])
	} else {
		err = json.Unmarshal(body, &events)
	}
	if err != nil || len(events) == 0 || req.Method != http.MethodPost {
		r.tb.Errorf("the receiver cannot read %s %q: %v", req.Method, req.Header.Get("Content-Type"), err)
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	r.requests++
	var p plan
	if r.plan != nil {
		p = r.plan(r.requests, events)
	}
	for _, e := range events {
		r.sent[e.ID]++
	}
	token := r.token
	r.mu.Unlock()
	if token != "" && req.Header.Get("Authorization") != "Bearer "+token {
		http.Error(w, "unauthorized", http.StatusUnauthorized)
		return
	}
	if p.hang {
		<-r.quit
		return
	}
	time.Sleep(p.delay)
	if p.status != 0 {
		if p.header[0] != "" {
			w.Header().Set(p.header[0], p.header[1])
		}
		http.Error(w, p.body, p.status)
		return
	}
	results, repeated := r.store(events, single)
	switch {
	case p.lose:
		panic(http.ErrAbortHandler)
	case p.duplicates != 0 && repeated:
		http.Error(w, p.body, p.duplicates)
	default:
		r.reply(w, single, results)
	}
}

// store takes events in; repeated says that all were there.
func (r *receiver) store(events []event.Event, single bool) (results []sink.Result, repeated bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	repeated = true
	refused := false
	for _, e := range events {
		_, had := r.stored[e.ID]
		repeated = repeated && had
		res := sink.Result{ID: e.ID, Outcome: sink.Accepted}
		switch {
		case r.poison[e.ID]:
			res.Outcome, res.Reason, refused = sink.Rejected, "the event is malformed", true
		case had:
			res.Outcome = sink.Duplicate
		}
		results = append(results, res)
	}
	probe := &statusOnly{}
	r.reply(probe, single, results)
	if refused && probe.code >= 400 {
		return results, false // refused as a whole
	}
	for i, e := range events {
		if results[i].Outcome != sink.Rejected {
			r.stored[e.ID] = e
		}
	}
	return results, repeated
}

// statusOnly finds out what a reply would answer.
type statusOnly struct {
	header http.Header
	code   int
}

func (s *statusOnly) Header() http.Header {
	if s.header == nil {
		s.header = http.Header{}
	}
	return s.header
}
func (s *statusOnly) Write(b []byte) (int, error) { return len(b), nil }
func (s *statusOnly) WriteHeader(code int)        { s.code = code }
