package activities

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"

	"github.com/tollgate-dev/tollgate/internal/inventory"
	"github.com/tollgate-dev/tollgate/internal/metrics"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/fault"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Inventory are the activities of inventories; they belong on the task queue of
// each source. The fields are set once, before the worker starts, and the methods
// are safe for concurrent use.
type Inventory struct {
	// Installation is the id that marks carry.
	Installation string
	// Source finds a configured source; ok is false when there is none of that name.
	Source func(name string) (e source.Entry, ok bool)
	// SinkOf is the configured sink of a source.
	SinkOf func(source string) string
	Sink   func(name string) (s sink.Sink, ok bool, err error)
	// Receiver tells what a sink has received; ok is false for one that cannot be
	// asked.
	Receiver func(sink string) (r inventory.Receiver, ok bool)
	// Followers act on what is delivered, as with cursors; it may be nil.
	Followers func(source string) []Follower
	// Extras compare something besides; it may be nil.
	Extras func(source string) []inventory.Extra
	// Providers are those of the source's account, Shards the configured number of
	// shards of a provider's fleet table.
	Providers func(source string) []string
	Shards    func(providerName string) int
	Temporal  Temporal
	// Converter reads what activities under way have left.
	Converter converter.DataConverter
	// Store gets every listing that succeeds.
	Store   *inventory.Store
	Metrics *metrics.Inventory
	// Now is time.Now if nil.
	Now func() time.Time
}

// lookAttempts is how often an inventory tries to read what it compares before it
// goes on without.
const lookAttempts = 3

// compareTTL is how long a worker's latest comparison is shown by its metrics.
const compareTTL = 6 * time.Hour

func (a *Inventory) now() time.Time {
	if a.Now != nil {
		return a.Now().UTC()
	}
	return time.Now().UTC()
}

// source finds the source and its sink.
func (a *Inventory) source(name, sinkName string) (source.Entry, string, error) {
	e, ok := a.Source(name)
	switch {
	case !ok:
		return e, "", final(ErrSourceNotConfigured, fmt.Sprintf("source: no source %q is configured", name))
	case e.Err != nil:
		return e, "", final(ErrSourceNotConfigured, fmt.Sprintf("source: %q cannot be used: %v", name, e.Err))
	}
	if sinkName == "" {
		sinkName = a.SinkOf(name)
	}
	return e, sinkName, nil
}

// LookInventory is the first look: what is reported, what this installation owns,
// then what exists, of each stream that can list. A stream that cannot be read says
// so and has no differences.
func (a *Inventory) LookInventory(ctx context.Context, in LookInventoryInput) (LookInventoryResult, error) {
	defer heartbeat(ctx).stop()
	e, sinkName, err := a.source(in.Source, in.Sink)
	if err != nil {
		return LookInventoryResult{}, err
	}
	out := LookInventoryResult{Sink: sinkName, Extras: a.Extras != nil && len(a.Extras(in.Source)) > 0}
	for _, s := range e.Streams {
		l, ok := s.Source.(source.Lister)
		if !ok {
			out.Streams = append(out.Streams, LookedStream{InventoryStream: api.InventoryStream{Stream: s.Name, Note: "what exists cannot be listed; only the feed is read"}})
			continue
		}
		look, st, err := a.look(ctx, e, s.Name, l, sinkName)
		if err != nil {
			if again := a.tryAgain(ctx, err); again != nil {
				return LookInventoryResult{}, again
			}
			st.Error = sink.Reason(err.Error())
			out.Streams = append(out.Streams, LookedStream{InventoryStream: st})
			continue
		}
		seen := inventory.Candidates(streamOf(e, s.Name), look)
		if len(seen) == 0 {
			a.Metrics.Compared(e.Name, s.Name, metrics.Comparison{At: look.Until}, compareTTL)
		}
		out.Streams = append(out.Streams, LookedStream{InventoryStream: st, At: look.Snapshot.At, Until: look.Until, Platform: look.Snapshot.PlatformUntil, Seen: packed(seen)})
	}
	return out, nil
}

// tryAgain is the error with which the activity is tried again, nil when it goes
// on without what failed.
func (a *Inventory) tryAgain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return toTemporal(ctx, err)
	}
	if provider.RuleFor(classOf(err)).NonRetryable || activity.GetInfo(ctx).Attempt >= lookAttempts {
		return nil
	}
	return toTemporal(ctx, err)
}

// classOf is the class of a provider's or a receiver's error.
func classOf(err error) provider.Class {
	var f *fault.Error
	if errors.As(err, &f) && f.Class != fault.Retryable {
		return provider.Permanent
	}
	return provider.ClassOf(err)
}

