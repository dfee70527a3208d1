package usage

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
)

// sketch writes a timeline as text, with the vcpus or the size in GB.
func sketch(tl Timeline) string {
	var b strings.Builder
	at := func(t time.Time) string {
		if t.IsZero() {
			return "open"
		}
		return t.Format("15:04")
	}
	for _, l := range tl.Lives {
		fmt.Fprintf(&b, "life %s-%s", at(l.From), at(l.To))
		if l.StartUnknown {
			b.WriteString(" start unknown")
		}
		if l.EndNotBefore != nil {
			fmt.Fprintf(&b, " not before %s", at(*l.EndNotBefore))
		}
		for _, s := range l.Spans {
			size := s.Size[event.VCPUs].String() + s.Size[event.SizeGB].String() + s.Size[event.StorageGB].String()
			if slices.Contains(s.Unknown, event.VCPUs) || slices.Contains(s.Unknown, event.SizeGB) {
				size = "?"
			}
			fmt.Fprintf(&b, " [%s %s %s]", at(s.From), s.State, size)
		}
		b.WriteString("\n")
	}
	for _, f := range tl.Findings {
		fmt.Fprintf(&b, "%s %s\n", f.Code, at(f.Time))
	}
	return b.String()
}

func cpu(n int) event.Size { return event.Size{event.VCPUs: event.Int(n)} }

