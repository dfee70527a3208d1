package app_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/tollgate-dev/tollgate/internal/app"
	"github.com/tollgate-dev/tollgate/internal/codec"
	"github.com/tollgate-dev/tollgate/internal/devserver/devservertest"
	"github.com/tollgate-dev/tollgate/internal/discovery"
	"github.com/tollgate-dev/tollgate/internal/temporalclient"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

func TestALifeOnARealEngine(t *testing.T) {
	t.Parallel()
	engine := devservertest.Start(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := run(t, engine, dir, configText(t, "one"))

	if code, body := r.get("/healthz"); code != http.StatusOK || strings.TrimSpace(body) != `{"status":"ok"}` {
		t.Errorf("healthz: %d %s", code, body)
	}
	if code, body := r.get("/readyz"); code != http.StatusOK {
		t.Errorf("readyz: %d %s", code, body)
	}
	if code, _ := r.get("/v1/proxies"); code != http.StatusUnauthorized {
		t.Errorf("discovery without the token: status %d", code)
	}
	if code, _ := r.get("/codec/decode"); code == http.StatusNotFound {
		t.Error("no codec endpoint")
	}
	for _, id := range []string{workflows.FleetID("one", 0), workflows.ProviderHealthID("one")} {
		if got := r.status(id); got != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
			t.Errorf("%s is %s", id, got)
		}
	}
	if !r.hasSchedule(workflows.OrphanGCSchedule("one")) {
		t.Error("no schedule")
	}

	// A proxy comes and goes.
	c := r.app.Connection().Client
	id := workflows.ProxyID("default", "demo")
	if _, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: workflows.TaskQueue},
		workflows.TypeProxy, api.ProxyInput{Spec: api.ProxySpec{Provider: "one"}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "demo is listed", func() bool { return slices.Equal(r.names(""), []string{"one/demo"}) })
	code, body := r.get("/v1/proxies/pick?provider=one", "Authorization", "Bearer sesame")
	var picked discovery.Proxy
	if err := json.Unmarshal([]byte(body), &picked); err != nil || code != http.StatusOK {
		t.Fatalf("pick: %d %s", code, body)
	}
	proxyURL, err := url.Parse(picked.URL)
	if err != nil {
		t.Fatal(err)
	}
	through := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxyURL)}}
	if code, _, err := fetch(through, "http://"+r.app.HTTPAddr()+"/healthz"); err != nil || code != http.StatusOK {
		t.Errorf("through the proxy: %d, %v", code, err)
	}
	through.CloseIdleConnections()
	if err := c.SignalWorkflow(t.Context(), id, "", workflows.SignalDelete, nil); err != nil {
		t.Fatal(err)
	}
	var result api.ProxyResult
	if err := c.GetWorkflow(t.Context(), id, "").Get(t.Context(), &result); err != nil {
		t.Fatal(err)
	}
	if got := r.names(""); len(got) != 0 {
		t.Errorf("a deleted proxy is listed: %v", got)
	}

	_, metrics, err := fetch(http.DefaultClient, "http://"+r.app.MetricsAddr()+"/metrics")
	if err != nil {
		t.Fatal(err)
	}
	lint(t, metrics)
	for _, want := range []string{
		`tollgate_provider_usable{provider="one",type="local"} 1`, "tollgate_config_last_reload_successful 1",
		`tollgate_provider_calls_total{class="OK",op="create",provider="one"} 1`, "tollgate_discovery_proxies", "temporal_",
		`tollgate_gc_interval_seconds{provider="one"} `, `tollgate_fleet_listing_interval_seconds{provider="one"} `, `tollgate_fleet_probed_timestamp_seconds{provider="one",shard="0"} `,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	if err := r.stop(); err != nil {
		t.Errorf("run: %v", err)
	}
	if log := r.logs.String(); strings.Contains(log, "sesame") || strings.Contains(log, "codec-token") {
		t.Error("a token is in the log")
	}
}

func TestReload(t *testing.T) {
	t.Parallel()
	engine := devservertest.Start(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := run(t, engine, dir, configText(t, "one"))
	if got := r.names("?provider=two"); got[0] != "status 400" {
		t.Fatalf("provider two before it is configured: %v", got)
	}

	r.configure(configText(t, "one", "two"))
	eventually(t, "two is served", func() bool {
		return r.status(workflows.ProviderHealthID("two")) == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING &&
			r.hasSchedule(workflows.OrphanGCSchedule("two")) && slices.Equal(r.names("?provider=two"), []string{})
	})
	// Its queue has a worker: the check is an activity there.
	c := r.app.Connection().Client
	eventually(t, "two is checked", func() bool {
		v, err := c.QueryWorkflow(t.Context(), workflows.ProviderHealthID("two"), "", workflows.QueryStatus)
		var h api.ProviderHealth
		return err == nil && v.Get(&h) == nil && h.Status.Checks > 0 && h.Status.Ready
	})

	r.configure("installation: test\nproviders: []\n")
	eventually(t, "the bad file is reported", func() bool {
		return strings.Contains(r.logs.String(), "providers: is required")
	})
	if got := r.app.Config().Names(); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("providers after a bad file: %v", got)
	}

	r.configure(configText(t, "two"))
	eventually(t, "one is removed", func() bool {
		return !r.hasSchedule(workflows.OrphanGCSchedule("one")) &&
			r.status(workflows.ProviderHealthID("one")) == enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED
	})
	if got := r.names("?provider=one"); got[0] != "status 400" {
		t.Errorf("provider one after it was removed: %v", got)
	}
	if got := r.status(workflows.FleetID("one", 0)); got != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		t.Errorf("the fleet of a removed provider is %s: its proxies may still live", got)
	}

	more := strings.Replace(configText(t, "two"), "type: local\n", "type: local\n    shards: 3\n", 1)
	r.configure(more)
	eventually(t, "three shards run", func() bool {
		return r.status(workflows.FleetID("two", 2)) == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING && slices.Equal(r.names("?provider=two"), []string{})
	})
}

