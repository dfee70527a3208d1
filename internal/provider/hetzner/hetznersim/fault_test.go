package hetznersim_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
)

// TestFaultsOnCreate shows for each fault what the client sees and what has
// really happened.
func TestFaultsOnCreate(t *testing.T) {
	t.Parallel()
	anyError := func(err error) bool { return err != nil }
	code := func(c hcloud.ErrorCode) func(error) bool {
		return func(err error) bool { return hcloud.IsError(err, c) }
	}
	noCode := func(err error) bool {
		var api hcloud.Error
		return err != nil && !errors.As(err, &api)
	}
	none := func(err error) bool { return err == nil }
	for name, tc := range map[string]struct {
		fault hetznersim.Fault
		saw   func(error) bool
		made  int
	}{
		"lose-request":    {hetznersim.Fault{Kind: hetznersim.FaultLoseRequest}, noCode, 0},
		"lose-answer":     {hetznersim.Fault{Kind: hetznersim.FaultLoseAnswer}, noCode, 1},
		"cut-body":        {hetznersim.Fault{Kind: hetznersim.FaultCutBody}, anyError, 1},
		"truncate":        {hetznersim.Fault{Kind: hetznersim.FaultTruncate}, anyError, 1},
		"malformed":       {hetznersim.Fault{Kind: hetznersim.FaultMalformed}, anyError, 1},
		"429":             {hetznersim.Fault{Kind: hetznersim.FaultError, Code: "rate_limit_exceeded"}, code("rate_limit_exceeded"), 0},
		"maintenance":     {hetznersim.Fault{Kind: hetznersim.FaultError, Code: "maintenance"}, code("maintenance"), 0},
		"unauthorized":    {hetznersim.Fault{Kind: hetznersim.FaultError, Code: "unauthorized"}, code("unauthorized"), 0},
		"forbidden":       {hetznersim.Fault{Kind: hetznersim.FaultError, Code: "forbidden"}, code("forbidden"), 0},
		"locked":          {hetznersim.Fault{Kind: hetznersim.FaultError, Code: "locked"}, code("locked"), 0},
		"quota":           {hetznersim.Fault{Kind: hetznersim.FaultError, Code: "resource_limit_exceeded"}, code("resource_limit_exceeded"), 0},
		"503 before":      {hetznersim.Fault{Kind: hetznersim.FaultError, Code: "unavailable"}, code("unavailable"), 0},
		"504 after":       {hetznersim.Fault{Kind: hetznersim.FaultErrorAfter, Code: "timeout"}, code("timeout"), 1},
		"bare 502 before": {hetznersim.Fault{Kind: hetznersim.FaultError, Status: 502}, noCode, 0},
		"bare 502 after":  {hetznersim.Fault{Kind: hetznersim.FaultErrorAfter, Status: 502}, noCode, 1},
		"omit":            {hetznersim.Fault{Kind: hetznersim.FaultOmit}, none, 1},
		"other path":      {hetznersim.Fault{Kind: hetznersim.FaultError, Code: "locked", Path: "/volumes"}, none, 1},
		"other method":    {hetznersim.Fault{Kind: hetznersim.FaultError, Code: "locked", Method: "GET"}, none, 1},
		"other token":     {hetznersim.Fault{Kind: hetznersim.FaultError, Code: "locked", Token: "token-b"}, none, 1},
		"skipped":         {hetznersim.Fault{Kind: hetznersim.FaultError, Code: "locked", Skip: 1}, none, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := serve(t, hetznersim.Options{}, false)
			id := b.sim.AddFault(tc.fault)
			_, _, err := b.client.Server.Create(t.Context(), hcloud.ServerCreateOpts{Name: "web",
				ServerType: &hcloud.ServerType{Name: "cx23"}, Image: &hcloud.Image{Name: "debian-12"}})
			if !tc.saw(err) {
				t.Errorf("client saw %v", err)
			}
			if got := len(b.sim.Servers(token)); got != tc.made {
				t.Errorf("%d servers exist, want %d", got, tc.made)
			}
			struck := b.sim.FaultHits(id)
			if _, _, err := b.client.Server.List(t.Context(), hcloud.ServerListOpts{}); err != nil && struck > 0 {
				t.Errorf("the fault strikes once, the next call failed with %v", err)
			}
		})
	}
}