func packed(hashes []uint64) []byte {
	out := make([]byte, 0, 8*len(hashes))
	for _, h := range hashes {
		out = binary.BigEndian.AppendUint64(out, h)
	}
	return out
}

func unpacked(b []byte) []uint64 {
	out := make([]uint64, 0, len(b)/8)
	for ; len(b) >= 8; b = b[8:] {
		out = append(out, binary.BigEndian.Uint64(b))
	}
	return out
}

// streamOf describes a stream: its kinds are the one that it is named after, or
// all that no other stream is named after.
func streamOf(e source.Entry, name string) inventory.Stream {
	s := inventory.Stream{Name: name, Platform: e.Type.Platform(), Account: e.Account}
	for _, k := range e.Type.Kinds {
		if string(k.Type) == name {
			s.Kinds = []source.Kind{k}
			return s
		}
	}
	for _, k := range e.Type.Kinds {
		if _, taken := e.Stream(string(k.Type)); !taken {
			s.Kinds = append(s.Kinds, k)
		}
	}
	return s
}

// look reads what is reported and owned, and then what exists: whatever was
// reported or owned before the listing began existed then.
func (a *Inventory) look(ctx context.Context, e source.Entry, name string, l source.Lister, sinkName string) (inventory.Look, api.InventoryStream, error) {
	var look inventory.Look
	st := api.InventoryStream{Stream: name}
	var notes []string
	stream := streamOf(e, name)
	if r, ok := a.Receiver(sinkName); !ok {
		notes = append(notes, fmt.Sprintf("sink %s cannot be asked what it has received: only what exists and what is ours are compared", sinkName))
	} else {
		types := make([]event.ResourceType, len(stream.Kinds))
		for i, k := range stream.Kinds {
			types[i] = k.Type
		}
		var err error
		if look.Reported, err = r.Open(ctx, stream.Platform, e.Account, e.Type.SubAccounts, types); err != nil {
			return look, st, fmt.Errorf("sink %s: %w", sinkName, err)
		}
		st.Reported = len(look.Reported)
	}
	var note string
	if look.Fleet, note = a.fleet(ctx, e.Name); note != "" {
		notes = append(notes, note)
	}
	if look.Fleet != nil && !slices.ContainsFunc(stream.Kinds, func(k source.Kind) bool { return k.Type == event.Server }) {
		look.Fleet.Running = nil
	}
	snapshot, err := l.List(ctx)
	look.Until = a.now()
	if err != nil {
		a.Metrics.Listed(e.Name, name, string(provider.ClassOf(err)))
		return look, st, err
	}
	a.Metrics.Listed(e.Name, name, metrics.ClassDone)
	look.Snapshot = snapshot
	// Listings are timed by the clock of whoever makes them, and so is their end.
	if look.Until.Before(snapshot.At) {
		look.Until = snapshot.At
	}
	a.Store.Put(inventory.Listed{StreamKey: inventory.StreamKey{Source: e.Name, Stream: name}, Platform: stream.Platform,
		Snapshot: snapshot, Took: look.Until.Sub(snapshot.At)})
	st.Listed, st.ListedAt, st.Note = len(snapshot.Resources), snapshot.At, strings.Join(notes, "; ")
	for _, x := range snapshot.Resources {
		switch {
		case x.Marks == nil:
		case x.Marks.Installation == a.Installation:
			st.Owned++
		default:
			st.Foreign++
		}
	}
	return look, st, nil
}

// fleet reads the tables of the providers of the source's account, as far as that
// is possible.
func (a *Inventory) fleet(ctx context.Context, sourceName string) (_ *inventory.Fleet, note string) {
	names := a.Providers(sourceName)
	if len(names) == 0 {
		return nil, ""
	}
	f := &inventory.Fleet{Installation: a.Installation, Owners: map[string]bool{}}
	for _, name := range names {
		for shard := range max(1, a.Shards(name)) {
			t, err := table(ctx, a.Temporal, name, shard)
			if err != nil {
				return nil, "our own proxies are not compared: " + sink.Reason(err.Error())
			}
			for _, row := range t.Rows {
				f.Owners[row.UID] = true
				if row.Phase == api.PhaseRunning && row.InstanceName != "" {
					f.Running = append(f.Running, inventory.FleetInstance{Namespace: row.Namespace, Proxy: row.Name, Name: row.InstanceName})
				}
			}
		}
	}
	return f, ""
}
