package simcloud_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/config"
	"github.com/tollgate-dev/tollgate/internal/devserver/simcloud"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/all"
	"github.com/tollgate-dev/tollgate/internal/provider/openstack"
)

// openOpenStack builds the provider as tollgate-dev's configuration has it.
func openOpenStack(t *testing.T, o *simcloud.OpenStack) provider.Provider {
	t.Helper()
	cfg, err := config.Parse([]byte(file), "tollgate.yaml", config.Options{Types: all.Types(), Overlay: o.Config()})
	if err != nil {
		t.Fatal(err)
	}
	c, ok := cfg.Provider(simcloud.OpenStackProvider)
	if !ok {
		t.Fatalf("providers %v", cfg.Names())
	}
	p, err := openstack.New(provider.Config{Name: c.Name, Installation: cfg.Installation, Decode: c.Decode, Secret: cfg.Token})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func startOpenStack(t *testing.T, dir string) (*simcloud.OpenStack, func()) {
	t.Helper()
	o, err := simcloud.StartOpenStack(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return o, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Second)
		defer cancel()
		if err := o.Close(ctx); err != nil {
			t.Error(err)
		}
	}
}

// order tells the simulator something and returns the status of the answer.
func order(t *testing.T, o *simcloud.OpenStack, path, body string) (int, string) {
	t.Helper()
	resp, err := http.Post(o.AdminURL()+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func mustOrder(t *testing.T, o *simcloud.OpenStack, path, body string) {
	t.Helper()
	if status, text := order(t, o, path, body); status != http.StatusOK {
		t.Fatalf("%s %s: %d %s", path, body, status, text)
	}
}

func TestOpenStackSurvivesARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o, stop := startOpenStack(t, dir)
	p := openOpenStack(t, o)
	const port = simcloud.DefaultPort
	one, two := create(t, p, "one", port), create(t, p, "two", port)
	for _, in := range []provider.Instance{one, two} {
		if err := through(t, in, port); err != nil || !strings.HasPrefix(in.IP.String(), "127.82.") {
			t.Errorf("through %s at %s: %v", in.Name, in.IP, err)
		}
	}
	if err := p.Delete(t.Context(), two.ID); err != nil {
		t.Fatal(err)
	}
	password, err := os.ReadFile(o.PasswordFile())
	if err != nil {
		t.Fatal(err)
	}
	stop()
	if err := through(t, one, port); err == nil {
		t.Error("a proxy answers while the simulator is stopped")
	}

	o, stop = startOpenStack(t, dir)
	defer stop()
	if again, err := os.ReadFile(o.PasswordFile()); err != nil || string(again) != string(password) {
		t.Errorf("another password: %v", err)
	}
	p = openOpenStack(t, o)
	if in, err := p.Get(t.Context(), one.ID); err != nil || in.State != provider.StateRunning || in.IP != one.IP {
		t.Errorf("after a restart: %+v, %v", in, err)
	}
	if err := through(t, one, port); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	if three := create(t, p, "three", port); three.IP == one.IP {
		t.Error("the address of a server that was there before was given to another one")
	}
	resp, err := http.Get(o.AdminURL() + "/state")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || strings.Count(string(b), `"status":"ACTIVE"`) != 2 || strings.Contains(string(b), string(password)) {
		t.Errorf("state %s, %v", b, err)
	}
}

func TestOpenStackIsToldWhatToDo(t *testing.T) {
	t.Parallel()
	o, stop := startOpenStack(t, t.TempDir())
	defer stop()
	p := openOpenStack(t, o)
	req := func(name string) provider.CreateRequest {
		return provider.CreateRequest{Name: name, Port: simcloud.DefaultPort, Marks: provider.Marks{UID: "uid-" + name, Installation: "acme"}}
	}
	one := create(t, p, "one", simcloud.DefaultPort)
	mustOrder(t, o, "/quota", `{"instances": 1}`)
	if _, err := p.Create(t.Context(), req("two")); provider.ClassOf(err) != provider.QuotaExceeded {
		t.Errorf("with a quota that is used up: %v", err)
	}
	mustOrder(t, o, "/quota", `{}`)
	mustOrder(t, o, "/nohost", `{"on": true}`)
	if _, err := p.Create(t.Context(), req("two")); provider.ClassOf(err) != provider.CapacityUnavailable {
		t.Errorf("without a host: %v", err)
	}
	mustOrder(t, o, "/nohost", `{"on": false}`)
	mustOrder(t, o, "/expire", `{}`)
	if _, err := p.Get(t.Context(), one.ID); err != nil {
		t.Errorf("after all tokens have ended: %v", err)
	}
	mustOrder(t, o, "/faults", `{"kind":"answer","method":"GET","path":"/servers/[^/]+","status":503,"message":"later","times":1}`)
	if _, err := p.Get(t.Context(), one.ID); provider.ClassOf(err) != provider.Transient {
		t.Errorf("with a fault: %v", err)
	}
	mustOrder(t, o, "/hold", `{"builds": true}`)
	id, err := p.Create(t.Context(), req("two"))
	if err != nil {
		t.Fatal(err)
	}
	if in, err := p.Get(t.Context(), id); err != nil || in.State != provider.StateProvisioning {
		t.Errorf("held: %+v, %v", in, err)
	}
	mustOrder(t, o, "/fail", `{"builds": "No valid host was found."}`)
	mustOrder(t, o, "/hold", `{}`)
	await(t, "its build fails", func() bool {
		in, err := p.Get(t.Context(), id)
		return err == nil && strings.HasPrefix(in.RawState, "ERROR")
	})
	mustOrder(t, o, "/fail", `{}`)
	mustOrder(t, o, "/server", `{"name": "one", "status": "SHUTOFF"}`)
	if in, err := p.Get(t.Context(), one.ID); err != nil || in.State != provider.StateStopped {
		t.Errorf("off: %+v, %v", in, err)
	}
	if err := through(t, one, simcloud.DefaultPort); err == nil {
		t.Error("the proxy of a server that is off answers")
	}
	mustOrder(t, o, "/server", `{"name": "one", "status": "ACTIVE"}`)
	if err := through(t, one, simcloud.DefaultPort); err != nil {
		t.Errorf("on again: %v", err)
	}
	mustOrder(t, o, "/delete", `{"name": "one"}`)
	if _, err := p.Get(t.Context(), one.ID); provider.ClassOf(err) != provider.NotFound {
		t.Errorf("deleted behind its back: %v", err)
	}
	mustOrder(t, o, "/purge", `{}`)
	mustOrder(t, o, "/clear", `{}`)
	for path, body := range map[string]string{"/quota": "{", "/hold": `{"x": 1}`, "/delete": `{"name": "nobody"}`, "/server": `{"name": "two", "status": "ODD"}`,
		"/faults": `{"kind": "odd"}`, "/nohost": `[]`} {
		if status, text := order(t, o, path, body); status < http.StatusBadRequest || text == "" {
			t.Errorf("%s %s: %d %s", path, body, status, text)
		}
	}
}
