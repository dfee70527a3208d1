package activities

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// play sends a batch to a made-up sink as an isolation says, and returns how it
// ended. takes says whether a send of these places, the n-th from 1, leaves
// nothing; a nil portion is the control.
type play struct {
	events    int
	accounts  []string // of the events; one for all if nil
	known     map[string]bool
	takes     func(n int, portion []int) sending
	asks      bool // whether the sink says that it is there
	control   bool
	elsewhere int
	// callTime is how long a send takes that fails.
	callTime time.Duration

	end    doing
	sends  int
	asked  int
	took   time.Duration
	buried []int
}

func (p *play) run(t *testing.T) {
	t.Helper()
	begun := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	now := begun
	if p.accounts == nil {
		p.accounts = make([]string, p.events)
	}
	d := isolate(p.accounts, p.known, now)
	for range 10_000 {
		do, portion, pause := d.next(known{now: now, elsewhere: p.elsewhere, control: p.control || d.taken > 0})
		switch do {
		case sendPortion:
			p.sends++
			s := p.takes(p.sends, portion)
			if now = now.Add(pause); len(s.left) > 0 {
				now = now.Add(p.callTime)
			}
			d.sent(s)
		case sendControl:
			p.sends++
			d.proven(len(p.takes(p.sends, nil).left) == 0)
		case askSink:
			p.asked++
			d.answers(p.asks)
		default:
			p.end, p.took, p.buried = do, now.Sub(begun), slices.Sorted(slices.Values(d.suspects))
			return
		}
	}
	t.Fatal("it never ends")
}

func all(portion []int) sending { return sending{left: portion, retryable: true} }

// breaks is a sink that takes no portion with one of these events in it, and
// isolates nothing by itself.
func breaks(broken ...int) func(int, []int) sending {
	return func(_ int, portion []int) sending {
		if slices.ContainsFunc(portion, func(i int) bool { return slices.Contains(broken, i) }) {
			return all(portion)
		}
		return sending{}
	}
}

// isolates is a sink that sends events one by one when they fail together.
func isolates(broken ...int) func(int, []int) sending {
	return func(_ int, portion []int) sending {
		left := slices.DeleteFunc(slices.Clone(portion), func(i int) bool { return !slices.Contains(broken, i) })
		return sending{left: left, retryable: true}
	}
}

// down is a sink that takes nothing, the control included.
func down(_ int, portion []int) sending {
	if portion == nil {
		portion = []int{-1}
	}
	return all(portion)
}

// of are the accounts of a stream in which every third event is of another one.
func of(n int, other string) []string {
	out := make([]string, n)
	for i := range out {
		if out[i] = "a"; i%3 == 2 {
			out[i] = other
		}
	}
	return out
}

// places are those of an account.
func places(accounts []string, of string) (out []int) {
	for i, a := range accounts {
		if a == of {
			out = append(out, i)
		}
	}
	return out
}

