package temporalclient_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/devserver/devservertest"
	"github.com/tollgate-dev/tollgate/internal/temporalclient"
)

// env is an environment that a test makes up.
type env map[string]string

func (e env) LookupEnv(k string) (string, bool) { v, ok := e[k]; return v, ok }

func (e env) Environ() []string {
	var all []string
	for k, v := range e {
		all = append(all, k+"="+v)
	}
	return all
}

func TestTarget(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "temporal.toml")
	const toml = `
[profile.default]
address = "default.example:7233"
[profile.prod]
address = "prod.example:7233"
namespace = "acme-prod"
`
	if err := os.WriteFile(file, []byte(toml), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "broken.toml")
	if err := os.WriteFile(broken, []byte("[profile"), 0o600); err != nil {
		t.Fatal(err)
	}
	none := env{"TEMPORAL_CONFIG_FILE": filepath.Join(t.TempDir(), "absent.toml")}
	type target struct{ Address, Namespace, Error string }
	tests := map[string]struct {
		options temporalclient.Options
		want    target
	}{
		"nothing set":            {temporalclient.Options{EnvLookup: none}, target{Address: "localhost:7233", Namespace: "default"}},
		"environment":            {temporalclient.Options{EnvLookup: env{"TEMPORAL_CONFIG_FILE": file, "TEMPORAL_ADDRESS": "env.example:1", "TEMPORAL_NAMESPACE": "env"}}, target{Address: "env.example:1", Namespace: "env"}},
		"default profile":        {temporalclient.Options{EnvLookup: env{"TEMPORAL_CONFIG_FILE": file}}, target{Address: "default.example:7233", Namespace: "default"}},
		"profile by environment": {temporalclient.Options{EnvLookup: env{"TEMPORAL_CONFIG_FILE": file, "TEMPORAL_PROFILE": "prod"}}, target{Address: "prod.example:7233", Namespace: "acme-prod"}},
		"profile by option":      {temporalclient.Options{EnvLookup: none, ConfigFile: file, Profile: "prod"}, target{Address: "prod.example:7233", Namespace: "acme-prod"}},
		"options win":            {temporalclient.Options{EnvLookup: env{"TEMPORAL_ADDRESS": "env.example:1"}, Address: "flag.example:2", Namespace: "flag"}, target{Address: "flag.example:2", Namespace: "flag"}},
		"isolated":               {temporalclient.Options{EnvLookup: env{"TEMPORAL_ADDRESS": "env.example:1", "TEMPORAL_API_KEY": "key"}, Isolated: true, Address: "127.0.0.1:3"}, target{Address: "127.0.0.1:3", Namespace: "default"}},
		"unknown profile":        {temporalclient.Options{EnvLookup: none, ConfigFile: file, Profile: "nope"}, target{Error: "unable to find profile nope"}},
		"broken file":            {temporalclient.Options{EnvLookup: none, ConfigFile: broken}, target{Error: "temporal configuration (TEMPORAL_* variables and temporal.toml): failed parsing config"}},
		"absent certificate":     {temporalclient.Options{EnvLookup: env{"TEMPORAL_TLS_CLIENT_CERT_PATH": "/absent.pem", "TEMPORAL_TLS_CLIENT_KEY_PATH": "/absent.key"}}, target{Error: "/absent.pem"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got target
			var err error
			got.Address, got.Namespace, err = temporalclient.Target(tt.options)
			if tt.want.Error != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want.Error) {
					t.Errorf("error is %v, want %q", err, tt.want.Error)
				}
				return
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
				t.Errorf("error %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestDialUnreachable(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	silent := l.Addr().String() // accepts and never answers
	t.Cleanup(func() { _ = l.Close() })
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := closed.Addr().String()
	_ = closed.Close()

	tests := map[string]struct {
		options temporalclient.Options
		want    []string
	}{
		"refused":   {temporalclient.Options{Isolated: true, Address: refused}, []string{refused, "connection refused", "TEMPORAL_ADDRESS", "make run", "TEMPORAL_TLS=true"}},
		"silent":    {temporalclient.Options{Isolated: true, Address: silent, Timeout: 300 * time.Millisecond}, []string{silent, "300ms"}},
		"TLS wrong": {temporalclient.Options{EnvLookup: env{"TEMPORAL_TLS": "true", "TEMPORAL_CONFIG_FILE": "/absent"}, Address: refused}, []string{"with TLS", "TEMPORAL_TLS=false"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			_, err := temporalclient.Dial(t.Context(), tt.options)
			var unreachable *temporalclient.UnreachableError
			if !errors.As(err, &unreachable) {
				t.Fatalf("error is %v, want an UnreachableError", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q lacks %q", err, want)
				}
			}
			if took := time.Since(start); took > temporalclient.DefaultTimeout {
				t.Errorf("took %s, want less than the time-out", took)
			}
		})
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := temporalclient.Dial(ctx, temporalclient.Options{Isolated: true, Address: l.Addr().String(), Wait: time.Hour}); err == nil {
		t.Error("Dial succeeded")
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %s after its context ended", took)
	}
}

// TestDialWaitsForItsServer: a worker may start before its server.
func TestDialWaitsForItsServer(t *testing.T) {
	t.Parallel()
	server := devservertest.Start(t)
	server.KillEngine()
	conn, err := temporalclient.Dial(t.Context(), temporalclient.Options{Isolated: true, Address: server.HostPort(), Wait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if conn.Address != server.HostPort() || conn.Namespace != "default" {
		t.Errorf("connected to %s in %s", conn.Address, conn.Namespace)
	}
}

func TestDialNamesAMissingNamespace(t *testing.T) {
	t.Parallel()
	server := devservertest.Start(t)
	_, err := temporalclient.Dial(t.Context(), temporalclient.Options{Isolated: true, Address: server.HostPort(), Namespace: "absent"})
	if err == nil {
		t.Fatal("Dial succeeded")
	}
	for _, want := range []string{`namespace "absent" does not exist at ` + server.HostPort(), "TEMPORAL_NAMESPACE", "temporal operator namespace create --namespace absent"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q lacks %q", err, want)
		}
	}
}