func TestRestartGoesOn(t *testing.T) {
	t.Parallel()
	engine := devservertest.Start(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := run(t, engine, dir, configText(t, "one"))
	key, err := os.ReadFile(filepath.Join(r.state, app.KeyFileName))
	if err != nil {
		t.Fatal(err)
	}
	id := workflows.ProxyID("default", "demo")
	if _, err := r.app.Connection().Client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: workflows.TaskQueue},
		workflows.TypeProxy, api.ProxyInput{Spec: api.ProxySpec{Provider: "one"}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "demo is listed", func() bool { return slices.Equal(r.names(""), []string{"one/demo"}) })
	began := time.Now()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > app.WorkerStopTimeout+10*time.Second {
		t.Errorf("drained in %s", took)
	}

	again := run(t, engine, dir, configText(t, "one"))
	eventually(t, "demo is listed again", func() bool { return slices.Equal(again.names(""), []string{"one/demo"}) })
	if now, err := os.ReadFile(filepath.Join(r.state, app.KeyFileName)); err != nil || !bytes.Equal(key, now) {
		t.Errorf("the key file has changed: %v", err)
	}
	c := again.app.Connection().Client
	if err := c.SignalWorkflow(t.Context(), id, "", workflows.SignalDelete, nil); err != nil {
		t.Fatal(err)
	}
	if err := c.GetWorkflow(t.Context(), id, "").Get(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

func TestNewExplainsWhatIsWrong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "tollgate.yaml")
	base := app.Options{
		ConfigFile: file, StateDir: filepath.Join(dir, "state"), HTTPAddr: "127.0.0.1:0",
		Logger:   slog.New(slog.DiscardHandler),
		Temporal: temporalclient.Options{Isolated: true, Address: "127.0.0.1:1", Timeout: time.Second},
	}
	const one = "installation: a\nproviders: [{name: one, type: local}]\n"
	for name, tc := range map[string]struct {
		config string
		change func(*app.Options)
		want   string
	}{
		"bad file":        {"installation: A\nproviders: [{name: one, type: local}]\n", nil, file + `:1: installation: "A" is not a name`},
		"no file":         {one, func(o *app.Options) { o.ConfigFile = file + ".none" }, "cannot be read: no such file"},
		"file and config": {one, func(o *app.Options) { o.Config = nil; o.ConfigFile = "" }, "exactly one of ConfigFile and Config"},
		"no key file":     {one + "codec: {keyFile: none.json}\n", nil, "codec.keyFile: "},
		"no such server":  {one, nil, "no temporal server answers at 127.0.0.1:1"},
		"tls without target": {one + "probe: {tls: {enabled: true}}\n", nil,
			"probe.tls: needs a target: this process's own HTTP server speaks no TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(file, []byte(tc.config), 0o600); err != nil {
				t.Fatal(err)
			}
			o := base
			if tc.change != nil {
				tc.change(&o)
			}
			a, err := app.New(t.Context(), o)
			if err == nil {
				a.Close()
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %q, want one with %q", err, tc.want)
			}
		})
	}
}

func TestTheKeyringOfTheConfigurationIsUsed(t *testing.T) {
	t.Parallel()
	engine := devservertest.Start(t)
	dir := t.TempDir()
	if _, err := codec.Create(filepath.Join(dir, "keys.json")); err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(configText(t, "one"), "discovery: {token: token}\n", "codec: {keyFile: keys.json}\n", 1)
	r := run(t, engine, dir, text)
	if _, err := os.Stat(filepath.Join(r.state, app.KeyFileName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("another key file was made: %v", err)
	}
	if got := r.names(""); !slices.Equal(got, []string{}) {
		t.Errorf("discovery without a token: %v", got)
	}
}

func TestReloadWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	engine := devservertest.Start(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := run(t, engine, dir, configText(t, "one"))
	engine.KillEngine()
	r.configure(configText(t, "one", "two"))
	eventually(t, "the new configuration is in force", func() bool { return len(r.app.Config().Providers) == 2 })
	if code, _ := r.get("/healthz"); code != http.StatusOK {
		t.Errorf("healthz without the server: %d", code)
	}
	engine.MustBeHealthy()
	eventually(t, "two is announced once the server is back", func() bool {
		return r.status(workflows.ProviderHealthID("two")) == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING &&
			slices.Equal(r.names("?provider=two"), []string{})
	})
}

func TestTwoWorkersShareAnInstallation(t *testing.T) {
	t.Parallel()
	engine := devservertest.Start(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	first := run(t, engine, dir, configText(t, "one"))
	second := run(t, engine, dir, configText(t, "one"))
	c := second.app.Connection().Client
	id := workflows.ProxyID("default", "demo")
	if _, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: workflows.TaskQueue},
		workflows.TypeProxy, api.ProxyInput{Spec: api.ProxySpec{Provider: "one"}}); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*running{first, second} {
		eventually(t, "demo is listed", func() bool { return slices.Equal(r.names(""), []string{"one/demo"}) })
	}
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	if err := c.SignalWorkflow(t.Context(), id, "", workflows.SignalDelete, nil); err != nil {
		t.Fatal(err)
	}
	if err := c.GetWorkflow(t.Context(), id, "").Get(t.Context(), nil); err != nil {
		t.Error(err)
	}
	eventually(t, "demo is gone", func() bool { return slices.Equal(second.names(""), []string{}) })
}
