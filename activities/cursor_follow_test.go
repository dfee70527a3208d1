package activities_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/metrics"
	"github.com/tollgate-dev/tollgate/internal/provider"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/memory"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// told keeps what a follower was told.
type told struct {
	mu     sync.Mutex
	source string
	ids    []string
	before func(items []source.Item) error
}

func (f *told) Follow(_ context.Context, name string, items []source.Item) error {
	if f.before != nil {
		if err := f.before(items); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.source = name
	for _, i := range items {
		f.ids = append(f.ids, i.Event.ID)
	}
	return nil
}

func (f *told) all() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(f.ids)))
}

func followed(a *activities.Cursors, fs ...activities.Follower) *activities.Cursors {
	a.Followers = func(name string) []activities.Follower {
		if name != "cloud" {
			return nil
		}
		return fs
	}
	return a
}

// Followers are told what the sink has, and of nothing before it has it.
func TestFollowersComeAfterTheSink(t *testing.T) {
	t.Parallel()
	f := &memory.Feed{PageSize: 4}
	want := feed(f, 10)
	r := newReceiver()
	first, second := &told{}, &told{}
	first.before = func(items []source.Item) error {
		for _, i := range items {
			if !slices.Contains(r.ids(), i.Event.ID) {
				return fmt.Errorf("%s is not delivered", i.Event.ID)
			}
		}
		return nil
	}
	out, _, err := attempt(t, followed(cursors(memory.New("cloud", "acme", f), r), first, second), activities.ReadSourceInput{StreamRef: stream}, nil)
	if err != nil || !out.CaughtUp || out.Stop != nil {
		t.Fatalf("%+v, %v", out, err)
	}
	for _, f := range []*told{first, second} {
		if diff := cmp.Diff(f.all(), want); diff != "" || f.source != "cloud" {
			t.Errorf("told by %q (-got +want):\n%s", f.source, diff)
		}
	}
}

// A follower that fails stops the cursor where it is: the page is delivered again,
// as duplicates, and the follower told again.
func TestFollowerFailureKeepsTheCursor(t *testing.T) {
	t.Parallel()
	f := &memory.Feed{PageSize: 4}
	want := feed(f, 10)
	r := newReceiver()
	fails := 2
	follower := &told{before: func([]source.Item) error {
		if fails--; fails == 0 {
			return provider.WithRetryAfter(provider.Wrap(provider.Permanent, "register", "gardener", "", errors.New("no tenant")), 7*time.Second)
		}
		return nil
	}}
	reg := prometheus.NewPedanticRegistry()
	a := followed(cursors(memory.New("cloud", "acme", f), r), follower)
	a.Metrics = metrics.NewCursors(reg)
	out, _, err := attempt(t, a, activities.ReadSourceInput{StreamRef: stream}, nil)
	s := out.Stop
	if err != nil || s == nil || s.Sink || s.SourceClass() != provider.Transient || s.Reason != api.ReasonFollowerFailed ||
		s.RetryAfter != api.Duration(7*time.Second) || !strings.Contains(s.Message, "no tenant") || out.Counts.Delivered != 4 {
		t.Fatalf("%+v (%+v), %v; want it stopped behind the first page", out, s, err)
	}
	failures := `# HELP tollgate_cursor_failures_total Reads that stopped, by the class of the source's error, Sink and the class of the sink's, or Follower and the class of what acts on events beside the sink.
# TYPE tollgate_cursor_failures_total counter
tollgate_cursor_failures_total{class="FollowerTransient",source="cloud",stream="thing"} 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(failures), "tollgate_cursor_failures_total"); err != nil {
		t.Error(err)
	}
	again, _, err := attempt(t, a, activities.ReadSourceInput{StreamRef: stream, Cursor: out.Cursor}, nil)
	if err != nil || !again.CaughtUp || again.Counts.Duplicates != 4 || again.Counts.Delivered != 2 {
		t.Errorf("%+v, %v; want the second page once more", again, err)
	}
	if diff := cmp.Diff(follower.all(), want); diff != "" {
		t.Errorf("told (-got +want):\n%s", diff)
	}
}

// What a redrive or a backfill delivers is told too; a dead letter whose follower
// fails stays one.
func TestFollowersOfRedriveAndBackfill(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	f := &memory.Feed{Now: func() time.Time { return now }}
	var in []string
	for i := range 6 {
		e := f.Add(fmt.Sprint("t", i), source.VerbCreate, 1)
		if i >= 2 && i < 4 {
			in = append(in, e.EventID("acme"))
		}
		now = now.Add(time.Hour)
	}
	r := newReceiver()
	follower := &told{}
	a := followed(cursors(memory.New("cloud", "acme", f), r), follower)
	from := time.Date(2026, 3, 1, 14, 0, 0, 0, time.UTC)
	out, _, err := attempt(t, a, activities.ReadSourceInput{StreamRef: stream, From: from, To: from.Add(2 * time.Hour)}, nil)
	if diff := cmp.Diff(follower.all(), in); err != nil || !out.Done || diff != "" {
		t.Errorf("backfill %+v, %v; told (-got +want):\n%s", out, err, diff)
	}

	r.refuse = func(event.Event) string { return "no" }
	bad := f.Add("late", source.VerbCreate, 1).EventID("acme")
	out, _, err = attempt(t, a, activities.ReadSourceInput{StreamRef: stream}, nil)
	if i := slices.IndexFunc(out.DeadLetters, func(l api.DeadLetter) bool { return l.EventID == bad }); err != nil || i < 0 {
		t.Fatalf("%+v, %v; want a dead letter", out, err)
	}
	r.refuse, follower.ids = nil, nil
	letters := slices.DeleteFunc(out.DeadLetters, func(l api.DeadLetter) bool { return l.EventID != bad })
	for _, failing := range []bool{true, false} {
		follower.before = func([]source.Item) error {
			if failing {
				return errors.New("not now")
			}
			return nil
		}
		res, err := call[api.RedriveResult](t, activityEnv(a), a.RedriveDeadLetters, activities.RedriveInput{StreamRef: stream, Letters: letters})
		if failing && (err != nil || len(res.Left) != 1 || !strings.Contains(res.Left[0].Reason, "not now")) || !failing && (err != nil || res.Delivered != 1) {
			t.Errorf("failing %v: %+v, %v", failing, res, err)
		}
	}
	if diff := cmp.Diff(follower.all(), []string{bad}); diff != "" {
		t.Errorf("told of the redrive (-got +want):\n%s", diff)
	}
}
