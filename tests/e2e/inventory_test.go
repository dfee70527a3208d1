//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
	"github.com/tollgate-dev/tollgate/internal/reporting/api"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
)

// stock is a project at a vendor, a worker that reads it, and what the reference
// server was told of it.
type stock struct {
	*world
	sim    *hetznersim.Sim
	cloud  string
	report string
}

func newStock(t *testing.T) *stock {
	t.Helper()
	s := &stock{sim: hetznersim.New(hetznersim.Options{OneProject: simToken, RateLimit: -1, Timing: hetznersim.Uniform(time.Millisecond)})}
	srv := httptest.NewServer(s.sim)
	t.Cleanup(srv.Close)
	t.Cleanup(s.sim.ClearFaults)
	s.cloud = srv.URL + hetznersim.BasePath
	s.collect(t, fmt.Sprintf(`    type: hetzner
    hetzner: {token: cloud, endpoint: %q}`, s.cloud), simToken)
	return s
}

// collect starts the reference server and a worker whose source h, of this
// configuration, reads the account acme.
func (s *stock) collect(t *testing.T, source, secret string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.report = l.Addr().String()
	_ = l.Close()
	db := filepath.Join(t.TempDir(), "reporting.db")
	p := &sinkProcess{t: t, addr: s.report, command: func() *exec.Cmd {
		return exec.Command(bins(t, "tollgate-reporting"), "--listen", s.report, "--db", db, "--log-level", "error")
	}}
	p.begin()
	s.world = newWorld(t, settings{
		extra: fmt.Sprintf(`  cloud: {env: E2E_CLOUD_SECRET}
sinks:
  - {name: billing, type: reporting, url: "http://%s"}
sources:
  - name: h
    account: acme
    sink: billing
    interval: 1s
    inventory: {interval: 24h, confirmAfter: 4s}
%s`, s.report, source),
		env: []string{"E2E_CLOUD_SECRET=" + secret},
	})
}

// call makes a request at the vendor and returns the id of what was made.
func (s *stock) call(method, path, body string) int64 {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.cloud+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+simToken)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		s.t.Fatalf("%s %s: status %d", method, path, resp.StatusCode)
	}
	var out map[string]json.RawMessage
	_ = json.NewDecoder(resp.Body).Decode(&out) // a delete answers with nothing
	for _, kind := range []string{"server", "volume", "floating_ip", "load_balancer"} {
		var x struct{ ID int64 }
		if out[kind] != nil && json.Unmarshal(out[kind], &x) == nil {
			return x.ID
		}
	}
	return 0
}

// events are all that the reference server has, by id.
func (s *stock) events() map[string]event.Event {
	s.t.Helper()
	c, err := api.NewClientWithResponses("http://" + s.report)
	if err != nil {
		s.t.Fatal(err)
	}
	limit := 1000
	out, err := c.ListEventsWithResponse(s.t.Context(), &api.ListEventsParams{Limit: &limit})
	if err != nil || out.JSON200 == nil {
		s.t.Fatalf("events: %v", err)
	}
	all := map[string]event.Event{}
	for _, e := range out.JSON200.Items {
		if _, twice := all[e.Event.ID]; twice {
			s.t.Errorf("%s is stored twice", e.Event.ID)
		}
		all[e.Event.ID] = e.Event
	}
	return all
}

func id(kind event.ResourceType, n int64, change string) string {
	return event.ID(event.Hetzner, "acme", event.Resource{Type: kind, ID: fmt.Sprint(n)}, change)
}

func (s *stock) await(ids ...string) {
	s.t.Helper()
	s.eventually(30*time.Second, func() string {
		all := s.events()
		for _, id := range ids {
			if _, ok := all[id]; !ok {
				return id + " has not arrived"
			}
		}
		return ""
	})
}

// inventory makes one by the command line, which has to end so.
func (s *stock) inventory(code int, outcome string, args ...string) string {
	s.t.Helper()
	r := s.tollgate(append([]string{"inventory", "run", "h"}, args...)...)
	if r.code != code || !strings.HasPrefix(r.stdout, "inventory of h: "+outcome+":") {
		s.t.Fatalf("exit code %d, want %d and %s:\n%s%s", r.code, code, outcome, r.stdout, r.stderr)
	}
	return r.stdout
}

