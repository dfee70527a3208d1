package gardener_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/usage"
	"github.com/tollgate-dev/tollgate/internal/source"
	source_gardener "github.com/tollgate-dev/tollgate/internal/source/gardener"
)

// receiver follows a source and keeps what was read, as a Reporting API does.
type receiver struct {
	t     *testing.T
	fresh func(cfg source.Config) *source_gardener.Source // builds the source
	asked bool
	s     *source_gardener.Source
	c     source.Cursor

	got      map[string]event.Event
	order    []string // of the ids, as they came
	again    []string // ids that came more than once
	gaps     []source.Gap
	rejected []source.Rejection
	pages    int
	last     source.Page
}

// newReceiver answers the source's questions if it can be asked.
func newReceiver(t *testing.T, asked bool, fresh func(cfg source.Config) *source_gardener.Source) *receiver {
	t.Helper()
	r := &receiver{t: t, got: map[string]event.Event{}, fresh: fresh, asked: asked}
	r.restart()
	return r
}

// restart is what the end of a worker is: only the cursor is left.
func (r *receiver) restart() {
	var cfg source.Config
	if r.asked {
		cfg.Open, cfg.Known = r.open, r.known
	}
	r.s = r.fresh(cfg)
}

// read reads until nothing is left.
func (r *receiver) read() {
	r.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		p, err := r.s.Next(r.t.Context(), r.c)
		if err != nil {
			r.t.Fatal(err)
		}
		if r.take(p); p.CaughtUp {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatal("not caught up after a minute")
		}
	}
}

func (r *receiver) take(p source.Page) {
	r.t.Helper()
	for _, i := range p.Items {
		if err := source_gardener.Type().Check(i); err != nil {
			r.t.Error(err)
		}
		if _, dup := r.got[i.Event.ID]; dup {
			r.again = append(r.again, i.Event.ID)
			continue
		}
		r.got[i.Event.ID] = i.Event
		r.order = append(r.order, i.Event.ID)
	}
	if p.Gap != nil {
		r.gaps = append(r.gaps, *p.Gap)
	}
	r.rejected = append(r.rejected, p.Rejected...)
	r.c, r.last = p.Next, p
	r.pages++
}

// timelines are what the events say, by resource.
func (r *receiver) timelines() map[event.Resource]usage.Timeline {
	events := map[event.Resource][]event.Event{}
	for _, e := range r.got {
		k := event.Resource{Type: e.Data.Resource.Type, ID: e.Data.Resource.ID}
		events[k] = append(events[k], e)
	}
	out := map[event.Resource]usage.Timeline{}
	for k, list := range events {
		out[k] = usage.Build(list)
	}
	return out
}

func (r *receiver) open(_ context.Context, p event.Platform, t event.ResourceType) (out []source.OpenResource, err error) {
	for k, line := range r.timelines() {
		span, _, alive, ok := line.At(time.Now().Add(24 * time.Hour))
		if ok && alive && line.Platform == p && k.Type == t {
			out = append(out, source.OpenResource{Account: line.Account, Resource: line.Resource,
				Reported: source.Reported{Size: span.Size, Since: span.From}, State: span.State})
		}
	}
	return out, nil
}

func (r *receiver) known(_ context.Context, p event.Platform, account string, ask []event.Resource) (map[event.Resource]source.Reported, error) {
	out, lines := map[event.Resource]source.Reported{}, r.timelines()
	for _, k := range ask {
		line, ok := lines[k]
		if span, _, _, known := line.At(time.Now().Add(24 * time.Hour)); ok && known && line.Platform == p && line.Account == account {
			out[k] = source.Reported{Size: span.Size, Since: span.From}
		}
	}
	return out, nil
}

// lines are the events of a shoot as they came, short.
func (r *receiver) lines(name string) (out []string) {
	for _, id := range r.order {
		e := r.got[id]
		if e.Data.Resource.Name != name {
			continue
		}
		line := strings.TrimPrefix(string(e.Type), "shoot.")
		for _, s := range []struct {
			word string
			size event.Size
		}{{"from", e.Data.PreviousSize}, {"to", e.Data.Size}} {
			if len(s.size) > 0 {
				line += " " + s.word
				for f, v := range s.size.All() {
					f = strings.NewReplacer("pool_", "", "_worker_count", "", "_machine_type", "", "worker_count", "all").Replace(f)
					line += fmt.Sprintf(" %s=%s", f, v)
				}
			}
		}
		if len(e.Data.UnknownSize) > 0 {
			line += " unknown"
		}
		if e.Data.Derived != "" {
			line += " (concluded)"
		}
		out = append(out, line)
	}
	return out
}

// types are the types of the events of a shoot, sorted.
func (r *receiver) types(name string) (out []string) {
	for _, l := range r.lines(name) {
		t, _, _ := strings.Cut(l, " ")
		out = append(out, t)
	}
	slices.Sort(out)
	return out
}

// wantOnce checks that nothing came twice.
func (r *receiver) wantOnce() {
	r.t.Helper()
	if len(r.again) > 0 {
		r.t.Errorf("%d events came more than once: %v", len(r.again), r.again)
	}
}
