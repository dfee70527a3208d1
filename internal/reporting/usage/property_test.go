package usage

import (
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tollgate-dev/tollgate/internal/reporting/event"
)

// anything draws events that need not make sense: several lives, gaps, equal
// times, missing starts, one id with several contents.
func anything(t *rapid.T) []event.Event {
	n := rapid.IntRange(0, 12).Draw(t, "n")
	events := make([]event.Event, 0, n)
	for range n {
		typ := rapid.SampledFrom([]event.Type{event.ServerCreate, event.ServerDelete, event.ServerUpgrade, event.ServerDowngrade,
			event.ServerPowerOn, event.ServerPowerOff}).Draw(t, "type")
		change := fmt.Sprintf("action:%d", rapid.IntRange(0, 5).Draw(t, "change"))
		e := on(typ, clock("00:00").Add(time.Duration(rapid.IntRange(0, 6).Draw(t, "time"))*3*time.Second), "1", change)
		e.Data.Sequence = int64(rapid.IntRange(0, 3).Draw(t, "sequence"))
		field := rapid.SampledFrom([]string{event.VCPUs, event.RAMGB})
		if rapid.Bool().Draw(t, "sized") {
			e.Data.Size = event.Size{field.Draw(t, "field"): event.Int(rapid.IntRange(0, 3).Draw(t, "size"))}
		}
		if rapid.Bool().Draw(t, "was") {
			e.Data.PreviousSize = event.Size{field.Draw(t, "field"): event.Int(rapid.IntRange(0, 3).Draw(t, "size"))}
		}
		if f := field.Draw(t, "field"); rapid.Bool().Draw(t, "unknown") {
			if _, known := e.Data.Size[f]; !known {
				e.Data.UnknownSize = []string{f}
			}
		}
		if rapid.Bool().Draw(t, "derived") {
			e.Data.Derived = event.FromInventory
		}
		if rapid.Bool().Draw(t, "counting") {
			e.Data.Counters = event.Size{"bytes": event.Int(rapid.IntRange(0, 9).Draw(t, "bytes"))}
		}
		events = append(events, e)
	}
	return events
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestAnyOrderAndAnyRepetitionGiveTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		events := anything(t)
		want := Build(slices.Clone(events))
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		shuffled := slices.Concat(events, events[:rapid.IntRange(0, len(events)).Draw(t, "again")])
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if diff := cmp.Diff(Build(shuffled), want, cmp.AllowUnexported(Life{})); diff != "" {
			t.Fatalf("shuffled, in order:\n%s", diff)
		}
	})
}

// A store that keeps one event per id may drop the lesser one at once.
func TestKeepingTheBetterEventAsTheyComeGivesTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		events := anything(t)
		var kept []event.Event
		for _, e := range events {
			i := slices.IndexFunc(kept, func(k event.Event) bool { return k.ID == e.ID })
			if i < 0 {
				kept = append(kept, e)
			} else if Compare(e, kept[i]) < 0 {
				kept[i] = e
			}
		}
		if diff := cmp.Diff(Build(kept), Build(events), cmp.AllowUnexported(Life{})); diff != "" {
			t.Fatalf("kept, all:\n%s", diff)
		}
	})
}

func TestSpansCoverLivesAndDifferFromTheirNeighbours(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tl := Build(anything(t))
		var end time.Time
		for i, l := range tl.Lives {
			if i > 0 && (end.IsZero() || l.From.Before(end)) {
				t.Fatalf("life %d begins at %s, before the end %s of the one before", i, l.From, end)
			}
			at := l.From
			for j, s := range l.Spans {
				if !s.From.Equal(at) {
					t.Fatalf("span %d begins at %s, want %s", j, s.From, at)
				}
				for _, f := range s.Unknown {
					if v, known := s.Size[f]; known {
						t.Fatalf("span %d: %s is unknown and %s", j, f, v)
					}
				}
				if j > 0 && l.Spans[j-1].same(s) {
					t.Fatalf("span %d is as the one before", j)
				}
				at = s.To
			}
			if !at.Equal(l.To) && len(l.Spans) > 0 {
				t.Fatalf("the last span ends at %s, the life at %s", at, l.To)
			}
			if len(l.Spans) == 0 && !l.From.Equal(l.To) {
				t.Fatalf("a life from %s to %s has no spans", l.From, l.To)
			}
			end = l.To
		}
		for s := range 25 {
			at := clock("00:00").Add(time.Duration(s) * time.Second)
			_, l, alive, ok := tl.At(at) // must not panic, and must agree with the lives
			want := slices.ContainsFunc(tl.Lives, func(l Life) bool {
				return !at.Before(l.From) && (l.To.IsZero() || at.Before(l.To))
			})
			if alive != want || alive && !ok || ok && l.From.After(at) {
				t.Fatalf("at %s: alive %v, ok %v, want alive %v", at, alive, ok, want)
			}
		}
	})
}

func TestAdjoiningPeriodsAddUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		events := anything(t)
		second := func(label string) time.Time {
			return clock("00:00").Add(time.Duration(rapid.IntRange(0, 25_000).Draw(t, label)) * time.Millisecond)
		}
		cuts := []time.Time{second("a"), second("b"), second("c")}
		slices.SortFunc(cuts, time.Time.Compare)
		asOf := second("as of")
		of := func(from, to time.Time) (sec, cpu, unknown, counted *big.Rat) {
			u, _ := Build(events).Of(Period{From: from, To: to, AsOf: asOf})
			return u.Seconds.Rat(), u.Amounts[event.VCPUs].Rat(), u.UnknownSeconds[event.VCPUs].Rat(), u.Counters["bytes"].Rat()
		}
		s1, c1, u1, n1 := of(cuts[0], cuts[1])
		s2, c2, u2, n2 := of(cuts[1], cuts[2])
		s, c, u, n := of(cuts[0], cuts[2])
		for _, x := range []struct {
			what         string
			a, b, summed *big.Rat
		}{{"seconds", s1, s2, s}, {"vcpus", c1, c2, c}, {"unknown", u1, u2, u}, {"bytes", n1, n2, n}} {
			if new(big.Rat).Add(x.a, x.b).Cmp(x.summed) != 0 {
				t.Fatalf("%s: %s and %s, together %s", x.what, x.a, x.b, x.summed)
			}
		}
	})
}

// The figures of a history that makes sense are those of a simulation, second by
// second, that knows nothing of intervals.
func TestFiguresAreThoseOfASecondBySecondSimulation(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const horizon = 60
		start := rapid.IntRange(0, 20).Draw(t, "start")
		end := rapid.IntRange(start, horizon).Draw(t, "end")
		var events []event.Event
		size, off := rapid.IntRange(1, 4).Draw(t, "size"), false
		var simulated struct{ active, off, amount int64 }
		from := rapid.IntRange(0, horizon).Draw(t, "from")
		to := rapid.IntRange(from, horizon).Draw(t, "to")
		emit := func(typ event.Type, sec, vcpus int, change string) {
			e := on(typ, day.Add(time.Duration(sec)*time.Second), "1", change)
			if vcpus > 0 {
				e.Data.Size = server(vcpus, 4, 40, "x")
			}
			events = append(events, e)
		}
		emit(event.ServerCreate, start, size, "create")
		for sec := start; sec < end; sec++ {
			if sec > start {
				switch rapid.IntRange(0, 9).Draw(t, "what") {
				case 0:
					size = rapid.IntRange(1, 4).Draw(t, "size")
					emit(event.ServerUpgrade, sec, size, fmt.Sprint("action:", sec))
				case 1:
					off = true
					emit(event.ServerPowerOff, sec, 0, fmt.Sprint("action:", sec))
				case 2:
					off = false
					emit(event.ServerPowerOn, sec, 0, fmt.Sprint("action:", sec))
				}
			}
			if sec >= from && sec < to {
				simulated.amount += int64(size)
				if off {
					simulated.off++
				} else {
					simulated.active++
				}
			}
		}
		if end < horizon {
			emit(event.ServerDelete, end, 0, "delete")
		}
		at := func(sec int) time.Time { return day.Add(time.Duration(sec) * time.Second) }
		sum := totals(events, Period{From: at(from), To: at(to), AsOf: at(end)})
		var active, offline, amount big.Rat
		for _, g := range sum.Groups() {
			amount.Add(&amount, g.Amounts[event.VCPUs].Rat())
			if g.State == event.Off {
				offline.Add(&offline, g.Seconds.Rat())
			} else {
				active.Add(&active, g.Seconds.Rat())
			}
		}
		for _, x := range []struct {
			what string
			got  *big.Rat
			want int64
		}{{"active", &active, simulated.active}, {"off", &offline, simulated.off}, {"amount", &amount, simulated.amount}} {
			if x.got.Cmp(big.NewRat(x.want, 1)) != 0 {
				t.Fatalf("%s is %s, want %d; events %s", x.what, x.got, x.want, text(events))
			}
		}
	})
}
