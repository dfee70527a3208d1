package reportingserver

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/reporting/api"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
)

func TestEachEventOfABatchGetsItsOutcome(t *testing.T) {
	t.Parallel()
	g := newRig(t, nil)
	good := on(event.ServerCreate, at("06:00"), "42", "create", server(2))
	other := on(event.ServerDelete, at("20:00"), "42", "delete", nil)
	poison := on(event.ServerUpgrade, at("10:00"), "42", "action:1", server(4))
	poison.ID = "5e0d7f9c"
	encode := func(e event.Event) string {
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	body := "[" + strings.Join([]string{encode(good), `{"id":"broken","time":7}`, encode(poison), `"word"`, encode(good), encode(other)}, ",") + "]"
	var out api.EventResults
	if code := g.send(http.MethodPost, "/api/v1/events", typeBatch, []byte(body), &out); code != http.StatusOK {
		t.Fatalf("status %d", code)
	}
	if got, want := outcomes(out.Results), "accepted rejected rejected rejected duplicate accepted"; got != want {
		t.Errorf("outcomes %s, want %s", got, want)
	}
	var ids []string
	for _, r := range out.Results {
		ids = append(ids, r.ID)
		if (r.Outcome == sink.Rejected) != (r.Reason != "") {
			t.Errorf("%s is %s because of %q", r.ID, r.Outcome, r.Reason)
		}
	}
	if diff := cmp.Diff(ids, []string{good.ID, "broken", "5e0d7f9c", "", good.ID, other.ID}); diff != "" {
		t.Errorf("ids: got, want:\n%s", diff)
	}
	if !strings.Contains(out.Results[2].Reason, `id: "5e0d7f9c" does not follow from data: want "hetzner/acme/server/42/action:1"`) {
		t.Errorf("reason %q", out.Results[2].Reason)
	}
	var l api.EventList
	g.get("/api/v1/events", &l)
	if len(l.Items) != 2 {
		t.Errorf("%d events are stored", len(l.Items))
	}
}

func TestSingleEvents(t *testing.T) {
	t.Parallel()
	g := newRig(t, nil)
	post := func(e event.Event, contentType string) (int, string) {
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var out struct {
			api.EventResults
			api.Problem
		}
		code := g.send(http.MethodPost, "/api/v1/events", contentType, b, &out)
		return code, outcomes(out.Results) + out.Problem.Detail
	}
	e := on(event.VolumeCreate, at("01:00"), "1", "create", gb(1))
	for _, want := range []string{"accepted", "duplicate"} {
		if code, got := post(e, typeEvent+"; charset=utf-8"); code != http.StatusOK || got != want {
			t.Errorf("status %d, %s, want %s", code, got, want)
		}
	}
	e.Data.Size = event.Size{"colour": event.Int(1)}
	if code, got := post(e, typeEvent); code != http.StatusUnprocessableEntity || !strings.Contains(got, `"colour" is no size field`) {
		t.Errorf("status %d, %s", code, got)
	}
	if code, _ := post(e, "application/json"); code != http.StatusUnsupportedMediaType {
		t.Errorf("another type: status %d", code)
	}
}

func TestDeliveriesThatAreTooLargeOrNoJSON(t *testing.T) {
	t.Parallel()
	g := newRig(t, nil)
	for name, c := range map[string]struct {
		body string
		want int
	}{
		"no JSON":         {"[", 400},
		"no array":        {"{}", 400},
		"two arrays":      {"[][]", 400},
		"too many":        {"[" + strings.Repeat("1,", MaxBatch) + "1]", 413},
		"too many bytes":  {"[" + strings.Repeat(" ", MaxBodyBytes) + "]", 413},
		"nothing to do":   {"[]", 200},
		"as many as goes": {"[" + strings.Repeat("1,", MaxBatch-1) + "1]", 200},
	} {
		if code := g.send(http.MethodPost, "/api/v1/events", typeBatch, []byte(c.body), nil); code != c.want {
			t.Errorf("%s: status %d, want %d", name, code, c.want)
		}
	}
}

func TestOfTwoEventsWithOneIDTheOneThatKnowsMoreStays(t *testing.T) {
	t.Parallel()
	guess := on(event.ServerDelete, at("12:00"), "42", "delete", nil)
	before := at("11:00")
	guess.Data.Derived, guess.Data.NotBefore = event.FromInventory, &before
	vague := on(event.ServerDelete, at("11:30"), "42", "delete", nil)
	vague.Data.UnknownSize = []string{event.VCPUs}
	exact := on(event.ServerDelete, at("11:30"), "42", "delete", server(2))
	for _, c := range []struct {
		order []event.Event
		want  string
	}{
		{[]event.Event{guess, vague, exact, guess, vague, exact}, "accepted accepted accepted duplicate duplicate duplicate"},
		{[]event.Event{exact, guess, vague}, "accepted duplicate duplicate"},
		{[]event.Event{vague, exact, guess}, "accepted accepted duplicate"},
	} {
		g := newRig(t, nil)
		if got := outcomes(g.deliver(c.order...)); got != c.want {
			t.Errorf("outcomes %s, want %s", got, c.want)
		}
		var l api.EventList
		g.get("/api/v1/events", &l)
		if len(l.Items) != 1 {
			t.Fatalf("%d events are stored", len(l.Items))
		}
		if diff := cmp.Diff(l.Items[0].Event, exact); diff != "" {
			t.Errorf("stored, want:\n%s", diff)
		}
	}
}

func TestEventsAreFiltered(t *testing.T) {
	t.Parallel()
	g := newRig(t, nil)
	g.deliver(on(event.ServerCreate, at("06:00"), "42", "create", server(2)), on(event.ServerDelete, at("20:00"), "42", "delete", nil),
		on(event.VolumeCreate, at("07:00"), "42", "create", gb(1)))
	p := g.project("hetzner", "acme")
	for query, want := range map[string]int{
		"": 3, "resource_type=server": 2, "resource_type=server&resource_id=42&type=server.delete.end": 1, "resource_id=43": 0,
		"id=hetzner/acme/volume/42/create": 1, "project_id=" + p.ID: 3, "project_id=x": 0,
		"from=2026-11-02T07:00:00Z": 2, "to=2026-11-02T07:00:00Z": 1, "from=2026-11-02T07:00:00Z&to=2026-11-02T20:00:00Z": 1,
	} {
		var l api.EventList
		if g.get("/api/v1/events?"+query, &l); len(l.Items) != want {
			t.Errorf("%q: %d events, want %d", query, len(l.Items), want)
		}
	}
}

// Many senders with the same events, in different batches and orders, get each
// event accepted exactly once, and the usage is that of one orderly sender.
func TestConcurrentSendersOfTheSameEvents(t *testing.T) {
	t.Parallel()
	var events []event.Event
	for i := range 40 {
		id := fmt.Sprint(i)
		events = append(events, on(event.ServerCreate, at("06:00"), id, "create", server(2)),
			on(event.ServerUpgrade, at("09:00"), id, "action:1", server(4)), on(event.ServerDelete, at("12:00"), id, "delete", nil))
	}
	orderly, crowded := newRig(t, nil), newRig(t, nil)
	orderly.deliver(events...)
	var wg sync.WaitGroup
	var mu sync.Mutex
	accepted := map[string]int{}
	for sender := range 6 {
		wg.Go(func() {
			mine := slices.Clone(events)
			r := rand.New(rand.NewPCG(uint64(sender), 0))
			r.Shuffle(len(mine), func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
			for batch := range slices.Chunk(mine, 1+r.IntN(20)) {
				b, err := json.Marshal(batch)
				if err != nil {
					t.Error(err)
					return
				}
				var out api.EventResults
				if code, err := crowded.try(t.Context(), http.MethodPost, "/api/v1/events", typeBatch, b, &out); err != nil || code != http.StatusOK {
					t.Errorf("status %d, %v", code, err)
					return
				}
				mu.Lock()
				for _, r := range out.Results {
					if r.Outcome == sink.Accepted {
						accepted[r.ID]++
					}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for _, e := range events {
		if accepted[e.ID] != 1 {
			t.Errorf("%s was accepted %d times", e.ID, accepted[e.ID])
		}
	}
	usage := func(g *rig) (u api.Usage) {
		g.get("/api/v1/projects/"+g.project("hetzner", "acme").ID+"/usage?from=2026-11-02T00:00:00Z&to=2026-11-03T00:00:00Z", &u)
		u.Project = api.Project{} // ids and times of making differ
		return u
	}
	if diff := cmp.Diff(usage(crowded), usage(orderly)); diff != "" {
		t.Errorf("crowded, orderly:\n%s", diff)
	}
}
