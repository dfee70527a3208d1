package app

import (
	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/codec"
	"github.com/tollgate-dev/tollgate/internal/config"
	"github.com/tollgate-dev/tollgate/internal/inventory"
	"github.com/tollgate-dev/tollgate/internal/inventory/page"
	"github.com/tollgate-dev/tollgate/internal/telemetry"
)

// newInventory makes the activities of inventories.
func (a *App) newInventory(installation string, shards func(string) int) *activities.Inventory {
	source := func(name string) config.Source { s, _ := a.Config().Source(name); return s }
	return &activities.Inventory{
		Installation: installation,
		Source:       a.sources.Lookup,
		SinkOf:       func(name string) string { return source(name).Sink },
		Sink:         a.sinkNamed,
		Receiver: func(name string) (inventory.Receiver, bool) {
			r, ok := a.current.Load().tolls.receivers[name]
			return r, ok
		},
		Followers: a.followers,
		Extras:    a.extras,
		Providers: func(name string) []string { return source(name).Inventory.Providers },
		Shards:    shards,
		Temporal:  a.conn.Client,
		Converter: codec.DataConverter(codec.New(a.keys)),
		Store:     a.inventory,
		Metrics:   a.compared,
	}
}

// inventoryPage shows the latest reports to who may use the discovery API.
func (a *App) inventoryPage() *page.Handler {
	return page.New(page.Options{
		Temporal: a.conn.Client,
		Sources: func() (names []string) {
			for _, s := range a.Config().Sources {
				names = append(names, s.Name)
			}
			return names
		},
		Token:  a.discoveryToken,
		Logger: telemetry.Component(a.log, "inventory"),
	})
}

// extras are what the inventory of a source compares besides its resources.
func (a *App) extras(name string) []inventory.Extra {
	if _, ok := a.current.Load().tolls.registrations[name]; !ok {
		return nil
	}
	return []inventory.Extra{a.relations}
}
