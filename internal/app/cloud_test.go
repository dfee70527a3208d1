package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/tollgate-dev/tollgate/internal/config"
	"github.com/tollgate-dev/tollgate/internal/devserver/devservertest"
	"github.com/tollgate-dev/tollgate/internal/devserver/simcloud"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/all"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// simulator is a simulated cloud with real proxies.
type simulator struct {
	t *testing.T
	*simcloud.Hetzner
}

func newSimulator(t *testing.T) simulator {
	t.Helper()
	h, err := simcloud.StartHetzner(filepath.Join(t.TempDir(), "cloud"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := h.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return simulator{t, h}
}

// tell tells the simulator what to do.
func (s simulator) tell(path string, body any) {
	s.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.Post(s.AdminURL()+path, "application/json", bytes.NewReader(b))
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: status %d", path, resp.StatusCode)
	}
}

// creates counts the requests that would make a server.
func (s simulator) creates() int {
	s.t.Helper()
	_, body, err := fetch(http.DefaultClient, s.AdminURL()+"/requests")
	if err != nil {
		s.t.Fatal(err)
	}
	var all []struct{ Method, Pattern string }
	if err := json.Unmarshal([]byte(body), &all); err != nil {
		s.t.Fatal(err)
	}
	n := 0
	for _, r := range all {
		if r.Method == http.MethodPost && r.Pattern == "/servers" {
			n++
		}
	}
	return n
}

func (s simulator) token() string {
	s.t.Helper()
	b, err := os.ReadFile(s.TokenFile())
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

func writeToken(t *testing.T, dir string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// price is what one instance costs.
func (s simulator) price() provider.MicroEUR {
	s.t.Helper()
	cfg, err := config.Parse([]byte("installation: a\nproviders: [{name: l, type: local}]\nprobe: {target: 'x:1'}\n"), "x", config.Options{Types: all.Types(), Overlay: s.Config()})
	if err != nil {
		s.t.Fatal(err)
	}
	c, _ := cfg.Provider(simcloud.HetznerProvider)
	p, err := hetzner.New(provider.Config{Name: c.Name, Installation: "a", Decode: c.Decode, Secret: cfg.Token})
	if err != nil {
		s.t.Fatal(err)
	}
	m, known, err := p.PriceEURPerHour(s.t.Context(), provider.Placement{})
	if err != nil || !known {
		s.t.Fatalf("price %v, %v, %v", m, known, err)
	}
	return m
}

// config is the simulator's overlay as a file of its own, with a cap.
func (s simulator) config(most provider.MicroEUR) string {
	text := strings.Replace(string(s.Config()), "    type: hetzner\n", fmt.Sprintf("    type: hetzner\n    spendCap: {eurPerHour: \"%s\"}\n", most), 1)
	text = strings.Replace(text, "drift: {interval: 15s}", "drift: {interval: 1h}", 1) // what is seen is seen without it
	return "installation: test\n" + text + "  token: {file: token}\ndiscovery: {token: token}\nhealth: {interval: 5s}\n" +
		"probe: {interval: 1s, timeout: 2s, target: '" + strings.TrimSuffix(strings.TrimPrefix(s.Endpoint(), "http://"), "/v1") + "'}\n"
}

func (r *running) create(name string) {
	r.t.Helper()
	if _, err := r.app.Connection().Client.ExecuteWorkflow(r.t.Context(),
		client.StartWorkflowOptions{ID: workflows.ProxyID("default", name), TaskQueue: workflows.TaskQueue},
		workflows.TypeProxy, api.ProxyInput{Spec: api.ProxySpec{Provider: simcloud.HetznerProvider}}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *running) proxy(name string) (p api.Proxy) {
	r.t.Helper()
	v, err := r.app.Connection().Client.QueryWorkflow(r.t.Context(), workflows.ProxyID("default", name), "", workflows.QueryStatus)
	if err == nil {
		err = v.Get(&p)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

func reason(p api.Proxy) (reason, message string) {
	for _, c := range p.Status.Conditions {
		if c.Type == api.CondProvisioned {
			return c.Reason, c.Message
		}
	}
	return "", ""
}

// The whole of Tollgate with the real driver: a create whose answer is lost
// makes one server, the cap holds back the third without any request, and lets
// it through once another is gone.
func TestSpendCapWithARealDriver(t *testing.T) {
	t.Parallel()
	engine := devservertest.Start(t)
	sim := newSimulator(t)
	price := sim.price()
	dir := t.TempDir()
	writeToken(t, dir)
	r := run(t, engine, dir, sim.config(2*price))
	sim.tell("/faults", map[string]any{"fault": map[string]any{"kind": "lose-answer", "method": "POST", "path": "/servers", "times": 1}})
	r.create("one")
	eventually(t, "one runs", func() bool { return r.proxy("one").Status.Phase == api.PhaseRunning })
	if n := sim.creates(); n != 2 {
		t.Errorf("%d requests made the server whose first answer was lost", n)
	}
	if got := r.proxy("one").Status.EURPerHour; got != price.String() {
		t.Errorf("it costs %q, want %s", got, price)
	}
	r.create("two")
	eventually(t, "two has its instance", func() bool { return r.proxy("two").Status.InstanceID != "" })
	before := sim.creates()
	r.create("three")
	eventually(t, "three waits", func() bool { why, _ := reason(r.proxy("three")); return why == provider.ReasonSpendCap })
	_, message := reason(r.proxy("three"))
	for _, want := range []string{"spendCap: " + (2 * price).String(), "the fleet costs " + (2 * price).String(), "would add " + price.String()} {
		if !strings.Contains(message, want) {
			t.Errorf("the message %q lacks %q", message, want)
		}
	}
	if p := r.proxy("three"); p.Status.NextRetry.IsZero() || p.Status.Latched || sim.creates() != before {
		t.Errorf("while it waits: %+v, %d creates", p.Status, sim.creates()-before)
	}
	if err := r.app.Connection().Client.SignalWorkflow(t.Context(), workflows.ProxyID("default", "one"), "", workflows.SignalDelete, nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "three has its instance", func() bool { return r.proxy("three").Status.InstanceID != "" })
	if n := sim.creates(); n != before+1 {
		t.Errorf("%d creates, want one", n-before)
	}
	r.configure(sim.config(3 * price))
	r.create("four")
	eventually(t, "four has its instance below a higher cap", func() bool { return r.proxy("four").Status.InstanceID != "" })
	_, metrics, err := fetch(http.DefaultClient, "http://"+r.app.MetricsAddr()+"/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`tollgate_fleet_spend_refusals_total{provider="hetzner"}`, `tollgate_fleet_cost_eur_per_hour{provider="hetzner"}`,
		`tollgate_provider_requests_limit{provider="hetzner"} 3600`, `tollgate_provider_requests_total{code="201",op="create",provider="hetzner"}`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %s", want)
		}
	}

	eventually(t, "two runs", func() bool { return r.proxy("two").Status.Phase == api.PhaseRunning })
	// Somebody else uses up the requests: that is a state, and no outage.
	sim.tell("/spend", map[string]any{"token": sim.token(), "count": 3600})
	eventually(t, "throttled is seen", func() bool {
		v, err := r.app.Connection().Client.QueryWorkflow(t.Context(), workflows.ProviderHealthID(simcloud.HetznerProvider), "", workflows.QueryStatus)
		var h api.ProviderHealth
		return err == nil && v.Get(&h) == nil && h.Status.Throttled && h.Status.Reason == provider.ReasonThrottled && h.Status.Ready
	})
	if p := r.proxy("two"); p.Status.Phase != api.PhaseRunning {
		t.Errorf("a proxy is %s while its account is throttled", p.Status.Phase)
	}
}
