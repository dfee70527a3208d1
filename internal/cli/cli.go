// Package cli is the tollgate command line. Every command is a thin layer over
// what the workflows offer to anybody: starts, signals, updates and queries, so
// that each has an equivalent line of the temporal CLI, which its help shows.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/trace"

	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/telemetry"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

const (
	envKeyFile   = "TOLLGATE_CODEC_KEYS"
	envNamespace = "TOLLGATE_NAMESPACE"
	// stateDir is what tollgate-dev keeps its state in, and devKeyFile the key
	// file in it.
	stateDir   = ".tollgate"
	devKeyFile = "codec-keys.json"
	// flushLimit bounds how long the end of a command waits for its spans.
	flushLimit = 2 * time.Second
)

// app is the state of one run of the command line: its flags.
type app struct {
	env          Env
	connect      ConnectOptions
	keyFileFlag  string
	namespace    string
	namespaceSet bool
	output       choice
	timeout      time.Duration
	// grace is how long an answer may take before workers are looked for, and
	// pollEvery the pace of waiting.
	grace, pollEvery time.Duration
}

func newApp(env Env) *app {
	env.Stdout, env.Stderr = &lockedWriter{w: env.Stdout}, &lockedWriter{w: env.Stderr}
	return &app{
		env: env, grace: workerGrace, pollEvery: pollEvery,
		output: choice{formatTable, []string{formatTable, formatWide, formatJSON, formatYAML}},
	}
}

// Main runs the command line and returns the process's exit code. The end of ctx
// is an interrupt: what was asked for goes on at Temporal.
func Main(ctx context.Context, args []string, env Env) ExitCode { return newApp(env).main(ctx, args) }

func (a *app) main(ctx context.Context, args []string) ExitCode {
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	a.report(err)
	return codeOf(err)
}

// report prints errors, each line once, and the advice that belongs to them.
func (a *app) report(err error) {
	said := map[string]bool{}
	for _, e := range leaves(err) {
		var b strings.Builder
		for line := range strings.Lines(e.Error()) {
			fmt.Fprintf(&b, "tollgate: %s\n", oneLine(strings.TrimRight(line, "\n")))
		}
		var own *Error
		if errors.As(e, &own) && own.Hint != "" {
			fmt.Fprintf(&b, "  %s\n", own.Hint)
		}
		if text := b.String(); !said[text] {
			said[text] = true
			fmt.Fprint(a.env.Stderr, text)
		}
	}
}

// leaves takes joined errors apart.
func leaves(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var out []error
	for _, e := range joined.Unwrap() {
		out = append(out, leaves(e)...)
	}
	return out
}

// check validates the global flags before any command runs.
func (a *app) check(cmd *cobra.Command) error {
	a.namespaceSet = cmd.Flags().Changed("namespace")
	if !a.namespaceSet {
		a.namespace = api.DefaultNamespace
		if v := a.env.Getenv(envNamespace); v != "" {
			a.namespace = v
		}
	}
	if err := provider.ValidateName("--namespace", a.namespace); err != nil {
		return usageErr(err)
	}
	if a.timeout < 0 {
		return usage("--timeout: %s is negative: use a duration such as 30s or 10m, or 0 for the command's default", a.timeout)
	}
	return nil
}

// keyFile is the codec's key file: the flag, the environment, or what
// tollgate-dev keeps in the working directory or one above it. "" means none.
func (a *app) keyFile() string {
	if a.keyFileFlag != "" {
		return a.path(a.keyFileFlag)
	}
	if v := a.env.Getenv(envKeyFile); v != "" {
		return a.path(v)
	}
	for dir := a.env.Dir; ; dir = filepath.Dir(dir) {
		f := filepath.Join(dir, stateDir, devKeyFile)
		if info, err := os.Stat(f); err == nil && info.Mode().IsRegular() {
			return f
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
	}
}

// connected runs f with a connection, within the time the command has, in the
// span that is the root of all that the command causes.
func (a *app) connected(cmd *cobra.Command, limit time.Duration, f func(context.Context, *session) error) (err error) {
	ctx := cmd.Context()
	var tracer trace.TracerProvider
	if a.env.Tracing != nil {
		t, terr := a.env.Tracing(ctx)
		if terr != nil {
			return usageErr(terr)
		}
		tracer = t.TracerProvider()
		parent := ctx
		var span trace.Span
		ctx, span = t.StartOperation(ctx, cmd.CommandPath())
		defer func() {
			telemetry.EndOperation(span, err)
			flush, cancel := context.WithTimeout(context.WithoutCancel(parent), flushLimit)
			defer cancel()
			// A collector that is away must not fail a command that worked.
			_ = t.Shutdown(flush)
		}()
	}
	if a.timeout > 0 {
		limit = a.timeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s := &session{env: a.env, timeout: limit, grace: a.grace, pollEvery: a.pollEvery}
	opts := a.connect
	opts.KeyFile, opts.Tracer = a.keyFile(), tracer
	s.conn, err = a.env.Connect(ctx, opts)
	if err != nil {
		s.conn = &Connection{Address: opts.Address, Namespace: opts.Namespace}
		return s.connectError(ctx, err)
	}
	defer s.conn.Client.Close()
	return f(ctx, s)
}

// objectArg reads the name of a proxy.
func (a *app) objectArg(name string) (object, error) {
	name = strings.TrimPrefix(name, "proxy/")
	if err := provider.ValidateName("name", name); err != nil {
		return object{}, usageErr(err)
	}
	return object{a.namespace, name}, nil
}
