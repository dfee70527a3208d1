package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tollgate-dev/tollgate/internal/devserver"
)

// Flags that name ports.
const (
	flagTemporal  = "temporal-port"
	flagUI        = "ui-port"
	flagHTTP      = "http-port"
	flagMetrics   = "metrics-port"
	flagReporting = "reporting-port"
	flagProbe     = "probe-port"
)

const useReporting = "the Reporting API"

// options are the command line.
type options struct {
	stateDir      string
	temporalPort  int
	uiPort        int
	httpPort      int
	metricsPort   int
	reportingPort int
	// probePort is the probe target's in a new configuration, if it is free.
	probePort  int
	configFile string
	with       []string
}

func defaultOptions() options {
	return options{stateDir: ".tollgate", temporalPort: 7233, uiPort: 8233, httpPort: 7280, metricsPort: 7290, reportingPort: 7270, probePort: 7281}
}

// port is one of the ports and the flag that sets it.
type port struct {
	flag string
	port int
	use  string
}

func (o options) ports() []port {
	return []port{
		{flagTemporal, o.temporalPort, "Temporal"},
		{flagUI, o.uiPort, "the Web UI"},
		{flagHTTP, o.httpPort, "the discovery API"},
		{flagMetrics, o.metricsPort, "the metrics"},
		{flagReporting, o.reportingPort, useReporting},
	}
}

// check looks at what needs no look at the machine.
func (o options) check() error {
	if o.stateDir == "" {
		return errors.New("--state-dir: a directory is required")
	}
	for i, name := range o.with {
		if !slices.Contains(simulators, name) {
			return fmt.Errorf("--with %s: is unknown: use one of %s", name, strings.Join(simulators, ", "))
		}
		if slices.Contains(o.with[:i], name) {
			return fmt.Errorf("--with %s: is given twice", name)
		}
	}
	seen := map[int]string{}
	for _, p := range o.ports() {
		if p.port < 1 || p.port > math.MaxUint16 {
			return fmt.Errorf("--%s %d: want 1 to %d", p.flag, p.port, math.MaxUint16)
		}
		if other, ok := seen[p.port]; ok {
			return fmt.Errorf("--%s %d: already given to --%s", p.flag, p.port, other)
		}
		seen[p.port] = p.flag
	}
	if o.probePort < 1 || o.probePort > math.MaxUint16 {
		return fmt.Errorf("--%s %d: want 1 to %d", flagProbe, o.probePort, math.MaxUint16)
	}
	return nil
}

// explain names the flag in an error about a port in use.
func (o options) explain(err error) error {
	var inUse *devserver.PortInUseError
	if !errors.As(err, &inUse) {
		return err
	}
	for _, p := range o.ports() {
		if p.port == inUse.Port {
			return fmt.Errorf("--%s %d: the port for %s is already in use by another process; stop it or choose another port, for example --%s %d",
				p.flag, p.port, p.use, p.flag, suggestion(p.port))
		}
	}
	return err
}

// suggestion is another port, above all that are used by default.
func suggestion(p int) int {
	if p+10000 <= math.MaxUint16 {
		return p + 10000
	}
	return p - 10000
}
