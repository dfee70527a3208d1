package memory_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/source"
	"github.com/tollgate-dev/tollgate/internal/source/memory"
)

// read reads from a cursor to the end; between is called after each page but the
// last.
func read(t *testing.T, s source.Source, c source.Cursor, between func()) (ids []string, next source.Cursor, last source.Page) {
	t.Helper()
	for range 1000 {
		p, err := s.Next(t.Context(), c)
		if err != nil || len(p.Rejected) > 0 {
			t.Fatalf("%+v, %v", p.Rejected, err)
		}
		for _, i := range p.Items {
			ids = append(ids, i.Event.ID)
		}
		if c = p.Next; p.CaughtUp {
			return ids, c, p
		}
		if between != nil {
			between()
		}
	}
	t.Fatal("it never catches up")
	return nil, "", source.Page{}
}

// Sixty entries on pages of any size, while more come between any two pages, all
// within one second, and one of which ends 40 minutes later: each is there once.
func TestEverythingOnce(t *testing.T) {
	t.Parallel()
	for _, size := range []int{25, 50} {
		now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		f := &memory.Feed{PageSize: size, Now: func() time.Time { return now }}
		var want []string
		add := func() {
			want = append(want, f.Add(fmt.Sprint("t", len(want)), source.VerbCreate, 1).EventID("acme"))
		}
		slow := f.Begin("slow", source.VerbCreate, 1)
		for range 60 {
			add()
		}
		s := memory.New("test", "acme", f)
		ids, c, last := read(t, s, "", func() { add(); add() })
		if last.Pending != 1 {
			t.Errorf("pages of %d: %d pending", size, last.Pending)
		}
		add() // later in the same second
		more, c, _ := read(t, s, c, nil)
		ids = append(ids, more...)
		now = now.Add(40 * time.Minute)
		f.Finish(slow.ID)
		want = append(want, slow.EventID("acme"))
		more, _, last = read(t, s, c, nil)
		ids = append(ids, more...)
		slices.Sort(ids)
		slices.Sort(want)
		if diff := cmp.Diff(ids, want); diff != "" || last.Pending != 0 || last.Gap != nil {
			t.Errorf("pages of %d: %+v (-got +want):\n%s", size, last, diff)
		}
	}
}

// After three days away everything is there; after 91, what is not has a name.
func TestAwayForLong(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	f := &memory.Feed{Now: func() time.Time { return now }}
	f.Add("first", source.VerbCreate, 1)
	s := memory.New("test", "acme", f)
	_, c, _ := read(t, s, "", nil)
	now = now.Add(24 * time.Hour)
	want := []string{f.Add("second", source.VerbCreate, 1).EventID("acme")}
	now = now.Add(48 * time.Hour)
	ids, c, last := read(t, s, c, nil)
	if diff := cmp.Diff(ids, want); diff != "" || last.Gap != nil {
		t.Errorf("after three days: %v (-got +want):\n%s", last.Gap, diff)
	}
	f.Add("never seen", source.VerbCreate, 1)
	now = now.Add(91 * 24 * time.Hour)
	f.Forget()
	want = []string{f.Add("third", source.VerbCreate, 1).EventID("acme")}
	p, err := s.Next(t.Context(), c)
	if err != nil || p.Gap == nil || p.Gap.String() != "gap from 2026-03-02T12:00:00Z to 2026-06-03T12:00:00Z" {
		t.Fatalf("after 91 days: %v, %v", p.Gap, err)
	}
	if len(p.Items) != 1 || p.Items[0].Event.ID != want[0] {
		t.Errorf("items %+v", p.Items)
	}
}
