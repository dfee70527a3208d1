// Package app is the composition root: it turns a configuration into providers,
// activities, workers and servers, keeps them in step with the file, and takes
// them down in order. Concrete types meet here and nowhere else.
package app

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/tollgate-dev/tollgate/internal/config"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/provider/all"
	sinks "github.com/tollgate-dev/tollgate/internal/reporting/sink/all"
	"github.com/tollgate-dev/tollgate/internal/source"
	sources "github.com/tollgate-dev/tollgate/internal/source/all"
	"github.com/tollgate-dev/tollgate/internal/telemetry"
	"github.com/tollgate-dev/tollgate/internal/temporalclient"
)

// Names of what the app keeps in its state directory.
const (
	// KeyFileName is the codec's keyring when the configuration names none.
	KeyFileName = "codec-keys.json"
	// ProvidersDir has a folder for each provider that needs one.
	ProvidersDir = "providers"
)

// Limits of a shutdown.
const (
	// WorkerStopTimeout is how long activities may take to finish.
	WorkerStopTimeout = 10 * time.Second
	httpStopTimeout   = 5 * time.Second
	flushTimeout      = 3 * time.Second
)

// Options configure an App. ConfigFile or Config is required.
type Options struct {
	// ConfigFile is read at the start and followed from then on.
	ConfigFile string
	// Config is used instead of a file; then there is nothing to follow.
	Config *config.Config
	// Installation is used when the file names none.
	Installation string
	// Overlay adds providers and secrets to the file's (config.Options.Overlay).
	Overlay []byte
	// Types are the provider types; nil means all of them.
	Types []provider.Type
	// SourceTypes are the source types; nil means all of them.
	SourceTypes []source.Type
	// StateDir holds the codec's keyring and the providers' folders. It is made
	// when it is needed.
	StateDir string

	// HTTPAddr serves discovery, health and the codec endpoint; MetricsAddr the
	// metrics. Empty means no such server, port 0 a free one.
	HTTPAddr    string
	MetricsAddr string

	// Temporal says where to connect. Codec, Logger, Metrics and TracerProvider
	// in it are set by the app. Connection, when set, is used instead, and is not
	// closed by the app; its converters must be those of the keyring.
	Temporal   temporalclient.Options
	Connection *temporalclient.Connection

	// CodecToken and UIURL open the codec endpoint, as codec.token and
	// codec.uiURL in the file do, which win.
	CodecToken provider.Sensitive
	UIURL      string

	// Logger gets everything; nil means standard error, as the file's log says.
	Logger *slog.Logger
	// Level is Logger's, if the file's log.level is to change it.
	Level *slog.LevelVar
	// Metrics and Tracing may be shared with the rest of the process; nil makes
	// metrics of the app's own, and no traces.
	Metrics *telemetry.Metrics
	Tracing *telemetry.Tracing
	// Reload asks for a reload now; SIGHUP ends up here.
	Reload <-chan struct{}
	// ReloadPoll is how often the file is looked at; zero means
	// config.DefaultPoll.
	ReloadPoll time.Duration
	// CountShoots is how often the registrations of shoots are counted; zero means
	// every minute.
	CountShoots time.Duration
}

func (o Options) withDefaults() (Options, error) {
	if (o.ConfigFile == "") == (o.Config == nil) {
		return o, fmt.Errorf("app: exactly one of ConfigFile and Config is wanted")
	}
	if o.Types == nil {
		o.Types = all.Types()
	}
	if o.SourceTypes == nil {
		o.SourceTypes = sources.Types()
	}
	if o.StateDir == "" {
		o.StateDir = ".tollgate"
	}
	abs, err := filepath.Abs(o.StateDir)
	if err != nil {
		return o, fmt.Errorf("state directory %s: %w", o.StateDir, err)
	}
	o.StateDir = abs
	return o, nil
}

// load reads the configuration that the options name.
func (o Options) load() (*config.Config, error) {
	if o.Config != nil {
		return o.Config, nil
	}
	return config.Load(o.ConfigFile, config.Options{Types: o.Types, SourceTypes: o.SourceTypes, SinkTypes: sinks.Types(), Installation: o.Installation, Overlay: o.Overlay})
}

// ListenError says that an address cannot be listened on.
type ListenError struct {
	// Server is "http" or "metrics".
	Server string
	Addr   string
	Err    error
}

func (e *ListenError) Error() string {
	return fmt.Sprintf("%s server: cannot listen on %s: %v", e.Server, e.Addr, e.Err)
}

// Unwrap returns the cause.
func (e *ListenError) Unwrap() error { return e.Err }

func listen(server, addr string) (net.Listener, error) {
	if addr == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err
		}
		return nil, &ListenError{Server: server, Addr: addr, Err: err}
	}
	return l, nil
}

// identity is this process in histories and in the list of workers.
func identity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("tollgate@%s/%d", host, os.Getpid())
}
