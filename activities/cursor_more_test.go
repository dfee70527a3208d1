package activities_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.temporal.io/sdk/temporal"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/metrics"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/memory"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// Bad entries and refused events become dead letters and hold up nobody, and are
// delivered once what was wrong with them is put right.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	f := &memory.Feed{PageSize: 4}
	good := feed(f, 3)
	f.Add("odd", "transmogrify", 1)
	hated := f.Add("hated", source.VerbCreate, 1)
	good = append(good, f.Add("last", source.VerbCreate, 1).EventID("acme"))
	slices.Sort(good)
	r := newReceiver()
	r.refuse = func(e event.Event) string {
		if e.Data.Resource.ID == "hated" {
			return "unknown account"
		}
		return ""
	}
	reg := prometheus.NewPedanticRegistry()
	a := cursors(memory.New("cloud", "acme", f), r)
	a.Metrics = metrics.NewCursors(reg)
	out, _, err := attempt(t, a, activities.ReadSourceInput{StreamRef: stream}, nil)
	if err != nil || !out.CaughtUp || len(out.DeadLetters) != 2 || out.Counts.Rejected != 2 || out.Counts.Delivered != 4 {
		t.Fatalf("%+v, %v", out, err)
	}
	if diff := cmp.Diff(r.ids(), good); diff != "" {
		t.Errorf("received (-got +want):\n%s", diff)
	}
	i := slices.IndexFunc(out.DeadLetters, func(l api.DeadLetter) bool { return l.EventID == hated.EventID("acme") })
	if i < 0 || out.DeadLetters[i].Reason != "unknown account" || out.DeadLetters[i].Ref == "" {
		t.Errorf("dead letters %+v", out.DeadLetters)
	}
	if n, err := testutil.GatherAndCount(reg, "tollgate_cursor_dead_letters", "tollgate_cursor_lag_seconds", "tollgate_cursor_events_total"); err != nil || n != 5 {
		t.Errorf("%d series, %v", n, err)
	}
	r.refuse = nil
	gone := api.DeadLetter{Ref: "99", Reason: "x"}
	res, err := call[api.RedriveResult](t, activityEnv(a), a.RedriveDeadLetters, activities.RedriveInput{StreamRef: stream, Letters: append(out.DeadLetters, gone)})
	if err != nil || res.Delivered != 1 || res.Gone != 1 || len(res.Left) != 1 || res.Left[0].Tries != 1 || !strings.Contains(res.Left[0].Reason, "transmogrify") {
		t.Errorf("redrive %+v, %v; want one delivered, one gone, one left", res, err)
	}
}

// With nothing new the activity asks for its next attempt, which costs no
// history, until its time is over; the position moves all the same.
func TestNothingNew(t *testing.T) {
	t.Parallel()
	f := &memory.Feed{}
	a := cursors(memory.New("cloud", "acme", f), newReceiver())
	in := activities.ReadSourceInput{StreamRef: stream, Interval: api.Duration(30 * time.Second), ReturnBy: time.Now().Add(time.Hour)}
	_, left, err := attempt(t, a, in, nil)
	var app *temporal.ApplicationError
	if !errors.As(err, &app) || app.Type() != activities.ErrNothingNew || app.NonRetryable() || app.NextRetryDelay() != 30*time.Second || left == nil {
		t.Fatalf("%v, leaves %+v; want it tried again in 30 s", err, left)
	}
	ids := feed(f, 1)
	out, _, err := attempt(t, a, in, left)
	if err != nil || out.Counts.Delivered != 1 || len(ids) != 1 {
		t.Errorf("%+v, %v", out, err)
	}
	in.ReturnBy = time.Time{}
	if out, _, err := attempt(t, a, activities.ReadSourceInput{StreamRef: stream, Cursor: out.Cursor}, nil); err != nil || !out.CaughtUp {
		t.Errorf("%+v, %v; want it back at once", out, err)
	}
}

func TestBackfillStaysInItsRange(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	f := &memory.Feed{PageSize: 2, Now: func() time.Time { return now }}
	var want []string
	for i := range 10 {
		e := f.Add(fmt.Sprint("t", i), source.VerbCreate, 1)
		if i >= 3 && i < 6 {
			want = append(want, e.EventID("acme"))
		}
		now = now.Add(time.Hour)
	}
	r := newReceiver()
	a := cursors(memory.New("cloud", "acme", f), r)
	from := time.Date(2026, 3, 1, 15, 0, 0, 0, time.UTC)
	seek, err := call[activities.SeekSourceResult](t, activityEnv(a), a.SeekSource, activities.SeekSourceInput{StreamRef: stream, To: from})
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := attempt(t, a, activities.ReadSourceInput{StreamRef: stream, Cursor: seek.Cursor, From: from, To: from.Add(3 * time.Hour)}, nil)
	if err != nil || !out.Done {
		t.Errorf("%+v, %v; want it done", out, err)
	}
	if diff := cmp.Diff(r.ids(), want); diff != "" {
		t.Errorf("received (-got +want):\n%s", diff)
	}
}

func TestCheckSink(t *testing.T) {
	t.Parallel()
	r := newReceiver()
	a := cursors(memory.New("cloud", "acme", &memory.Feed{}), r)
	in := activities.CheckSinkInput{StreamRef: stream}
	if _, err := activityEnv(a).ExecuteActivity(a.CheckSink, in); err != nil {
		t.Errorf("a sink that answers: %v", err)
	}
	r.check = errors.New("connection refused")
	_, err := activityEnv(a).ExecuteActivity(a.CheckSink, in)
	var app *temporal.ApplicationError
	if !errors.As(err, &app) || app.Type() != activities.ErrSinkUnavailable || app.NonRetryable() || app.NextRetryDelay() != activities.CheckEvery {
		t.Errorf("a sink that is down: %v", err)
	}
}

func TestUnknownSourceAndSink(t *testing.T) {
	t.Parallel()
	a := cursors(memory.New("cloud", "acme", &memory.Feed{}), newReceiver())
	for kind, ref := range map[string]activities.StreamRef{
		activities.ErrSourceNotConfigured: {Source: "cloud", Stream: "other", Sink: "billing"},
		activities.ErrSinkNotConfigured:   {Source: "cloud", Stream: "thing", Sink: "other"},
	} {
		_, err := activityEnv(a).ExecuteActivity(a.ReadSource, activities.ReadSourceInput{StreamRef: ref})
		var app *temporal.ApplicationError
		if !errors.As(err, &app) || app.Type() != kind || !app.NonRetryable() || !strings.Contains(app.Message(), "other") {
			t.Errorf("%+v: %v, want %s", ref, err, kind)
		}
	}
}
