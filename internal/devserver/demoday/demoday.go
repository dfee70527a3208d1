// Package demoday is a day in the life of a cloud account, for people who want to
// see tolls at work and for a test: it drives a simulator of Hetzner Cloud over its
// API, at exact times of a simulated clock, and waits after each step until the
// events have arrived at the Reporting API. What it came to is worked out by hand
// in docs/tutorials/first-toll.md.
package demoday

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"

	"github.com/tollgate-dev/tollgate/internal/reporting"
	"github.com/tollgate-dev/tollgate/internal/reporting/api"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
)

// Account is the account of the day in events.
const Account = "day"

// FirstID is the first id that the simulator of the day gives out, so that the
// same things have the same ids on every machine.
const FirstID = 1001

// The simulated clock stands at Begin when nothing has happened yet; the day whose
// usage is worked out is from From until To.
var (
	Begin = time.Date(2026, 3, 13, 0, 0, 0, 0, time.UTC)
	From  = time.Date(2026, 3, 14, 0, 0, 0, 0, time.UTC)
	To    = time.Date(2026, 3, 15, 0, 0, 0, 0, time.UTC)
)

// DefaultSettle is how long the events of a step may take to arrive.
const DefaultSettle = 2 * time.Minute

// Options say where the simulator and the Reporting API are.
type Options struct {
	// Endpoint is the base URL of the simulator's API, Admin that of what sets its
	// clock, and Token its API token.
	Endpoint, Admin, Token string
	// Reporting is where the events arrive.
	Reporting *reporting.Client
	// Inventory has an inventory of the account made. It is called when the end of
	// something waits to be found, again and again until it is.
	Inventory func(context.Context) error
	// Out gets a line for each step.
	Out io.Writer
	// Settle is how long the events of a step may take to arrive; zero means
	// DefaultSettle.
	Settle time.Duration
}

// Result is what the day came to.
type Result struct {
	// Again is true when the day had been before and was only read.
	Again   bool
	Project api.Project
	// Events are all events of the account, in the order of their times.
	Events []event.Event
	// Usage is that of the day, as of its end.
	Usage api.Usage
}

// day is one run.
type day struct {
	Options
	cloud *cloud
	want  []event.Event
}

// Run lets the day happen. It fails when an event is missing, is not as it should
// be, or is there though it should not. A day that has been is not repeated, and
// one that was broken off cannot go on: its error says what to do.
func Run(ctx context.Context, o Options) (Result, error) {
	if o.Settle == 0 {
		o.Settle = DefaultSettle
	}
	d := &day{Options: o, cloud: newCloud(o)}
	now, err := d.cloud.now(ctx)
	switch {
	case err != nil:
		return Result{}, err
	case !now.Before(To):
		r, err := d.result(ctx)
		r.Again = true
		return r, err
	case !now.Equal(Begin):
		return Result{}, fmt.Errorf("the day was broken off at %s of its clock and cannot go on: start tollgate-dev with another --state-dir for a new one", show(now))
	}
	for _, s := range script() {
		if err := d.step(ctx, s); err != nil {
			return Result{}, fmt.Errorf("%s, %s: %w", show(s.at), s.what, err)
		}
	}
	if err := d.cloud.set(ctx, To); err != nil {
		return Result{}, err
	}
	d.say(To, "the day is over")
	r, err := d.result(ctx)
	if err != nil {
		return r, err
	}
	return r, compare(r.Events, d.want)
}

func (d *day) step(ctx context.Context, s step) error {
	if err := d.cloud.set(ctx, s.at); err != nil {
		return err
	}
	d.say(s.at, s.what)
	want, err := s.do(ctx, d.cloud)
	if err != nil {
		return err
	}
	for i, e := range want {
		if e.Time.IsZero() {
			want[i].Time = s.at
		}
	}
	d.want = append(d.want, want...)
	return d.arrived(ctx)
}

func (d *day) say(at time.Time, what string) {
	_, _ = fmt.Fprintf(d.Out, "%s  %s\n", show(at), what) // a closed terminal is no matter
}

func show(t time.Time) string {
	if t.Second() != 0 {
		return t.UTC().Format("2006-01-02 15:04:05")
	}
	return t.UTC().Format("2006-01-02 15:04")
}

const (
	// pause is the time between two looks at the Reporting API.
	pause = 100 * time.Millisecond
	// inventoryEvery is the time between two inventories while one is wanted.
	inventoryEvery = 4 * time.Second
)

// arrived waits until everything that is wanted so far is there.
func (d *day) arrived(ctx context.Context) error {
	limit, cancel := context.WithTimeout(ctx, d.Settle)
	defer cancel()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	var asked time.Time
	var failed error
	lacking := d.want
	for {
		_, have, err := d.events(limit)
		missing := missing(have, d.want)
		if err == nil && len(missing) == 0 {
			return nil
		}
		if err == nil && slices.ContainsFunc(missing, func(e event.Event) bool { return e.Data.Derived != "" }) && time.Since(asked) >= inventoryEvery {
			asked = time.Now()
			err = d.Inventory(limit)
		}
		if limit.Err() == nil { // what the end of the time broke off says nothing
			failed, lacking = err, missing
		}
		select {
		case <-limit.Done():
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case failed != nil:
				return failed
			}
			return fmt.Errorf("not reported after %s: %v", d.Settle, ids(lacking))
		case <-tick.C:
		}
	}
}

func missing(have, want []event.Event) (out []event.Event) {
	for _, w := range want {
		if !slices.ContainsFunc(have, func(h event.Event) bool { return h.ID == w.ID }) {
			out = append(out, w)
		}
	}
	return out
}

func ids(events []event.Event) (out []string) {
	for _, e := range events {
		out = append(out, e.ID)
	}
	return out
}

// events are all that the account has, none while it has no project.
func (d *day) events(ctx context.Context) (p api.Project, all []event.Event, err error) {
	p, ok, err := d.Reporting.FindProject(ctx, string(event.Hetzner), Account)
	if err != nil || !ok {
		return p, nil, err
	}
	err = d.Reporting.Events(ctx, api.ListEventsParams{ProjectID: &p.ID}, func(e api.StoredEvent) bool {
		all = append(all, e.Event)
		return true
	})
	slices.SortStableFunc(all, inOrder)
	return p, all, err
}

func (d *day) result(ctx context.Context) (r Result, err error) {
	if r.Project, r.Events, err = d.events(ctx); err != nil {
		return r, err
	}
	if r.Project.ID == "" {
		return r, errors.New("the Reporting API knows nothing of the day: were its database and the simulator's state kept together?")
	}
	r.Usage, err = d.Reporting.Usage(ctx, r.Project.ID, From, To, To)
	return r, err
}

// action is what the vendor calls a change that takes time.
func action(a *hcloud.Action) string { return event.Change("action", fmt.Sprint(a.ID)) }
