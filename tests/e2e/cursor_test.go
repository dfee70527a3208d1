//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// eventReceiver takes CloudEvents and keeps them by id. Every third answer is
// lost after the event was stored.
type eventReceiver struct {
	mu     sync.Mutex
	stored map[string]int
	posts  int
	down   bool
}

func (r *eventReceiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if req.Method != http.MethodPost {
		return
	}
	b, err := io.ReadAll(req.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	var e event.Event
	if err := json.Unmarshal(b, &e); err != nil || e.Validate() != nil {
		http.Error(w, fmt.Sprint(err, e.Validate()), http.StatusBadRequest)
		return
	}
	r.stored[e.ID]++
	if r.posts++; r.posts%3 == 0 {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(http.StatusAccepted)
}

func (r *eventReceiver) ids() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []string{}
	for id := range r.stored {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

// A project of Hetzner Cloud is read while worker processes are killed, again and
// again, and answers of the receiver are lost: it has every event, and no other.
func TestCursorsSurviveKills(t *testing.T) {
	t.Parallel()
	const token = "sim-token"
	sim := hetznersim.New(hetznersim.Options{OneProject: token, RateLimit: -1, Timing: hetznersim.Uniform(300 * time.Millisecond)})
	cloud := httptest.NewServer(sim)
	t.Cleanup(cloud.Close)
	receiver := &eventReceiver{stored: map[string]int{}}
	bus := httptest.NewServer(receiver)
	t.Cleanup(bus.Close)
	w := newWorld(t, settings{
		extra: fmt.Sprintf(`  hcloud: {env: E2E_HCLOUD_TOKEN}
sinks:
  - {name: bus, type: cloudevents, url: %q}
sources:
  - name: hcloud
    type: hetzner
    account: acme
    sink: bus
    interval: 1s
    hetzner: {token: hcloud, endpoint: %q, kinds: [volume, floating_ip]}`, bus.URL+"/in", cloud.URL+hetznersim.BasePath),
		env: []string{"E2E_HCLOUD_TOKEN=" + token},
	})
	post := func(path, body string) (id int64, action int64) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, cloud.URL+hetznersim.BasePath+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var out struct {
			Volume, Action struct{ ID int64 }
			FloatingIP     struct{ ID int64 } `json:"floating_ip"`
		}
		if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || resp.StatusCode >= 300 {
			t.Fatalf("%s: status %d, %v", path, resp.StatusCode, err)
		}
		return out.Volume.ID + out.FloatingIP.ID, out.Action.ID
	}
	var want []string
	expect := func(kind event.ResourceType, id int64, change string) {
		want = append(want, event.ID(event.Hetzner, "acme", event.Resource{Type: kind, ID: fmt.Sprint(id)}, change))
	}
	var last int64
	for round := range 6 {
		before := len(receiver.ids())
		for i := range 10 {
			id, _ := post("/volumes", fmt.Sprintf(`{"name":"v-%d-%d","size":10,"location":"fsn1"}`, round, i))
			expect(event.Volume, id, event.ChangeCreate)
			if last != 0 && i == 0 {
				_, action := post(fmt.Sprintf("/volumes/%d/actions/resize", last), `{"size":20}`)
				expect(event.Volume, last, event.Change("action", fmt.Sprint(action)))
			}
			last = id
		}
		id, _ := post("/floating_ips", fmt.Sprintf(`{"type":"ipv4","home_location":"fsn1","name":"ip-%d"}`, round))
		expect(event.FloatingIP, id, event.ChangeCreate)
		// Somewhere in the delivery of this round.
		w.eventually(time.Minute, func() string {
			if n := len(receiver.ids()); n < before+1+round {
				return fmt.Sprintf("%d events received", n)
			}
			return ""
		})
		w.killWorker()
		w.startWorker()
	}
	slices.Sort(want)
	w.eventually(2*time.Minute, func() string { return cmp.Diff(receiver.ids(), want) })

	// An outage of the receiver: the source is left alone until it is back.
	receiver.mu.Lock()
	receiver.down = true
	receiver.mu.Unlock()
	id, _ := post("/volumes", `{"name":"late","size":10,"location":"fsn1"}`)
	expect(event.Volume, id, event.ChangeCreate)
	status := func() (c api.Cursor) {
		v, err := w.client.QueryWorkflow(t.Context(), workflows.CursorID("hcloud", "volume"), "", workflows.QueryStatus)
		if err == nil {
			err = v.Get(&c)
		}
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	w.eventually(time.Minute, func() string {
		if s := status().Status; s.Phase != api.CursorSinkDown {
			return fmt.Sprintf("phase %s: %s", s.Phase, s.Message)
		}
		return ""
	})
	asked := sim.Count("GET /volumes/actions")
	w.killWorker()
	w.startWorker()
	if n := sim.Count("GET /volumes/actions") - asked; n != 0 {
		t.Errorf("the source was asked %d times during the outage", n)
	}
	receiver.mu.Lock()
	receiver.down = false
	receiver.mu.Unlock()
	slices.Sort(want)
	w.eventually(2*time.Minute, func() string { return cmp.Diff(receiver.ids(), want) })
	if c := status(); len(c.Status.DeadLetters) != 0 || c.Status.GapCount != 0 {
		t.Errorf("status %+v, want neither dead letters nor gaps", c.Status)
	}
}
