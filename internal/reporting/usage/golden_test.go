package usage

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
)

// story is the example of docs/explanation/usage.md.
func story() []event.Event {
	// The disk stays: a larger one would forbid the downgrade.
	cx22, cx32 := server(2, 4, 40, "cx22"), server(4, 8, 40, "cx32")
	lb := func(targets int) event.Size {
		return event.Size{event.Kind: event.Text("lb11"), event.Targets: event.Int(targets)}
	}
	unknownServer := unknown(event.VCPUs, event.RAMGB, event.DiskGB, event.ServerType)
	return []event.Event{
		on(event.ServerCreate, clock("06:00"), "42", "create", sized(cx22), sequence(101)),
		on(event.ServerUpgrade, clock("10:00"), "42", "action:102", sized(cx32), was(cx22), sequence(102)),
		on(event.ServerPowerOff, clock("12:00"), "42", "action:103", sequence(103)),
		on(event.ServerPowerOn, clock("13:00"), "42", "action:104", sequence(104)),
		on(event.ServerDowngrade, clock("18:00"), "42", "action:105", sized(cx22), was(cx32), sequence(105)),
		on(event.ServerDelete, clock("20:00"), "42", "delete", sized(cx22), sequence(106)),

		on(event.ServerCreate, clock("09:00:00"), "43", "create", unknownServer, sequence(110)),
		on(event.ServerDelete, clock("09:00:03"), "43", "delete", unknownServer, sequence(111)),

		on(event.VolumeCreate, clock("-12:00"), "7", "create", sized(gb(10)), sequence(90)),
		on(event.VolumeResize, clock("16:00"), "7", "action:120", sized(gb(50)), was(gb(10)), sequence(120)),

		on(event.FloatingIPCreate, clock("00:00"), "5", "create",
			sized(event.Size{event.IPVersion: event.Text("4"), event.Kind: event.Text("ipv4")})),
		on(event.FloatingIPDelete, clock("12:00"), "5", "delete", derived(clock("11:50"))),

		on(event.LoadBalancerCreate, clock("08:00"), "3", "create", sized(lb(0))),
		on(event.LoadBalancerAddTarget, clock("09:00"), "3", "action:131", sized(event.Size{event.Targets: event.Int(1)})),
		on(event.LoadBalancerAddTarget, clock("10:00"), "3", "action:132", sized(event.Size{event.Targets: event.Int(2)})),
		on(event.LoadBalancerRemoveTarget, clock("15:00"), "3", "action:133", sized(event.Size{event.Targets: event.Int(1)})),

		on(event.RepositoryPush, clock("06:00"), "app", "push:a", sized(event.Size{event.StorageGB: event.Float(1.5)}), counting(event.Size{"pushes": event.Int(1)})),
		on(event.RepositoryPull, clock("07:00"), "app", "pull:b", counting(event.Size{"pulls": event.Int(1)})),
		on(event.RepositoryPull, clock("07:00"), "app", "pull:c", counting(event.Size{"pulls": event.Int(1)})),
		on(event.RepositoryPush, clock("18:00"), "app", "push:d", sized(event.Size{event.StorageGB: event.Float(2.25)}), counting(event.Size{"pushes": event.Int(1)})),
		on(event.RepositoryPull, clock("24:00"), "app", "pull:e", counting(event.Size{"pulls": event.Int(1)})),
	}
}

func totals(events []event.Event, p Period) *Totals {
	var t Totals
	for _, tl := range timelines(events) {
		if u, ok := tl.Of(p); ok {
			t.Add(u)
		}
	}
	return &t
}

func timelines(events []event.Event) []Timeline {
	by := map[event.Resource][]event.Event{}
	var order []event.Resource
	for _, e := range events {
		r := event.Resource{Type: e.Data.Resource.Type, ID: e.Data.Resource.ID}
		if by[r] == nil {
			order = append(order, r)
		}
		by[r] = append(by[r], e)
	}
	var all []Timeline
	for _, r := range order {
		all = append(all, Build(by[r]))
	}
	return all
}

func wholeDay() Period { return Period{From: day, To: clock("24:00"), AsOf: clock("24:00")} }

// The figures are worked out by hand in the page, which this test reads.
func TestPageHasTheFigures(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/explanation/usage.md")
	if err != nil {
		t.Fatal(err)
	}
	sum := totals(story(), wholeDay())
	var rows []string
	for _, g := range sum.Groups() {
		var words, amounts, unknowns []string
		for _, v := range g.Words.All() {
			words = append(words, v.String())
		}
		for _, name := range sortedKeys(g.Amounts) {
			amounts = append(amounts, fmt.Sprintf("%s %s", name, g.Amounts[name]))
		}
		for _, name := range sortedKeys(g.UnknownSeconds) {
			unknowns = append(unknowns, fmt.Sprintf("%s %s", name, g.UnknownSeconds[name]))
		}
		rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s | %s | %s |", g.ResourceType, g.State, strings.Join(words, ", "),
			g.Seconds, strings.Join(amounts, ", "), strings.Join(unknowns, ", ")))
	}
	for _, c := range sum.Counters() {
		rows = append(rows, fmt.Sprintf("| %s | %s | %s |", c.ResourceType, c.Counter, c.Amount))
	}
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	lines := strings.Split(string(page), "\n")
	for _, r := range rows {
		if !slices.ContainsFunc(lines, func(l string) bool { return squeeze(l) == squeeze(r) }) {
			t.Errorf("the page does not have the row\n%s", r)
		}
	}
	if len(rows) != 10 {
		t.Errorf("%d rows, want 10", len(rows))
	}
	for _, e := range story() {
		if row := fmt.Sprintf("| %s |", e.ID); !strings.Contains(squeeze(string(page)), row) {
			t.Errorf("the page does not list the event %s", e.ID)
		}
	}
}

func sortedKeys(m map[string]Amount) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func TestIntervalsOfTheServer(t *testing.T) {
	t.Parallel()
	u, ok := timelines(story())[0].Of(wholeDay())
	if !ok {
		t.Fatal("nothing was used")
	}
	var got []string
	for _, in := range u.Intervals {
		got = append(got, fmt.Sprint(in.From.Format(time.TimeOnly), " ", in.To.Format(time.TimeOnly), " ", in.State, " ", in.Size[event.ServerType], " ", in.Size[event.DiskGB], " ", in.Seconds))
	}
	want := []string{
		"06:00:00 10:00:00 active cx22 40 14400",
		"10:00:00 12:00:00 active cx32 40 7200",
		"12:00:00 13:00:00 off cx32 40 3600",
		"13:00:00 18:00:00 active cx32 40 18000",
		"18:00:00 20:00:00 active cx22 40 7200",
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("got, want:\n%s", diff)
	}
	if len(u.Findings) > 0 {
		t.Errorf("findings: %v", u.Findings)
	}
}
