// Package schedules keeps Tollgate's schedules at Temporal as the configuration
// says: the sweeps of each provider, the reapers, and the inventories of each
// source. The worker applies them when it starts and when its configuration
// changes; the command line does so on request.
package schedules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/tollgate-dev/tollgate/internal/config"
	"github.com/tollgate-dev/tollgate/workflows"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

const (
	// catchup is how late a sweep may start after an outage; later ones are left
	// out, as the next one sees the same.
	catchup = time.Minute
	// runLimit ends a sweep that nobody serves, so that it cannot hold up all
	// later ones: they do not overlap.
	runLimit = 3 * time.Hour
)

// Schedule is one wanted schedule: of sweeps, of a reaper, or of inventories.
type Schedule struct {
	ID       string
	Interval time.Duration
	// Input is that of the sweeps; Reap, when set, that of a reaper instead, and
	// Inventory that of inventories.
	Input     api.OrphanGCInput
	Reap      *api.ReaperInput
	Inventory *api.InventoryInput
}

// Provider is the provider that the schedule is for, empty for inventories.
func (w Schedule) Provider() string {
	if w.Reap != nil {
		return w.Reap.Provider
	}
	return w.Input.Provider
}

// Wanted lists the schedules of a configuration: the sweeps in the order of its
// providers, then the reapers and the inventories in the order of the file.
func Wanted(c *config.Config) []Schedule {
	out := make([]Schedule, 0, len(c.Providers))
	for _, p := range c.Providers {
		out = append(out, Schedule{
			ID:       workflows.OrphanGCSchedule(p.Name),
			Interval: c.GC.Interval,
			Input: api.OrphanGCInput{
				Provider: p.Name, MinAge: api.Duration(c.GC.MinAge), ConfirmAfter: api.Duration(c.GC.ConfirmAfter), Cap: c.GC.Cap,
			},
		})
	}
	for _, r := range c.Reap {
		in := r.Input()
		out = append(out, Schedule{ID: workflows.ReaperID(in.Provider, in.Selector), Interval: r.Interval, Reap: &in})
	}
	for _, s := range c.Sources {
		if in := s.InventoryInput(); s.Inventory.Enabled {
			out = append(out, Schedule{ID: workflows.InventorySchedule(s.Name), Interval: s.Inventory.Interval, Inventory: &in})
		}
	}
	return out
}

// Action is what Apply did with a schedule.
type Action string

// The actions. With DryRun they are what would be done.
const (
	Created   Action = "created"
	Updated   Action = "updated"
	Unchanged Action = "unchanged"
	Deleted   Action = "deleted"
	// Foreign: the schedule is of a provider, a reaper or a source that the
	// configuration does not name. It is left alone unless Options.Prune.
	Foreign Action = "not in the configuration"
)

// Result is what became of one schedule.
type Result struct {
	ID     string `json:"id"`
	Action Action `json:"action"`
	// Paused: the schedule exists and somebody paused it; it stays so.
	Paused bool `json:"paused,omitempty"`
}

// Options say how to apply.
type Options struct {
	// Converter reads the arguments of existing schedules; nil is the SDK's
	// default.
	Converter converter.DataConverter
	// Prune deletes the sweeps, reapers and inventories that are not wanted.
	Prune bool
	// DryRun changes nothing.
	DryRun bool
}

// Apply makes the schedules what is wanted. It may run in several processes at
// once and changes nothing that is right already; whether a schedule is paused
// is never changed. The results are in the order of wanted, then foreign ones by
// id; after an error they are what was done.
func Apply(ctx context.Context, c client.ScheduleClient, wanted []Schedule, o Options) ([]Result, error) {
	if o.Converter == nil {
		o.Converter = converter.GetDefaultDataConverter()
	}
	var out []Result
	for _, w := range wanted {
		r, err := apply(ctx, c, w, o)
		if err != nil {
			return out, fmt.Errorf("schedule %s: %w", w.ID, err)
		}
		out = append(out, r)
	}
	foreign, err := others(ctx, c, wanted)
	if err != nil {
		return out, err
	}
	for _, r := range foreign {
		if o.Prune {
			r.Action = Deleted
			if !o.DryRun {
				if err := c.GetHandle(ctx, r.ID).Delete(ctx); err != nil && !notFound(err) {
					return out, fmt.Errorf("schedule %s: delete: %w", r.ID, err)
				}
			}
		}
		out = append(out, r)
	}
	return out, nil
}

func apply(ctx context.Context, c client.ScheduleClient, w Schedule, o Options) (Result, error) {
	r := Result{ID: w.ID, Action: Unchanged}
	h := c.GetHandle(ctx, w.ID)
	d, err := h.Describe(ctx)
	if notFound(err) {
		r.Action = Created
		if o.DryRun {
			return r, nil
		}
		spec := w.spec()
		_, err := c.Create(ctx, client.ScheduleOptions{
			ID: w.ID, Spec: *spec, Action: w.action(), Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, CatchupWindow: catchup,
		})
		if !exists(err) {
			return r, err
		}
		// Another process made it meanwhile.
		d, err = h.Describe(ctx)
		if err != nil {
			return r, err
		}
		r.Action = Unchanged
	} else if err != nil {
		return r, err
	}
	r.Paused = d.Schedule.State != nil && d.Schedule.State.Paused
	if w.same(d.Schedule, o.Converter) {
		return r, nil
	}
	r.Action = Updated
	if o.DryRun {
		return r, nil
	}
	return r, h.Update(ctx, client.ScheduleUpdateOptions{DoUpdate: func(in client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
		s := in.Description.Schedule
		s.Spec, s.Action = w.spec(), w.action()
		s.Policy = &client.SchedulePolicies{Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_SKIP, CatchupWindow: catchup}
		return &client.ScheduleUpdate{Schedule: &s}, nil
	}})
}

