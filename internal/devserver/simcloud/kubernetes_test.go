package simcloud_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/config"
	"github.com/tollgate-dev/tollgate/internal/devserver/simcloud"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/all"
	"github.com/tollgate-dev/tollgate/internal/provider/kubernetes"
)

// openKubernetes builds the provider as tollgate-dev's configuration has it.
func openKubernetes(t *testing.T, k *simcloud.Kubernetes) provider.Provider {
	t.Helper()
	cfg, err := config.Parse([]byte(file), "tollgate.yaml", config.Options{Types: all.Types(), Overlay: k.Config()})
	if err != nil {
		t.Fatal(err)
	}
	c, ok := cfg.Provider(simcloud.KubernetesProvider)
	if !ok {
		t.Fatalf("providers %v", cfg.Names())
	}
	p, err := kubernetes.New(provider.Config{Name: c.Name, Installation: cfg.Installation, Decode: c.Decode, Secret: cfg.Token})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func startKubernetes(t *testing.T, dir string) (*simcloud.Kubernetes, func()) {
	t.Helper()
	k, err := simcloud.StartKubernetes(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return k, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Second)
		defer cancel()
		if err := k.Close(ctx); err != nil {
			t.Error(err)
		}
	}
}

func tell(t *testing.T, k *simcloud.Kubernetes, path, body string) {
	t.Helper()
	resp, err := http.Post(k.AdminURL()+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %d %s", path, body, resp.StatusCode, b)
	}
}

func TestPodsAreProxiesAndSurviveARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k, stop := startKubernetes(t, dir)
	p := openKubernetes(t, k)
	const port = 15128
	one, two := create(t, p, "one", port), create(t, p, "two", port)
	for _, in := range []provider.Instance{one, two} {
		if err := through(t, in, port); err != nil || !strings.HasPrefix(in.IP.String(), "127.80.") {
			t.Errorf("through %s at %s: %v", in.Name, in.IP, err)
		}
	}
	if err := p.Delete(t.Context(), two.ID); err != nil {
		t.Fatal(err)
	}
	await(t, "two is gone", func() bool { _, err := p.Get(t.Context(), two.ID); return provider.ClassOf(err) == provider.NotFound })
	if err := through(t, two, port); err == nil {
		t.Error("the proxy of a deleted Pod answers")
	}
	stop()
	if err := through(t, one, port); err == nil {
		t.Error("a proxy answers while the simulator is stopped")
	}

	k, stop = startKubernetes(t, dir)
	defer stop()
	p = openKubernetes(t, k)
	await(t, "one runs again", func() bool { return through(t, one, port) == nil })
	if in, err := p.Get(t.Context(), one.ID); err != nil || in.State != provider.StateRunning || in.IP != one.IP {
		t.Errorf("after a restart: %+v, %v", in, err)
	}

	tell(t, k, "/quota", `{"resource": "pods", "limit": 1}`)
	req := provider.CreateRequest{Name: "three", Port: port, Marks: provider.Marks{UID: "uid-three", Installation: "acme"}}
	if _, err := p.Create(t.Context(), req); provider.ClassOf(err) != provider.QuotaExceeded {
		t.Errorf("with a quota that is used up: %v", err)
	}
	tell(t, k, "/quota", `{"resource": "pods", "limit": -1}`)
	tell(t, k, "/full", `{"words": "0/1 nodes are available: 1 Insufficient cpu."}`)
	id, err := p.Create(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	await(t, "there is no room", func() bool {
		in, err := p.Get(t.Context(), id)
		return err == nil && strings.HasPrefix(in.RawState, "Unschedulable: 0/1")
	})
	tell(t, k, "/full", `{"words": ""}`)
	var three provider.Instance
	await(t, "three runs", func() bool {
		three, err = p.Get(t.Context(), id)
		return err == nil && three.State == provider.StateRunning
	})
	tell(t, k, "/evict", `{"pod": "three"}`)
	if in, err := p.Get(t.Context(), id); err != nil || in.State != provider.StateStopped || in.RawState != "Evicted" {
		t.Errorf("after its eviction: %+v, %v", in, err)
	}
	await(t, "its proxy has ended", func() bool { return through(t, three, port) != nil })
	for path, body := range map[string]string{"/quota": "{", "/full": `{"x": 1}`, "/evict": `{"pod": "nobody"}`} {
		resp, err := http.Post(k.AdminURL()+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if _ = resp.Body.Close(); resp.StatusCode < http.StatusBadRequest {
			t.Errorf("%s %s: %d", path, body, resp.StatusCode)
		}
	}
}

// await polls until ok.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited 20s until %s", what)
		}
		select {
		case <-t.Context().Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}