func TestTimelines(t *testing.T) {
	t.Parallel()
	create := func(at string, opts ...option) event.Event {
		return on(event.ServerCreate, clock(at), "1", "create", opts...)
	}
	remove := func(at string, opts ...option) event.Event {
		return on(event.ServerDelete, clock(at), "1", "delete", opts...)
	}
	upgrade := func(at string, opts ...option) event.Event {
		return on(event.ServerUpgrade, clock(at), "1", "action:"+at, opts...)
	}
	repository := func(typ event.Type, at string, size int) event.Event {
		return on(typ, clock(at), "app", string(typ)+at, sized(event.Size{event.StorageGB: event.Int(size)}))
	}
	for name, c := range map[string]struct {
		events []event.Event
		want   string
	}{
		"nothing": {nil, ""},
		"a whole life": {
			[]event.Event{create("01:00", sized(cpu(2))), upgrade("02:00", sized(cpu(4))), remove("03:00")},
			"life 01:00-03:00 [01:00 active 2] [02:00 active 4]\n"},
		"a change to the same size splits nothing": {
			[]event.Event{create("01:00", sized(cpu(2))), upgrade("02:00", sized(cpu(2)))},
			"life 01:00-open [01:00 active 2]\n"},
		"power": {
			[]event.Event{create("01:00", sized(cpu(2))), on(event.ServerPowerOff, clock("02:00"), "1", "a"), on(event.ServerPowerOn, clock("03:00"), "1", "b")},
			"life 01:00-open [01:00 active 2] [02:00 off 2] [03:00 active 2]\n"},
		"made without being started": {
			[]event.Event{create("01:00", sized(cpu(2)), inState(event.Off))},
			"life 01:00-open [01:00 off 2]\n"},
		"an unknown size is filled from what it had been": {
			[]event.Event{create("01:00", unknown(event.VCPUs)), upgrade("02:00", sized(cpu(4)), was(cpu(2)))},
			"life 01:00-open [01:00 active 2] [02:00 active 4]\n"},
		"an unknown size is filled from the end": {
			[]event.Event{create("01:00", unknown(event.VCPUs)), remove("03:00", sized(cpu(2)))},
			"life 01:00-03:00 [01:00 active 2]\n"},
		"but not beyond a change to nobody knows what": {
			[]event.Event{create("01:00", unknown(event.VCPUs)), upgrade("02:00", unknown(event.VCPUs)), remove("03:00", sized(cpu(2)))},
			"life 01:00-03:00 [01:00 active ?] [02:00 active 2]\n"},
		"a field that nobody mentions is unknown": {
			[]event.Event{create("01:00")},
			"life 01:00-open [01:00 active ?]\n"},
		"a size that was another one": {
			[]event.Event{create("01:00", sized(cpu(1))), upgrade("02:00", sized(cpu(4)), was(cpu(2)))},
			"life 01:00-open [01:00 active 1] [02:00 active 4]\nsize_gap 02:00\n"},
		"no start": {
			[]event.Event{upgrade("02:00", sized(cpu(4)), was(cpu(2))), remove("03:00")},
			"life 02:00-03:00 start unknown [02:00 active 4]\nno_create 02:00\n"},
		"only an end": {[]event.Event{remove("03:00")}, "end_without_start 03:00\n"},
		"started before it was made, by the clocks": {
			[]event.Event{on(event.ServerPowerOff, clock("01:00"), "1", "a"), create("02:00", sized(cpu(2)))},
			"life 02:00-open [02:00 off 2]\nbefore_start 01:00\n"},
		"a second start": {
			[]event.Event{create("01:00", sized(cpu(2))), on(event.ServerCreate, clock("02:00"), "1", "again", sized(cpu(4)))},
			"life 01:00-open [01:00 active 2] [02:00 active 4]\nsecond_create 02:00\n"},
		"after the end": {
			[]event.Event{create("01:00", sized(cpu(2))), remove("03:00"), upgrade("04:00", sized(cpu(4)))},
			"life 01:00-03:00 [01:00 active 2]\nafter_end 04:00\n"},
		"a second end": {
			[]event.Event{create("01:00", sized(cpu(2))), remove("03:00"), on(event.ServerDelete, clock("04:00"), "1", "again")},
			"life 01:00-03:00 [01:00 active 2]\nsecond_end 04:00\n"},
		"a change between two lives belongs to neither": {
			[]event.Event{create("01:00", sized(cpu(2))), remove("02:00"), upgrade("03:00", sized(cpu(4))),
				on(event.ServerCreate, clock("04:00"), "1", "again"), upgrade("05:00", sized(cpu(8)))},
			"life 01:00-02:00 [01:00 active 2]\nlife 04:00-open [04:00 active ?] [05:00 active 8]\nafter_end 03:00\n"},
		"a change to nobody knows what": {
			[]event.Event{create("01:00", sized(cpu(2))), upgrade("02:00", unknown(event.VCPUs)), upgrade("03:00", sized(cpu(4)))},
			"life 01:00-open [01:00 active 2] [02:00 active ?] [03:00 active 4]\n"},
		"all at once": {
			[]event.Event{remove("01:00"), create("01:00", sized(cpu(2)))}, "life 01:00-01:00\n"},
		"all at once, with a sequence for one": {
			[]event.Event{remove("01:00"), create("01:00", sized(cpu(2)), sequence(7))}, "life 01:00-01:00\n"},
		"equal times in sequence": {
			[]event.Event{create("01:00", sized(cpu(2)), sequence(1)), upgrade("02:00", sized(cpu(4)), sequence(9)),
				on(event.ServerDowngrade, clock("02:00"), "1", "z", sized(cpu(1)), sequence(10))},
			"life 01:00-open [01:00 active 2] [02:00 active 1]\n"},
		"an end that was concluded": {
			[]event.Event{create("01:00", sized(cpu(2))), remove("03:00", derived(clock("02:50")))},
			"life 01:00-03:00 not before 02:50 [01:00 active 2]\n"},
		"what was seen beats what was concluded": {
			[]event.Event{create("01:00", sized(cpu(2))), remove("03:00", derived(clock("02:50"))), remove("02:55")},
			"life 01:00-02:55 [01:00 active 2]\n"},
		"a repository is made by its first push, and again": {
			[]event.Event{repository(event.RepositoryPush, "01:00", 1), repository(event.RepositoryPush, "02:00", 3),
				repository(event.RepositoryDelete, "03:00", 3), repository(event.RepositoryPush, "04:00", 2)},
			"life 01:00-03:00 [01:00 active 1] [02:00 active 3]\nlife 04:00-open [04:00 active 2]\n"},
		"a pull makes nothing": {
			[]event.Event{on(event.RepositoryPull, clock("01:00"), "app", "p", counting(event.Size{"pulls": event.Int(1)}))}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(sketch(Build(c.events)), c.want); diff != "" {
				t.Errorf("got, want:\n%s", diff)
			}
		})
	}
}