// Ends that no feed shows are found by inventories of real processes, once; what
// cannot be read and what the feed still tells concludes nothing.
func TestInventory(t *testing.T) {
	t.Parallel()
	s := newStock(t)
	server := s.call("POST", "/servers", `{"name":"web","server_type":"cx23","image":"debian-12","location":"fsn1"}`)
	old := s.call("POST", "/volumes", `{"name":"old","size":10,"location":"fsn1"}`)
	kept := s.call("POST", "/volumes", `{"name":"kept","size":20,"location":"fsn1"}`)
	ip := s.call("POST", "/floating_ips", `{"type":"ipv4","home_location":"fsn1","name":"ip"}`)
	lb := s.call("POST", "/load_balancers", fmt.Sprintf(`{"name":"lb","load_balancer_type":"lb11","location":"fsn1","targets":[{"type":"server","server":{"id":%d}}]}`, server))
	s.await(id(event.Server, server, "create"), id(event.Volume, old, "create"), id(event.Volume, kept, "create"), id(event.FloatingIP, ip, "create"), id(event.LoadBalancer, lb, "create"))
	s.inventory(0, "Clean")

	// Ends without an action, and a target that goes with its server.
	s.call("DELETE", fmt.Sprint("/volumes/", old), "")
	s.call("DELETE", fmt.Sprint("/floating_ips/", ip), "")
	s.call("DELETE", fmt.Sprint("/servers/", server), "")
	s.await(id(event.Server, server, "delete"))
	s.inventory(0, "DryRun", "--dry-run")
	before := len(s.events())
	text := s.inventory(0, "Repaired")
	all := s.events()
	if len(all) != before+3 {
		t.Errorf("%d events were delivered, want three\n%s", len(all)-before, text)
	}
	for _, want := range []struct {
		id   string
		size event.Size
	}{
		{id(event.Volume, old, "delete"), event.Size{event.SizeGB: event.Int(10)}},
		{id(event.FloatingIP, ip, "delete"), event.Size{event.IPVersion: event.Text("4"), event.Kind: event.Text("ipv4")}},
	} {
		e, ok := all[want.id]
		if !ok || !e.Data.Size.Equal(want.size) || e.Data.Derived != event.FromInventory || len(e.Data.UnknownSize) > 0 ||
			e.Data.NotBefore == nil || e.Time.Sub(*e.Data.NotBefore) > time.Minute {
			t.Errorf("%s: %+v\n%s", want.id, e, text)
		}
	}
	for eventID, e := range all {
		if e.Data.Derived != "" && e.Type == event.LoadBalancerResize {
			if n := e.Data.Size[event.Targets]; n != event.Int(0) {
				t.Errorf("%s: targets %v", eventID, n)
			}
			delete(all, eventID)
		}
	}
	if len(all) != before+2 {
		t.Errorf("the target that went with its server was not found\n%s", text)
	}
	s.inventory(0, "Clean")
	if n := len(s.events()); n != before+3 {
		t.Errorf("a second inventory delivered %d events", n-before-3)
	}

	// A listing that fails midway: nothing ends, although more is missing.
	s.call("DELETE", fmt.Sprint("/volumes/", kept), "")
	for n := range 55 {
		s.call("POST", "/volumes", fmt.Sprintf(`{"name":"v-%d","size":10,"location":"fsn1"}`, n))
	}
	s.eventually(30*time.Second, func() string {
		if n := len(s.events()); n != before+3+55 {
			return fmt.Sprintf("%d events, want %d", n, before+3+55)
		}
		return ""
	})
	s.sim.AddFault(hetznersim.Fault{Kind: hetznersim.FaultError, Method: http.MethodGet, Path: "/volumes", Skip: 1, Times: -1, Status: 503, Code: "unavailable"})
	if text = s.inventory(11, "Incomplete"); !strings.Contains(text, "volume: not compared") {
		t.Errorf("the report does not name the stream:\n%s", text)
	}
	s.sim.ClearFaults()
	if n := len(s.events()); n != before+3+55 {
		t.Errorf("%d events after a listing that failed", n-before-3-55)
	}
	s.inventory(0, "Repaired")
	if e, ok := s.events()[id(event.Volume, kept, "delete")]; !ok || !e.Data.Size.Equal(event.Size{event.SizeGB: event.Int(20)}) {
		t.Errorf("the end after the failure: %+v", e)
	}

	// What happens while the cursors are paused is the feed's to tell.
	if r := s.tollgate("cursor", "pause", "h"); r.code != 0 {
		t.Fatalf("pause: %s", r.stderr)
	}
	brief := s.call("POST", "/servers", `{"name":"brief","server_type":"cx23","image":"debian-12","location":"fsn1"}`)
	stays := s.call("POST", "/servers", `{"name":"stays","server_type":"cx23","image":"debian-12","location":"fsn1"}`)
	s.eventually(10*time.Second, func() string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, fmt.Sprint(s.cloud, "/servers/", brief), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+simToken)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err.Error()
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return resp.Status
		}
		return ""
	})
	n := len(s.events())
	if text = s.inventory(0, "Repaired"); !strings.Contains(text, "Waits") || len(s.events()) != n {
		t.Errorf("%d events while the cursors are paused:\n%s", len(s.events())-n, text)
	}
	if r := s.tollgate("cursor", "resume", "h"); r.code != 0 {
		t.Fatalf("resume: %s", r.stderr)
	}
	s.await(id(event.Server, brief, "create"), id(event.Server, brief, "delete"), id(event.Server, stays, "create"))
	s.inventory(0, "Clean")
	all = s.events()
	for _, eventID := range []string{id(event.Server, brief, "create"), id(event.Server, brief, "delete"), id(event.Server, stays, "create")} {
		if all[eventID].Data.Derived != "" {
			t.Errorf("%s is derived although the feed tells it", eventID)
		}
	}

	// The schedule and the page are there.
	if r := s.tollgate("schedules", "list"); !strings.Contains(r.stdout, "inventory/h") {
		t.Errorf("schedules:\n%s", r.stdout)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.http+"/inventory/sources/h", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the page answers %d", resp.StatusCode)
	}
}
