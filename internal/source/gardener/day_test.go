package gardener_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tollgate-dev/tollgate/internal/gardener/gardenertest"
	"github.com/tollgate-dev/tollgate/internal/reporting/event"
	"github.com/tollgate-dev/tollgate/internal/reporting/usage"
)

// at sets the platform's clock to a time of 2 November 2026.
func (p *platform) at(t *testing.T, clock string) {
	t.Helper()
	at, err := time.Parse("2006-01-02 15:04", "2026-11-02 "+clock)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.skew = time.Until(at.Add(500 * time.Millisecond)) // it is cut to seconds
}

// The day of the documentation, as the source reads it: while it happens, and at
// its end.
func TestDay(t *testing.T) {
	t.Parallel()
	p := newPlatform(t)
	live, late := p.receiver(t, true), p.receiver(t, true)
	s := newborn(acme, "shop")
	pool := func(name, typ string, n int32) gardenertest.Pool {
		return gardenertest.Pool{Name: name, Type: typ, Minimum: n}
	}
	s.Spec = gardenertest.Shoot(acme, "shop", pool("a", "m1.large", 3)).Spec
	live.read()
	late.read()
	for _, m := range []struct {
		clock string
		do    func()
	}{
		{"05:50", func() { p.Make(t, s); p.Operation(t, s, "Create", "Processing") }},
		{"06:00", func() { p.Operation(t, s, "Create", "Succeeded") }},
		{"08:00", func() { p.Pools(t, s, pool("a", "m1.large", 5)) }},
		{"10:00", func() { p.Pools(t, s, pool("a", "m1.xlarge", 5)) }},
		{"12:00", func() { p.Hibernate(t, s, true) }},
		{"12:30", func() { p.Reconciled(t, s) }},
		{"14:00", func() { p.Hibernate(t, s, false) }},
		{"14:15", func() { p.Reconciled(t, s) }},
		{"16:00", func() { p.Pools(t, s, pool("a", "m1.xlarge", 5), pool("b", "m1.large", 1)) }},
		{"20:00", func() { p.AskDelete(t, s) }},
		{"20:30", func() { p.Gone(t, s) }},
	} {
		p.at(t, m.clock)
		m.do()
		live.read()
	}
	late.read()
	page := documented(t)
	for what, r := range map[string]*receiver{"live": live, "late": late} {
		r.wantOnce()
		events := make([]event.Event, 0, len(r.order))
		for _, id := range r.order {
			e := r.got[id]
			if e.Data.Derived != "" || len(e.Data.UnknownSize) > 0 {
				t.Errorf("%s: %s is concluded, or unknown", what, id)
			}
			row := fmt.Sprintf("| %s |", e.Time.Format("15:04"))
			if !page.has(row, "`"+string(e.Type)+"`") {
				t.Errorf("%s: the page has no row %s with %s", what, row, e.Type)
			}
			events = append(events, e)
		}
		if len(events) != 7 {
			t.Errorf("%s: %d events, want 7", what, len(events))
		}
		line := usage.Build(events)
		if len(line.Findings) > 0 {
			t.Errorf("%s: findings %v", what, line.Findings)
		}
		from := time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)
		u, ok := line.Of(usage.Period{From: from, To: from.AddDate(0, 0, 1), AsOf: from.AddDate(0, 0, 1)})
		if !ok {
			t.Fatalf("%s: no usage", what)
		}
		for _, in := range u.Intervals {
			row := fmt.Sprintf("| %s | %s | %s | %s |", in.From.Format("15:04"), in.To.Format("15:04"), in.Seconds, in.State)
			if !page.has(row, "= ") {
				t.Errorf("%s: the page has no row %s", what, row)
			}
		}
		if len(u.Intervals) != 6 {
			t.Errorf("%s: %d intervals, want 6", what, len(u.Intervals))
		}
		var totals usage.Totals
		totals.Add(u)
		groups := totals.Groups()
		for _, g := range groups {
			var words []string
			for _, pool := range []string{"a", "b"} {
				if v, ok := g.Words[event.PoolMachineType(pool)]; ok {
					words = append(words, pool+" "+v.String())
				}
			}
			row := fmt.Sprintf("| %s | %s | %s | %s | %s | %s |", g.State, strings.Join(words, ", "), g.Seconds,
				g.Amounts[event.WorkerCount], g.Amounts[event.PoolWorkerCount("a")], g.Amounts[event.PoolWorkerCount("b")])
			if row = strings.ReplaceAll(row, "|  |", "| |"); !page.has(row, "") {
				t.Errorf("%s: the page has no row %s", what, row)
			}
		}
		if len(groups) != 4 {
			t.Errorf("%s: %d totals, want 4", what, len(groups))
		}
	}
}

// table is the lines of the page of this source.
type table []string

func documented(t *testing.T) table {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "sources", "gardener.md"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(b), "\n")
}

// has reports whether there is a row that begins with one text and holds another.
func (t table) has(beginning, text string) bool {
	for _, l := range t {
		if strings.HasPrefix(l, beginning) && strings.Contains(l, text) {
			return true
		}
	}
	return false
}
