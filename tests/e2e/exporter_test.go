//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
)

// What exists at a cloud is scraped from a worker process while the cloud answers,
// answers in part, and hangs.
func TestExporter(t *testing.T) {
	t.Parallel()
	sim := hetznersim.New(hetznersim.Options{OneProject: simToken, RateLimit: -1, Timing: hetznersim.Uniform(time.Millisecond)})
	cloud := httptest.NewServer(sim)
	t.Cleanup(cloud.Close)
	t.Cleanup(sim.ClearFaults)
	bus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(bus.Close)
	base := cloud.URL + hetznersim.BasePath
	l := &life{t: t, url: base}
	volume, _ := l.post("/volumes", `{"name":"one","size":10,"location":"fsn1"}`)
	ip, _ := l.post("/floating_ips", `{"type":"ipv4","home_location":"fsn1","name":"ip"}`)
	l.post("/servers", `{"name":"web","server_type":"cx23","image":"debian-12","location":"fsn1"}`)
	l.post("/load_balancers", `{"name":"lb","load_balancer_type":"lb11","location":"fsn1"}`)
	w := newWorld(t, settings{
		extra: fmt.Sprintf(`  hcloud: {env: E2E_HCLOUD_TOKEN}
sinks:
  - {name: bus, type: cloudevents, url: %q}
sources:
  - name: h
    type: hetzner
    account: acme
    sink: bus
    interval: 1s
    inventory: {interval: 5s, confirmAfter: 2s}
    hetzner: {token: hcloud, endpoint: %q}`, bus.URL+"/in", base),
		env: []string{"E2E_HCLOUD_TOKEN=" + simToken},
	})
	const gib = 1 << 30
	w.wantMetric(fmt.Sprintf(`tollgate_hetzner_volume_size_bytes{id="%d",source="h",stream="volume"} %v`, volume, float64(10*gib)))
	w.wantMetric(`tollgate_inventory_resources{source="h",stream="floating_ip",type="floating_ip"} 1`)
	w.wantMetric(`tollgate_inventory_resources{source="h",stream="load_balancer",type="load_balancer"} 1`)
	w.wantMetric(`tollgate_inventory_resources{source="h",stream="server",type="server"} 1`)
	// All that a worker with sources shows is as Prometheus wants it.
	scrape := w.metrics()
	promtool(t, scrape, "check", "metrics")
	for _, want := range []string{
		fmt.Sprintf(`tollgate_hetzner_floating_ip_info{account="acme",id="%d",ip_version="4",name="ip",region="fsn1",server="",source="h",stream="floating_ip",type="ipv4"} 1`, ip),
		`tollgate_hetzner_server_price_eur_per_hour{`, `tollgate_hetzner_server_vcpus{`, `tollgate_hetzner_load_balancer_targets{`,
		`tollgate_inventory_snapshot_age_seconds{source="h",stream="server"} `, `tollgate_inventory_interval_seconds{source="h",stream="server"} 5`,
	} {
		if !strings.Contains(scrape, want) {
			t.Errorf("the scrape lacks %s", want)
		}
	}

	// A location that the vendor leaves out, and a type without which there is no
	// price: the rest is served, and the price is counted as unknown.
	sim.AddFault(hetznersim.Fault{Kind: hetznersim.FaultOmit, Path: "/volumes", Fields: []string{"location"}, Times: -1})
	sim.AddFault(hetznersim.Fault{Kind: hetznersim.FaultOmit, Path: "/servers", Fields: []string{"server_type"}, Times: -1})
	w.wantMetric(`tollgate_inventory_unknown_values{metric="tollgate_hetzner_server_price_eur_per_hour",source="h",stream="server"} 1`)
	w.wantMetric(fmt.Sprintf(`tollgate_hetzner_volume_info{account="acme",id="%d",name="one",region="",server="",source="h",stream="volume"} 1`, volume))
	scrape = w.metrics()
	if line := fmt.Sprintf(`tollgate_hetzner_volume_size_bytes{id="%d"`, volume); !strings.Contains(scrape, line) {
		t.Errorf("without a location there is no %s", line)
	}
	if strings.Contains(scrape, "tollgate_hetzner_server_price_eur_per_hour{") {
		t.Error("a price that is not known has a series")
	}

	// A cloud that does not answer holds up nobody who scrapes: acceptance is a
	// second, and the requests would hang for ever.
	sim.ClearFaults()
	hang := sim.AddFault(hetznersim.Fault{Kind: hetznersim.FaultHang, Times: -1})
	w.eventually(30*time.Second, func() string {
		if sim.FaultHits(hang) == 0 {
			return "no request hangs"
		}
		return ""
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.metr+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(b), `tollgate_inventory_snapshot_age_seconds{source="h",stream="volume"}`) {
		t.Errorf("a scrape while the cloud hangs lacks the age: %v", err)
	}
}
