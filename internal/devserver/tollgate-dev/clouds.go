package main

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/tollgate-dev/tollgate/internal/devserver/simcloud"
)

const cloudStopLimit = 3 * time.Second

// simulate starts the simulators that the command line asks for.
func (d *dev) simulate() error {
	if !slices.Contains(d.opts.with, simcloud.HetznerName) {
		return nil
	}
	h, err := simcloud.StartHetzner(d.state.Path(simcloud.HetznerName), d.log)
	if err != nil {
		return err
	}
	d.hetzner = h
	d.onClose(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cloudStopLimit)
		defer cancel()
		if err := h.Close(ctx); err != nil {
			d.log.Warn("simulator stop failed", "error", err)
		}
	})
	return nil
}

// overlay is what the Reporting API and the simulators add to the configuration;
// the file stays as it is.
func (d *dev) overlay() []byte {
	docs := [][]byte{d.reportingOverlay()}
	if d.hetzner != nil {
		docs = append(docs, d.hetzner.Config(), d.hetzner.Sources(reportingSink))
	}
	return bytes.Join(docs, []byte("---\n"))
}

// sayClouds prints where the simulators are.
func (d *dev) sayClouds() {
	if d.hetzner == nil {
		return
	}
	d.say("  simulated cloud  %s, provider %s, token in %s", d.hetzner.Endpoint(), simcloud.HetznerProvider, shown(d.hetzner.TokenFile()))
	d.say("    its state      curl %s/state", d.hetzner.AdminURL())
	d.say("    make it fail   curl %s/sellout -d '{\"location\":\"nbg1\",\"type\":\"cx23\"}'", d.hetzner.AdminURL())
}
