package cli

import (
	"context"
	"io"
	"os"
	"time"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/term"

	"github.com/tollgate-dev/tollgate/internal/telemetry"
)

// Env is what commands touch outside their process. Tests replace parts of it.
type Env struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// Getenv reads an environment variable, "" when it is not set.
	Getenv func(string) string
	// Dir is the working directory.
	Dir string
	// Terminal is true when Stderr is a terminal that understands cursor movement;
	// progress is then shown in one line that changes.
	Terminal bool
	Now      func() time.Time
	// Connect opens a connection to Temporal.
	Connect func(context.Context, ConnectOptions) (*Connection, error)
	// Tracing sets up tracing for one command. Nil means none.
	Tracing func(context.Context) (*telemetry.Tracing, error)
}

// ConnectOptions are the global flags that concern the connection. Empty fields
// leave the choice to the TEMPORAL_* environment and temporal.toml.
type ConnectOptions struct {
	Address   string
	Namespace string
	Profile   string
	// KeyFile is the keyring of the payload codec, empty for none.
	KeyFile string
	// Tracer gets the spans of the connection's calls; nil means none.
	Tracer trace.TracerProvider
}

// SystemEnv is the environment of a real process.
func SystemEnv() Env {
	dir, err := os.Getwd()
	if err != nil {
		dir = "."
	}
	return Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Dir: dir, Now: time.Now,
		Terminal: term.IsTerminal(int(os.Stderr.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
		Connect:  connect,
		Tracing: func(ctx context.Context) (*telemetry.Tracing, error) {
			t, err := telemetry.NewTracing(ctx, telemetry.TracingOptions{Service: "tollgate-cli", Version: buildInfo().Version})
			if err == nil {
				t.Install() // or a collector that is away would spoil standard error
			}
			return t, err
		},
	}
}
