package cli

import (
	"context"
	"io"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"
)

// fakeSchedules is the schedule service of a fakeTemporal.
type fakeSchedules struct{ f *fakeTemporal }

func (s fakeSchedules) Create(ctx context.Context, o client.ScheduleOptions) (client.ScheduleHandle, error) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	a := *o.Action.(*client.ScheduleWorkflowAction)
	if err := encodeArgs(&a); err != nil {
		return nil, err
	}
	s.f.schedules[o.ID] = &client.Schedule{
		Spec: &o.Spec, Action: &a, Policy: &client.SchedulePolicies{Overlap: o.Overlap, CatchupWindow: o.CatchupWindow}, State: &client.ScheduleState{},
	}
	return fakeSchedule{s.f, o.ID}, nil
}

func encodeArgs(a *client.ScheduleWorkflowAction) error {
	args := make([]any, len(a.Args))
	for i, x := range a.Args {
		p, err := converter.GetDefaultDataConverter().ToPayload(x)
		if err != nil {
			return err
		}
		args[i] = p
	}
	a.Args = args
	return nil
}

func (s fakeSchedules) List(context.Context, client.ScheduleListOptions) (client.ScheduleListIterator, error) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	if s.f.err != nil {
		return nil, s.f.err
	}
	var all []*client.ScheduleListEntry
	for id, x := range s.f.schedules {
		a := x.Action.(*client.ScheduleWorkflowAction)
		all = append(all, &client.ScheduleListEntry{
			ID: id, Spec: x.Spec, Paused: x.State.Paused, Note: x.State.Note, WorkflowType: workflow.Type{Name: a.Workflow.(string)},
			NextActionTimes: []time.Time{testNow.Add(time.Minute)},
			RecentActions: []client.ScheduleActionResult{{ActualTime: testNow.Add(-time.Minute),
				StartWorkflowResult: &client.ScheduleWorkflowExecution{WorkflowID: id + "-2026-01-02T03:03:05Z"}}},
		})
	}
	return &fakeScheduleList{all}, nil
}

func (s fakeSchedules) GetHandle(_ context.Context, id string) client.ScheduleHandle {
	return fakeSchedule{s.f, id}
}

type fakeScheduleList struct{ all []*client.ScheduleListEntry }

func (l *fakeScheduleList) HasNext() bool { return len(l.all) > 0 }

func (l *fakeScheduleList) Next() (*client.ScheduleListEntry, error) {
	if len(l.all) == 0 {
		return nil, io.EOF
	}
	e := l.all[0]
	l.all = l.all[1:]
	return e, nil
}

// fakeSchedule is a handle; what no command calls does nothing.
type fakeSchedule struct {
	f  *fakeTemporal
	id string
}

var _ client.ScheduleHandle = fakeSchedule{}

func (h fakeSchedule) find() (*client.Schedule, error) {
	if x := h.f.schedules[h.id]; x != nil {
		return x, nil
	}
	return nil, serviceerror.NewNotFound("schedule not found")
}

func (h fakeSchedule) GetID() string { return h.id }

func (h fakeSchedule) Delete(context.Context) error {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	_, err := h.find()
	delete(h.f.schedules, h.id)
	return err
}

func (h fakeSchedule) Describe(context.Context) (*client.ScheduleDescription, error) {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	x, err := h.find()
	if err != nil {
		return nil, err
	}
	return &client.ScheduleDescription{Schedule: *x}, nil
}

func (h fakeSchedule) Update(ctx context.Context, o client.ScheduleUpdateOptions) error {
	d, err := h.Describe(ctx)
	if err != nil {
		return err
	}
	u, err := o.DoUpdate(client.ScheduleUpdateInput{Description: *d})
	if err != nil {
		return err
	}
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	a := *u.Schedule.Action.(*client.ScheduleWorkflowAction)
	if err := encodeArgs(&a); err != nil {
		return err
	}
	u.Schedule.Action = &a
	h.f.schedules[h.id] = u.Schedule
	return nil
}

func (h fakeSchedule) Backfill(context.Context, client.ScheduleBackfillOptions) error { return nil }
func (h fakeSchedule) Trigger(context.Context, client.ScheduleTriggerOptions) error   { return nil }
func (h fakeSchedule) Pause(context.Context, client.SchedulePauseOptions) error       { return nil }
func (h fakeSchedule) Unpause(context.Context, client.ScheduleUnpauseOptions) error   { return nil }
