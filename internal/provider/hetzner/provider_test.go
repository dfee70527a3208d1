package hetzner_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznertest"
)

func TestStates(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{})
	in := b.running(b.request())
	server := b.Servers(hetznertest.Project)[0].ID
	for raw, want := range map[string]provider.State{
		"initializing": provider.StateProvisioning, "starting": provider.StateProvisioning, "migrating": provider.StateProvisioning,
		"rebuilding": provider.StateProvisioning, "stopping": provider.StateProvisioning, "running": provider.StateRunning,
		"off": provider.StateStopped, "deleting": provider.StateTerminated, "unknown": provider.StateProvisioning,
		"hibernating": provider.StateProvisioning,
	} {
		b.SetServerStatus(server, raw)
		got, err := b.p.Get(t.Context(), in.ID)
		if err != nil || got.State != want || got.RawState != raw {
			t.Errorf("%s: %s %s, %v, want %s", raw, got.State, got.RawState, err, want)
		}
	}
	if diff := cmp.Diff([]string{"hibernating", "unknown"}, b.p.UnknownStates()); diff != "" {
		t.Errorf("unknown states (-want +got)\n%s", diff)
	}
}

// TestOffBetweenBuiltAndStarted: off and locked is not stopped.

func TestOffBetweenBuiltAndStarted(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{sim: func(o *hetznersim.Options) { o.Timing.Gap = 300 * time.Millisecond }})
	id := b.create(b.request())
	seen := map[string]bool{}
	b.until("it runs", func() bool {
		in, err := b.p.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if in.State != provider.StateProvisioning && in.State != provider.StateRunning {
			t.Errorf("%s (%s) on the way to running", in.State, in.RawState)
		}
		seen[in.RawState] = true
		return in.State == provider.StateRunning
	})
	if !seen["off"] {
		t.Errorf("saw %v, want off in between", seen)
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		config func(*hetzner.Options)
		want   func(string) bool
	}{
		"IPv4":      {nil, func(a string) bool { return strings.HasPrefix(a, "198.18.") }},
		"IPv6":      {func(o *hetzner.Options) { o.Address = "ipv6" }, func(a string) bool { return strings.HasPrefix(a, "2001:db8:") && strings.HasSuffix(a, "::1") }},
		"IPv6 only": {func(o *hetzner.Options) { o.IPv4 = "none" }, func(a string) bool { return strings.HasPrefix(a, "2001:db8:") }},
		"own IPv4":  {func(o *hetzner.Options) { o.IPv4 = "own" }, func(a string) bool { return strings.HasPrefix(a, "198.18.") }},
		"private": {func(o *hetzner.Options) { o.Address, o.Networks = "private", []hetzner.Network{{Name: "inside"}} },
			func(a string) bool { return strings.HasPrefix(a, "10.1.") }},
		"private only": {func(o *hetzner.Options) {
			o.IPv4, o.IPv6, o.Networks, o.Firewall = "none", "none", []hetzner.Network{{Name: "inside", Gateway: "10.1.0.2"}}, hetzner.Firewall{}
		}, func(a string) bool { return strings.HasPrefix(a, "10.1.") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, setup{config: tc.config})
			b.post("/networks", `{"name":"inside","ip_range":"10.1.0.0/16","subnets":[{"type":"cloud","ip_range":"10.1.0.0/24","network_zone":"eu-central"}]}`)
			in := b.running(b.request())
			if !tc.want(in.IP.String()) {
				t.Errorf("address %s", in.IP)
			}
		})
	}
}

// post makes a request as somebody else would.

func (b *bench) post(path, body string) {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, b.URL+path, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer somebody")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode >= 300 {
		b.Fatalf("POST %s: %d", path, resp.StatusCode)
	}
}

// TestMissingParts: a server that lacks everything optional hinders nobody.

func TestMissingParts(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{})
	odd, fine := b.running(b.request()), b.running(b.request())
	b.AddFault(hetznersim.Fault{Kind: hetznersim.FaultOmit, Object: odd.Name, Times: -1})
	all := b.list()
	if len(all) != 2 || all[0].ID != odd.ID || all[0].Marks != odd.Marks || all[0].State != provider.StateRunning {
		t.Errorf("listed %+v", all)
	}
	for _, id := range []provider.InstanceID{odd.ID, fine.ID} {
		if err := b.p.Delete(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	if left := b.kinds(); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
	// A catalogue with holes leaves the decision to the order.
	b.ClearFaults()
	b.AddFault(hetznersim.Fault{Kind: hetznersim.FaultOmit, Path: "/server_types", Fields: []string{"locations"}, Times: -1})
	b.create(b.request())
}

// TestListWhileThingsVanish: pages are cut by position, so a deletion between

// two of them hides an instance.

func TestListWhileThingsVanish(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{})
	var names []string
	for range 9 { // three pages of four
		req := b.request()
		b.create(req)
		names = append(names, req.Name)
	}
	// The first of them vanishes while the second page is under way.
	b.AddFault(hetznersim.Fault{Kind: hetznersim.FaultDelay, Delay: 300 * time.Millisecond, Path: "/servers", Query: map[string]string{"page": "2"}})
	b.ForgetRequests()
	done := make(chan []provider.Instance, 1)
	go func() { done <- b.list() }()
	b.until("the first page is read", func() bool { return len(b.calls()) == 1 })
	b.Vanish(t, names[0])
	got := map[string]bool{}
	for _, in := range <-done {
		got[in.Name] = true
	}
	for _, name := range names[1:] {
		if !got[name] {
			t.Errorf("%s is missing from the list", name)
		}
	}
}

// TestNothingIsRetriedByTheClient: retries are Temporal's.

// TestRequestBudget: what the account has no room for is not sent, and says so.

// TestTraces: each request is a span below the operation's, and there is no

// secret in any.

func TestOpenFirewallIsWarnedOf(t *testing.T) {
	t.Parallel()
	b := newBench(t, setup{config: func(o *hetzner.Options) { o.Firewall.AllowFrom = []string{"0.0.0.0/0", "::/0"} }})
	if !strings.Contains(b.log.String(), slog.LevelWarn.String()) {
		t.Errorf("log: %s", b.log)
	}
	b.create(b.request())
	if strings.Contains(b.log.String(), "sentinel") {
		t.Errorf("a secret is in the log: %s", b.log)
	}
}
