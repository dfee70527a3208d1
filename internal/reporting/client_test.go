package reporting_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting"
	"github.com/tollgate-dev/tollgate/internal/reporting/api"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/fault"
	"github.com/tollgate-dev/tollgate/internal/reporting/reportingserver"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink/reportingsink"
)

var day = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)

// rig is a client with the reference server.
func rig(t *testing.T, faults func(*http.Request) reportingserver.Fault) *reporting.Client {
	t.Helper()
	secret := provider.NewSensitive([]byte("secret"))
	s, err := reportingserver.New(t.Context(), reportingserver.Options{Path: filepath.Join(t.TempDir(), "r.db"), Tokens: []provider.Sensitive{secret}, Fault: faults})
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		h.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	c, err := reporting.New(reporting.Options{URL: h.URL, Token: func(context.Context) (provider.Sensitive, error) { return secret, nil }})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func volumes(n int) []event.Event {
	var all []event.Event
	for i := range n {
		all = append(all, event.New(event.VolumeCreate, day.Add(time.Duration(i)*time.Second), event.Data{Platform: event.Hetzner, Account: "acme",
			Resource: event.Resource{Type: event.Volume, ID: fmt.Sprintf("%05d", i)}, Change: event.ChangeCreate, Size: event.Size{event.SizeGB: event.Int(i)}}))
	}
	return all
}

func TestProjectsAndRelations(t *testing.T) {
	t.Parallel()
	c := rig(t, nil)
	var ids []string
	for _, p := range []api.ProjectCreate{{Platform: "gardener", ExternalID: "a"}, {Platform: "openstack", ExternalID: "b", Name: "Tenant"}} {
		first, err := c.EnsureProject(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		again, err := c.EnsureProject(t.Context(), p)
		if diff := cmp.Diff(again, first); err != nil || diff != "" {
			t.Errorf("again: %v\n%s", err, diff)
		}
		found, ok, err := c.FindProject(t.Context(), p.Platform, p.ExternalID)
		if diff := cmp.Diff(found, first); err != nil || !ok || diff != "" {
			t.Errorf("found: %v, %v\n%s", ok, err, diff)
		}
		ids = append(ids, first.ID)
	}
	if _, ok, err := c.FindProject(t.Context(), "gardener", "none"); ok || err != nil {
		t.Errorf("found what is not there: %v, %v", ok, err)
	}
	create := api.RelationCreate{TargetID: ids[1], RelationType: "infrastructure_tenant", ValidFrom: &day}
	r, err := c.EnsureRelation(t.Context(), ids[0], create)
	if err != nil {
		t.Fatal(err)
	}
	end := day.Add(time.Hour)
	for range 2 {
		if _, err := c.CloseRelation(t.Context(), ids[0], r.ID, end); err != nil {
			t.Error(err)
		}
	}
	if _, err := c.CloseRelation(t.Context(), ids[0], r.ID, end.Add(1)); fault.ClassOf(err) != fault.Rejected {
		t.Errorf("another end: %v", err)
	}
	all, err := c.Relations(t.Context(), ids[0], api.ListRelationsParams{})
	if err != nil || len(all) != 1 || all[0].ValidTo == nil {
		t.Errorf("relations %+v, %v", all, err)
	}
	if _, err := c.EnsureRelation(t.Context(), "none", create); fault.ClassOf(err) != fault.Rejected || !strings.Contains(err.Error(), "404") {
		t.Errorf("an unknown project: %v", err)
	}
}

func TestReadingGoesThroughAllPages(t *testing.T) {
	t.Parallel()
	c := rig(t, nil)
	events := volumes(2100)
	results, err := reportingsink.New(c, 0).Deliver(t.Context(), events)
	if err != nil || results[2099].Outcome != sink.Accepted {
		t.Fatalf("deliver: %v", err)
	}
	n := 0
	err = c.Events(t.Context(), api.ListEventsParams{}, func(e api.StoredEvent) bool {
		if e.Event.ID != events[n].ID {
			t.Errorf("event %d is %s", n, e.Event.ID)
		}
		n++
		return true
	})
	if err != nil || n != len(events) {
		t.Errorf("%d events, %v", n, err)
	}
	var ids []string
	for i := range 250 {
		ids = append(ids, fmt.Sprintf("%05d", i*10))
	}
	known, err := c.LastKnown(t.Context(), event.Hetzner, "acme", event.Volume, append(ids, "gone"), day.Add(2000*time.Second))
	// Those made later are not known at that time.
	if err != nil || len(known) != 201 || known["02000"].Size[event.SizeGB] != event.Int(2000) {
		t.Errorf("%d are known, %v", len(known), err)
	}
	p, _, err := c.FindProject(t.Context(), "hetzner", "acme")
	if err != nil {
		t.Fatal(err)
	}
	u, err := c.Usage(t.Context(), p.ID, day, day.Add(time.Hour), day.Add(time.Hour))
	if err != nil || len(u.Resources) != 2100 || u.ResourceCount != 2100 {
		t.Errorf("usage of %d resources, %v", len(u.Resources), err)
	}
}

// Whatever goes wrong on the way, sending what is not done until all is done ends
// with every event once.
func TestDeliveryThroughFaults(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	kinds := []reportingserver.Fault{{LoseAnswer: true}, {}, {Status: 503}, {CutAnswer: true}, {AllDuplicates: 409}, {Status: 500}, {AllDuplicates: 400}, {Status: 429}, {}}
	c := rig(t, func(r *http.Request) reportingserver.Fault {
		if r.Method != http.MethodPost {
			return reportingserver.Fault{}
		}
		return kinds[int(n.Add(1))%len(kinds)]
	})
	events := volumes(120)
	s := reportingsink.New(c, 10)
	todo := events
	for round := 0; len(todo) > 0; round++ {
		if round > 200 {
			t.Fatalf("%d events are still not delivered", len(todo))
		}
		results, err := s.Deliver(t.Context(), todo)
		if err != nil && fault.ClassOf(err) != fault.Retryable {
			t.Fatal(err)
		}
		var rest []event.Event
		for i, r := range results {
			if r.Outcome == sink.Rejected {
				t.Fatalf("%s is rejected: %s", r.ID, r.Reason)
			}
			if !r.Outcome.Delivered() {
				rest = append(rest, todo[i])
			}
		}
		todo = rest
	}
	seen := map[string]int{}
	if err := c.Events(t.Context(), api.ListEventsParams{}, func(e api.StoredEvent) bool { seen[e.Event.ID]++; return true }); err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if seen[e.ID] != 1 {
			t.Errorf("%s is stored %d times", e.ID, seen[e.ID])
		}
	}
}

func TestAnswersOfSomethingElseAreNotTrusted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		class  fault.Class
		want   string
	}{
		"a page": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte("<html>"))
		}, fault.Retryable, `type "text/html" is not one of the Reporting API`},
		"fewer results": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"results":[]}`))
		}, fault.Retryable, "has 0 results for 1 events"},
		"results of others": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"results":[{"id":"x","outcome":"accepted"}]}`))
		}, fault.Retryable, `result 0 is about "x"`},
		"another outcome": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"results":[{"id":"hetzner/acme/volume/00000/create","outcome":"perhaps"}]}`))
		}, fault.Retryable, `has the outcome "perhaps"`},
		"a redirection": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/login?token=secret", http.StatusFound)
		}, fault.Rejected, "is redirected"},
		"a proxy's page": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "bad gateway", http.StatusBadGateway) }, fault.Retryable, "bad gateway"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := httptest.NewServer(c.answer)
			defer h.Close()
			client, err := reporting.New(reporting.Options{URL: h.URL})
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.PostEvents(t.Context(), volumes(1))
			if fault.ClassOf(err) != c.class || !strings.Contains(fmt.Sprint(err), c.want) || strings.Contains(fmt.Sprint(err), "secret") {
				t.Errorf("got %v, want %s with %q", err, c.class, c.want)
			}
		})
	}
}

func TestATokenThatCannotBeReadIsRetryable(t *testing.T) {
	t.Parallel()
	c, err := reporting.New(reporting.Options{URL: "http://127.0.0.1:1", Token: func(context.Context) (provider.Sensitive, error) {
		return provider.Sensitive{}, errors.New("no such file")
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.EnsureProject(t.Context(), api.ProjectCreate{}); fault.ClassOf(err) != fault.Retryable || !strings.Contains(err.Error(), "token: no such file") {
		t.Errorf("got %v", err)
	}
}

func TestURLsAreChecked(t *testing.T) {
	t.Parallel()
	for _, u := range []string{"", "127.0.0.1:7270", "ftp://x", "http://", "http://user:pw@x", "http://x?y=1", "http://a b"} {
		if _, err := reporting.New(reporting.Options{URL: u}); err == nil || strings.Contains(err.Error(), "pw") {
			t.Errorf("%q: %v", u, err)
		}
	}
}