func TestFaultDelay(t *testing.T) {
	t.Parallel()
	for kind, path := range map[hetznersim.FaultKind]string{hetznersim.FaultDelay: "before", hetznersim.FaultDelayAnswer: "after"} {
		b := serve(t, hetznersim.Options{}, false)
		b.sim.AddFault(hetznersim.Fault{Kind: kind, Delay: 300 * time.Millisecond, Method: "POST"})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, _, err := b.client.Server.Create(ctx, hcloud.ServerCreateOpts{Name: "web", ServerType: &hcloud.ServerType{Name: "cx23"}, Image: &hcloud.Image{Name: "debian-12"}})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: client saw %v", path, err)
		}
		// The client is gone, the server exists all the same.
		deadline := time.Now().Add(30 * time.Second)
		for len(b.sim.Servers(token)) == 0 {
			if time.Now().After(deadline) {
				t.Fatalf("%s: the server was never made", path)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func TestFaultInTheMiddleOfPaging(t *testing.T) {
	t.Parallel()
	b := newBench(t, hetznersim.Options{})
	for i := range 51 {
		b.create(fmt.Sprintf("s%02d", i))
	}
	b.sim.AddFault(hetznersim.Fault{Kind: hetznersim.FaultError, Code: "server_error", Path: "/servers", Query: map[string]string{"page": "2"}})
	_, err := b.client.Server.All(t.Context())
	wantCode(t, err, hcloud.ErrorCode("server_error"))
}

func TestFaultLag(t *testing.T) {
	t.Parallel()
	b := newBench(t, hetznersim.Options{})
	old := b.create("old").Server
	b.settle()
	b.create("new")
	ok[*hcloud.ServerDeleteResult](b)(b.client.Server.DeleteWithResult(t.Context(), old))
	b.clock.Advance(5 * time.Second)
	id := b.sim.AddFault(hetznersim.Fault{Kind: hetznersim.FaultLag, Delay: 10 * time.Second, Times: -1, Path: "/servers"})
	if got := b.names(""); len(got) != 1 || got[0] != "old" {
		t.Errorf("a lagging list shows %v, want the deleted one and not the new one", got)
	}
	if got := b.names("name=new"); len(got) != 1 {
		t.Errorf("a lookup by name shows %v", got)
	}
	b.clock.Advance(10 * time.Second)
	if got := b.names(""); len(got) != 1 || got[0] != "new" {
		t.Errorf("later the list shows %v", got)
	}
	b.sim.RemoveFault(id)
	if b.sim.FaultHits(id) != 0 {
		t.Error("a removed fault counts on")
	}
}

func TestFaultActionError(t *testing.T) {
	t.Parallel()
	b := newBench(t, hetznersim.Options{})
	for command, want := range map[string]map[string]hcloud.ActionStatus{
		"create_server": {"create_server": "error", "start_server": "success"},
		"start_server":  {"create_server": "success", "start_server": "error"},
		"":              {"create_server": "error", "start_server": "error"},
	} {
		b.sim.AddFault(hetznersim.Fault{Kind: hetznersim.FaultActionError, Code: "resource_unavailable", Message: "no host", Command: command, Method: "POST"})
		res := b.create("web" + map[string]string{"create_server": "1", "start_server": "2"}[command])
		b.settle()
		actions, err := b.client.Server.Action.AllFor(t.Context(), res.Server, hcloud.ActionListOpts{})
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range actions {
			if a.Status != want[a.Command] {
				t.Errorf("fault on %q: %s is %s, want %s", command, a.Command, a.Status, want[a.Command])
			}
			if a.Status == "error" && (a.ErrorCode != "resource_unavailable" || a.ErrorMessage != "no host") {
				t.Errorf("fault on %q: %s failed with %s %s", command, a.Command, a.ErrorCode, a.ErrorMessage)
			}
		}
		if got := b.server(res.Server.ID).Status; command != "create_server" && got != hcloud.ServerStatusOff {
			t.Errorf("fault on %q: status %s, want off", command, got)
		}
	}
	s := b.create("keep").Server
	b.settle()
	b.sim.AddFault(hetznersim.Fault{Kind: hetznersim.FaultActionError, Code: "server_error", Method: "DELETE"})
	ok[*hcloud.ServerDeleteResult](b)(b.client.Server.DeleteWithResult(t.Context(), s))
	b.settle()
	if got := b.server(s.ID); got == nil || got.Status != hcloud.ServerStatusRunning {
		t.Errorf("a delete whose action failed left %+v", got)
	}
}

func TestFaultOmit(t *testing.T) {
	t.Parallel()
	b := serve(t, hetznersim.Options{}, false)
	b.create("whole")
	b.create("holes")
	b.sim.AddFault(hetznersim.Fault{Kind: hetznersim.FaultOmit, Object: "holes", Times: -1})
	list := b.call("GET", "/servers", "").body["servers"].([]any)
	whole, holes := list[0].(map[string]any), list[1].(map[string]any)
	for _, k := range []string{"image", "server_type", "private_net", "location"} {
		if whole[k] == nil {
			t.Errorf("the other server lost %s", k)
		}
		if holes[k] != nil {
			t.Errorf("%s is still there: %v", k, holes[k])
		}
	}
	if pub := holes["public_net"].(map[string]any); pub["ipv4"] == nil || pub["ipv6"] != nil {
		t.Errorf("public_net: %v", pub)
	}
	b.sim.ClearFaults()
	b.sim.AddFault(hetznersim.Fault{Kind: hetznersim.FaultOmit, Fields: []string{"public_net.ipv4"}})
	list = b.call("GET", "/servers", "").body["servers"].([]any)
	if pub := list[0].(map[string]any)["public_net"].(map[string]any); pub["ipv4"] != nil {
		t.Errorf("public_net: %v", pub)
	}
}

func TestFaultHang(t *testing.T) {
	t.Parallel()
	b := serve(t, hetznersim.Options{}, false)
	id := b.sim.AddFault(hetznersim.Fault{Kind: hetznersim.FaultHang, Times: -1})
	arrived := func(n int) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); b.sim.FaultHits(id) < n; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d of %d requests arrived", b.sim.FaultHits(id), n)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, _, err := b.client.Server.Create(ctx, hcloud.ServerCreateOpts{Name: "web", ServerType: &hcloud.ServerType{Name: "cx23"}, Image: &hcloud.Image{Name: "debian-12"}})
		done <- err
	}()
	arrived(1)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("while it hangs: %v", err)
	}
	go func() {
		_, _, err := b.client.Server.List(t.Context(), hcloud.ServerListOpts{})
		done <- err
	}()
	arrived(2)
	b.sim.RemoveFault(id)
	if err := <-done; err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if n := len(b.sim.Servers(token)); n != 0 {
		t.Errorf("%d servers of a request that was given up", n)
	}
}

func TestFaultReset(t *testing.T) {
	t.Parallel()
	b := newBench(t, hetznersim.Options{})
	b.sim.AddFault(hetznersim.Fault{Kind: hetznersim.FaultError, Code: "rate_limit_exceeded", Reset: 7 * time.Second})
	a := b.call("GET", "/servers", "")
	if a.status != 429 || a.header.Get("RateLimit-Remaining") != "0" || a.header.Get("RateLimit-Reset") != fmt.Sprint(epoch.Add(7*time.Second).Unix()) {
		t.Errorf("%d %v", a.status, a.header)
	}
}