func TestIsolation(t *testing.T) {
	t.Parallel()
	many := make([]int, maxBroken+1)
	for i := range many {
		many[i] = i * 3
	}
	two := of(90, "b")
	tests := []struct {
		name     string
		play     play
		end      doing
		buried   []int
		maxSends int
		maxTook  time.Duration
	}{
		{name: "everything is taken", play: play{events: 100, takes: breaks()}, end: doneSending, maxSends: 1},
		{name: "no sink", play: play{events: 100, takes: down}, end: holdAll, maxSends: sendTries, maxTook: 2 * time.Second},
		{name: "no sink, and an event that it took", play: play{events: 100, takes: down, control: true}, end: holdAll, maxSends: sendTries, maxTook: 2 * time.Second},
		{name: "a sink that says it is there and takes nothing", play: play{events: 100, takes: down, asks: true, control: true}, end: holdAll,
			maxSends: maxBarren, maxTook: 25 * time.Second},
		{name: "a sink that says it is there and does not take one event", play: play{events: 1, takes: down, asks: true, control: true}, end: holdAll,
			maxSends: maxBarren, maxTook: 25 * time.Second},
		{name: "one event of many breaks it", play: play{events: 100, takes: breaks(37), asks: true}, end: giveUp, buried: []int{37},
			maxSends: 40, maxTook: 25 * time.Second},
		{name: "the first one does", play: play{events: 50, takes: breaks(0), asks: true}, end: giveUp, buried: []int{0}, maxSends: 40, maxTook: 30 * time.Second},
		{name: "three do", play: play{events: 100, takes: breaks(0, 50, 99), asks: true}, end: giveUp, buried: []int{0, 50, 99},
			maxSends: 80, maxTook: 40 * time.Second},
		{name: "three do, of a sink that sends one by one", play: play{events: 100, takes: isolates(0, 50, 99), asks: true}, end: giveUp,
			buried: []int{0, 50, 99}, maxSends: 40, maxTook: 20 * time.Second},
		{name: "one of two does", play: play{events: 2, takes: breaks(1), asks: true}, end: giveUp, buried: []int{1}, maxSends: 25, maxTook: 20 * time.Second},
		{name: "an event breaks it and there is no other", play: play{events: 1, takes: breaks(0), asks: true}, end: holdAll,
			maxSends: breakTries, maxTook: 20 * time.Second},
		{name: "there is no other here, and it takes those of other cursors", play: play{events: 1, takes: breaks(0), asks: true, control: true, elsewhere: 1},
			end: giveUp, buried: []int{0}, maxSends: 4 * breakTries, maxTook: 20 * time.Second},
		{name: "it has what was sent before, and takes nothing new", play: play{events: 1, takes: breaks(0), asks: true, control: true},
			end: holdAll, maxSends: 4 * breakTries, maxTook: 20 * time.Second},
		{name: "too many are broken", play: play{events: 100, takes: isolates(many...), asks: true}, end: holdAll, maxSends: 60, maxTook: 25 * time.Second},
		{name: "more are broken than not", play: play{events: 5, takes: isolates(0, 1, 2), asks: true}, end: holdAll, maxSends: 40, maxTook: 20 * time.Second},
		{name: "every call times out for one event", play: play{events: 50, takes: breaks(20), asks: true, callTime: 30 * time.Second}, end: giveUp,
			buried: []int{20}, maxSends: 40, maxTook: isolateFor + time.Minute},
		{name: "every call times out", play: play{events: 50, takes: down, asks: true, callTime: time.Minute}, end: holdAll,
			maxSends: maxBarren, maxTook: isolateFor + 2*time.Minute},
		{name: "one failure", play: play{events: 100, takes: func(n int, p []int) sending {
			if n == 1 {
				return all(p)
			}
			return sending{}
		}}, end: doneSending, maxSends: 3, maxTook: time.Second},
		{name: "every other call fails", play: play{events: 100, asks: true, takes: func(n int, p []int) sending {
			if n%2 == 1 {
				return all(p)
			}
			return sending{}
		}}, end: doneSending, maxSends: 40, maxTook: 20 * time.Second},
		{name: "it is away for some seconds", play: play{events: 8, asks: true, takes: func(n int, p []int) sending {
			if n < 8 {
				return all(p)
			}
			return sending{}
		}}, end: doneSending, maxSends: 40, maxTook: 15 * time.Second},
		{name: "it goes down while an event is suspected", play: play{events: 4, asks: false, takes: func(n int, p []int) sending {
			if n > 6 {
				return down(n, p)
			}
			return breaks(2)(n, p)
		}}, end: holdAll, maxSends: 12, maxTook: 10 * time.Second},
		{name: "it is busy, for long", play: play{events: 10, takes: func(_ int, p []int) sending {
			return sending{left: p, retryable: true, busy: true, retryAfter: 30 * time.Second}
		}}, end: holdAll, maxSends: 1},
		{name: "it is busy, again and again", play: play{events: 10, takes: func(_ int, p []int) sending {
			return sending{left: p, retryable: true, busy: true}
		}}, end: holdAll, maxSends: sendTries, maxTook: 3 * time.Second},
		{name: "it is busy once", play: play{events: 10, takes: func(n int, p []int) sending {
			if n == 1 {
				return sending{left: p, retryable: true, busy: true, retryAfter: 3 * time.Second}
			}
			return sending{}
		}}, end: doneSending, maxSends: 2, maxTook: 3 * time.Second},
		{name: "it takes nothing of one account", play: play{events: 90, accounts: two, takes: breaks(places(two, "a")...), asks: true}, end: giveUp,
			buried: places(two, "a"), maxSends: 120, maxTook: 55 * time.Second},
		{name: "it takes nothing of one account, and sends one by one", play: play{events: 90, accounts: two, takes: isolates(places(two, "b")...), asks: true},
			end: giveUp, buried: places(two, "b"), maxSends: 120, maxTook: 55 * time.Second},
		{name: "it takes nothing of an account that was ill before", play: play{events: 90, accounts: two, known: map[string]bool{"a": true},
			takes: breaks(places(two, "a")...), asks: true}, end: giveUp, buried: places(two, "a"), maxSends: 80, maxTook: 12 * time.Second},
		{name: "it takes an account that was ill before", play: play{events: 90, accounts: two, known: map[string]bool{"a": true}, takes: breaks(), asks: true},
			end: doneSending, maxSends: 1},
		{name: "it takes some of one account", play: play{events: 90, accounts: two, takes: breaks(places(two, "a")[1:]...), asks: true}, end: giveUp,
			buried: places(two, "a")[1:], maxSends: 120, maxTook: 55 * time.Second},
		{name: "it takes nothing of either account", play: play{events: 90, accounts: two, takes: down, asks: true}, end: holdAll, maxSends: maxBarren, maxTook: 25 * time.Second},
		{name: "an event of one account breaks it", play: play{events: 90, accounts: two, takes: breaks(places(two, "b")[3]), asks: true}, end: giveUp,
			buried: places(two, "b")[3:4], maxSends: 40, maxTook: 25 * time.Second},
		{name: "it refuses the credentials", play: play{events: 10, takes: func(_ int, p []int) sending { return sending{left: p} }}, end: holdAll, maxSends: 1},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := tc.play
			p.run(t)
			if p.end != tc.end || tc.end == giveUp && !cmp.Equal(p.buried, tc.buried) {
				t.Errorf("ends with %d, buried %v; want %d, %v", p.end, p.buried, tc.end, tc.buried)
			}
			if p.sends > tc.maxSends || p.took > tc.maxTook {
				t.Errorf("%d sends in %s, want at most %d in %s", p.sends, p.took, tc.maxSends, tc.maxTook)
			}
		})
	}
}

