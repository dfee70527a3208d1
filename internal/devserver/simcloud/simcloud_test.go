package simcloud_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/config"
	"github.com/tollgate-dev/tollgate/internal/devserver/simcloud"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/all"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner"
	"github.com/tollgate-dev/tollgate/internal/provider/hetzner/hetznersim"
)

const file = "installation: acme\nproviders: [{name: local, type: local}]\nprobe: {target: '127.0.0.1:1'}\n"

// open builds the provider as tollgate-dev's configuration has it.
func open(t *testing.T, h *simcloud.Hetzner) provider.Provider {
	t.Helper()
	cfg, err := config.Parse([]byte(file), "tollgate.yaml", config.Options{Types: all.Types(), Overlay: h.Config()})
	if err != nil {
		t.Fatal(err)
	}
	c, ok := cfg.Provider(simcloud.HetznerProvider)
	if !ok {
		t.Fatalf("providers %v", cfg.Names())
	}
	p, err := hetzner.New(provider.Config{Name: c.Name, Installation: cfg.Installation, Decode: c.Decode, Secret: cfg.Token})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func create(t *testing.T, p provider.Provider, name string, port int) provider.Instance {
	t.Helper()
	id, err := p.Create(t.Context(), provider.CreateRequest{Name: name, Port: port,
		Marks: provider.Marks{UID: "uid-" + name, Installation: "acme", Namespace: "default", Proxy: name, SpecHash: "h"}})
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		in, err := p.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if in.State == provider.StateRunning {
			return in
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is %s", name, in.State)
		}
		select {
		case <-t.Context().Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// through fetches a page by way of a proxy.
func through(t *testing.T, in provider.Instance, port int) error {
	t.Helper()
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	defer target.Close()
	c := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: fmt.Sprintf("%s:%d", in.IP, port)}), DisableKeepAlives: true}}
	resp, err := c.Get(target.URL)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "hello" {
		return fmt.Errorf("%q, %w", b, err)
	}
	return nil
}

func TestServersAreProxiesAndSurviveARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log := slog.New(slog.DiscardHandler)
	h, err := simcloud.StartHetzner(dir, log)
	if err != nil {
		t.Fatal(err)
	}
	p := open(t, h)
	const port = 13128
	one, two := create(t, p, "one", port), create(t, p, "two", port)
	if one.IP == two.IP || !strings.HasPrefix(one.IP.String(), "127.78.") {
		t.Errorf("addresses %s and %s", one.IP, two.IP)
	}
	for _, in := range []provider.Instance{one, two} {
		if err := through(t, in, port); err != nil {
			t.Errorf("through %s: %v", in.Name, err)
		}
	}
	if err := p.Delete(t.Context(), two.ID); err != nil {
		t.Fatal(err)
	}
	if err := through(t, two, port); err == nil {
		t.Error("the proxy of a deleted server answers")
	}
	token, err := os.ReadFile(h.TokenFile())
	if err != nil {
		t.Fatal(err)
	}
	stop(t, h)
	if err := through(t, one, port); err == nil {
		t.Error("a proxy answers while the simulator is stopped")
	}

	if h, err = simcloud.StartHetzner(dir, log); err != nil {
		t.Fatal(err)
	}
	defer stop(t, h)
	if again, err := os.ReadFile(h.TokenFile()); err != nil || string(again) != string(token) {
		t.Errorf("the token changed: %v", err)
	}
	p = open(t, h)
	all, err := p.List(t.Context(), provider.Selector{Installation: "acme"})
	if err != nil || len(all) != 1 || all[0].IP != one.IP || all[0].State != provider.StateRunning {
		t.Fatalf("after a restart: %+v, %v", all, err)
	}
	if err := through(t, one, port); err != nil {
		t.Errorf("through %s after a restart: %v", one.Name, err)
	}
	three := create(t, p, "three", port)
	if three.IP == one.IP {
		t.Error("an address was given twice")
	}
	if err := p.Delete(t.Context(), one.ID); err != nil {
		t.Error(err)
	}
}

func stop(t *testing.T, h *simcloud.Hetzner) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Second)
	defer cancel()
	if err := h.Close(ctx); err != nil {
		t.Error(err)
	}
}

func TestMachines(t *testing.T) {
	t.Parallel()
	m := simcloud.NewMachines(netip.MustParsePrefix("127.79.7.0/30"), slog.New(slog.DiscardHandler))
	defer m.Close()
	seen := map[netip.Addr]bool{}
	for range 3 {
		a, err := m.Address(t.Context(), hetznersim.Machine{})
		if err != nil {
			t.Fatal(err)
		}
		seen[a] = true
	}
	if a, err := m.Address(t.Context(), hetznersim.Machine{}); err == nil || len(seen) != 3 {
		t.Errorf("%v after %v", a, seen)
	}
	taken := netip.MustParseAddr("127.79.7.1")
	up := hetznersim.Machine{ID: 1, Name: "a", Address: taken, OpenTCP: []string{"22", "14128"}}
	for range 2 { // the second changes nothing
		if err := m.Start(t.Context(), up); err != nil {
			t.Fatal(err)
		}
	}
	in := provider.Instance{Name: "a", IP: taken}
	if err := through(t, in, 14128); err != nil {
		t.Error(err)
	}
	if err := m.Start(t.Context(), hetznersim.Machine{ID: 2, Name: "b", Address: taken, OpenTCP: []string{"14128"}}); err == nil {
		t.Error("two machines have one address")
	}
	for range 2 { // one that does not run is success
		if err := m.Stop(t.Context(), up); err != nil {
			t.Fatal(err)
		}
	}
	if err := through(t, in, 14128); err == nil {
		t.Error("a stopped machine answers")
	}
}
