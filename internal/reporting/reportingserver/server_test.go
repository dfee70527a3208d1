package reportingserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/api"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
)

func TestProjectsAreCreatedOnce(t *testing.T) {
	t.Parallel()
	g := newRig(t, nil)
	create := api.ProjectCreate{Platform: "openstack", ExternalID: "shoot-abc", Name: "Tenant of shoot-abc"}
	var first, second, third api.Project
	if code := g.json(http.MethodPost, "/api/v1/projects", create, &first); code != http.StatusCreated {
		t.Errorf("first: status %d", code)
	}
	create.Name = "Another name"
	if code := g.json(http.MethodPost, "/api/v1/projects", create, &second); code != http.StatusOK {
		t.Errorf("second: status %d", code)
	}
	if code := g.get("/api/v1/projects/"+first.ID, &third); code != http.StatusOK {
		t.Errorf("read: status %d", code)
	}
	if diff := cmp.Diff([]api.Project{second, third}, []api.Project{first, first}); diff != "" {
		t.Errorf("got, want:\n%s", diff)
	}
	if !first.Registered || first.Name != "Tenant of shoot-abc" {
		t.Errorf("project %+v", first)
	}
	var p api.Problem
	if code := g.json(http.MethodPost, "/api/v1/projects", api.ProjectCreate{Platform: "Open Stack"}, &p); code != http.StatusBadRequest ||
		!strings.Contains(p.Detail, "platform:") || !strings.Contains(p.Detail, "external_id:") {
		t.Errorf("bad project: status %d, %s", code, p.Detail)
	}
	if code := g.get("/api/v1/projects/none", nil); code != http.StatusNotFound {
		t.Errorf("unknown project: status %d", code)
	}
}

func TestAnEventOfAnUnknownProjectCreatesIt(t *testing.T) {
	t.Parallel()
	g := newRig(t, nil)
	g.deliver(on(event.VolumeCreate, at("01:00"), "7", "create", gb(1)))
	var l api.ProjectList
	g.get("/api/v1/projects?platform=hetzner&external_id=acme", &l)
	if len(l.Items) != 1 || l.Items[0].Registered {
		t.Fatalf("projects %+v", l.Items)
	}
	p := g.project("hetzner", "acme")
	if p.ID != l.Items[0].ID || !p.Registered || p.Name != "Project acme" {
		t.Errorf("registered as %+v, was %+v", p, l.Items[0])
	}
}

func TestListsArePagedWithoutLossOrRepetition(t *testing.T) {
	t.Parallel()
	g := newRig(t, nil)
	var want []string
	for i := range 7 {
		p := g.project("hetzner", fmt.Sprint("account-", i))
		want = append(want, p.ID)
		g.deliver(on(event.VolumeCreate, at("01:00"), fmt.Sprint(i), "create", gb(1)))
	}
	acme := g.project("hetzner", "acme")
	for _, other := range want {
		if code := g.json(http.MethodPost, "/api/v1/projects/"+acme.ID+"/relations", api.RelationCreate{TargetID: other, RelationType: "uses"}, nil); code != 201 {
			t.Fatalf("relation: status %d", code)
		}
	}
	page := func(path string, key func(json.RawMessage) string) (all []string) {
		t.Helper()
		token := ""
		for range 10 {
			var l struct {
				Items, Resources []json.RawMessage
				NextPageToken    string `json:"next_page_token"`
			}
			if code := g.get(path+"limit=3"+token, &l); code != http.StatusOK {
				t.Fatalf("%s: status %d", path, code)
			}
			for _, m := range append(l.Items, l.Resources...) {
				all = append(all, key(m))
			}
			if l.NextPageToken == "" {
				return all
			}
			token = "&page_token=" + l.NextPageToken
		}
		t.Fatalf("%s has no last page", path)
		return nil
	}
	field := func(path ...string) func(json.RawMessage) string {
		return func(m json.RawMessage) string {
			var v any
			if err := json.Unmarshal(m, &v); err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(child(v, path...))
		}
	}
	ids := []string{"0", "1", "2", "3", "4", "5", "6"}
	for path, c := range map[string]struct{ got, want []string }{
		"projects":  {page("/api/v1/projects?", field("id")), append(slices.Clone(want), acme.ID)}, // by account
		"relations": {page("/api/v1/projects/"+acme.ID+"/relations?", field("target_id")), want},
		"events":    {page("/api/v1/events?", field("event", "data", "resource", "id")), ids},
		"resources": {page("/api/v1/resources?", field("resource", "id")), ids},
		"usage":     {page("/api/v1/projects/"+acme.ID+"/usage?from=2026-11-02T00:00:00Z&to=2026-11-03T00:00:00Z&", field("resource", "id")), ids},
	} {
		if diff := cmp.Diff(c.got, c.want); diff != "" {
			t.Errorf("%s: got, want:\n%s", path, diff)
		}
	}
	for _, path := range []string{"/api/v1/events?page_token=x", "/api/v1/events?limit=0", "/api/v1/projects?limit=1001", "/api/v1/resources?page_token=!"} {
		if code := g.get(path, nil); code != http.StatusBadRequest {
			t.Errorf("%s: status %d", path, code)
		}
	}
}

