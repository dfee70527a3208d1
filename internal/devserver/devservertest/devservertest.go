// Package devservertest starts real Temporal engines for tests.
package devservertest

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	tlog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"

	"github.com/tollgate-dev/tollgate/internal/devserver"
	"github.com/tollgate-dev/tollgate/internal/devserver/enginebin"
)

const (
	// startLimit covers a loaded machine, not a build: that has no limit but the
	// test binary's.
	startLimit = 2 * time.Minute
	stopLimit  = 20 * time.Second
	// portTries is how often ports are chosen anew.
	portTries = 5
)

// Server is an engine that ends with its test.
type Server struct {
	*devserver.Server
	t   testing.TB
	out *testOutput
}

// Option changes how an engine of a test runs.
type Option func(*devserver.Options)

// WithUI also starts the Web UI, on a free port.
func WithUI() Option {
	return func(o *devserver.Options) {
		port, err := devserver.FreePort()
		if err != nil {
			panic(err) // no loopback, no tests
		}
		o.UIPort = port
	}
}

// WithDir keeps database and log in dir instead of a directory of the test.
func WithDir(dir string) Option { return func(o *devserver.Options) { o.Dir = dir } }

// WithSearchAttributes adds search attributes to every namespace.
func WithSearchAttributes(keys ...temporal.SearchAttributeKey) Option {
	return func(o *devserver.Options) { o.SearchAttributes = append(o.SearchAttributes, keys...) }
}

// WithNamespaces creates namespaces beside the default one.
func WithNamespaces(names ...string) Option {
	return func(o *devserver.Options) { o.Namespaces = append(o.Namespaces, names...) }
}

// WithDynamicConfig sets one setting of the server, as JSON.
func WithDynamicConfig(key, value string) Option {
	return func(o *devserver.Options) {
		if o.DynamicConfig == nil {
			o.DynamicConfig = map[string]string{}
		}
		o.DynamicConfig[key] = value
	}
}

// Start runs an engine on free ports with its data in a directory of the test,
// and stops it with the test. The binary is built first if there is none, which
// takes minutes once ("make engine" does it beforehand).
func Start(t testing.TB, options ...Option) *Server {
	t.Helper()
	binary, err := enginebin.Ensure(t.Context(), os.Stderr)
	if err != nil {
		t.Fatalf("devservertest: %v", err)
	}
	out := newTestOutput(t)
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	var server *devserver.Server
	for range portTries {
		o := devserver.Options{Binary: binary, Logger: slog.New(slog.NewTextHandler(out, nil))}
		for _, option := range options {
			option(&o)
		}
		if o.Dir == "" {
			o.Dir = t.TempDir()
		}
		server, err = devserver.Start(ctx, o)
		// A port that was free a moment ago may be another test's by now.
		var taken *devserver.PortInUseError
		if !errors.As(err, &taken) {
			break
		}
	}
	if err != nil {
		t.Fatalf("devservertest: %v", err)
	}
	s := &Server{Server: server, t: t, out: out}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
		defer cancel()
		if err := server.Stop(ctx); err != nil {
			t.Errorf("devservertest: stop: %v", err)
		}
		if t.Failed() {
			t.Logf("end of the engine's log:\n%s", server.LogTail())
		}
	})
	return s
}

// Client dials the default namespace, or the one named in options, and closes
// the client with the test. HostPort and Logger are set when they are zero.
func (s *Server) Client(options ...client.Options) client.Client {
	s.t.Helper()
	var o client.Options
	if len(options) > 0 {
		o = options[0]
	}
	if o.HostPort == "" {
		o.HostPort = s.HostPort()
	}
	if o.Logger == nil {
		o.Logger = tlog.NewStructuredLogger(slog.New(slog.NewTextHandler(s.out, &slog.HandlerOptions{Level: slog.LevelWarn})))
	}
	c, err := client.DialContext(s.t.Context(), o)
	if err != nil {
		s.t.Fatalf("devservertest: dial: %v", err)
	}
	s.t.Cleanup(c.Close)
	return c
}

// KillEngine ends the engine with SIGKILL. The supervisor starts it again;
// WaitHealthy waits for that.
func (s *Server) KillEngine() {
	s.t.Helper()
	if err := s.Kill(); err != nil {
		s.t.Fatalf("devservertest: %v", err)
	}
}

// RestartEngine stops the engine cleanly and waits until it is back.
func (s *Server) RestartEngine() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), startLimit)
	defer cancel()
	if err := s.Restart(ctx); err != nil {
		s.t.Fatalf("devservertest: %v", err)
	}
}

// MustBeHealthy waits until the engine is healthy.
func (s *Server) MustBeHealthy() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), startLimit)
	defer cancel()
	if err := s.WaitHealthy(ctx); err != nil {
		s.t.Fatalf("devservertest: %v", err)
	}
}
