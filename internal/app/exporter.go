package app

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tollgate-dev/tollgate/internal/exporter"
	"github.com/tollgate-dev/tollgate/internal/inventory"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/telemetry"
)

// export shows the latest listings.
func (a *App) export(reg prometheus.Registerer) {
	reg.MustRegister(exporter.New(exporter.Options{
		Store: a.inventory, Types: a.opts.SourceTypes, Streams: a.listed, Logger: telemetry.Component(a.log, "exporter"),
	}))
}

// listed are the streams that the inventory lists.
func (a *App) listed() (out []exporter.Stream) {
	v := a.current.Load()
	if v == nil {
		return nil // not set up yet
	}
	for _, c := range v.cfg.Sources {
		e, ok := a.sources.Lookup(c.Name)
		if !ok || !c.Inventory.Enabled {
			continue
		}
		for _, s := range e.Streams {
			if _, ok := s.Source.(source.Lister); ok {
				out = append(out, exporter.Stream{StreamKey: inventory.StreamKey{Source: c.Name, Stream: s.Name}, Interval: c.Inventory.Interval})
			}
		}
	}
	return out
}

// cursorIntervals are what alerts measure the age of reads by.
func (a *App) cursorIntervals(v *version) {
	for _, c := range v.cfg.Sources {
		if e, ok := a.sources.Lookup(c.Name); ok {
			for _, s := range e.Streams {
				a.cursors.Interval(c.Name, s.Name, c.Interval)
			}
		}
	}
}
