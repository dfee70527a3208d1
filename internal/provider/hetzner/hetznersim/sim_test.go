package hetznersim_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim/vendordoc"
)

func TestEveryOperationOfTheDocumentIsThere(t *testing.T) {
	t.Parallel()
	b := serve(t, hetznersim.Options{RateLimit: -1}, false)
	doc, err := vendordoc.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range doc.Operations() {
		method, pattern, _ := strings.Cut(op, " ")
		path := strings.NewReplacer("{id}", "1", "{action_id}", "2").Replace(pattern)
		a := b.call(method, path, "")
		e, _ := a.body["error"].(map[string]any)
		if a.status == 405 || e["message"] == "page not found" {
			t.Errorf("%s: %d %v", op, a.status, e)
		}
	}
}

func TestAnswersFollowTheDocumentUnderEveryKind(t *testing.T) {
	t.Parallel()
	b := newBench(t, hetznersim.Options{})
	for _, path := range []string{"/servers", "/volumes", "/floating_ips", "/primary_ips", "/networks", "/firewalls", "/load_balancers",
		"/images", "/ssh_keys", "/placement_groups", "/pricing", "/server_types"} {
		a := b.call("GET", path, "")
		if a.status != 200 || a.header.Get("Content-Type") != "application/json" || a.header.Get("X-Correlation-Id") == "" {
			t.Errorf("GET %s: %d %v", path, a.status, a.header)
		}
	}
}

func TestRequestsAreLogged(t *testing.T) {
	t.Parallel()
	b := newBench(t, hetznersim.Options{})
	s := b.create("web").Server
	b.server(s.ID)
	b.call("DELETE", "/servers/1", "")
	type line struct {
		Method, Pattern, Project, Code string
		Status                         int
	}
	var got []line
	for _, r := range b.sim.Requests() {
		got = append(got, line{r.Method, r.Pattern, r.Project, r.Code, r.Status})
	}
	want := []line{{"POST", "/servers", "a", "", 201}, {"GET", "/servers/{id}", "a", "", 200}, {"DELETE", "/servers/{id}", "a", "not_found", 404}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if n := b.sim.Count("GET /servers/{id}"); n != 1 {
		t.Errorf("Count: %d", n)
	}
}

func TestStateFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "deep", "hetzner.json")
	fake := &fakeBackend{running: map[string]netip.Addr{}, ports: map[string][]string{}}
	b := newBench(t, hetznersim.Options{StateFile: file, Backend: fake, Timing: hetznersim.Timing{Delete: 30 * time.Second}})
	b.create("stays", func(o *hcloud.ServerCreateOpts) { o.UserData = "secret\u2028" })
	b.settle()
	going := b.create("going").Server
	b.settle()
	ok[*hcloud.ServerDeleteResult](b)(b.client.Server.DeleteWithResult(t.Context(), going))
	before := b.call("GET", "/servers?sort=id", "").body
	if err := b.sim.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	fake2 := &fakeBackend{running: map[string]netip.Addr{}, ports: map[string][]string{}}
	again := serve(t, hetznersim.Options{StateFile: file, Backend: fake2, Timing: hetznersim.Timing{Delete: 30 * time.Second}}, true)
	again.clock.Advance(b.clock.Now().Sub(again.clock.Now()))
	if diff := cmp.Diff(before, again.call("GET", "/servers?sort=id", "").body); diff != "" {
		t.Errorf("after a restart (-before +after)\n%s", diff)
	}
	if _, runs := fake2.state()["stays"]; !runs {
		t.Errorf("running after a restart: %v", fake2.state())
	}
	again.settle()
	if got := again.names(""); len(got) != 1 || got[0] != "stays" {
		t.Errorf("a delete that was under way ends: %v", got)
	}
}

func TestStateFileThatCannotBeRead(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("a broken state file is no reason to forget everything")
		}
	}()
	hetznersim.New(hetznersim.Options{StateFile: t.TempDir()})
}