func TestAtIsTheStateAfterTheChange(t *testing.T) {
	t.Parallel()
	tl := Build(story()[:6])
	for _, c := range []struct {
		at        string
		alive, ok bool
		typ       string
	}{
		{"05:59", false, false, ""}, {"06:00", true, true, "cx22"}, {"09:59", true, true, "cx22"}, {"10:00", true, true, "cx32"},
		{"19:00", true, true, "cx22"}, {"20:00", false, true, "cx22"}, {"23:00", false, true, "cx22"},
	} {
		s, _, alive, ok := tl.At(clock(c.at))
		if alive != c.alive || ok != c.ok || s.Size[event.ServerType].String() != c.typ {
			t.Errorf("%s: alive %v, ok %v, type %s; want %v, %v, %s", c.at, alive, ok, s.Size[event.ServerType], c.alive, c.ok, c.typ)
		}
	}
}

func TestAnUncertainEndIsToldInItsPeriodOnly(t *testing.T) {
	t.Parallel()
	tl := Build([]event.Event{on(event.VolumeCreate, clock("01:00"), "1", "create", sized(gb(2))),
		on(event.VolumeDelete, clock("12:00"), "1", "delete", derived(clock("11:50")))})
	first, _ := tl.Of(Period{From: clock("00:00"), To: clock("06:00"), AsOf: clock("24:00")})
	second, _ := tl.Of(Period{From: clock("06:00"), To: clock("24:00"), AsOf: clock("24:00")})
	if first.EndNotBefore != nil || second.EndNotBefore == nil {
		t.Errorf("not before: %v, then %v", first.EndNotBefore, second.EndNotBefore)
	}
}

func TestAnUnknownStartIsToldInItsPeriodOnly(t *testing.T) {
	t.Parallel()
	tl := Build([]event.Event{on(event.ServerUpgrade, clock("02:00"), "1", "a", sized(cpu(4)))})
	first, _ := tl.Of(Period{From: clock("00:00"), To: clock("03:00"), AsOf: clock("24:00")})
	second, _ := tl.Of(Period{From: clock("03:00"), To: clock("24:00"), AsOf: clock("24:00")})
	if !first.StartUnknown || second.StartUnknown {
		t.Errorf("start unknown: %v, then %v", first.StartUnknown, second.StartUnknown)
	}
}

func TestWhatHasNotEndedCountsUntilAsOf(t *testing.T) {
	t.Parallel()
	tl := Build([]event.Event{on(event.VolumeCreate, clock("06:00"), "1", "create", sized(gb(2))),
		on(event.VolumeResize, clock("20:00"), "1", "resize", sized(gb(9)), counting(event.Size{"resizes": event.Int(1)}))})
	for _, c := range []struct{ asOf, seconds, amount, resizes string }{
		{"05:00", "0", "", ""}, {"06:00", "0", "", ""}, {"12:00", "21600", "43200", ""}, {"20:00", "50400", "100800", ""},
		{"21:00", "54000", "133200", "1"}, {"24:00", "64800", "230400", "1"}, {"48:00", "64800", "230400", "1"},
	} {
		u, _ := tl.Of(Period{From: day, To: clock("24:00"), AsOf: clock(c.asOf)})
		if string(u.Seconds) != c.seconds || string(u.Amounts[event.SizeGB]) != c.amount || string(u.Counters["resizes"]) != c.resizes {
			t.Errorf("as of %s: %s s, %s, %s resizes; want %s, %s, %s", c.asOf, u.Seconds, u.Amounts[event.SizeGB], u.Counters["resizes"], c.seconds, c.amount, c.resizes)
		}
	}
}
