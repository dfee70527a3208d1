// Package temporalclient connects to Temporal, in one way for the worker, the
// CLI and tollgate-dev: standard configuration, encrypted payloads and failures,
// traces, metrics and logs.
package temporalclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"

	"github.com/tollgate-dev/tollgate/internal/codec"
	"github.com/tollgate-dev/tollgate/internal/telemetry"
	"github.com/tollgate-dev/tollgate/workflows"
)

// DefaultTimeout bounds one attempt to connect.
const DefaultTimeout = 10 * time.Second

// waitInterval is the pause between attempts while Options.Wait lasts.
const waitInterval = 500 * time.Millisecond

// Options say where to connect and what the client carries. The zero value
// connects as the environment says, in the clear.
type Options struct {
	// Address (host:port) and Namespace win over the environment and the profile
	// when they are not empty.
	Address   string
	Namespace string
	// ConfigFile and Profile choose a temporal.toml and a profile in it; empty
	// means TEMPORAL_CONFIG_FILE and TEMPORAL_PROFILE, or their defaults.
	ConfigFile string
	Profile    string
	// Isolated ignores the environment and temporal.toml: only Address and
	// Namespace count. It is for servers that the caller started itself.
	Isolated bool
	// EnvLookup replaces the process's environment.
	EnvLookup envconfig.EnvLookup

	// Codec encrypts payloads and failures; nil stores them in the clear.
	Codec converter.PayloadCodec
	// Logger gets what the SDK logs; nil discards it.
	Logger *slog.Logger
	// Metrics gets the SDK's metrics; nil discards them.
	Metrics client.MetricsHandler
	// TracerProvider is OpenTelemetry's global one when nil.
	TracerProvider trace.TracerProvider
	// Identity of the client in histories; the SDK's pid@host when empty.
	Identity string

	// Timeout bounds one attempt to connect; DefaultTimeout when zero.
	Timeout time.Duration
	// Wait goes on trying for this long while the server cannot be reached, so
	// that a worker may start before its server.
	Wait time.Duration
}

// Connection is a client and where it leads.
type Connection struct {
	Client    client.Client
	Address   string
	Namespace string
}

// Close closes the client.
func (c *Connection) Close() { c.Client.Close() }

// Dial connects and checks that the namespace exists. An UnreachableError names
// the address and what to check; other errors are about configuration,
// credentials or the namespace.
func Dial(ctx context.Context, o Options) (*Connection, error) {
	opts, err := clientOptions(o)
	if err != nil {
		return nil, err
	}
	timeout := o.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	opts.ConnectionOptions.GetSystemInfoTimeout = timeout
	giveUp := time.Now().Add(o.Wait)
	for {
		conn, err := dialOnce(ctx, opts, timeout)
		var unreachable *UnreachableError
		if err == nil || !errors.As(err, &unreachable) || ctx.Err() != nil || !time.Now().Add(waitInterval).Before(giveUp) {
			return conn, err
		}
		if o.Logger != nil {
			o.Logger.Info("waiting for temporal", "address", opts.HostPort, "error", unreachable.Err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(waitInterval):
		}
	}
}

func dialOnce(ctx context.Context, opts client.Options, timeout time.Duration) (*Connection, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c, err := client.DialContext(ctx, opts)
	if err != nil {
		return nil, explain(err, opts, timeout)
	}
	_, err = c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: opts.Namespace})
	if denied := new(serviceerror.PermissionDenied); errors.As(err, &denied) {
		err = nil // may be used without the right to look at it
	}
	if err != nil {
		c.Close()
		return nil, explain(err, opts, timeout)
	}
	return &Connection{Client: c, Address: opts.HostPort, Namespace: opts.Namespace}, nil
}

// Target returns where Dial with these options leads, without connecting.
func Target(o Options) (address, namespace string, err error) {
	opts, err := clientOptions(o)
	return opts.HostPort, opts.Namespace, err
}

// clientOptions are the SDK's options for ours.
func clientOptions(o Options) (client.Options, error) {
	var opts client.Options
	if !o.Isolated {
		var err error
		opts, err = envconfig.LoadClientOptions(envconfig.LoadClientOptionsRequest{
			ConfigFilePath:    o.ConfigFile,
			ConfigFileProfile: o.Profile,
			EnvLookup:         o.EnvLookup,
		})
		if err != nil {
			return client.Options{}, fmt.Errorf("temporal configuration (TEMPORAL_* variables and temporal.toml): %w", err)
		}
	}
	opts.HostPort = firstOf(o.Address, opts.HostPort, client.DefaultHostPort)
	opts.Namespace = firstOf(o.Namespace, opts.Namespace, client.DefaultNamespace)
	opts.Identity = o.Identity
	opts.DataConverter = codec.DataConverter(o.Codec)
	opts.FailureConverter = codec.FailureConverter(o.Codec)
	opts.MetricsHandler = o.Metrics
	logger := o.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	opts.Logger = telemetry.SDKLogger(telemetry.Component(logger, "temporal"))
	tp := o.TracerProvider
	if tp == nil {
		tp = otel.GetTracerProvider()
	}
	opts.Interceptors = []interceptor.ClientInterceptor{
		telemetry.TemporalInterceptor(tp, workflows.TypeFleetWatch, workflows.TypeProviderHealth),
	}
	return opts, nil
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