func TestRelations(t *testing.T) {
	t.Parallel()
	g := newRig(t, nil)
	garden, tenant := g.project("gardener", "garden-a"), g.project("openstack", "shoot-abc")
	path := "/api/v1/projects/" + garden.ID + "/relations"
	from := at("10:00")
	create := api.RelationCreate{TargetID: tenant.ID, RelationType: "infrastructure_tenant", ValidFrom: &from,
		Metadata: &map[string]string{"shoot_name": "shoot-abc"}}
	var first, again api.Relation
	if code := g.json(http.MethodPost, path, create, &first); code != http.StatusCreated {
		t.Errorf("create: status %d", code)
	}
	if code := g.json(http.MethodPost, path, create, &again); code != http.StatusOK || again.ID != first.ID {
		t.Errorf("again: status %d, id %s, want %s", code, again.ID, first.ID)
	}
	other := at("11:00")
	overlapping := create
	overlapping.ValidFrom = &other
	if code := g.json(http.MethodPost, path, overlapping, nil); code != http.StatusConflict {
		t.Errorf("overlapping: status %d", code)
	}
	to := at("20:00")
	closing := path + "/" + first.ID
	var closed api.Relation
	for range 2 {
		if code := g.json(http.MethodPatch, closing, api.RelationClose{ValidTo: to}, &closed); code != http.StatusOK || closed.ValidTo == nil || !closed.ValidTo.Equal(to) {
			t.Errorf("close: status %d, %+v", code, closed)
		}
	}
	if code := g.json(http.MethodPatch, closing, api.RelationClose{ValidTo: at("21:00")}, nil); code != http.StatusConflict {
		t.Errorf("close at another time: status %d", code)
	}
	// A late re-send of the create finds the closed one and opens nothing.
	if code := g.json(http.MethodPost, path, create, &again); code != http.StatusOK || again.ID != first.ID || again.ValidTo == nil {
		t.Errorf("create after close: status %d, %+v", code, again)
	}
	later := at("22:00")
	create.ValidFrom = &later
	var second api.Relation
	if code := g.json(http.MethodPost, path, create, &second); code != http.StatusCreated || second.ID == first.ID {
		t.Errorf("a later one: status %d", code)
	}
	if code := g.json(http.MethodPatch, path+"/"+second.ID, api.RelationClose{ValidTo: at("21:00")}, nil); code != http.StatusBadRequest {
		t.Errorf("an end before the start: status %d", code)
	}
	for query, want := range map[string][]string{
		"":                                   {first.ID, second.ID},
		"?at=2026-11-02T09:59:59Z":           nil,
		"?at=2026-11-02T10:00:00Z":           {first.ID},
		"?at=2026-11-02T19:59:59.999Z":       {first.ID},
		"?at=2026-11-02T20:00:00Z":           nil,
		"?at=2026-11-02T23:00:00%2B01:00":    {second.ID},
		"?direction=to":                      nil,
		"?direction=from&relation_type=else": nil,
	} {
		var l api.RelationList
		if code := g.get(path+query, &l); code != http.StatusOK {
			t.Errorf("%s: status %d", query, code)
		}
		var got []string
		for _, r := range l.Items {
			got = append(got, r.ID)
		}
		if diff := cmp.Diff(got, want); diff != "" {
			t.Errorf("%s: got, want:\n%s", query, diff)
		}
	}
	var l api.RelationList
	g.get("/api/v1/projects/"+tenant.ID+"/relations?direction=to", &l)
	if len(l.Items) != 2 {
		t.Errorf("the target has %d relations to it", len(l.Items))
	}
	for body, want := range map[string]int{
		`{"target_id":"` + garden.ID + `","relation_type":"x"}`:                     400,
		`{"target_id":"none","relation_type":"x"}`:                                  404,
		`{"target_id":"` + tenant.ID + `","relation_type":"X"}`:                     400,
		`{"target_id":"` + tenant.ID + `","relation_type":"x","valid_form":"2026"}`: 400,
		`{`: 400,
	} {
		if code := g.send(http.MethodPost, path, "application/json", []byte(body), nil); code != want {
			t.Errorf("%s: status %d, want %d", body, code, want)
		}
	}
	if code := g.send(http.MethodPatch, closing, "application/json", []byte(`{"valid_to":"0001-01-01T00:00:00Z"}`), nil); code != 400 {
		t.Errorf("a time out of range: status %d", code)
	}
}

