package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"syscall"

	"github.com/tollgate-dev/tollgate/internal/devserver"
	"github.com/tollgate-dev/tollgate/internal/devserver/devstate"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/reportingserver"
)

const (
	// reportingSink is the name of the sink that the overlay adds, and
	// reportingSecret that of the secret with its token.
	reportingSink   = "reporting"
	reportingSecret = "reporting-token"
	reportingDB     = "reporting.db"
)

// serveReporting runs the reference implementation of the Reporting API, which
// keeps what it is told in the state directory.
func (d *dev) serveReporting(ctx context.Context) error {
	token, err := d.state.ReportingToken()
	if err != nil {
		return err
	}
	d.reportingToken = token
	l, err := net.Listen("tcp", loopback(d.opts.reportingPort))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return &devserver.PortInUseError{Port: d.opts.reportingPort, Use: useReporting}
	case err != nil:
		return fmt.Errorf("reporting API: %w", err)
	}
	log := d.log.With("component", "reporting")
	s, err := reportingserver.New(ctx, reportingserver.Options{
		Path: d.state.Path(reportingDB), Tokens: []provider.Sensitive{provider.NewSensitive([]byte(token))}, Logger: log,
	})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	// It ends after the workers, whose last deliveries it takes.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Serve(ctx, l); err != nil {
			log.Error("reporting API ended", "error", err)
		}
	}()
	d.onClose(func() {
		cancel()
		<-done
		if err := s.Close(); err != nil {
			log.Warn("reporting API stop failed", "error", err)
		}
	})
	return nil
}

func (d *dev) reportingURL() string { return "http://" + loopback(d.opts.reportingPort) }

// reportingOverlay lets sources deliver to it.
func (d *dev) reportingOverlay() []byte {
	return fmt.Appendf(nil, "sinks: [{name: %s, type: reporting, url: %q, token: %s}]\nsecrets: {%[3]s: {file: %[4]q}}\n",
		reportingSink, d.reportingURL(), reportingSecret, d.state.ReportingTokenFile())
}

func (d *dev) sayReporting() {
	d.say("  reporting API    %s, token in %s", d.reportingURL(), shown(d.state.ReportingTokenFile()))
	d.say("    signed in      %s", d.reportingURL()+"/login?token="+url.QueryEscape(d.reportingToken))
}

// addressesName is the file that says where everything is while it runs, for the
// commands that work with a running tollgate-dev.
const addressesName = "addresses.json"

// addresses are where a running tollgate-dev can be reached.
type addresses struct {
	PID       int    `json:"pid"`
	Temporal  string `json:"temporal"`
	Reporting string `json:"reporting"`
	// Day is empty without the simulator of the scripted day.
	Day struct {
		Endpoint  string `json:"endpoint"`
		Admin     string `json:"admin"`
		TokenFile string `json:"tokenFile"`
	} `json:"day,omitzero"`
}

// writeAddresses leaves the file until the end.
func (d *dev) writeAddresses() error {
	a := addresses{PID: os.Getpid(), Temporal: d.engine.HostPort(), Reporting: d.reportingURL()}
	if d.hetzner != nil {
		a.Day.Endpoint, a.Day.Admin, a.Day.TokenFile = d.hetzner.DayEndpoint(), d.hetzner.DayAdminURL(), d.hetzner.TokenFile()
	}
	b, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return err
	}
	path := d.state.Path(addressesName)
	if err := devstate.Write(path, string(b)+"\n"); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	d.onClose(func() {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			d.log.Warn("addresses are left", "error", err)
		}
	})
	return nil
}