// A sink that fails by turns, in whatever pattern, and breaks on nothing, has
// nothing given up.
func TestIsolationOfASinkThatFailsByTurns(t *testing.T) {
	t.Parallel()
	for period := 2; period <= 9; period++ {
		for mask := range 1 << period {
			for _, n := range []int{1, 2, 3, 5, 20, 21} {
				var accounts []string
				if n == 21 {
					accounts = of(n, "b")
				}
				p := play{events: n, accounts: accounts, asks: true, control: true, elsewhere: 5, takes: func(k int, portion []int) sending {
					if mask&(1<<(k%period)) != 0 {
						return down(k, portion)
					}
					return sending{}
				}}
				if p.run(t); p.end == giveUp {
					t.Fatalf("%d events, %0*b over and over: %v given up", n, period, mask, p.buried)
				}
			}
		}
	}
}

// Whatever breaks, nothing else is given up. If that is little beside what the
// sink takes, all of it is given up and all else delivered.
func TestIsolationFindsWhatever(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 12; n++ {
		for mask := range 1 << n {
			var broken []int
			for i := range n {
				if mask&(1<<i) != 0 {
					broken = append(broken, i)
				}
			}
			for name, sink := range map[string]func(int, []int) sending{"whole": breaks(broken...), "one by one": isolates(broken...)} {
				delivered := map[int]bool{}
				p := play{events: n, asks: true, takes: func(k int, portion []int) sending {
					s := sink(k, portion)
					for _, i := range portion {
						if !slices.Contains(s.left, i) {
							delivered[i] = true
						}
					}
					return s
				}}
				p.run(t)
				ok := false
				switch {
				case len(broken) == 0:
					ok = p.end == doneSending
				case len(broken) > n-len(broken):
					ok = p.end == holdAll
				case p.end == holdAll:
					ok = len(broken) > 4
				default:
					ok = p.end == giveUp && len(delivered) == n-len(broken) && cmp.Equal(p.buried, broken)
				}
				if !ok {
					t.Fatalf("%s, %d events, broken %v: ends with %d, buried %v, delivered %d", name, n, broken, p.end, p.buried, len(delivered))
				}
			}
		}
	}
}
