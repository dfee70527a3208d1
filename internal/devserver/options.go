// Package devserver runs the embedded Temporal engine as a supervised child
// process: for tollgate-dev, and through package devservertest for tests.
package devserver

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"go.temporal.io/sdk/temporal"
)

// Host is the address of everything the engine listens on.
const Host = "127.0.0.1"

// Namespace is the Temporal namespace that always exists.
const Namespace = "default"

const (
	defaultDB  = "temporal.db"
	logName    = "engine.log"
	maxLogSize = 8 << 20
)

// Options say how an engine runs. Only Dir is required.
type Options struct {
	// Dir holds the database and the log. It is created, and made private to this
	// user.
	Dir string
	// DBFile is the SQLite file; empty means temporal.db in Dir.
	DBFile string
	// Binary is the engine; empty means the one that enginebin.Ensure finds or
	// builds.
	Binary string
	// Port is the port of the gRPC frontend. 0 takes a free one, which is kept
	// over restarts.
	Port int
	// UIPort is the port of the Web UI, MetricsPort the one of the server's own
	// Prometheus metrics. 0 means none.
	UIPort      int
	MetricsPort int
	// Namespaces are created beside Namespace.
	Namespaces []string
	// SearchAttributes are added to every namespace.
	SearchAttributes []temporal.SearchAttributeKey
	// DynamicConfig are settings of the server, as JSON by key.
	DynamicConfig map[string]string
	// Retention is how long new namespaces keep closed workflows; 0 means 24 h.
	Retention time.Duration
	// CodecEndpoint is the payload codec that the Web UI asks, with the browser's
	// cookies for it.
	CodecEndpoint string
	// LogLevel of the engine: debug, info, warn (the default), error or never.
	LogLevel string
	// Logger gets what the supervisor does; nil discards.
	Logger *slog.Logger
	// Progress gets lines for a person who waits for the start; nil discards.
	Progress io.Writer
}

// withDefaults checks o and fills it in, all but the binary.
func (o Options) withDefaults() (Options, error) {
	if o.Dir == "" {
		return o, errors.New("devserver: options: no directory given")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return o, fmt.Errorf("devserver: directory: %w", err)
	}
	o.Dir = dir
	if o.DBFile == "" {
		o.DBFile = filepath.Join(dir, defaultDB)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return o, fmt.Errorf("devserver: directory: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return o, fmt.Errorf("devserver: directory: %w", err)
	}
	if o.Port == 0 {
		if o.Port, err = FreePort(); err != nil {
			return o, fmt.Errorf("devserver: %w", err)
		}
	}
	return o, nil
}

// checkPorts returns a *PortInUseError if a port is taken.
func (o Options) checkPorts() error {
	for _, p := range []struct {
		port int
		use  string
	}{{o.Port, "Temporal"}, {o.UIPort, "the Web UI"}, {o.MetricsPort, "the engine's metrics"}} {
		if p.port == 0 {
			continue
		}
		if err := CheckPort(p.port, p.use); err != nil {
			return err
		}
	}
	return nil
}

// args is the engine's command line.
func (o Options) args() []string {
	args := []string{
		"server", "start-dev",
		"--exit-with-stdin",
		"--ip", Host,
		"--port", strconv.Itoa(o.Port),
		"--db-filename", o.DBFile,
	}
	if o.UIPort == 0 {
		args = append(args, "--headless")
	} else {
		args = append(args, "--ui-port", strconv.Itoa(o.UIPort))
	}
	if o.MetricsPort != 0 {
		args = append(args, "--metrics-port", strconv.Itoa(o.MetricsPort))
	}
	for _, ns := range o.Namespaces {
		args = append(args, "--namespace", ns)
	}
	for _, a := range o.SearchAttributes {
		args = append(args, "--search-attribute", a.GetName()+"="+a.GetValueType().String())
	}
	for _, k := range slices.Sorted(maps.Keys(o.DynamicConfig)) {
		args = append(args, "--dynamic-config-value", k+"="+o.DynamicConfig[k])
	}
	if o.Retention != 0 {
		args = append(args, "--retention", o.Retention.String())
	}
	if o.CodecEndpoint != "" {
		args = append(args, "--ui-codec-endpoint", o.CodecEndpoint, "--ui-codec-credentials")
	}
	if o.LogLevel != "" {
		args = append(args, "--log-level", o.LogLevel)
	}
	return args
}