func TestForcedStates(t *testing.T) {
	t.Parallel()
	b := serve(t, hetznersim.Options{}, false)
	s := b.create("web").Server
	b.settle()
	b.sim.SetServerStatus(s.ID, "off")
	if got := b.server(s.ID).Status; got != "off" {
		t.Errorf("status %s", got)
	}
	b.sim.ShowStatus(s.ID, "hibernating")
	if got := b.server(s.ID).Status; got != "hibernating" {
		t.Errorf("status %s", got)
	}
	b.sim.RemoveServer(s.ID)
	if got := b.server(s.ID); got != nil {
		t.Errorf("removed, but there is %+v", got)
	}
	if left := b.sim.Leftovers(token); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

func TestAdministration(t *testing.T) {
	t.Parallel()
	b := serve(t, hetznersim.Options{}, false)
	admin := func(method, path, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, b.url+"/_sim/"+path, bytes.NewBufferString(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(raw)
	}
	must := func(path, body string) string {
		t.Helper()
		status, got := admin("POST", path, body)
		if status != 200 {
			t.Fatalf("POST %s: %d %s", path, status, got)
		}
		return got
	}
	s := b.create("web", func(o *hcloud.ServerCreateOpts) { o.UserData = "hello \u2028" }).Server
	if _, got := admin("GET", "user_data?id="+jsonText(t, s.ID), ""); got != "hello \u2028" {
		t.Errorf("user data: %q", got)
	}
	must("sellout", `{"location":"fsn1","type":"cx23"}`)
	if a := b.call("POST", "/servers", `{"name":"x","server_type":"cx23","image":"debian-12","location":"fsn1"}`); a.code != "resource_unavailable" {
		t.Errorf("sold out: %s", a.code)
	}
	must("sellin", `{"location":"fsn1","type":"cx23"}`)
	must("limits", `{"token":"token-a","kind":"servers","limit":1}`)
	if a := b.call("POST", "/servers", `{"name":"x","server_type":"cx23","image":"debian-12","location":"fsn1"}`); a.code != "resource_limit_exceeded" {
		t.Errorf("over the limit: %s", a.code)
	}
	must("limits", `{"token":"token-a","kind":"servers","limit":-1}`)
	id := must("faults", `{"fault":{"kind":"error","code":"maintenance","times":-1}}`)
	if a := b.call("GET", "/servers", ""); a.code != "maintenance" {
		t.Errorf("fault: %s", a.code)
	}
	must("faults/remove", id)
	if a := b.call("GET", "/servers", ""); a.status != 200 {
		t.Errorf("without the fault: %d", a.status)
	}
	must("faults/clear", `{}`)
	must("projects", `{"name":"c","token":"token-c"}`)
	if _, _, err := b.clientFor("token-c").Server.List(t.Context(), hcloud.ServerListOpts{}); err != nil {
		t.Error(err)
	}
	must("spend", `{"token":"token-c","count":4000}`)
	if _, _, err := b.clientFor("token-c").Server.List(t.Context(), hcloud.ServerListOpts{}); !hcloud.IsError(err, hcloud.ErrorCodeRateLimitExceeded) {
		t.Errorf("spent: %v", err)
	}
	if status, got := admin("GET", "state", ""); status != 200 || !strings.Contains(got, `"name":"web"`) {
		t.Errorf("state: %d %s", status, got)
	}
	if status, got := admin("GET", "requests", ""); status != 200 || !strings.Contains(got, `"pattern":"/servers"`) {
		t.Errorf("requests: %d %s", status, got)
	}
	for path, body := range map[string]string{"nothing": `{}`, "faults": `{"fault":{"kind":"gremlin"}}`, "projects": `{}`, "sellout": `{"x":1}`} {
		if status, _ := admin("POST", path, body); status != 400 {
			t.Errorf("POST %s %s: %d, want 400", path, body, status)
		}
	}
	if status, _ := admin("GET", "user_data?id=1", ""); status != 400 {
		t.Error("user data of no server")
	}
}

func jsonText(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestParallelUse(t *testing.T) {
	t.Parallel()
	b := newBench(t, hetznersim.Options{RateLimit: -1})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				a, _, err := b.client.Server.Create(t.Context(), hcloud.ServerCreateOpts{Name: "same", ServerType: &hcloud.ServerType{Name: "cx23"}, Image: &hcloud.Image{Name: "debian-12"}})
				if err != nil && !hcloud.IsError(err, hcloud.ErrorCodeUniquenessError) {
					t.Error(err)
				}
				b.clock.Advance(10 * time.Second)
				if err == nil {
					if _, _, err := b.client.Server.DeleteWithResult(t.Context(), a.Server); err != nil && !hcloud.IsError(err, hcloud.ErrorCodeNotFound, hcloud.ErrorCodeLocked) {
						t.Error(err)
					}
				}
				b.clock.Advance(10 * time.Second)
			}
		})
	}
	wg.Wait()
	if n := len(b.sim.Servers(token)); n > 1 {
		t.Errorf("%d servers of one name", n)
	}
}

func TestHold(t *testing.T) {
	t.Parallel()
	b := newBench(t, hetznersim.Options{})
	release := b.sim.Hold("start_server")
	s := b.create("web").Server
	b.settle()
	if got := b.server(s.ID).Status; got != hcloud.ServerStatusStarting {
		t.Errorf("held, the server is %s", got)
	}
	release()
	if got := b.server(s.ID).Status; got != hcloud.ServerStatusRunning {
		t.Errorf("released, the server is %s", got)
	}
}

func TestHideDeleted(t *testing.T) {
	t.Parallel()
	b := newBench(t, hetznersim.Options{HideDeleted: true})
	s := b.create("web").Server
	b.settle()
	ok[*hcloud.ServerDeleteResult](b)(b.client.Server.DeleteWithResult(t.Context(), s))
	if got := b.server(s.ID); got != nil || len(b.names("")) != 0 {
		t.Errorf("a server that is being deleted is shown: %+v", got)
	}
	if left := b.sim.Leftovers(token); left["servers"] != 1 || left["primary_ips"] != 2 {
		t.Errorf("while its action runs there are %v", left)
	}
	b.settle()
	if left := b.sim.Leftovers(token); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

func TestPlacedServersAndSmallPages(t *testing.T) {
	t.Parallel()
	b := newBench(t, hetznersim.Options{MaxPerPage: 2})
	for _, name := range []string{"a", "b", "c"} {
		b.sim.PlaceServer(token, name, map[string]string{"who": "else"})
	}
	all, err := b.client.Server.All(t.Context())
	if err != nil || len(all) != 3 || all[2].Status != hcloud.ServerStatusRunning || all[2].Labels["who"] != "else" {
		t.Errorf("placed servers: %v, %v", all, err)
	}
	if n := b.sim.Count("GET /servers"); n != 2 {
		t.Errorf("%d pages, want 2", n)
	}
	kinds := map[string]int{}
	for _, o := range b.sim.Objects() {
		kinds[o.Kind]++
	}
	if diff := cmp.Diff(map[string]int{"server": 3, "primary_ip": 3}, kinds); diff != "" {
		t.Errorf("objects (-want +got)\n%s", diff)
	}
}