// spec spreads the schedules over the interval by the server's own hash of the
// id, so that the sweeps of many providers do not all start at once.
func (w Schedule) spec() *client.ScheduleSpec {
	return &client.ScheduleSpec{
		Intervals: []client.ScheduleIntervalSpec{{Every: w.Interval}},
		Jitter:    min(w.Interval/10, time.Minute),
	}
}

func (w Schedule) action() *client.ScheduleWorkflowAction {
	a := &client.ScheduleWorkflowAction{
		ID:                       workflows.OrphanGCID(w.Input.Provider),
		Workflow:                 workflows.TypeOrphanGC,
		TaskQueue:                workflows.TaskQueue,
		WorkflowExecutionTimeout: runLimit,
		Args:                     []any{w.Input},
		TypedSearchAttributes:    temporal.NewSearchAttributes(workflows.AttrProvider.ValueSet(w.Provider())),
	}
	if w.Reap != nil {
		a.ID, a.Workflow, a.Args = w.ID, workflows.TypeReaper, []any{*w.Reap}
	}
	if w.Inventory != nil {
		a.ID, a.Workflow, a.Args = w.ID, workflows.TypeInventory, []any{*w.Inventory}
		a.TypedSearchAttributes = temporal.NewSearchAttributes(workflows.AttrSource.ValueSet(w.Inventory.Source))
	}
	return a
}

// same reports whether an existing schedule is what is wanted. One that cannot
// be read is not.
func (w Schedule) same(s client.Schedule, dc converter.DataConverter) bool {
	a, ok := s.Action.(*client.ScheduleWorkflowAction)
	wanted := w.action()
	if !ok || a.ID != wanted.ID || a.Workflow != wanted.Workflow ||
		a.TaskQueue != workflows.TaskQueue || a.WorkflowExecutionTimeout != runLimit || !w.sameInput(s, dc) {
		return false
	}
	want := w.spec()
	return s.Spec != nil && s.Policy != nil && s.Policy.Overlap == enumspb.SCHEDULE_OVERLAP_POLICY_SKIP && s.Policy.CatchupWindow == catchup &&
		slices.Equal(s.Spec.Intervals, want.Intervals) && len(s.Spec.Calendars) == 0 && s.Spec.Jitter == want.Jitter
}

func (w Schedule) sameInput(s client.Schedule, dc converter.DataConverter) bool {
	if w.Reap != nil {
		in, err := input[api.ReaperInput](s, dc)
		return err == nil && in == *w.Reap
	}
	if w.Inventory != nil {
		in, err := InventoryInput(s, dc)
		return err == nil && in == *w.Inventory
	}
	in, err := Input(s, dc)
	return err == nil && in == w.Input
}

// Input reads the input of the sweeps that an existing schedule starts.
func Input(s client.Schedule, dc converter.DataConverter) (api.OrphanGCInput, error) {
	return input[api.OrphanGCInput](s, dc)
}

// InventoryInput reads the input of the inventories that an existing schedule
// starts.
func InventoryInput(s client.Schedule, dc converter.DataConverter) (api.InventoryInput, error) {
	return input[api.InventoryInput](s, dc)
}

func input[T any](s client.Schedule, dc converter.DataConverter) (T, error) {
	var in T
	a, ok := s.Action.(*client.ScheduleWorkflowAction)
	if !ok || len(a.Args) != 1 {
		return in, errors.New("the schedule starts nothing of ours")
	}
	p, ok := a.Args[0].(*commonpb.Payload)
	if !ok {
		return in, fmt.Errorf("the schedule's argument is a %T", a.Args[0])
	}
	if dc == nil {
		dc = converter.GetDefaultDataConverter()
	}
	return in, dc.FromPayload(p, &in)
}

// ours reports whether a schedule is one of Tollgate's.
func ours(e *client.ScheduleListEntry) bool {
	return strings.HasPrefix(e.ID, workflows.OrphanGCSchedule("")) && e.WorkflowType.Name == workflows.TypeOrphanGC ||
		strings.HasPrefix(e.ID, workflows.ReaperPrefix) && e.WorkflowType.Name == workflows.TypeReaper ||
		strings.HasPrefix(e.ID, workflows.InventoryPrefix) && e.WorkflowType.Name == workflows.TypeInventory
}

// others lists our schedules that are not wanted.
func others(ctx context.Context, c client.ScheduleClient, wanted []Schedule) ([]Result, error) {
	it, err := c.List(ctx, client.ScheduleListOptions{PageSize: 100})
	if err != nil {
		return nil, fmt.Errorf("list schedules: %w", err)
	}
	var out []Result
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			return nil, fmt.Errorf("list schedules: %w", err)
		}
		isWanted := slices.ContainsFunc(wanted, func(w Schedule) bool { return w.ID == e.ID })
		if !isWanted && ours(e) {
			out = append(out, Result{ID: e.ID, Action: Foreign, Paused: e.Paused})
		}
	}
	slices.SortFunc(out, func(a, b Result) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

func notFound(err error) bool {
	var e *serviceerror.NotFound
	return errors.As(err, &e)
}

func exists(err error) bool {
	var e *serviceerror.AlreadyExists
	var started *serviceerror.WorkflowExecutionAlreadyStarted
	return errors.As(err, &e) || errors.As(err, &started) || errors.Is(err, temporal.ErrScheduleAlreadyRunning)
}