func TestAnswersToRequestsThatNobodyShouldSend(t *testing.T) {
	t.Parallel()
	g := newRig(t, nil)
	p := g.project("hetzner", "acme")
	usage := "/api/v1/projects/" + p.ID + "/usage?"
	for _, c := range []struct {
		method, path string
		want         int
		detail       string
	}{
		{"GET", "/api/v1/nothing", 404, "/api/v1/nothing is no path of this API"},
		{"DELETE", "/api/v1/events", 405, "DELETE is not allowed: use GET or POST"},
		{"GET", "/api/v1/events?form=x", 400, `the parameter "form" is unknown`},
		{"GET", "/api/v1/events?type=a&type=b", 400, `the parameter "type" is given 2 times`},
		{"GET", "/api/v1/events?from=yesterday", 400, "from"},
		{"GET", "/api/v1/events?to=9999-01-01T00:00:00Z", 400, "to: the year 9999 is out of range"},
		{"GET", usage, 400, "from"},
		{"GET", usage + "from=2026-11-02T00:00:00Z&to=2026-11-01T00:00:00Z", 400, "to: 2026-11-01T00:00:00Z is before from"},
		{"GET", "/api/v1/resources?" + strings.Repeat("resource_id=1&", 101), 400, "resource_id: is given 101 times"},
		{"GET", "/api/v1/projects/" + p.ID + "/relations?direction=up", 400, "direction"},
	} {
		var got api.Problem
		code := g.send(c.method, c.path, "", nil, &got)
		if code != c.want || got.Status != c.want || !strings.Contains(got.Detail, c.detail) {
			t.Errorf("%s %s: status %d, %q; want %d, %q", c.method, c.path, code, got.Detail, c.want, c.detail)
		}
	}
}

func TestOnlyATokenLetsIn(t *testing.T) {
	t.Parallel()
	g := newRig(t, func(o *Options) {
		o.Tokens = []provider.Sensitive{provider.NewSensitive([]byte("one")), provider.NewSensitive([]byte("two"))}
	})
	for header, want := range map[string]int{
		"": 401, "Bearer": 401, "Bearer ": 401, "Bearer three": 401, "Basic one": 401, "one": 401,
		"Bearer one": 200, "bearer two": 200,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url+"/api/v1/projects", nil)
		if err != nil {
			t.Fatal(err)
		}
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != want || want == 401 && resp.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%q: status %d, want %d\n%s", header, resp.StatusCode, want, b)
		}
	}
	g.token = ""
	for path, want := range map[string]int{"/healthz": 200, "/api/v1/openapi.yaml": 200, "/api/v1/events": 401, "/api/v1/events?x=1": 401, "/api/v1/none": 401} {
		if code := g.get(path, nil); code != want {
			t.Errorf("%s: status %d, want %d", path, code, want)
		}
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	var fault atomic.Value
	fault.Store(Fault{})
	g := newRig(t, func(o *Options) { o.Fault = func(*http.Request) Fault { return fault.Load().(Fault) } })
	b, err := json.Marshal([]event.Event{on(event.VolumeCreate, at("01:00"), "1", "create", gb(1))})
	if err != nil {
		t.Fatal(err)
	}
	post := func(f Fault) (int, error) {
		fault.Store(f)
		defer fault.Store(Fault{})
		return g.try(t.Context(), http.MethodPost, "/api/v1/events", typeBatch, b, nil)
	}
	stored := func() int {
		var l api.EventList
		g.get("/api/v1/events", &l)
		return len(l.Items)
	}
	if code, err := post(Fault{Status: 503, RetryAfter: 7}); err != nil || code != 503 || stored() != 0 {
		t.Errorf("a status: %d, %v, %d stored", code, err, stored())
	}
	if code, err := post(Fault{LoseAnswer: true}); err == nil || stored() != 1 {
		t.Errorf("a lost answer: %d, %v, %d stored", code, err, stored())
	}
	if code, err := post(Fault{CutAnswer: true}); err == nil || stored() != 1 {
		t.Errorf("a cut answer: %d, %v, %d stored", code, err, stored())
	}
	if code, err := post(Fault{AllDuplicates: 409}); err != nil || code != 409 {
		t.Errorf("duplicates: %d, %v", code, err)
	}
	began := time.Now()
	if code, err := post(Fault{Delay: 30 * time.Millisecond}); err != nil || code != 200 || time.Since(began) < 30*time.Millisecond {
		t.Errorf("a delay: %d, %v, %s", code, err, time.Since(began))
	}
	if got := outcomes(g.deliver(on(event.VolumeCreate, at("01:00"), "1", "create", gb(1)))); got != string(sink.Duplicate) {
		t.Errorf("outcomes %s", got)
	}
}
