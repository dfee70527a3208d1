package activities_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/activities"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/sink"
	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/memory"
	"github.com/tollgate-dev/tollgate/workflows/api"
)

// shared is a source of several accounts: those of things are their first letters.
type shared struct{ source.Source }

func (s shared) Next(ctx context.Context, c source.Cursor) (source.Page, error) {
	p, err := s.Source.Next(ctx, c)
	for i := range p.Items {
		e := p.Items[i].Event
		e.Data.Account = e.Data.Resource.ID[:1]
		p.Items[i].Event = event.New(e.Type, e.Time, e.Data)
	}
	return p, err
}

// watched is a receiver that remembers when it got what.
type watched struct {
	*broken
	now func() time.Time
	at  map[string]time.Time
}

func (w *watched) Deliver(ctx context.Context, events []event.Event) ([]sink.Result, error) {
	results, err := w.broken.Deliver(ctx, events)
	for _, r := range results {
		if _, before := w.at[r.ID]; r.Outcome.Delivered() && !before {
			w.at[r.ID] = w.now()
		}
	}
	return results, err
}

// For hours a receiver breaks on everything of one tenant: the events of the others
// in the same stream are delivered within one interval, those of the one are dead
// letters and nothing is lost.
func TestOneTenantsTrouble(t *testing.T) {
	t.Parallel()
	f := &memory.Feed{PageSize: 10}
	all := map[string][]string{}
	add := func(i int) string {
		account := []string{"a", "b", "c"}[i%3]
		e := f.Add(fmt.Sprintf("%s-%d", account, i), source.VerbCreate, 1)
		id := e.EventID(account)
		all[account] = append(all[account], id)
		return id
	}
	for i := range 120 {
		add(i)
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	r := &watched{broken: &broken{receiver: newReceiver(), on: func(e event.Event) bool { return e.Data.Account == "a" }},
		now: func() time.Time { return now }, at: map[string]time.Time{}}
	a := cursors(shared{memory.New("cloud", "x", f)}, r)
	a.Now = r.now
	a.Wait = func(ctx context.Context, d time.Duration) error {
		now = now.Add(d)
		return ctx.Err()
	}
	var letters []api.DeadLetter
	var cursor source.Cursor
	// read reads to the end, as the workflow does.
	read := func() {
		t.Helper()
		for {
			out, _, err := attempt(t, a, activities.ReadSourceInput{StreamRef: stream, Cursor: cursor}, nil)
			if err != nil || out.Stop != nil {
				t.Fatalf("%+v, %v", out.Stop, err)
			}
			cursor, letters = out.Cursor, append(letters, out.DeadLetters...)
			if out.CaughtUp {
				return
			}
		}
	}
	read()
	// New ones come, each minute some.
	const interval = time.Minute
	made := map[string]time.Time{}
	for i := range 60 {
		for k := range 4 {
			made[add(1000+4*i+k)] = now
		}
		began := now
		read()
		if d := interval - now.Sub(began); d > 0 {
			now = now.Add(d)
		}
	}
	for _, account := range []string{"b", "c"} {
		for _, id := range all[account] {
			at, there := r.at[id]
			if since, new := made[id]; !there || new && at.Sub(since) > interval {
				t.Errorf("%s: arrived %v, %s after it was there", id, there, at.Sub(since))
			}
		}
	}
	var buried []string
	for _, l := range letters {
		buried = append(buried, l.EventID)
		if !strings.Contains(l.Reason, "502") || l.Ref == "" {
			t.Errorf("dead letter %+v", l)
		}
	}
	slices.Sort(buried)
	slices.Sort(all["a"])
	if diff := cmp.Diff(buried, all["a"]); diff != "" {
		t.Errorf("dead letters (-got +want):\n%s", diff)
	}
	// It is well again: what comes now arrives.
	r.on = func(event.Event) bool { return false }
	last := add(3000)
	if read(); r.at[last].IsZero() {
		t.Error("nothing of the tenant arrives afterwards")
	}
}
